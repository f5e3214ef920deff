/* SD card (SDSC, SDHC, SDXC) in SPI mode as a block device. No DMA: all work is done in start_*.
 *
 * Statuses: POET_E_NO_CARD nothing answers (also: pulled out in use); POET_E_CARD_TYPE MMC, SDUC or
 * no 3.3 V; POET_E_TIMEOUT initialisation or data did not come in time; POET_E_CARD_CMD command
 * rejected; POET_E_CARD_CRC damaged on the bus, also after all retries; POET_E_CARD_READ,
 * POET_E_CARD_WRITE the card's own error; POET_E_CARD_BUSY busy longer than POET_SD_BUSY_US;
 * POET_E_ARG null buffer, no bytes, or past the end of the card; POET_E_STATE not open.
 *
 * start_* returns the error itself; wait then has none to report. After POET_E_NO_CARD,
 * POET_E_TIMEOUT, POET_E_CARD_BUSY or POET_E_CARD_CMD the device is closed until open is called
 * again. A retry repeats the whole command, so a failed write may have reached any of its blocks.
 */
#ifndef POET_SD_SPI_H
#define POET_SD_SPI_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/bdev.h"
#include "poet/spi_bus.h"

/* A command that failed is repeated this often, as a whole; not after POET_E_CARD_BUSY. */
#define POET_SD_RETRIES 3u

/* Limits of single waits, in microseconds. Sources: SdFat's SdCardInfo.h (command 300 ms, read
 * 300 ms, write 600 ms, init 2000 ms); SD Physical Layer Simplified Specification 4.6.2.2 allows
 * 500 ms busy for SDXC; ACMD41 may take 1 s from a cold boot (4.2.3). */
#ifndef POET_SD_BUSY_US
#define POET_SD_BUSY_US 600000u
#endif
#ifndef POET_SD_READ_US
#define POET_SD_READ_US 300000u
#endif
#ifndef POET_SD_INIT_US
#define POET_SD_INIT_US 2000000u
#endif
/* How long CMD0 is repeated. Power-up takes up to 250 ms (Transcend TS16GUSDHC2-P3, page 3). */
#ifndef POET_SD_RESET_US
#define POET_SD_RESET_US 1000000u
#endif

typedef struct {
    const poet_spi_bus *bus;
    uint32_t clock_hz; /* after initialisation; 0 or more than 25 MHz: 25 MHz (default speed) */
} poet_sd_spi_config;

typedef struct {
    const poet_sd_spi_config *config;
    uint32_t block_count; /* 0: not open */
    uint32_t retries;     /* commands repeated since init */
    uint8_t block_addressed;
    uint8_t version_2; /* answered CMD8 */
    uint8_t reserved[2];
} poet_sd_spi_state;

/* The state argument is a poet_sd_spi_state. */
extern const poet_bdev_ops poet_sd_spi_ops;

/* Bind; no input or output. */
void poet_sd_spi_init(poet_sd_spi_state *state, const poet_sd_spi_config *config);

#endif
