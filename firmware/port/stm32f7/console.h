/* The serial console of an STM32F7. */
#ifndef POET_STM32F7_CONSOLE_H
#define POET_STM32F7_CONSOLE_H

#include <stdint.h>

#include "poet/port.h"

/* 115200 8N1 from a bus clock of clock_hz. */
void poet_stm32f7_start_console(uint32_t clock_hz);
void poet_stm32f7_console_interrupt(void);

#endif
