#include "cache_card.h"

#include <stddef.h>
#include <string.h>

#define CACHED 2048u

static uint8_t medium[CACHE_CARD_BLOCKS][POET_BLOCK_BYTES];
static uint8_t copy[CACHE_CARD_BLOCKS][POET_BLOCK_BYTES];
static struct {
    uint32_t block;
    uint8_t bytes[POET_BLOCK_BYTES];
} cache[CACHED];
static uint32_t cached;
static bool is_open, flipping;

card_faults card_fault;
uint32_t card_block_writes, card_operations, card_failures;
bool card_is_off;

static uint32_t where(uint32_t block)
{
    return card_fault.real_blocks != 0u ? block % card_fault.real_blocks : block;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void flush(void)
{
    for (uint32_t i = 0u; i < cached; i++) {
        memcpy(medium[cache[i].block], cache[i].bytes, POET_BLOCK_BYTES);
    }
    cached = 0u;
}

static void tear(uint32_t block, const uint8_t *bytes)
{
    const uint32_t torn = card_fault.variant.torn_bytes;
    if (card_fault.variant.garbage) {
        memset(medium[block], 0x5A, POET_BLOCK_BYTES);
    }
    memcpy(medium[block], bytes, torn < POET_BLOCK_BYTES ? torn : POET_BLOCK_BYTES);
}

/* Power fails while this block is written. */
static void cut(uint32_t block, const uint8_t *bytes)
{
    uint32_t random = card_fault.variant.seed * 2654435761u + card_block_writes;
    for (uint32_t i = 0u; i < cached; i++) {
        const bool chosen = (next_random(&random) & 1u) != 0u;
        if (card_fault.variant.kept == CUT_KEEPS_ALL ||
            (card_fault.variant.kept == CUT_KEEPS_SOME && chosen)) {
            memcpy(medium[cache[i].block], cache[i].bytes, POET_BLOCK_BYTES);
        }
    }
    cached = 0u;
    tear(block, bytes);
    card_is_off = true;
}

static poet_status operation(void)
{
    const uint32_t number = card_operations;
    if (card_is_off) {
        return POET_E_NO_CARD;
    }
    card_operations++;
    flipping = false;
    if (number == card_fault.fail_at || (card_fault.fail_forever && number > card_fault.fail_at)) {
        card_failures++;
        flipping = card_fault.flip;
        return card_fault.flip ? POET_OK : POET_E_IO;
    }
    return POET_OK;
}

/* Somewhere in the first block of a transfer. */
static void flip_a_bit(uint8_t *bytes, uint32_t nbytes)
{
    const uint32_t most = nbytes < POET_BLOCK_BYTES ? nbytes : POET_BLOCK_BYTES;
    bytes[card_fault.fail_at * 37u % most] ^= (uint8_t)(1u << (card_fault.fail_at % 8u));
    flipping = false;
}

static poet_status card_open(void *state)
{
    (void)state;
    POET_TRY(operation());
    is_open = true;
    return POET_OK;
}

static poet_status check(uint32_t block, const void *buffer, uint32_t nbytes)
{
    POET_TRY(operation());
    if (!is_open) {
        return POET_E_STATE;
    }
    if (buffer == NULL || nbytes == 0u ||
        block + (nbytes - 1u) / POET_BLOCK_BYTES >= CACHE_CARD_BLOCKS) {
        return POET_E_ARG;
    }
    return POET_OK;
}

static const uint8_t *latest(uint32_t block)
{
    for (uint32_t i = cached; i > 0u; i--) {
        if (cache[i - 1u].block == block) {
            return cache[i - 1u].bytes;
        }
    }
    return medium[block];
}

static poet_status card_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    (void)state;
    POET_TRY(check(block, buffer, nbytes));
    for (uint32_t at = 0u; at < nbytes; at += POET_BLOCK_BYTES) {
        const uint32_t left = nbytes - at;
        memcpy((uint8_t *)buffer + at, latest(where(block + at / POET_BLOCK_BYTES)),
               left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES);
    }
    if (flipping) {
        flip_a_bit(buffer, nbytes);
    }
    return POET_OK;
}

static poet_status card_write(void *state, uint32_t block, const void *buffer, uint32_t nbytes)
{
    (void)state;
    POET_TRY(check(block, buffer, nbytes));
    if (card_fault.write_protected) {
        return POET_E_CARD_WRITE;
    }
    for (uint32_t at = 0u; at < nbytes; at += POET_BLOCK_BYTES) {
        uint8_t bytes[POET_BLOCK_BYTES] = {0};
        const uint32_t left = nbytes - at;
        const uint32_t target = where(block + at / POET_BLOCK_BYTES);
        memcpy(bytes, (const uint8_t *)buffer + at,
               left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES);
        if (flipping) {
            flip_a_bit(bytes, left);
        }
        if (card_block_writes == card_fault.cut_at) {
            cut(target, bytes);
            return POET_E_NO_CARD;
        }
        card_block_writes++;
        if (cached == CACHED) {
            flush();
        }
        cache[cached].block = target;
        memcpy(cache[cached].bytes, bytes, POET_BLOCK_BYTES);
        cached++;
    }
    return POET_OK;
}

static bool card_busy(void *state)
{
    (void)state;
    return false;
}

static poet_status card_wait(void *state)
{
    (void)state;
    return POET_OK;
}

static poet_status card_sync(void *state)
{
    (void)state;
    POET_TRY(operation());
    flush();
    return POET_OK;
}

static uint32_t card_count(void *state)
{
    (void)state;
    return is_open ? CACHE_CARD_BLOCKS : 0u;
}

static const poet_bdev_ops operations = {
    .open = card_open,
    .start_read = card_read,
    .start_write = card_write,
    .busy = card_busy,
    .wait = card_wait,
    .sync = card_sync,
    .block_count = card_count,
};
const poet_bdev cache_card = {.ops = &operations, .state = NULL};

void card_calm(void)
{
    memset(&card_fault, 0, sizeof card_fault);
    card_fault.cut_at = CACHE_NEVER;
    card_fault.fail_at = CACHE_NEVER;
    card_block_writes = 0u;
    card_operations = 0u;
    card_failures = 0u;
}

void card_blank(void)
{
    memset(medium, 0xFF, sizeof medium);
    cached = 0u;
    is_open = false;
    card_is_off = false;
    card_calm();
}

void card_power_on(void)
{
    card_is_off = false;
    is_open = false;
    card_calm();
}

void card_keep(void)
{
    flush();
    memcpy(copy, medium, sizeof copy);
}

void card_bring_back(void)
{
    memcpy(medium, copy, sizeof medium);
    cached = 0u;
    card_power_on();
}

uint8_t *card_bytes(uint32_t block)
{
    flush();
    return medium[block];
}
