/* Operations and their argument blocks: Arm "Semihosting for AArch32 and AArch64", section 7. */
#include "semihost.h"

#include <stddef.h>
#include <string.h>

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_SEEK = 0x0A,
    SYS_FLEN = 0x0C,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20,
};

#define MODE_READ_WRITE_BINARY 3u /* "r+b" */
#define EXIT_APPLICATION 0x20026u /* ADP_Stopped_ApplicationExit */
#define NAME_BYTES 512u

static int32_t call(uint32_t operation, const void *arguments)
{
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = arguments;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

static bool ends_in_elf(const char *name, uint32_t length)
{
    return length >= 4u && memcmp(&name[length - 4u], ".elf", 4u) == 0;
}

/* The length of the name in `name`; 0: there is one, but it is too long for us. */
static uint32_t file_name(char name[NAME_BYTES])
{
    static const char standard[] = "card.img";
    const uint32_t block[2] = {(uint32_t)(uintptr_t)name, NAME_BYTES};
    name[0] = '\0';
    if (call(SYS_GET_CMDLINE, block) != 0) {
        return 0u; /* not card.img then: the wrong file would be written */
    }
    name[NAME_BYTES - 1u] = '\0';
    const uint32_t length = (uint32_t)strlen(name);
    if (length != 0u && !ends_in_elf(name, length)) {
        return length;
    }
    memcpy(name, standard, sizeof standard);
    return (uint32_t)(sizeof standard - 1u);
}

static poet_status file_open(void *state)
{
    poet_semihost_state *file = (poet_semihost_state *)state;
    if (file->block_count != 0u) {
        const uint32_t handle = (uint32_t)file->handle;
        (void)call(SYS_CLOSE, &handle);
        file->block_count = 0u;
    }
    char name[NAME_BYTES];
    const uint32_t length = file_name(name);
    if (length == 0u) {
        return POET_E_NO_CARD;
    }
    const uint32_t open[3] = {(uint32_t)(uintptr_t)name, MODE_READ_WRITE_BINARY, length};
    file->handle = call(SYS_OPEN, open);
    if (file->handle < 0) {
        return POET_E_NO_CARD;
    }
    const uint32_t handle = (uint32_t)file->handle;
    const int32_t nbytes = call(SYS_FLEN, &handle);
    if (nbytes < (int32_t)POET_BLOCK_BYTES) {
        (void)call(SYS_CLOSE, &handle);
        return POET_E_NO_CARD;
    }
    file->block_count = (uint32_t)nbytes / POET_BLOCK_BYTES;
    return POET_OK;
}

static poet_status go_to(const poet_semihost_state *file, uint32_t block, const void *buffer,
                         uint32_t nbytes)
{
    if (file->block_count == 0u) {
        return POET_E_STATE;
    }
    if (buffer == NULL || nbytes == 0u) {
        return POET_E_ARG;
    }
    const uint32_t blocks = (nbytes - 1u) / POET_BLOCK_BYTES + 1u;
    if (block >= file->block_count || blocks > file->block_count - block) {
        return POET_E_ARG;
    }
    const uint32_t seek[2] = {(uint32_t)file->handle, block * POET_BLOCK_BYTES};
    return call(SYS_SEEK, seek) == 0 ? POET_OK : POET_E_IO;
}

static poet_status file_start_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    const poet_semihost_state *file = (const poet_semihost_state *)state;
    POET_TRY(go_to(file, block, buffer, nbytes));
    const uint32_t read[3] = {(uint32_t)file->handle, (uint32_t)(uintptr_t)buffer, nbytes};
    /* What comes back is the number of bytes that were not transferred. */
    return call(SYS_READ, read) == 0 ? POET_OK : POET_E_IO;
}

static poet_status file_start_write(void *state, uint32_t block, const void *buffer,
                                    uint32_t nbytes)
{
    static const uint8_t zeros[64];
    const poet_semihost_state *file = (const poet_semihost_state *)state;
    POET_TRY(go_to(file, block, buffer, nbytes));
    const uint32_t write[3] = {(uint32_t)file->handle, (uint32_t)(uintptr_t)buffer, nbytes};
    if (call(SYS_WRITE, write) != 0) {
        return POET_E_IO;
    }
    uint32_t tail = (POET_BLOCK_BYTES - nbytes % POET_BLOCK_BYTES) % POET_BLOCK_BYTES;
    while (tail != 0u) {
        const uint32_t part = tail < sizeof zeros ? tail : (uint32_t)sizeof zeros;
        const uint32_t pad[3] = {(uint32_t)file->handle, (uint32_t)(uintptr_t)zeros, part};
        if (call(SYS_WRITE, pad) != 0) {
            return POET_E_IO;
        }
        tail -= part;
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
    (void)state; /* start_* told; the host's file needs no flush to be read back */
    return POET_OK;
}

static uint32_t file_block_count(void *state)
{
    const poet_semihost_state *file = (const poet_semihost_state *)state;
    return file->block_count;
}

const poet_bdev_ops poet_semihost_ops = {
    .open = file_open,
    .start_read = file_start_read,
    .start_write = file_start_write,
    .busy = file_busy,
    .wait = file_wait,
    .sync = file_wait,
    .block_count = file_block_count,
};

_Noreturn void poet_semihost_exit(uint32_t code)
{
    const uint32_t block[2] = {EXIT_APPLICATION, code};
    for (;;) {
        (void)call(SYS_EXIT_EXTENDED, block);
    }
}
