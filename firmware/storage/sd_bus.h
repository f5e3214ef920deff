/* The SD protocol in SPI mode below the block device: frames, data blocks, getting back in step.
 * Private to firmware/storage. Sections cited are those of the SD Physical Layer Simplified
 * Specification, chapter 7 (SPI mode).
 */
#ifndef POET_STORAGE_SD_BUS_H
#define POET_STORAGE_SD_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/spi_bus.h"
#include "poet/status.h"

/* Bits of response R1 (7.3.2.1). */
#define SD_R1_IDLE 0x01u
#define SD_R1_ILLEGAL 0x04u
#define SD_R1_CRC 0x08u

/* Tokens that open a data block, or end a multiple block write (7.3.3.2). */
#define SD_TOKEN_START 0xFEu
#define SD_TOKEN_START_MULTIPLE 0xFCu
#define SD_TOKEN_STOP 0xFDu

enum {
    SD_GO_IDLE = 0,
    SD_SEND_IF_COND = 8,
    SD_SEND_CSD = 9,
    SD_STOP_TRANSMISSION = 12,
    SD_SEND_STATUS = 13,
    SD_SET_BLOCKLEN = 16,
    SD_READ_SINGLE = 17,
    SD_READ_MULTIPLE = 18,
    SD_APP_PRE_ERASE = 23, /* ACMD23 */
    SD_WRITE_SINGLE = 24,
    SD_WRITE_MULTIPLE = 25,
    SD_APP_OP_COND = 41, /* ACMD41 */
    SD_APP_COMMAND = 55,
    SD_READ_OCR = 58,
    SD_CRC_ON = 59,
};

/* Select the card and send a command; its R1. The card stays selected.
 * POET_E_NO_CARD: no response. POET_E_CARD_BUSY: never got ready for the command. Hints and
 * clean-up may ignore the status, so it carries no must-check; r1 is 0xFF after an error. */
poet_status poet_sd_command(const poet_spi_bus *bus, uint8_t command, uint32_t argument,
                            uint8_t *r1);
/* Four more bytes of a response, most significant first. */
uint32_t poet_sd_response_word(const poet_spi_bus *bus);
/* Deselect, and the eight clocks after which the card lets go of its output. */
void poet_sd_release(const poet_spi_bus *bus);
/* Wait until the card sends 0xFF; false after limit_us. */
bool poet_sd_wait_ready(const poet_spi_bus *bus, uint32_t limit_us);
/* Receive a data block of `size` bytes; the first `wanted` go to buffer. POET_E_TIMEOUT,
 * POET_E_CARD_READ, POET_E_CARD_CRC. */
POET_MUST_CHECK poet_status poet_sd_receive(const poet_spi_bus *bus, uint8_t *buffer,
                                            uint32_t wanted, uint32_t size);
/* Send a data block of 512 bytes: `given` from data, then zeros; wait until it is programmed.
 * POET_E_CARD_CRC, POET_E_CARD_WRITE, POET_E_CARD_BUSY. */
POET_MUST_CHECK poet_status poet_sd_send(const poet_spi_bus *bus, uint8_t token,
                                         const uint8_t *data, uint32_t given);
/* Whatever transfer the card believes to be in, end it. Leaves the card deselected. */
void poet_sd_resynchronise(const poet_spi_bus *bus);

#endif
