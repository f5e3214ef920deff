#include "sd_bus.h"

#include <stddef.h>

#include "poet/bdev.h"
#include "poet/crc.h"
#include "poet/sd_spi.h"

/* A response comes within 8 bytes (7.5.1.1, N_CR); cards are seen to send garbage before it. */
#define RESPONSE_POLLS 16u
/* The data response follows the block at once (7.3.3.1); some cards take a byte or two. */
#define DATA_RESPONSE_POLLS 8u
/* Rest of a data block at worst: token, 512 bytes, CRC, response. */
#define BLOCK_DRAIN_BYTES 520u

/* Data response xxx0sss1 (7.3.3.1). */
#define RESPONSE_MASK 0x1Fu
#define RESPONSE_ACCEPTED 0x05u
#define RESPONSE_CRC_ERROR 0x0Bu
#define RESPONSE_WRITE_ERROR 0x0Du

static uint8_t next_byte(const poet_spi_bus *bus)
{
    return bus->exchange(bus->context, 0xFFu);
}

static void send_frame(const poet_spi_bus *bus, uint8_t command, uint32_t argument)
{
    uint8_t frame[6];
    frame[0] = (uint8_t)(0x40u | command);
    frame[1] = (uint8_t)(argument >> 24);
    frame[2] = (uint8_t)(argument >> 16);
    frame[3] = (uint8_t)(argument >> 8);
    frame[4] = (uint8_t)argument;
    frame[5] = (uint8_t)(((uint32_t)poet_crc7(0u, frame, 5u) << 1) | 1u);
    bus->transfer(bus->context, frame, NULL, sizeof frame);
}

bool poet_sd_wait_ready(const poet_spi_bus *bus, uint32_t limit_us)
{
    const uint32_t start = bus->micros(bus->context);
    for (;;) {
        /* The clock is read before the line: a long pause of ours is not taken for the card's. */
        const uint32_t now = bus->micros(bus->context);
        if (next_byte(bus) == 0xFFu) {
            return true;
        }
        if (now - start >= limit_us) {
            return false;
        }
    }
}

void poet_sd_release(const poet_spi_bus *bus)
{
    bus->select(bus->context, false);
    (void)next_byte(bus);
}

poet_status poet_sd_command(const poet_spi_bus *bus, uint8_t command, uint32_t argument,
                            uint8_t *r1)
{
    *r1 = 0xFFu;
    bus->select(bus->context, true);
    /* CMD0 and CMD12 may have to break into a transfer; nothing else is sent to a busy card. */
    if (command != SD_GO_IDLE && command != SD_STOP_TRANSMISSION &&
        !poet_sd_wait_ready(bus, POET_SD_BUSY_US)) {
        return POET_E_CARD_BUSY;
    }
    send_frame(bus, command, argument);
    if (command == SD_STOP_TRANSMISSION) {
        (void)next_byte(bus); /* stuff byte: the end of the data that was on its way */
    }
    for (uint32_t i = 0u; i < RESPONSE_POLLS; i++) {
        const uint8_t byte = next_byte(bus);
        if ((byte & 0x80u) == 0u) {
            *r1 = byte;
            return POET_OK;
        }
    }
    return POET_E_NO_CARD;
}

uint32_t poet_sd_response_word(const poet_spi_bus *bus)
{
    uint32_t word = 0u;
    for (uint32_t i = 0u; i < 4u; i++) {
        word = (word << 8) | next_byte(bus);
    }
    return word;
}

static poet_status wait_start(const poet_spi_bus *bus)
{
    const uint32_t start = bus->micros(bus->context);
    for (;;) {
        const uint32_t now = bus->micros(bus->context);
        const uint8_t byte = next_byte(bus);
        if (byte == SD_TOKEN_START) {
            return POET_OK;
        }
        if (byte != 0u && (byte & 0xF0u) == 0u) { /* data error token 0000xxxx (7.3.3.3) */
            return POET_E_CARD_READ;
        }
        if (now - start >= POET_SD_READ_US) {
            return POET_E_TIMEOUT;
        }
    }
}

poet_status poet_sd_receive(const poet_spi_bus *bus, uint8_t *buffer, uint32_t wanted,
                            uint32_t size)
{
    POET_TRY(wait_start(bus));
    bus->transfer(bus->context, NULL, buffer, wanted);
    uint16_t crc = poet_crc16(0u, buffer, wanted);
    /* What the caller does not want is still checked, and with it the two bytes of the CRC: the
     * remainder of a message followed by its CRC is zero. */
    for (uint32_t i = wanted; i < size + 2u; i++) {
        const uint8_t byte = next_byte(bus);
        crc = poet_crc16(crc, &byte, 1u);
    }
    return crc == 0u ? POET_OK : POET_E_CARD_CRC;
}

static poet_status data_response(const poet_spi_bus *bus)
{
    uint8_t byte = 0xFFu;
    for (uint32_t i = 0u; i < DATA_RESPONSE_POLLS && byte == 0xFFu; i++) {
        byte = next_byte(bus);
    }
    if (!poet_sd_wait_ready(bus, POET_SD_BUSY_US)) {
        return POET_E_CARD_BUSY;
    }
    switch (byte & RESPONSE_MASK) {
    case RESPONSE_ACCEPTED:
        return POET_OK;
    case RESPONSE_WRITE_ERROR:
        return POET_E_CARD_WRITE;
    case RESPONSE_CRC_ERROR:
    default:
        /* No response or a damaged one: the card may not have seen the block at all. */
        return POET_E_CARD_CRC;
    }
}

poet_status poet_sd_send(const poet_spi_bus *bus, uint8_t token, const uint8_t *data,
                         uint32_t given)
{
    (void)next_byte(bus); /* at least one byte between response and token (7.5.2.1, N_WR) */
    (void)bus->exchange(bus->context, token);
    bus->transfer(bus->context, data, NULL, given);
    uint16_t crc = poet_crc16(0u, data, given);
    const uint8_t zero = 0u;
    for (uint32_t i = given; i < POET_BLOCK_BYTES; i++) {
        (void)bus->exchange(bus->context, zero);
        crc = poet_crc16(crc, &zero, 1u);
    }
    (void)bus->exchange(bus->context, (uint8_t)(crc >> 8));
    (void)bus->exchange(bus->context, (uint8_t)(crc & 0xFFu));
    return data_response(bus);
}

void poet_sd_resynchronise(const poet_spi_bus *bus)
{
    uint8_t r1 = 0u;
    bus->select(bus->context, true);
    /* A block under way runs to its end: one being read is dropped, one being written is filled
     * with 0xFF and refused by its CRC. */
    bus->transfer(bus->context, NULL, NULL, BLOCK_DRAIN_BYTES);
    /* Ends a multiple block write; outside of one no command begins with these bits. */
    (void)bus->exchange(bus->context, SD_TOKEN_STOP);
    (void)next_byte(bus);
    if (poet_sd_wait_ready(bus, POET_SD_BUSY_US)) {
        /* Ends a multiple block read; outside of one it is an illegal command without effect. */
        (void)poet_sd_command(bus, SD_STOP_TRANSMISSION, 0u, &r1);
        (void)poet_sd_wait_ready(bus, POET_SD_BUSY_US);
    }
    poet_sd_release(bus);
}
