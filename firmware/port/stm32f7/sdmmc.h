/* SD card (SDSC, SDHC, SDXC) on the SDMMC of an STM32F7: four bits, DMA2, multiple blocks.
 *
 * start_* returns when the card has taken the command and the DMA is armed; the bytes move while
 * kernels run. Interrupts end the data phase; busy and wait do the rest. Buffers on 32-byte
 * boundaries are moved in place, whole blocks at a time; what is left over (the tail of less than a
 * block, or a buffer that is not aligned) goes through one block of ours. So no cache line that is
 * invalidated ever belongs to anyone else.
 *
 * Statuses as in poet/sd_spi.h; errors of the transfer come from wait, which repeats it
 * POET_SDMMC_RETRIES times first, but for a card that is busy too long. After POET_E_NO_CARD,
 * POET_E_CARD_BUSY and whatever else the card has not come back from, the device is closed until
 * open is called again.
 */
#ifndef POET_STM32F7_SDMMC_H
#define POET_STM32F7_SDMMC_H

#include "board.h"
#include "poet/bdev.h"

#define POET_SDMMC_RETRIES 3u

/* Limits of single waits, in microseconds, as in poet/sd_spi.h but for the first: SDXC cards may be
 * busy for 500 ms (4.6.2.2), ACMD41 may take 1 s from a cold boot (4.2.3). */
#ifndef POET_SDMMC_INIT_US
#define POET_SDMMC_INIT_US 1500000u
#endif
#ifndef POET_SDMMC_READ_US
#define POET_SDMMC_READ_US 300000u
#endif
#ifndef POET_SDMMC_BUSY_US
#define POET_SDMMC_BUSY_US 600000u
#endif
/* Added for each block that is under way: 512 bytes at 24 MHz, four bits, take 43. */
#define POET_SDMMC_BLOCK_US 50u

typedef struct {
    uint32_t base;
    uint8_t enable_bit; /* APB2 */
    uint8_t irq;
    uint8_t dma_channel;
    uint8_t receive_stream; /* of DMA2 */
    uint8_t transmit_stream;
    bool high_speed;          /* try 48 MHz by CMD6; falls back by itself */
    poet_stm32f7_pin pins[6]; /* D0 D1 D2 D3 CK CMD */
    poet_stm32f7_pin detect;  /* low: a card is in */
} poet_sdmmc_config;

typedef enum {
    POET_SDMMC_IDLE,
    POET_SDMMC_DATA_IN,
    POET_SDMMC_DATA_OUT,
    POET_SDMMC_PROGRAMMING,
    POET_SDMMC_FAILED,
} poet_sdmmc_stage;

typedef struct {
    const poet_sdmmc_config *config;
    uint32_t block_count; /* 0: not open */
    uint32_t retries;     /* transfers repeated since init */
    uint32_t address;     /* RCA, in the upper half */
    bool block_addressed;
    bool fast; /* 48 MHz */
    /* The transfer: which bytes, how many are done, how many are under way. */
    uint8_t *destination; /* NULL: a write */
    const uint8_t *source;
    uint32_t block;
    uint32_t nbytes;
    uint32_t done_bytes;
    uint32_t chunk_bytes;
    uint32_t chunk_blocks;
    bool bounced;
    volatile poet_sdmmc_stage stage; /* moved on by the interrupt too */
    volatile poet_status status;
    uint32_t stage_start_us;
} poet_sdmmc_state;

extern const poet_bdev_ops poet_sdmmc_ops;

/* Bind; no input or output. One device per program: its staging block is shared. */
void poet_sdmmc_init(poet_sdmmc_state *state, const poet_sdmmc_config *config);
void poet_sdmmc_interrupt(poet_sdmmc_state *state);

#endif
