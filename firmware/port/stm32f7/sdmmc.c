/* Transfers by DMA2: RM0385 35.4.3 (data path), 35.8.
 *
 * A transfer is cut into chunks: up to 511 whole blocks in place, or one block through the staging
 * block. A chunk goes command, data, (stop), and for writes programming; advance() moves it on as
 * far as the hardware is, from the interrupt and from whoever asks.
 */
#include "sdmmc.h"

#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "poet/port.h"
#include "sdmmc_command.h"
#include "sdmmc_dma.h"

#define LINE_BYTES 32u
/* The stream counts words in 16 bits, also when the SDMMC ends the transfer (8.5.6). */
#define CHUNK_BLOCKS 511u
/* So many bad answers to CMD13 in a row, and nobody is there to recover. */
#define DEAF_ANSWERS 8u
/* The controller's own time limit, in card clocks: longer than ours, so that ours decides. */
#define DATA_CLOCKS 0xFFFFFFFFu

/* The stream's last burst takes some ten bus cycles; the interrupt waits that long for it. */
#define DRAIN_POLLS 100u

#define FAILURES \
    (SDMMC_STA_DCRCFAIL | SDMMC_STA_DTIMEOUT | SDMMC_STA_TXUNDERR | SDMMC_STA_RXOVERR)

static _Alignas(LINE_BYTES) uint8_t staging[POET_BLOCK_BYTES];

/* ---- one chunk ---- */

static void enter(poet_sdmmc_state *card, poet_sdmmc_stage stage)
{
    card->stage_start_us = poet_port_micros();
    card->stage = stage;
}

/* Where a chunk that is read goes. */
static uint8_t *chunk_memory(const poet_sdmmc_state *card)
{
    return card->bounced ? staging : card->destination + card->done_bytes;
}

static void fail(poet_sdmmc_state *card, poet_status status)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    regs->mask = 0u;
    regs->dctrl = 0u;
    poet_dma_stop(poet_dma_stream_of(card));
    if (card->destination != NULL) {
        /* Part of it was written: core and memory have to agree, on whatever it is. */
        poet_stm32f7_invalidate(chunk_memory(card), card->chunk_bytes);
    }
    regs->icr = SDMMC_ICR_ALL;
    card->status = status;
    enter(card, POET_SDMMC_FAILED);
}

static void choose_chunk(poet_sdmmc_state *card)
{
    const uint8_t *next =
        (card->destination != NULL ? card->destination : card->source) + card->done_bytes;
    const uint32_t blocks = (card->nbytes - card->done_bytes) / POET_BLOCK_BYTES;
    card->bounced = blocks == 0u || (uintptr_t)next % LINE_BYTES != 0u;
    card->chunk_blocks = card->bounced ? 1u : blocks < CHUNK_BLOCKS ? blocks : CHUNK_BLOCKS;
    card->chunk_bytes = card->chunk_blocks * POET_BLOCK_BYTES;
}

/* Bytes of the caller in a bounced chunk. */
static uint32_t bounced_bytes(const poet_sdmmc_state *card)
{
    const uint32_t left = card->nbytes - card->done_bytes;
    return left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
}

static uint32_t card_address(const poet_sdmmc_state *card)
{
    const uint32_t block = card->block + card->done_bytes / POET_BLOCK_BYTES;
    return card->block_addressed ? block : block * POET_BLOCK_BYTES;
}

static void start_data(poet_sdmmc_state *card, const void *memory, uint32_t direction)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    poet_dma_start(card, memory);
    regs->dtimer = DATA_CLOCKS;
    regs->dlen = card->chunk_bytes;
    regs->dctrl =
        9u << SDMMC_DCTRL_SIZE_SHIFT | SDMMC_DCTRL_DMAEN | direction | SDMMC_DCTRL_DTEN;
}

/* Reading, the data path waits for the card before the command is out, or it would miss the first
 * block; writing, the command must be answered before data may go. */
static poet_status start_in(poet_sdmmc_state *card)
{
    uint8_t *memory = chunk_memory(card);
    const uint32_t command = card->chunk_blocks == 1u ? SD_READ_SINGLE : SD_READ_MULTIPLE;
    poet_stm32f7_invalidate(memory, card->chunk_bytes);
    start_data(card, memory, SDMMC_DCTRL_FROM_CARD);
    enter(card, POET_SDMMC_DATA_IN);
    return poet_sdmmc_ask(card, command, card_address(card));
}

static poet_status start_out(poet_sdmmc_state *card)
{
    const uint8_t *memory = card->source + card->done_bytes;
    const uint32_t command = card->chunk_blocks == 1u ? SD_WRITE_SINGLE : SD_WRITE_MULTIPLE;
    if (card->bounced) {
        const uint32_t given = bounced_bytes(card);
        memcpy(staging, memory, given);
        memset(&staging[given], 0, POET_BLOCK_BYTES - given);
        memory = staging;
    }
    poet_stm32f7_clean(memory, card->chunk_bytes);
    POET_TRY(poet_sdmmc_ask(card, command, card_address(card)));
    start_data(card, memory, 0u);
    enter(card, POET_SDMMC_DATA_OUT);
    return POET_OK;
}

static void start_chunk(poet_sdmmc_state *card)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    choose_chunk(card);
    regs->dctrl = 0u;
    regs->icr = SDMMC_ICR_ALL;
    const poet_status status = card->destination != NULL ? start_in(card) : start_out(card);
    if (status != POET_OK) {
        fail(card, status);
        return;
    }
    regs->mask = FAILURES | SDMMC_STA_DATAEND;
}

static void end_chunk(poet_sdmmc_state *card)
{
    uint32_t moved = card->chunk_bytes;
    if (card->destination != NULL) {
        /* Again: the core may have fetched lines by itself while the DMA wrote. */
        poet_stm32f7_invalidate(chunk_memory(card), card->chunk_bytes);
    }
    if (card->bounced) {
        moved = bounced_bytes(card);
        if (card->destination != NULL) {
            memcpy(card->destination + card->done_bytes, staging, moved);
        }
    }
    card->done_bytes += moved;
    if (card->done_bytes == card->nbytes) {
        enter(card, POET_SDMMC_IDLE);
    } else {
        start_chunk(card);
    }
}

/* ---- moving on ---- */

static poet_status data_error(uint32_t flags, bool writing)
{
    if ((flags & SDMMC_STA_DCRCFAIL) != 0u) {
        return POET_E_CARD_CRC;
    }
    if ((flags & SDMMC_STA_DTIMEOUT) != 0u) {
        return writing ? POET_E_CARD_BUSY : POET_E_TIMEOUT;
    }
    return POET_E_IO; /* the DMA did not keep up */
}

/* The data phase: ended, failed, or still under way. False: nothing to do yet. */
static bool data_ended(poet_sdmmc_state *card, bool writing)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    const uint32_t flags = regs->sta;
    const uint32_t stream = poet_dma_stream_of(card);
    if ((flags & FAILURES) != 0u || poet_dma_failed(stream)) {
        fail(card, data_error(flags, writing));
        return false;
    }
    if ((flags & SDMMC_STA_DATAEND) == 0u) {
        return false;
    }
    regs->mask = 0u; /* the flag stays until the stream has ended: polled from here on */
    for (uint32_t i = 0u; !writing && i < DRAIN_POLLS && !poet_dma_ended(stream); i++) {
    }
    return writing || poet_dma_ended(stream);
}

static void advance_in(poet_sdmmc_state *card)
{
    if (!data_ended(card, false)) {
        return;
    }
    poet_sdmmc_at(card)->icr = SDMMC_ICR_ALL;
    if (card->chunk_blocks > 1u) {
        /* R1's bits are not looked at: having looked ahead past its last block, the card may
         * complain of an address. */
        const poet_status status = poet_sdmmc_command(card, SD_STOP_TRANSMISSION, 0u, SD_R1);
        if (status != POET_OK) {
            fail(card, status);
            return;
        }
    }
    end_chunk(card);
}

static void advance_out(poet_sdmmc_state *card)
{
    if (!data_ended(card, true)) {
        return;
    }
    poet_sdmmc_at(card)->icr = SDMMC_ICR_ALL;
    if (card->chunk_blocks > 1u) {
        const poet_status status = poet_sdmmc_ask(card, SD_STOP_TRANSMISSION, 0u);
        if (status != POET_OK) {
            fail(card, status == POET_E_CARD_CMD ? POET_E_CARD_WRITE : status);
            return;
        }
    }
    enter(card, POET_SDMMC_PROGRAMMING);
}

/* The card answers CMD13 while it programs; errors of programming stand in the same response. */
static void advance_programming(poet_sdmmc_state *card)
{
    const poet_status status = poet_sdmmc_command(card, SD_SEND_STATUS, card->address, SD_R1);
    const uint32_t r1 = poet_sdmmc_at(card)->resp[0];
    if (status != POET_OK) {
        fail(card, status);
    } else if ((r1 & SD_R1_ERRORS) != 0u) {
        fail(card, POET_E_CARD_WRITE);
    } else if (SD_R1_STATE(r1) == SD_STATE_TRANSFER) {
        end_chunk(card);
    } else if (SD_R1_STATE(r1) != SD_STATE_PROGRAMMING &&
               SD_R1_STATE(r1) != SD_STATE_RECEIVE) {
        fail(card, POET_E_CARD_CMD); /* it was reset, or replaced */
    }
}

static void advance(poet_sdmmc_state *card)
{
    const uint32_t waited_us = poet_port_micros() - card->stage_start_us;
    const poet_sdmmc_stage stage = card->stage;
    if (stage == POET_SDMMC_DATA_IN) {
        advance_in(card);
    } else if (stage == POET_SDMMC_DATA_OUT) {
        advance_out(card);
    } else if (stage == POET_SDMMC_PROGRAMMING) {
        advance_programming(card);
    } else {
        return;
    }
    /* Card and DMA move on without us, so what has not ended by now is late. A new chunk of the
     * same stage has begun a new wait. */
    const uint32_t wait_us =
        stage == POET_SDMMC_DATA_IN ? POET_SDMMC_READ_US : POET_SDMMC_BUSY_US;
    const uint32_t limit_us = wait_us + card->chunk_blocks * POET_SDMMC_BLOCK_US;
    if (card->stage == stage && waited_us >= limit_us &&
        poet_port_micros() - card->stage_start_us >= limit_us) {
        fail(card, stage == POET_SDMMC_DATA_IN ? POET_E_TIMEOUT : POET_E_CARD_BUSY);
    }
}

void poet_sdmmc_interrupt(poet_sdmmc_state *state)
{
    advance(state);
}

/* The same from outside of the interrupt, which must not come in between. */
static void advance_now(poet_sdmmc_state *card)
{
    const uint32_t irq = card->config->irq;
    NVIC_ICER(irq) = 1u << irq % 32u;
    __asm volatile("dsb\n\tisb" ::: "memory");
    advance(card);
    NVIC_ISER(irq) = 1u << irq % 32u;
}

/* ---- the block device ---- */

static poet_status sdmmc_open(void *state)
{
    poet_sdmmc_state *card = (poet_sdmmc_state *)state;
    const uint32_t irq = card->config->irq;
    card->block_count = 0u;
    card->stage = POET_SDMMC_IDLE;
    card->status = POET_OK;
    POET_TRY(poet_sdmmc_identify(card));
    NVIC_ISER(irq) = 1u << irq % 32u;
    return POET_OK;
}

static poet_status start(poet_sdmmc_state *card, uint32_t block, uint32_t nbytes)
{
    if (card->block_count == 0u || card->stage != POET_SDMMC_IDLE) {
        return POET_E_STATE;
    }
    if (nbytes == 0u) {
        return POET_E_ARG;
    }
    const uint32_t blocks = (nbytes - 1u) / POET_BLOCK_BYTES + 1u;
    if (block >= card->block_count || blocks > card->block_count - block) {
        return POET_E_ARG;
    }
    card->block = block;
    card->nbytes = nbytes;
    card->done_bytes = 0u;
    card->status = POET_OK;
    start_chunk(card);
    return POET_OK;
}

static poet_status sdmmc_start_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    poet_sdmmc_state *card = (poet_sdmmc_state *)state;
    if (buffer == NULL) {
        return POET_E_ARG;
    }
    if (card->stage != POET_SDMMC_IDLE) {
        return POET_E_STATE;
    }
    card->destination = (uint8_t *)buffer;
    card->source = NULL;
    return start(card, block, nbytes);
}

static poet_status sdmmc_start_write(void *state, uint32_t block, const void *buffer,
                                     uint32_t nbytes)
{
    poet_sdmmc_state *card = (poet_sdmmc_state *)state;
    if (buffer == NULL) {
        return POET_E_ARG;
    }
    if (card->stage != POET_SDMMC_IDLE) {
        return POET_E_STATE;
    }
    card->destination = NULL;
    card->source = (const uint8_t *)buffer;
    return start(card, block, nbytes);
}

static bool sdmmc_busy(void *state)
{
    poet_sdmmc_state *card = (poet_sdmmc_state *)state;
    advance_now(card);
    return card->stage != POET_SDMMC_IDLE && card->stage != POET_SDMMC_FAILED;
}

/* Whatever the card believes to be in, bring it back to the transfer state within limit_us, one look
 * at least. Errors that it tells of on the way become the transfer's, for they name it better. */
static poet_status recover(poet_sdmmc_state *card, uint32_t limit_us)
{
    const uint32_t start = poet_port_micros();
    uint32_t bad = 0u;
    for (;;) {
        const bool late = poet_port_micros() - start >= limit_us;
        const poet_status status = poet_sdmmc_command(card, SD_SEND_STATUS, card->address, SD_R1);
        const uint32_t r1 = poet_sdmmc_at(card)->resp[0];
        bad = status == POET_OK ? 0u : bad + 1u;
        if (bad == DEAF_ANSWERS) {
            return status;
        }
        if (status != POET_OK) {
            continue; /* disturbed, or nobody is there: soon known */
        }
        if ((r1 & SD_R1_UNREADABLE) != 0u && card->status == POET_E_TIMEOUT) {
            card->status = POET_E_CARD_READ;
        }
        if (SD_R1_STATE(r1) == SD_STATE_TRANSFER) {
            return POET_OK;
        }
        if (late) {
            return POET_E_CARD_BUSY;
        }
        if (SD_R1_STATE(r1) == SD_STATE_DATA || SD_R1_STATE(r1) == SD_STATE_RECEIVE) {
            (void)poet_sdmmc_command(card, SD_STOP_TRANSMISSION, 0u, SD_R1);
        }
    }
}

/* A busy card has been waited for long enough; anything else may have been a disturbance. */
static bool worth_repeating(poet_status status)
{
    return status != POET_E_CARD_BUSY && status != POET_E_CARD_CMD;
}

/* Behind a failed chunk. False: the transfer has failed, with card->status. */
static bool repeat(poet_sdmmc_state *card, bool again)
{
    const uint32_t limit_us = card->status == POET_E_CARD_BUSY ? 0u : POET_SDMMC_BUSY_US;
    const poet_status status = recover(card, limit_us);
    if (status != POET_OK) {
        card->block_count = 0u; /* pulled out, reset or hung: only open can tell */
        card->status = status;
        return false;
    }
    if (!again || !worth_repeating(card->status)) {
        return false;
    }
    if (card->fast && card->status == POET_E_CARD_CRC &&
        poet_sdmmc_slow_down(card) != POET_OK) {
        return false;
    }
    card->retries++;
    start_chunk(card);
    return true;
}

static poet_status sdmmc_wait(void *state)
{
    poet_sdmmc_state *card = (poet_sdmmc_state *)state;
    uint32_t tries = 0u;
    while (card->stage != POET_SDMMC_IDLE) {
        advance_now(card);
        if (card->stage != POET_SDMMC_FAILED) {
            continue;
        }
        if (!repeat(card, tries < POET_SDMMC_RETRIES)) {
            card->stage = POET_SDMMC_IDLE;
            return card->status;
        }
        tries++;
    }
    return POET_OK;
}

static poet_status sdmmc_sync(void *state)
{
    (void)state; /* wait has waited until the card had programmed everything */
    return POET_OK;
}

static uint32_t sdmmc_block_count(void *state)
{
    const poet_sdmmc_state *card = (const poet_sdmmc_state *)state;
    return card->block_count;
}

const poet_bdev_ops poet_sdmmc_ops = {
    .open = sdmmc_open,
    .start_read = sdmmc_start_read,
    .start_write = sdmmc_start_write,
    .busy = sdmmc_busy,
    .wait = sdmmc_wait,
    .sync = sdmmc_sync,
    .block_count = sdmmc_block_count,
};

void poet_sdmmc_init(poet_sdmmc_state *state, const poet_sdmmc_config *config)
{
    memset(state, 0, sizeof *state);
    state->config = config;
    state->stage = POET_SDMMC_IDLE;
}
