#include "poet/bdev_fault.h"

#include <stddef.h>
#include <string.h>

static const poet_bdev *inner_of(const poet_bdev_fault_state *fault)
{
    return fault->config->inner;
}

static uint32_t blocks_of(uint32_t nbytes)
{
    return (nbytes - 1u) / POET_BLOCK_BYTES + 1u;
}

static poet_status inner_read(const poet_bdev_fault_state *fault, uint32_t block, uint8_t *buffer,
                              uint32_t nbytes)
{
    const poet_bdev *inner = inner_of(fault);
    POET_TRY(inner->ops->start_read(inner->state, block, buffer, nbytes));
    return inner->ops->wait(inner->state);
}

static poet_status inner_write(const poet_bdev_fault_state *fault, uint32_t block,
                               const uint8_t *source, uint32_t nbytes)
{
    const poet_bdev *inner = inner_of(fault);
    POET_TRY(inner->ops->start_write(inner->state, block, source, nbytes));
    return inner->ops->wait(inner->state);
}

static poet_status move(const poet_bdev_fault_state *fault, uint32_t block, uint32_t offset,
                        uint32_t nbytes)
{
    if (fault->buffer != NULL) {
        return inner_read(fault, block, &fault->buffer[offset], nbytes);
    }
    return inner_write(fault, block, &fault->source[offset], nbytes);
}

/* The first or the last keep_blocks blocks of the transfer. */
static poet_status move_part(const poet_bdev_fault_state *fault)
{
    const uint32_t blocks = blocks_of(fault->nbytes);
    const uint32_t keep =
        fault->config->keep_blocks < blocks ? fault->config->keep_blocks : blocks;
    const uint32_t first = fault->config->keep_last ? blocks - keep : 0u;
    const uint32_t offset = first * POET_BLOCK_BYTES;
    const uint32_t left = fault->nbytes - offset;
    if (keep == 0u) {
        return POET_OK;
    }
    const uint32_t most = keep * POET_BLOCK_BYTES;
    return move(fault, fault->block + first, offset, most < left ? most : left);
}

/* The data may not be changed on the way out, so the flip happens on the medium. */
static poet_status flip_medium(const poet_bdev_fault_state *fault, uint32_t at)
{
    uint8_t bytes[POET_BLOCK_BYTES];
    const uint32_t block = fault->block + at / POET_BLOCK_BYTES;
    POET_TRY(inner_read(fault, block, bytes, sizeof bytes));
    bytes[at % POET_BLOCK_BYTES] ^= 1u;
    return inner_write(fault, block, bytes, sizeof bytes);
}

static poet_status flip(const poet_bdev_fault_state *fault)
{
    const uint32_t at = fault->config->flip_byte % fault->nbytes;
    POET_TRY(move(fault, fault->block, 0u, fault->nbytes));
    if (fault->buffer == NULL) {
        return flip_medium(fault, at);
    }
    fault->buffer[at] ^= 1u;
    return POET_OK;
}

static void poison(const poet_bdev_fault_state *fault)
{
    if (fault->buffer != NULL) {
        memset(fault->buffer, (int)POET_BDEV_FAULT_POISON, fault->nbytes);
    }
}

static poet_status struck(poet_bdev_fault_state *fault)
{
    fault->faults++;
    switch (fault->config->kind) {
    case POET_FAULT_FAIL:
        return fault->config->status;
    case POET_FAULT_TEAR:
        POET_TRY(move_part(fault));
        return fault->config->status;
    case POET_FAULT_TEAR_SILENT:
        poison(fault);
        return move_part(fault);
    case POET_FAULT_FLIP:
        return flip(fault);
    case POET_FAULT_MISDIRECT:
        return move(fault, fault->block + fault->config->shift_blocks, 0u, fault->nbytes);
    case POET_FAULT_POWER_CUT:
        fault->power_off = true;
        POET_TRY(move_part(fault));
        return POET_E_NO_CARD;
    case POET_FAULT_NONE:
    default:
        return move(fault, fault->block, 0u, fault->nbytes);
    }
}

static void copy(poet_bdev_fault_state *fault)
{
    fault->copied = true;
    fault->result =
        fault->strike ? struck(fault) : move(fault, fault->block, 0u, fault->nbytes);
}

static poet_status fault_open(void *state)
{
    poet_bdev_fault_state *fault = (poet_bdev_fault_state *)state;
    const poet_bdev *inner = inner_of(fault);
    fault->under_way = false;
    fault->result = POET_OK;
    return fault->power_off ? POET_E_NO_CARD : inner->ops->open(inner->state);
}

static poet_status begin(poet_bdev_fault_state *fault, uint32_t block, uint32_t nbytes)
{
    const poet_bdev *inner = inner_of(fault);
    if (fault->power_off) {
        return POET_E_NO_CARD;
    }
    if (fault->under_way || fault->result != POET_OK) {
        return POET_E_STATE;
    }
    const uint32_t count = inner->ops->block_count(inner->state);
    if (nbytes == 0u || block >= count || blocks_of(nbytes) > count - block) {
        return POET_E_ARG;
    }
    const poet_bdev_fault_config *config = fault->config;
    fault->strike = !fault->disarmed && config->kind != POET_FAULT_NONE &&
                    fault->operations >= config->operation &&
                    fault->operations - config->operation <= config->repeat;
    fault->operations++;
    fault->block = block;
    fault->nbytes = nbytes;
    fault->polls_left = config->delay_polls;
    fault->under_way = true;
    fault->copied = false;
    return POET_OK;
}

static poet_status fault_start_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    poet_bdev_fault_state *fault = (poet_bdev_fault_state *)state;
    if (buffer == NULL) {
        return POET_E_ARG;
    }
    POET_TRY(begin(fault, block, nbytes));
    fault->buffer = (uint8_t *)buffer;
    fault->source = NULL;
    if (fault->config->late_copy) {
        poison(fault);
    } else {
        copy(fault);
    }
    return POET_OK;
}

static poet_status fault_start_write(void *state, uint32_t block, const void *buffer,
                                     uint32_t nbytes)
{
    poet_bdev_fault_state *fault = (poet_bdev_fault_state *)state;
    if (buffer == NULL) {
        return POET_E_ARG;
    }
    POET_TRY(begin(fault, block, nbytes));
    fault->buffer = NULL;
    fault->source = (const uint8_t *)buffer;
    if (!fault->config->late_copy) {
        copy(fault);
    }
    return POET_OK;
}

static void finish(poet_bdev_fault_state *fault)
{
    if (!fault->copied) {
        copy(fault);
    }
    fault->under_way = false;
}

static bool fault_busy(void *state)
{
    poet_bdev_fault_state *fault = (poet_bdev_fault_state *)state;
    if (!fault->under_way) {
        return false;
    }
    if (fault->polls_left != 0u) {
        fault->polls_left--;
        return true;
    }
    finish(fault);
    return false;
}

static poet_status fault_wait(void *state)
{
    poet_bdev_fault_state *fault = (poet_bdev_fault_state *)state;
    if (fault->under_way) {
        finish(fault);
    }
    const poet_status result = fault->result;
    fault->result = POET_OK;
    return result;
}

static poet_status fault_sync(void *state)
{
    poet_bdev_fault_state *fault = (poet_bdev_fault_state *)state;
    const poet_bdev *inner = inner_of(fault);
    POET_TRY(fault_wait(state));
    return fault->power_off ? POET_E_NO_CARD : inner->ops->sync(inner->state);
}

static uint32_t fault_block_count(void *state)
{
    const poet_bdev_fault_state *fault = (const poet_bdev_fault_state *)state;
    const poet_bdev *inner = inner_of(fault);
    return fault->power_off ? 0u : inner->ops->block_count(inner->state);
}

const poet_bdev_ops poet_bdev_fault_ops = {
    .open = fault_open,
    .start_read = fault_start_read,
    .start_write = fault_start_write,
    .busy = fault_busy,
    .wait = fault_wait,
    .sync = fault_sync,
    .block_count = fault_block_count,
};

void poet_bdev_fault_init(poet_bdev_fault_state *state, const poet_bdev_fault_config *config)
{
    memset(state, 0, sizeof *state);
    state->config = config;
}

void poet_bdev_fault_power_on(poet_bdev_fault_state *state)
{
    state->power_off = false;
    state->under_way = false;
    state->result = POET_OK;
    state->disarmed = true;
}
