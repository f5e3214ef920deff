/* Arm's PL022 SPI (DDI 0194), which several makers put on their chips, as the bus of an SD card. */
#ifndef POET_PL022_H
#define POET_PL022_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uintptr_t base;
    uint32_t clock_hz;           /* of the SPI */
    void (*select)(bool select); /* the card's chip select: true pulls the line low */
} poet_pl022;

/* Operations of a poet_spi_bus whose context is a const poet_pl022. */
uint32_t poet_pl022_set_clock(void *context, uint32_t hz);
void poet_pl022_select(void *context, bool selected);
uint8_t poet_pl022_exchange(void *context, uint8_t out);
void poet_pl022_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count);
uint32_t poet_pl022_micros(void *context);

#endif
