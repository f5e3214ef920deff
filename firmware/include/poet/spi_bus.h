/* The SPI bus below the SD card driver: what a port gives to sd_spi.c. */
#ifndef POET_SPI_BUS_H
#define POET_SPI_BUS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    /* Set the clock to at most hz; the rate reached. */
    uint32_t (*set_clock)(void *context, uint32_t hz);
    /* Chip select: true = card selected (line low). */
    void (*select)(void *context, bool selected);
    /* Exchange one byte. */
    uint8_t (*exchange)(void *context, uint8_t out);
    /* Exchange count bytes; tx NULL sends 0xFF, rx NULL drops what comes. */
    void (*transfer)(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count);
    /* Microseconds, wraps at 2^32. */
    uint32_t (*micros)(void *context);
    void *context;
} poet_spi_bus;

#endif
