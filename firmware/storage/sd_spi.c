#include "poet/sd_spi.h"

#include <stddef.h>

#include "poet/sd_csd.h"
#include "sd_bus.h"

/* Identification runs at 100..400 kHz, default speed ends at 25 MHz (6.6.6, bus timing). */
#define SLOW_HZ 400000u
#define FAST_HZ 25000000u

#define OCR_POWERED_UP 0x80000000u
#define OCR_BLOCK_ADDRESSED 0x40000000u /* CCS */
#define OCR_3V3 0x00300000u             /* 3.2..3.4 V */
#define HOST_CAPACITY 0x40000000u       /* HCS: we know block addressing */
#define IF_COND 0x1AAu                  /* 2.7..3.6 V, check pattern 0xAA (4.3.13) */

typedef struct {
    uint8_t *destination; /* NULL: a write */
    const uint8_t *source;
    uint32_t block;
    uint32_t blocks;
    uint32_t nbytes;
} transfer;

static poet_status r1_status(uint8_t r1)
{
    if (r1 == 0u) {
        return POET_OK;
    }
    return (r1 & SD_R1_CRC) != 0u ? POET_E_CARD_CRC : POET_E_CARD_CMD;
}

/* A command whose R1 must be all clear, or idle and nothing else. */
static poet_status expect(const poet_spi_bus *bus, uint8_t command, uint32_t argument,
                          uint8_t expected)
{
    uint8_t r1 = 0u;
    POET_TRY(poet_sd_command(bus, command, argument, &r1));
    return r1 == expected ? POET_OK : r1_status((uint8_t)(r1 | SD_R1_IDLE));
}

/// Initialisation

static poet_status go_idle(const poet_spi_bus *bus)
{
    const uint32_t start = bus->micros(bus->context);
    for (;;) {
        const uint32_t now = bus->micros(bus->context);
        /* 96 clocks with the card deselected, 74 are asked for (6.4.1); before each try, because
         * they count from when the card has power. */
        bus->select(bus->context, false);
        bus->transfer(bus->context, NULL, NULL, 12u);
        const poet_status status = expect(bus, SD_GO_IDLE, 0u, SD_R1_IDLE);
        poet_sd_release(bus);
        if (status == POET_OK) {
            return POET_OK;
        }
        if (now - start >= POET_SD_RESET_US) {
            return POET_E_NO_CARD;
        }
        /* The card kept its power when we were reset, and is in the middle of a block. */
        poet_sd_resynchronise(bus);
    }
}

/* CMD8 tells version 2 cards from older ones, for which it is illegal. */
static poet_status find_version(poet_sd_spi_state *card)
{
    const poet_spi_bus *bus = card->config->bus;
    uint8_t r1 = 0u;
    POET_TRY(poet_sd_command(bus, SD_SEND_IF_COND, IF_COND, &r1));
    if (r1 == (SD_R1_IDLE | SD_R1_ILLEGAL)) {
        card->version_2 = 0u;
        return POET_OK;
    }
    if (r1 != SD_R1_IDLE) {
        return r1_status((uint8_t)(r1 | SD_R1_IDLE));
    }
    const uint32_t echo = poet_sd_response_word(bus) & 0xFFFu;
    card->version_2 = 1u;
    if (echo == IF_COND) {
        return POET_OK;
    }
    /* The pattern came back but not the voltage: the card cannot run at ours. */
    return echo == (IF_COND & 0xFFu) ? POET_E_CARD_TYPE : POET_E_CARD_CRC;
}

static poet_status power_up(const poet_sd_spi_state *card)
{
    const poet_spi_bus *bus = card->config->bus;
    const uint32_t argument = card->version_2 != 0u ? HOST_CAPACITY : 0u;
    const uint32_t start = bus->micros(bus->context);
    for (;;) {
        const uint32_t now = bus->micros(bus->context);
        uint8_t r1 = 0xFFu;
        poet_status status = poet_sd_command(bus, SD_APP_COMMAND, 0u, &r1);
        if (status == POET_OK) {
            poet_sd_release(bus);
            status = poet_sd_command(bus, SD_APP_OP_COND, argument, &r1);
        }
        poet_sd_release(bus);
        if (status == POET_OK && r1 == 0u) {
            return POET_OK;
        }
        if (status == POET_OK && (r1 & (SD_R1_ILLEGAL | SD_R1_CRC)) == SD_R1_ILLEGAL) {
            return POET_E_CARD_TYPE; /* MMC */
        }
        if (now - start >= POET_SD_INIT_US) {
            return status == POET_E_NO_CARD ? POET_E_NO_CARD : POET_E_TIMEOUT;
        }
    }
}

/* Addressing comes from the OCR, which has no check sum; the CSD has to agree with it. */
static poet_status read_ocr(poet_sd_spi_state *card)
{
    const poet_spi_bus *bus = card->config->bus;
    uint8_t r1 = 0u;
    POET_TRY(poet_sd_command(bus, SD_READ_OCR, 0u, &r1));
    /* The idle bit is not looked at: QEMU's card has it set in this response always, and whether
     * the card is ready is in the OCR itself. */
    POET_TRY(r1_status((uint8_t)(r1 & ~SD_R1_IDLE)));
    const uint32_t ocr = poet_sd_response_word(bus);
    if ((ocr & OCR_POWERED_UP) == 0u) {
        return POET_E_CARD_CMD;
    }
    if ((ocr & OCR_3V3) == 0u) {
        return POET_E_CARD_TYPE;
    }
    card->block_addressed = (ocr & OCR_BLOCK_ADDRESSED) != 0u ? 1u : 0u;
    return POET_OK;
}

/* The OCR has no check sum; the CSD, which has one, must agree with it. */
static poet_status read_capacity(const poet_sd_spi_state *card, uint32_t *blocks)
{
    const poet_spi_bus *bus = card->config->bus;
    uint8_t csd[16];
    POET_TRY(expect(bus, SD_SEND_CSD, 0u, 0u));
    const poet_status received = poet_sd_receive(bus, csd, sizeof csd, sizeof csd);
    if (received != POET_OK) {
        return received == POET_E_TIMEOUT ? POET_E_CARD_READ : received;
    }
    return poet_sd_capacity(csd, card->block_addressed != 0u, blocks);
}

/* Everything after CMD0. POET_E_TIMEOUT: the card never got ready. */
static poet_status bring_up(poet_sd_spi_state *card, uint32_t *blocks)
{
    const poet_spi_bus *bus = card->config->bus;
    POET_TRY(find_version(card));
    poet_sd_release(bus);
    POET_TRY(expect(bus, SD_CRC_ON, 1u, SD_R1_IDLE));
    poet_sd_release(bus);
    POET_TRY(power_up(card));
    POET_TRY(read_ocr(card));
    poet_sd_release(bus);
    POET_TRY(expect(bus, SD_SET_BLOCKLEN, POET_BLOCK_BYTES, 0u));
    poet_sd_release(bus);
    return read_capacity(card, blocks);
}

static poet_status sd_open(void *state)
{
    poet_sd_spi_state *card = (poet_sd_spi_state *)state;
    const poet_spi_bus *bus = card->config->bus;
    const uint32_t hz = card->config->clock_hz;
    poet_status status = POET_OK;
    card->block_count = 0u;
    for (uint32_t tries = 0u; tries <= POET_SD_RETRIES; tries++) {
        uint32_t blocks = 0u;
        (void)bus->set_clock(bus->context, SLOW_HZ);
        POET_TRY(go_idle(bus));
        status = bring_up(card, &blocks);
        poet_sd_release(bus);
        if (status == POET_OK) {
            (void)bus->set_clock(bus->context, hz == 0u || hz > FAST_HZ ? FAST_HZ : hz);
            card->block_count = blocks;
            return POET_OK;
        }
        /* Even "wrong type" is asked again, since a single disturbed byte can say so. Waits that
         * ended without result are not repeated: they were long. */
        if (status == POET_E_TIMEOUT || status == POET_E_CARD_BUSY) {
            break;
        }
        if (tries < POET_SD_RETRIES) {
            card->retries++;
            poet_sd_resynchronise(bus);
        }
    }
    return status;
}

/// Transfers

static uint32_t address(const poet_sd_spi_state *card, uint32_t block)
{
    return card->block_addressed != 0u ? block : block * POET_BLOCK_BYTES;
}

static poet_status stop_reading(const poet_spi_bus *bus)
{
    uint8_t r1 = 0u;
    POET_TRY(poet_sd_command(bus, SD_STOP_TRANSMISSION, 0u, &r1));
    if ((r1 & SD_R1_CRC) != 0u) {
        return POET_E_CARD_CRC;
    }
    /* Other bits do not matter: having looked ahead past its last block, the card may complain. */
    return poet_sd_wait_ready(bus, POET_SD_BUSY_US) ? POET_OK : POET_E_CARD_BUSY;
}

static poet_status read_once(const poet_sd_spi_state *card, const transfer *job)
{
    const poet_spi_bus *bus = card->config->bus;
    const uint8_t command = job->blocks == 1u ? SD_READ_SINGLE : SD_READ_MULTIPLE;
    uint32_t done = 0u;
    POET_TRY(expect(bus, command, address(card, job->block), 0u));
    for (uint32_t i = 0u; i < job->blocks; i++) {
        const uint32_t left = job->nbytes - done;
        const uint32_t wanted = left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
        POET_TRY(poet_sd_receive(bus, &job->destination[done], wanted, POET_BLOCK_BYTES));
        done += wanted;
    }
    return job->blocks == 1u ? POET_OK : stop_reading(bus);
}

/* How many blocks will come lets the card erase ahead. A hint: failure has no consequence. */
static void announce_blocks(const poet_spi_bus *bus, uint32_t blocks)
{
    uint8_t r1 = 0u;
    if (poet_sd_command(bus, SD_APP_COMMAND, 0u, &r1) == POET_OK && r1 == 0u) {
        poet_sd_release(bus);
        (void)poet_sd_command(bus, SD_APP_PRE_ERASE, blocks, &r1);
    }
    poet_sd_release(bus);
}

/* Errors of programming are only told by R2, after the card was busy (7.2.4). */
static poet_status written_well(const poet_spi_bus *bus)
{
    poet_sd_release(bus);
    POET_TRY(expect(bus, SD_SEND_STATUS, 0u, 0u));
    return bus->exchange(bus->context, 0xFFu) == 0u ? POET_OK : POET_E_CARD_WRITE;
}

static poet_status write_once(const poet_sd_spi_state *card, const transfer *job)
{
    const poet_spi_bus *bus = card->config->bus;
    const bool single = job->blocks == 1u;
    const uint8_t command = single ? SD_WRITE_SINGLE : SD_WRITE_MULTIPLE;
    const uint8_t token = single ? SD_TOKEN_START : SD_TOKEN_START_MULTIPLE;
    uint32_t done = 0u;
    if (!single) {
        announce_blocks(bus, job->blocks);
    }
    POET_TRY(expect(bus, command, address(card, job->block), 0u));
    for (uint32_t i = 0u; i < job->blocks; i++) {
        const uint32_t left = job->nbytes - done;
        const uint32_t given = left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
        POET_TRY(poet_sd_send(bus, token, &job->source[done], given));
        done += given;
    }
    if (!single) {
        (void)bus->exchange(bus->context, SD_TOKEN_STOP);
        (void)bus->exchange(bus->context, 0xFFu); /* busy begins a byte later (7.5.2.2, N_BR) */
        if (!poet_sd_wait_ready(bus, POET_SD_BUSY_US)) {
            return POET_E_CARD_BUSY;
        }
    }
    return written_well(bus);
}

static poet_status run(poet_sd_spi_state *card, const transfer *job)
{
    const poet_spi_bus *bus = card->config->bus;
    poet_status status = POET_OK;
    for (uint32_t tries = 0u; tries <= POET_SD_RETRIES; tries++) {
        status = job->destination != NULL ? read_once(card, job) : write_once(card, job);
        poet_sd_release(bus);
        if (status == POET_OK) {
            return POET_OK;
        }
        if (status == POET_E_CARD_BUSY) {
            break; /* its wait was long; anything else may have been a disturbance of the bus */
        }
        poet_sd_resynchronise(bus); /* also after the last try: the next command shall work */
        card->retries += tries < POET_SD_RETRIES ? 1u : 0u;
    }
    if (status == POET_E_NO_CARD || status == POET_E_TIMEOUT || status == POET_E_CARD_BUSY ||
        status == POET_E_CARD_CMD) {
        card->block_count = 0u; /* pulled out, reset or hung: only open can tell what is there */
    }
    return status;
}

static poet_status start(poet_sd_spi_state *card, transfer *job)
{
    if (card->block_count == 0u) {
        return POET_E_STATE;
    }
    if (job->nbytes == 0u) {
        return POET_E_ARG;
    }
    job->blocks = (job->nbytes - 1u) / POET_BLOCK_BYTES + 1u;
    if (job->block >= card->block_count || job->blocks > card->block_count - job->block) {
        return POET_E_ARG;
    }
    return run(card, job);
}

static poet_status sd_start_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    transfer job = {.destination = (uint8_t *)buffer, .block = block, .nbytes = nbytes};
    return buffer == NULL ? POET_E_ARG : start((poet_sd_spi_state *)state, &job);
}

static poet_status sd_start_write(void *state, uint32_t block, const void *buffer,
                                  uint32_t nbytes)
{
    transfer job = {.source = (const uint8_t *)buffer, .block = block, .nbytes = nbytes};
    return buffer == NULL ? POET_E_ARG : start((poet_sd_spi_state *)state, &job);
}

static bool sd_busy(void *state)
{
    (void)state;
    return false;
}

/* start_* has told everything, and left nothing in the card that is not programmed. */
static poet_status sd_wait(void *state)
{
    (void)state;
    return POET_OK;
}

static uint32_t sd_block_count(void *state)
{
    const poet_sd_spi_state *card = (const poet_sd_spi_state *)state;
    return card->block_count;
}

const poet_bdev_ops poet_sd_spi_ops = {
    .open = sd_open,
    .start_read = sd_start_read,
    .start_write = sd_start_write,
    .busy = sd_busy,
    .wait = sd_wait,
    .sync = sd_wait,
    .block_count = sd_block_count,
};

void poet_sd_spi_init(poet_sd_spi_state *state, const poet_sd_spi_config *config)
{
    state->config = config;
    state->block_count = 0u;
    state->retries = 0u;
    state->block_addressed = 0u;
    state->version_2 = 0u;
    state->reserved[0] = 0u;
    state->reserved[1] = 0u;
}
