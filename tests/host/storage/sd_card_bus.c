/* The bus of the card model: time, disturbances, removal; the medium behind the card; and a card
 * without faults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sd_card_model.h"

#define BLOCK 512u
#define SLOTS 16384u

typedef struct {
    uint32_t block;
    bool used;
    uint8_t bytes[BLOCK];
} slot;

static slot slots[SLOTS];
static disturbance disturb;
static bool selected, removed;
static uint64_t remove_at;
uint64_t card_byte_ns;
card_counters card_seen;
uint64_t card_time_limit_ns = 60u * 1000000000ull;

card_options card_plain(card_kind kind, uint32_t blocks)
{
    return (card_options){
        .kind = kind,
        .blocks = blocks,
        .floating = 0xFFu,
        .response_delay = 1u,
        .data_delay = 2u,
        .write_error_at = UINT32_MAX,
        .program_error_at = UINT32_MAX,
        .read_error_at = UINT32_MAX,
        .rot_at = UINT32_MAX,
        .remove_at = UINT64_MAX,
    };
}

static slot *find(uint32_t number, bool make)
{
    uint32_t at = (number * 2654435761u) % SLOTS;
    while (slots[at].used && slots[at].block != number) {
        at = (at + 1u) % SLOTS;
    }
    if (!slots[at].used && make) {
        slots[at].used = true;
        slots[at].block = number;
    }
    return slots[at].used ? &slots[at] : NULL;
}

const uint8_t *card_medium(uint32_t number)
{
    const slot *found = find(number, false);
    return found == NULL ? NULL : found->bytes;
}

void card_set_medium(uint32_t number, const uint8_t *bytes)
{
    memcpy(find(number, true)->bytes, bytes, BLOCK);
}

void card_wipe(void)
{
    memset(slots, 0, sizeof slots);
}

void card_violation(const char *what)
{
    card_seen.violations++;
    card_seen.violation = what;
}

void card_bus_reset(uint64_t removal)
{
    selected = removed = false;
    remove_at = removal;
    card_byte_ns = 20000u;
    memset(&disturb, 0, sizeof disturb);
    memset(&card_seen, 0, sizeof card_seen);
}

void card_bus_remove(uint64_t removal)
{
    removed = false;
    remove_at = removal;
}

void card_disturb(const disturbance *wanted)
{
    disturb = *wanted;
}

static uint8_t disturbed(uint8_t out, uint64_t at)
{
    const bool hit = disturb.kind != DISTURB_NONE && at >= disturb.at &&
                     at - disturb.at < disturb.length;
    const uint8_t mask = (uint8_t)(1u << disturb.bit);
    if (hit && disturb.kind == DISTURB_TX_FLIP) {
        out ^= mask;
    } else if (hit && disturb.kind == DISTURB_TX_ONES) {
        out = 0xFFu;
    }
    uint8_t in = card_byte(out, selected, removed);
    if (hit && disturb.kind == DISTURB_RX_ONES) {
        in = 0xFFu;
    } else if (hit && disturb.kind == DISTURB_RX_ZEROS) {
        in = 0x00u;
    } else if (hit && disturb.kind == DISTURB_RX_FLIP) {
        in ^= mask;
    }
    return in;
}

static uint8_t bus_exchange(void *context, uint8_t out)
{
    (void)context;
    const uint64_t at = card_seen.bytes;
    card_seen.bytes++;
    card_seen.now_ns += card_byte_ns;
    if (card_seen.now_ns > card_time_limit_ns) {
        printf("endless=1\n");
        exit(9);
    }
    if (at >= remove_at) {
        removed = true;
    }
    if (card_is_idle() && card_byte_ns < 20000u) {
        card_violation("more than 400 kHz before the card was ready");
    }
    return disturbed(out, at);
}

static uint32_t bus_set_clock(void *context, uint32_t hz)
{
    (void)context;
    if (hz > 25000000u) {
        card_violation("more than 25 MHz");
    }
    card_byte_ns = 8000000000ull / hz;
    return hz;
}

static void bus_select(void *context, bool wanted)
{
    (void)context;
    selected = wanted;
}

static void bus_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count)
{
    for (uint32_t i = 0u; i < count; i++) {
        const uint8_t in = bus_exchange(context, tx == NULL ? 0xFFu : tx[i]);
        if (rx != NULL) {
            rx[i] = in;
        }
    }
}

static uint32_t bus_micros(void *context)
{
    (void)context;
    card_seen.now_ns += 20u; /* reading a clock takes time too: no loop without progress */
    return (uint32_t)(card_seen.now_ns / 1000u + 0xFFF00000u); /* wraps during the test */
}

const poet_spi_bus card_bus = {
    .set_clock = bus_set_clock,
    .select = bus_select,
    .exchange = bus_exchange,
    .transfer = bus_transfer,
    .micros = bus_micros,
    .context = NULL,
};
