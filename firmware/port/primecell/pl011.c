#include "pl011.h"

#include "../common/cortex_m.h"

/* DDI 0183 3.2, summary of registers. */
#define DR(uart) POET_REGISTER((uart)->base + 0x00u)
#define FR(uart) POET_REGISTER((uart)->base + 0x18u)
#define FR_BUSY (1u << 3)
#define FR_RX_EMPTY (1u << 4)
#define FR_TX_FULL (1u << 5)
#define IBRD(uart) POET_REGISTER((uart)->base + 0x24u)
#define FBRD(uart) POET_REGISTER((uart)->base + 0x28u)
#define LCRH(uart) POET_REGISTER((uart)->base + 0x2Cu)
#define LCRH_8N1_FIFO 0x70u
#define CR(uart) POET_REGISTER((uart)->base + 0x30u)
#define CR_ON 0x301u
#define IMSC(uart) POET_REGISTER((uart)->base + 0x38u)
#define IMSC_RX 0x50u /* a byte in the FIFO, or one that stayed there a while */
#define BAUD 115200u
/* Bound of a wait for the line, in polls: the clock may be dead. */
#define POLLS 10000000u

void poet_pl011_start(const poet_pl011 *uart)
{
    /* Divisor in 64ths, rounded: integer and fractional part of it are two registers. */
    const uint32_t divisor = (uart->clock_hz * 4u + BAUD / 2u) / BAUD;
    CR(uart) = 0u;
    IBRD(uart) = divisor >> 6;
    FBRD(uart) = divisor & 63u;
    LCRH(uart) = LCRH_8N1_FIFO;
    CR(uart) = CR_ON;
}

/* Sleep until a byte or an interrupt has come. Saves power on silicon; under QEMU a guest that
 * sleeps gets its next byte several times sooner than one that polls.
 */
static void sleep_for_byte(const poet_pl011 *uart)
{
    poet_cortex_m_begin_wait(uart->irq);
    IMSC(uart) = IMSC_RX;
    if ((FR(uart) & FR_RX_EMPTY) != 0u) {
        __asm volatile("wfi");
    }
    IMSC(uart) = 0u;
    poet_cortex_m_end_wait(uart->irq);
}

int poet_pl011_getc(const poet_pl011 *uart)
{
    if ((FR(uart) & FR_RX_EMPTY) != 0u) {
        sleep_for_byte(uart);
        return -1;
    }
    return (int)(DR(uart) & 0xFFu);
}

void poet_pl011_putc(const poet_pl011 *uart, uint8_t byte)
{
    for (uint32_t i = 0u; i < POLLS && (FR(uart) & FR_TX_FULL) != 0u; i++) {
    }
    DR(uart) = byte;
}

void poet_pl011_flush(const poet_pl011 *uart)
{
    for (uint32_t i = 0u; i < POLLS && (FR(uart) & FR_BUSY) != 0u; i++) {
    }
}
