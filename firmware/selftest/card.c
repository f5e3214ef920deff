/* Transfers with known bytes, timed, between guards that nothing may touch. */
#include <stdbool.h>

#include "poet/bdev.h"
#include "poet/crc.h"
#include "poet/port.h"
#include "selftest.h"

#define GUARD_BYTES 32u
#define GUARD 0xA5u

static uint8_t pattern(uint32_t seed, uint32_t i)
{
    uint32_t word = (seed + i / 4u) * 2654435761u;
    word ^= word >> 15;
    return (uint8_t)(word >> (i % 4u * 8u));
}

/* Where the second buffer begins: behind the first and its guards, aligned like an arena slot. */
static uint32_t kept_offset(const poet_card_order *order)
{
    return (order->offset + order->nbytes + 2u * GUARD_BYTES + 63u) & ~63u;
}

static uint32_t whole_blocks(uint32_t nbytes)
{
    return (nbytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
}

static bool is_valid(const poet_card_order *order)
{
    const uint32_t room = poet_the_selftest.arena_bytes;
    const bool keep = (order->flags & POET_CARD_KEEP) != 0u;
    if (order->offset < GUARD_BYTES || order->nbytes == 0u || order->nbytes > room ||
        order->offset > room || order->transfers == 0u ||
        order->offset + order->nbytes + GUARD_BYTES > room) {
        return false;
    }
    if (order->transfers > 1u && (keep || order->nbytes % POET_BLOCK_BYTES != 0u)) {
        return false;
    }
    return !keep ||
           kept_offset(order) + whole_blocks(order->nbytes) * POET_BLOCK_BYTES <= room;
}

static void set_guards(uint8_t *buffer, uint32_t nbytes)
{
    for (uint32_t i = 0u; i < GUARD_BYTES; i++) {
        buffer[nbytes + i] = GUARD;
        (buffer - GUARD_BYTES)[i] = GUARD;
    }
}

static uint32_t changed_guards(const uint8_t *buffer, uint32_t nbytes)
{
    uint32_t changed = 0u;
    for (uint32_t i = 0u; i < GUARD_BYTES; i++) {
        changed += (buffer[nbytes + i] != GUARD) ? 1u : 0u;
        changed += ((buffer - GUARD_BYTES)[i] != GUARD) ? 1u : 0u;
    }
    return changed;
}

static void add_time(uint64_t cycles, uint64_t *total, uint64_t *worst)
{
    *total += cycles;
    *worst = cycles > *worst ? cycles : *worst;
}

/* As the page store does it, before a write and after a read. */
static void check_sum(const poet_card_order *order, const uint8_t *buffer,
                      poet_card_result *result)
{
    if ((order->flags & POET_CARD_CHECKSUM) != 0u) {
        result->checksum = poet_crc32(result->checksum, buffer, order->nbytes);
    }
}

static poet_status write_all(const poet_card_order *order, uint8_t *buffer,
                             poet_card_result *result)
{
    const poet_bdev *card = poet_port_bdev();
    for (uint32_t t = 0u; t < order->transfers; t++) {
        for (uint32_t i = 0u; i < order->nbytes; i++) {
            buffer[i] = pattern(order->seed + t, i);
        }
        set_guards(buffer, order->nbytes);
        const uint32_t block = order->block + t * whole_blocks(order->nbytes);
        const uint64_t start = poet_port_cycles();
        check_sum(order, buffer, result);
        POET_TRY(card->ops->start_write(card->state, block, buffer, order->nbytes));
        POET_TRY(card->ops->wait(card->state));
        if (t + 1u == order->transfers) {
            POET_TRY(card->ops->sync(card->state));
        }
        add_time(poet_port_cycles() - start, &result->write_cycles, &result->write_worst);
        result->guard_bytes += changed_guards(buffer, order->nbytes);
    }
    return POET_OK;
}

static poet_status read_all(const poet_card_order *order, uint8_t *buffer,
                            poet_card_result *result)
{
    const poet_bdev *card = poet_port_bdev();
    for (uint32_t t = 0u; t < order->transfers; t++) {
        for (uint32_t i = 0u; i < order->nbytes; i++) {
            buffer[i] = (uint8_t)~pattern(order->seed + t, i);
        }
        set_guards(buffer, order->nbytes);
        const uint32_t block = order->block + t * whole_blocks(order->nbytes);
        const uint64_t start = poet_port_cycles();
        POET_TRY(card->ops->start_read(card->state, block, buffer, order->nbytes));
        POET_TRY(card->ops->wait(card->state));
        check_sum(order, buffer, result);
        add_time(poet_port_cycles() - start, &result->read_cycles, &result->read_worst);
        result->guard_bytes += changed_guards(buffer, order->nbytes);
        for (uint32_t i = 0u; i < order->nbytes; i++) {
            if (buffer[i] != pattern(order->seed + t, i)) {
                result->first_bad = result->bad_bytes == 0u ? t * order->nbytes + i
                                                            : result->first_bad;
                result->bad_bytes++;
            }
        }
    }
    return POET_OK;
}

static poet_status run(const poet_card_order *order, uint8_t *buffer, poet_card_result *result)
{
    if ((order->flags & POET_CARD_WRITE) != 0u) {
        POET_TRY(write_all(order, buffer, result));
    }
    if ((order->flags & POET_CARD_READ) != 0u) {
        POET_TRY(read_all(order, buffer, result));
    }
    return POET_OK;
}

poet_status poet_selftest_card(const poet_card_order *order, poet_card_result *result)
{
    static const poet_card_result nothing;
    *result = nothing;
    if (!is_valid(order)) {
        return POET_E_ARG;
    }
    const poet_bdev *card = poet_port_bdev();
    uint8_t *const arena = poet_the_selftest.arena;
    if ((order->flags & POET_CARD_KEEP) == 0u) {
        return run(order, &arena[order->offset], result);
    }
    uint8_t *const kept = &arena[kept_offset(order)];
    const uint32_t nbytes = whole_blocks(order->nbytes) * POET_BLOCK_BYTES;
    POET_TRY(card->ops->start_read(card->state, order->block, kept, nbytes));
    POET_TRY(card->ops->wait(card->state));
    const poet_status ended = run(order, &arena[order->offset], result);
    /* Put back also after a failure: what was there is worth more than the second status. */
    poet_status restored = card->ops->start_write(card->state, order->block, kept, nbytes);
    if (restored == POET_OK) {
        restored = card->ops->wait(card->state);
    }
    if (restored == POET_OK) {
        restored = card->ops->sync(card->state);
    }
    return ended != POET_OK ? ended : restored;
}
