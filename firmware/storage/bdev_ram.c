#include "poet/bdev_ram.h"

#include <stddef.h>
#include <string.h>

static poet_status ram_open(void *state)
{
    poet_bdev_ram_state *ram = (poet_bdev_ram_state *)state;
    ram->open = 1u;
    return POET_OK;
}

static poet_status check(const poet_bdev_ram_state *ram, uint32_t block, const void *buffer,
                         uint32_t nbytes)
{
    if (ram->open == 0u) {
        return POET_E_STATE;
    }
    if (buffer == NULL || nbytes == 0u) {
        return POET_E_ARG;
    }
    const uint32_t blocks = (nbytes - 1u) / POET_BLOCK_BYTES + 1u;
    if (block >= ram->config->block_count || blocks > ram->config->block_count - block) {
        return POET_E_ARG;
    }
    return POET_OK;
}

static poet_status ram_start_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    const poet_bdev_ram_state *ram = (const poet_bdev_ram_state *)state;
    POET_TRY(check(ram, block, buffer, nbytes));
    memcpy(buffer, &ram->config->memory[(size_t)block * POET_BLOCK_BYTES], nbytes);
    return POET_OK;
}

static poet_status ram_start_write(void *state, uint32_t block, const void *buffer,
                                   uint32_t nbytes)
{
    const poet_bdev_ram_state *ram = (const poet_bdev_ram_state *)state;
    POET_TRY(check(ram, block, buffer, nbytes));
    uint8_t *start = &ram->config->memory[(size_t)block * POET_BLOCK_BYTES];
    memcpy(start, buffer, nbytes);
    const uint32_t tail = nbytes % POET_BLOCK_BYTES;
    if (tail != 0u) {
        memset(&start[nbytes], 0, POET_BLOCK_BYTES - tail);
    }
    return POET_OK;
}

static bool ram_busy(void *state)
{
    (void)state;
    return false;
}

static poet_status ram_wait(void *state)
{
    (void)state; /* start_* told */
    return POET_OK;
}

static uint32_t ram_block_count(void *state)
{
    const poet_bdev_ram_state *ram = (const poet_bdev_ram_state *)state;
    return ram->open != 0u ? ram->config->block_count : 0u;
}

const poet_bdev_ops poet_bdev_ram_ops = {
    .open = ram_open,
    .start_read = ram_start_read,
    .start_write = ram_start_write,
    .busy = ram_busy,
    .wait = ram_wait,
    .sync = ram_wait,
    .block_count = ram_block_count,
};

void poet_bdev_ram_init(poet_bdev_ram_state *state, const poet_bdev_ram_config *config)
{
    state->config = config;
    state->open = 0u;
}
