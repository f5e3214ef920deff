/* What differs between boards with an STM32F7: crystal, pins, instances. One constant a board. */
#ifndef POET_STM32F7_BOARD_H
#define POET_STM32F7_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/bdev.h"

typedef struct {
    uint8_t port; /* 0: GPIOA */
    uint8_t number;
    uint8_t function; /* alternate function */
} poet_stm32f7_pin;

/* SYSCLK = HSE / m * n / 2; the SDMMC's 48 MHz = HSE / m * n / q. */
typedef struct {
    bool hse_bypass; /* a clock comes in instead of a crystal */
    bool slow_apb2;  /* 54 MHz instead of 108 MHz */
    uint8_t pll_m;
    uint8_t pll_q;
    uint16_t pll_n;
} poet_stm32f7_clock;

typedef struct {
    uint32_t base;
    uint32_t clock_hz; /* of its bus */
    bool apb1;         /* on APB1, else APB2 */
    uint8_t enable_bit;
    uint8_t irq;
    poet_stm32f7_pin transmit;
    poet_stm32f7_pin receive;
} poet_stm32f7_console;

/* The block device is the board's choice: poet_sdmmc_* or poet_sd_spi_* on spi.h. */
typedef struct {
    poet_stm32f7_clock clock;
    poet_stm32f7_console console;
    poet_bdev card;
    void (*bind_card)(void);
    uint8_t card_irq; /* POET_STM32F7_NO_IRQ: it works by polling */
    void (*card_interrupt)(void);
} poet_stm32f7_board;

#define POET_STM32F7_NO_IRQ 0xFFu

extern const poet_stm32f7_board poet_stm32f7;

#endif
