/* Transfers by DMA2: RM0385 35.4.3 (data path), 8.3.15 (peripheral flow controller), 35.8.
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

#define LINE_BYTES 32u
/* The stream counts words in 16 bits, also when the SDMMC ends the transfer (8.5.6). */
#define CHUNK_BLOCKS 511u
#define RETRIES 3u
/* As in poet/sd_spi.h: SDXC cards may be busy for 500 ms. */
#define DATA_US 300000u
#define BUSY_US 600000u
/* What 65408 words take at 24 MHz, four bits: added to the time a chunk is given. */
#define CHUNK_US 25000u
/* The controller's own time limit, in card clocks: longer than ours, so that ours decides. */
#define DATA_CLOCKS 0xFFFFFFFFu

/* The stream's last burst takes some ten bus cycles; the interrupt waits that long for it. */
#define DRAIN_POLLS 100u

#define FAILURES \
    (SDMMC_STA_DCRCFAIL | SDMMC_STA_DTIMEOUT | SDMMC_STA_TXUNDERR | SDMMC_STA_RXOVERR)
#define DMA_CR_COMMON                                                                      \
    (DMA_CR_PFCTRL | DMA_CR_MINC | DMA_CR_PSIZE_WORD | DMA_CR_MSIZE_WORD |                 \
     DMA_CR_PRIORITY_VERY_HIGH | DMA_CR_PBURST_4 | DMA_CR_MBURST_4)

static _Alignas(LINE_BYTES) uint8_t staging[POET_BLOCK_BYTES];

/* ---- DMA ---- */

static uint32_t stream_of(const poet_sdmmc_state *card)
{
    return card->destination != NULL ? card->config->receive_stream
                                     : card->config->transmit_stream;
}

/* Where the flags of a stream stand in its half of the status registers. */
static uint32_t flag_shift(uint32_t stream)
{
    static const uint8_t shifts[4] = {0u, 6u, 16u, 22u};
    return shifts[stream % 4u];
}

static void stop_dma(uint32_t stream)
{
    poet_dma_stream_registers *regs = DMA2_STREAM(stream);
    regs->cr &= ~DMA_CR_EN;
    const uint32_t start = poet_port_micros();
    while ((regs->cr & DMA_CR_EN) != 0u && poet_port_micros() - start < 1000u) {
    }
    DMA2_CLEAR(stream / 4u) = DMA_FLAG_ALL << flag_shift(stream);
}

static void start_dma(const poet_sdmmc_state *card, const void *memory)
{
    const uint32_t stream = stream_of(card);
    poet_dma_stream_registers *regs = DMA2_STREAM(stream);
    const uint32_t direction = card->destination != NULL ? 0u : DMA_CR_TO_PERIPHERAL;
    stop_dma(stream);
    regs->par = (uint32_t)(uintptr_t)&poet_sdmmc_at(card)->fifo;
    regs->m0ar = (uint32_t)(uintptr_t)memory;
    regs->ndtr = card->chunk_bytes / 4u;
    regs->fcr = DMA_FCR_FIFO_FULL;
    regs->cr = DMA_CR_COMMON | direction |
               (uint32_t)card->config->dma_channel << DMA_CR_CHSEL_SHIFT;
    regs->cr |= DMA_CR_EN;
}

static bool dma_failed(uint32_t stream)
{
    return (DMA2_STATUS(stream / 4u) >> flag_shift(stream) & (DMA_FLAG_TE | DMA_FLAG_DME)) != 0u;
}

/* The SDMMC ends the stream, which then writes what is left in its FIFO and clears EN. */
static bool dma_ended(uint32_t stream)
{
    return (DMA2_STREAM(stream)->cr & DMA_CR_EN) == 0u;
}

/* ---- one chunk ---- */

static void enter(poet_sdmmc_state *card, poet_sdmmc_stage stage)
{
    card->stage_start_us = poet_port_micros();
    card->stage = stage;
}

static void fail(poet_sdmmc_state *card, poet_status status)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    regs->mask = 0u;
    regs->dctrl = 0u;
    stop_dma(stream_of(card));
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
    start_dma(card, memory);
    regs->dtimer = DATA_CLOCKS;
    regs->dlen = card->chunk_bytes;
    regs->dctrl =
        9u << SDMMC_DCTRL_SIZE_SHIFT | SDMMC_DCTRL_DMAEN | direction | SDMMC_DCTRL_DTEN;
}

/* Reading, the data path waits for the card before the command is out, or it would miss the first
 * block; writing, the command must be answered before data may go. */
static poet_status start_in(poet_sdmmc_state *card)
{
    uint8_t *memory = card->bounced ? staging : card->destination + card->done_bytes;
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
        uint8_t *memory = card->bounced ? staging : card->destination + card->done_bytes;
        /* Again: the core may have fetched lines by itself while the DMA wrote. */
        poet_stm32f7_invalidate(memory, card->chunk_bytes);
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
    const uint32_t stream = stream_of(card);
    if ((flags & FAILURES) != 0u || dma_failed(stream)) {
        fail(card, data_error(flags, writing));
        return false;
    }
    if ((flags & SDMMC_STA_DATAEND) == 0u) {
        return false;
    }
    regs->mask = 0u; /* the flag stays until the stream has ended: polled from here on */
    for (uint32_t i = 0u; !writing && i < DRAIN_POLLS && !dma_ended(stream); i++) {
    }
    return writing || dma_ended(stream);
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
    const uint32_t limit_us = (stage == POET_SDMMC_DATA_IN ? DATA_US : BUSY_US) + CHUNK_US;
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

/* Whatever the card believes to be in, bring it back to the transfer state. */
static poet_status recover(poet_sdmmc_state *card)
{
    const uint32_t start = poet_port_micros();
    for (;;) {
        const bool late = poet_port_micros() - start >= BUSY_US;
        const poet_status status = poet_sdmmc_command(card, SD_SEND_STATUS, card->address, SD_R1);
        const uint32_t now = SD_R1_STATE(poet_sdmmc_at(card)->resp[0]);
        if (status == POET_OK && now == SD_STATE_TRANSFER) {
            return POET_OK;
        }
        if (late) {
            return status == POET_OK ? POET_E_CARD_BUSY : status;
        }
        if (status == POET_OK && (now == SD_STATE_DATA || now == SD_STATE_RECEIVE)) {
            (void)poet_sdmmc_command(card, SD_STOP_TRANSMISSION, 0u, SD_R1);
        }
    }
}

static bool worth_repeating(poet_status status)
{
    return status == POET_E_CARD_CRC || status == POET_E_IO || status == POET_E_TIMEOUT ||
           status == POET_E_CARD_WRITE || status == POET_E_CARD_READ;
}

static poet_status repeat(poet_sdmmc_state *card)
{
    card->retries++;
    POET_TRY(recover(card));
    if (card->fast && card->status == POET_E_CARD_CRC) {
        POET_TRY(poet_sdmmc_slow_down(card));
    }
    start_chunk(card);
    return POET_OK;
}

static poet_status sdmmc_wait(void *state)
{
    poet_sdmmc_state *card = (poet_sdmmc_state *)state;
    poet_status status = POET_OK;
    uint32_t tries = 0u;
    while (card->stage != POET_SDMMC_IDLE) {
        advance_now(card);
        if (card->stage != POET_SDMMC_FAILED) {
            continue;
        }
        status = card->status;
        if (tries < RETRIES && worth_repeating(status)) {
            tries++;
            if (repeat(card) == POET_OK) {
                status = POET_OK;
                continue;
            }
        }
        card->stage = POET_SDMMC_IDLE;
        if (recover(card) != POET_OK) {
            card->block_count = 0u; /* pulled out, reset or hung: only open can tell */
        }
    }
    return status;
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
