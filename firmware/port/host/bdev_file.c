/* Block device over a file: the card of the host port. Transfers end before start_* returns. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "host_port.h"

static poet_status file_open(void *state)
{
    poet_bdev_file *file = state;
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    file->blocks = 0u;
    file->ended = POET_OK;
    file->fd = file->path == NULL ? -1 : open(file->path, O_RDWR | O_CLOEXEC);
    if (file->fd < 0) {
        return POET_E_NO_CARD;
    }
    struct stat information;
    if (fstat(file->fd, &information) != 0 || !S_ISREG(information.st_mode)) {
        return POET_E_CARD_TYPE;
    }
    const off_t blocks = information.st_size / (off_t)POET_BLOCK_BYTES;
    file->blocks = blocks > (off_t)UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
    return POET_OK;
}

static poet_status check_range(const poet_bdev_file *file, uint32_t block, uint32_t nbytes)
{
    if (file->fd < 0) {
        return POET_E_NO_CARD;
    }
    const uint64_t blocks = ((uint64_t)nbytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
    return nbytes == 0u || block + blocks > file->blocks ? POET_E_ARG : POET_OK;
}

static poet_status file_start_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    poet_bdev_file *file = state;
    uint8_t *bytes = buffer;
    POET_TRY(check_range(file, block, nbytes));
    uint32_t done = 0u;
    while (done < nbytes) {
        const off_t at = (off_t)block * (off_t)POET_BLOCK_BYTES + (off_t)done;
        const ssize_t got = pread(file->fd, &bytes[done], nbytes - done, at);
        if (got <= 0) {
            file->ended = POET_E_CARD_READ;
            return POET_OK; /* as a device with DMA would: the wait tells */
        }
        done += (uint32_t)got;
    }
    return POET_OK;
}

static bool write_all(int fd, const uint8_t *bytes, uint32_t nbytes, off_t at)
{
    uint32_t done = 0u;
    while (done < nbytes) {
        const ssize_t put = pwrite(fd, &bytes[done], nbytes - done, at + (off_t)done);
        if (put <= 0) {
            return false;
        }
        done += (uint32_t)put;
    }
    return true;
}

static poet_status file_start_write(void *state, uint32_t block, const void *buffer,
                                    uint32_t nbytes)
{
    poet_bdev_file *file = state;
    const uint8_t *bytes = buffer;
    POET_TRY(check_range(file, block, nbytes));
    const uint32_t tail = nbytes % POET_BLOCK_BYTES;
    const uint32_t whole = nbytes - tail;
    const off_t at = (off_t)block * (off_t)POET_BLOCK_BYTES;
    bool good = write_all(file->fd, bytes, whole, at);
    if (good && tail != 0u) {
        uint8_t last[POET_BLOCK_BYTES] = {0};
        memcpy(last, &bytes[whole], tail);
        good = write_all(file->fd, last, POET_BLOCK_BYTES, at + (off_t)whole);
    }
    if (!good) {
        file->ended = POET_E_CARD_WRITE;
    }
    return POET_OK;
}

static bool file_busy(void *state)
{
    (void)state;
    return false;
}

static poet_status file_wait(void *state)
{
    poet_bdev_file *file = state;
    const poet_status ended = file->ended;
    file->ended = POET_OK;
    return ended;
}

static poet_status file_sync(void *state)
{
    const poet_bdev_file *file = state;
    return file->fd >= 0 && fsync(file->fd) == 0 ? POET_OK : POET_E_CARD_WRITE;
}

static uint32_t file_block_count(void *state)
{
    const poet_bdev_file *file = state;
    return file->blocks;
}

const poet_bdev_ops poet_bdev_file_ops = {
    .open = file_open,
    .start_read = file_start_read,
    .start_write = file_start_write,
    .busy = file_busy,
    .wait = file_wait,
    .sync = file_sync,
    .block_count = file_block_count,
};
