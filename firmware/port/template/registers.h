/* Template of a port: every fact about the chip stands here, cited to its manual.
 *
 * Copy the folder, then replace each value. Those here belong to no chip: a UART with a data and a
 * status register, an SPI with a data and a status register, pins that a word switches.
 */
#ifndef POET_PORT_TEMPLATE_REGISTERS_H
#define POET_PORT_TEMPLATE_REGISTERS_H

#include "../common/cortex_m.h"

/* Clocks (manual, section ...): enable, the bit that says they run, and the gates of UART, SPI, pins. */
#define CLOCK_CONTROL POET_REGISTER(0x40020000u)
#define CLOCK_PLL_ON (1u << 0)
#define CLOCK_USE_PLL (1u << 1)
#define CLOCK_STATUS POET_REGISTER(0x40020004u)
#define CLOCK_PLL_READY (1u << 0)
#define CLOCK_GATES POET_REGISTER(0x40020008u)
#define CLOCK_GATE_UART (1u << 0)
#define CLOCK_GATE_SPI (1u << 1)
#define CLOCK_GATE_PINS (1u << 2)
/* Flash wait states at the full clock: set before the clock rises. */
#define FLASH_CONTROL POET_REGISTER(0x40021000u)
#define FLASH_WAIT_STATES 3u

/* Pins: which of them are UART and SPI, and the card's chip select, a plain output. */
#define PINS_FUNCTION POET_REGISTER(0x40022000u)
#define PINS_OF_UART_AND_SPI 0x1Fu
#define PINS_OUTPUT POET_REGISTER(0x40022004u)
#define PINS_SET POET_REGISTER(0x40022008u)
#define PINS_CLEAR POET_REGISTER(0x4002200Cu)
#define PIN_CARD_SELECT (1u << 5)

/* UART: 115200 baud, 8N1, no flow control. */
#define UART_DATA POET_REGISTER(0x40023000u)
#define UART_STATUS POET_REGISTER(0x40023004u)
#define UART_RECEIVED (1u << 0)
#define UART_ROOM (1u << 1)
#define UART_IDLE (1u << 2)
#define UART_CONTROL POET_REGISTER(0x40023008u)
#define UART_ON (1u << 0)
#define UART_INTERRUPT_RECEIVED (1u << 1)
#define UART_DIVIDER POET_REGISTER(0x4002300Cu)
#define UART_IRQ 3u

/* SPI: mode 0, 8 bits, most significant first. */
#define SPI_DATA POET_REGISTER(0x40024000u)
#define SPI_STATUS POET_REGISTER(0x40024004u)
#define SPI_ROOM (1u << 0)
#define SPI_RECEIVED (1u << 1)
#define SPI_CONTROL POET_REGISTER(0x40024008u)
#define SPI_ON (1u << 0)
#define SPI_DIVIDER POET_REGISTER(0x4002400Cu) /* clock / (2 * (divider + 1)) */
#define SPI_LARGEST_DIVIDER 255u

#endif
