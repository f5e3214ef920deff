#include "memory_card.h"

#include <string.h>

#include "must.h"

static poet_status card_open(void *state)
{
    fuzz_card *card = state;
    must(!card->under_way);
    card->open = card->fault != FUZZ_CARD_ABSENT;
    return card->open ? POET_OK : POET_E_NO_CARD;
}

/* The fault that strikes this transfer. */
static fuzz_card_fault strike(fuzz_card *card)
{
    if (card->fault == FUZZ_CARD_WELL) {
        return FUZZ_CARD_WELL;
    }
    if (card->countdown != 0u) {
        card->countdown--;
        return FUZZ_CARD_WELL;
    }
    const fuzz_card_fault fault = card->fault;
    card->struck++;
    if (fault != FUZZ_CARD_ABSENT) {
        card->fault = FUZZ_CARD_WELL;
    }
    return fault;
}

/* What every transfer must be like, whoever asked for it. */
static void check(const fuzz_card *card, uint32_t block, const void *buffer, uint32_t nbytes)
{
    const uint32_t blocks = (nbytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
    must(!card->under_way);
    must(buffer != NULL && nbytes != 0u);
    must(block >= card->first_block && block < card->end_block);
    must(blocks <= card->end_block - block);
}

static poet_status card_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    fuzz_card *card = state;
    check(card, block, buffer, nbytes);
    const fuzz_card_fault fault = strike(card);
    if (!card->open || fault == FUZZ_CARD_REFUSE || fault == FUZZ_CARD_ABSENT) {
        return POET_E_NO_CARD;
    }
    memcpy(buffer, card->memory[block], fault == FUZZ_CARD_FAIL ? nbytes / 2u : nbytes);
    if (fault == FUZZ_CARD_LOSE) {
        memset(buffer, 0, nbytes);
    } else if (fault == FUZZ_CARD_FLIP) {
        ((uint8_t *)buffer)[nbytes / 2u] ^= 0x10u;
    }
    card->under_way = true;
    card->result = fault == FUZZ_CARD_FAIL ? POET_E_CARD_READ : POET_OK;
    return POET_OK;
}

static poet_status card_write(void *state, uint32_t block, const void *buffer, uint32_t nbytes)
{
    fuzz_card *card = state;
    check(card, block, buffer, nbytes);
    const fuzz_card_fault fault = strike(card);
    if (!card->open || fault == FUZZ_CARD_REFUSE || fault == FUZZ_CARD_ABSENT) {
        return POET_E_NO_CARD;
    }
    uint8_t *target = card->memory[block];
    const uint32_t part = nbytes % POET_BLOCK_BYTES;
    if (fault != FUZZ_CARD_LOSE) {
        memcpy(target, buffer, fault == FUZZ_CARD_FAIL ? nbytes / 2u : nbytes);
        if (fault != FUZZ_CARD_FAIL && part != 0u) {
            memset(&target[nbytes], 0, POET_BLOCK_BYTES - part);
        }
    }
    if (fault == FUZZ_CARD_FLIP) {
        target[nbytes / 2u] ^= 0x10u;
    }
    card->under_way = true;
    card->result = fault == FUZZ_CARD_FAIL ? POET_E_CARD_WRITE : POET_OK;
    return POET_OK;
}

static bool card_busy(void *state)
{
    (void)state;
    return false;
}

static poet_status card_wait(void *state)
{
    fuzz_card *card = state;
    const poet_status result = card->under_way ? card->result : POET_OK;
    card->under_way = false;
    return result;
}

static poet_status card_sync(void *state)
{
    const fuzz_card *card = state;
    must(!card->under_way);
    return card->open ? POET_OK : POET_E_NO_CARD;
}

static uint32_t card_blocks(void *state)
{
    const fuzz_card *card = state;
    return card->open ? card->block_count : 0u;
}

const poet_bdev_ops fuzz_card_ops = {
    .open = card_open,
    .start_read = card_read,
    .start_write = card_write,
    .busy = card_busy,
    .wait = card_wait,
    .sync = card_sync,
    .block_count = card_blocks,
};
