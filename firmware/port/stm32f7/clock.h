/* Clock tree, caches, memory protection and cycle counter of an STM32F7. */
#ifndef POET_STM32F7_CLOCK_H
#define POET_STM32F7_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "board.h"

/* The core's clock before start_clock, and after one that failed. */
#define POET_STM32F7_RESET_HZ 16000000u

/* 216 MHz with over-drive. False: something never got ready; the core runs on as after reset. */
bool poet_stm32f7_start_clock(const poet_stm32f7_clock *clock);
/* Route a pin to its alternate function, pulled up, fastest edges; its port's clock on. */
void poet_stm32f7_route(const poet_stm32f7_pin *pin);
/* The same as an input with a pull-up. */
void poet_stm32f7_input(const poet_stm32f7_pin *pin);
/* The same as an output that begins high. */
void poet_stm32f7_output_high(const poet_stm32f7_pin *pin);

/* MPU: no speculation into external memories, no access below the stack. */
void poet_stm32f7_protect(void);
/* Both caches on, empty. */
void poet_stm32f7_start_caches(void);
/* Write dirty lines of [address, address + nbytes) to memory: before a peripheral reads it. */
void poet_stm32f7_clean(const void *address, uint32_t nbytes);
/* Drop lines: before and after a peripheral writes memory. Both ends on a line's border, so that
 * nobody else's bytes are dropped. */
void poet_stm32f7_invalidate(void *address, uint32_t nbytes);

/* Start the cycle counter beside SysTick. */
void poet_stm32f7_start_cycles(void);

#endif
