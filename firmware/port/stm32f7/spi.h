/* An SPI of APB2 as the bus of an SD card. RM0410 35 (SPI). */
#ifndef POET_STM32F7_SPI_H
#define POET_STM32F7_SPI_H

#include "board.h"
#include "poet/spi_bus.h"

typedef struct {
    uint32_t base;
    uint32_t clock_hz;  /* of its bus: at most 102 MHz, or 400 kHz are out of reach */
    uint8_t enable_bit; /* APB2 */
    poet_stm32f7_pin clock;
    poet_stm32f7_pin miso;
    poet_stm32f7_pin mosi;
    poet_stm32f7_pin select; /* an output, low: the card listens */
} poet_stm32f7_spi;

/* Operations of a poet_spi_bus whose context is a poet_stm32f7_spi. */
uint32_t poet_stm32f7_spi_set_clock(void *context, uint32_t hz);
void poet_stm32f7_spi_select(void *context, bool selected);
uint8_t poet_stm32f7_spi_exchange(void *context, uint8_t out);
void poet_stm32f7_spi_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count);
uint32_t poet_stm32f7_spi_micros(void *context);

/* Pins and controller on, card deselected. */
void poet_stm32f7_spi_init(const poet_stm32f7_spi *spi);

#endif
