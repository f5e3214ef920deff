/* What differs between boards with an STM32F7: crystal, pins, instances. One constant a board. */
#ifndef POET_STM32F7_BOARD_H
#define POET_STM32F7_BOARD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint8_t port; /* 0: GPIOA */
    uint8_t number;
    uint8_t function; /* alternate function */
} poet_stm32f7_pin;

/* SYSCLK = HSE / m * n / 2; the SDMMC's 48 MHz = HSE / m * n / q. */
typedef struct {
    bool hse_bypass; /* a clock comes in instead of a crystal */
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

typedef struct {
    uint32_t base;
    uint8_t enable_bit; /* APB2 */
    uint8_t irq;
    uint8_t dma_channel;
    uint8_t receive_stream; /* of DMA2 */
    uint8_t transmit_stream;
    bool high_speed;         /* try 48 MHz by CMD6; falls back by itself */
    poet_stm32f7_pin pins[6]; /* D0 D1 D2 D3 CK CMD */
    poet_stm32f7_pin detect; /* low: a card is in */
} poet_stm32f7_card;

typedef struct {
    poet_stm32f7_clock clock;
    poet_stm32f7_console console;
    poet_stm32f7_card card;
} poet_stm32f7_board;

extern const poet_stm32f7_board poet_stm32f7;

#endif
