/* Template of a port: the functions of poet/port.h for a chip whose facts stand in registers.h.
 *
 * Compiled in a test, run by nobody. docs/porting.md goes through it. Start-up, time and the fault
 * report come from port/common; poet_port_cycle_hz, _micros, _stack_bytes, _stack_free_bytes and
 * _reset are there too. A UART of type PL011 or an SPI of type PL022 is in port/primecell already.
 */
#include "poet/port.h"

#include <stddef.h>

#include "poet/sd_spi.h"
#include "registers.h"

/* Bounds of waits, in polls: a dead clock must not hang the board without a word. */
#define CLOCK_POLLS 1000000u
#define BYTE_POLLS 10000000u
#define BAUD 115200u

/* ---- clock ---- */

static bool start_clock(void)
{
    FLASH_CONTROL = FLASH_WAIT_STATES;
    CLOCK_CONTROL |= CLOCK_PLL_ON;
    for (uint32_t i = 0u; i < CLOCK_POLLS; i++) {
        if ((CLOCK_STATUS & CLOCK_PLL_READY) != 0u) {
            CLOCK_CONTROL |= CLOCK_USE_PLL;
            return true;
        }
    }
    return false;
}

/* ---- SPI, below the SD card's driver ---- */

static uint32_t spi_set_clock(void *context, uint32_t hz)
{
    (void)context;
    uint32_t divider = 0u;
    while (divider < SPI_LARGEST_DIVIDER && POET_CORE_HZ / 2u / (divider + 1u) > hz) {
        divider++;
    }
    SPI_CONTROL = 0u;
    SPI_DIVIDER = divider;
    SPI_CONTROL = SPI_ON;
    return POET_CORE_HZ / 2u / (divider + 1u);
}

static void spi_select(void *context, bool selected)
{
    (void)context;
    if (selected) {
        PINS_CLEAR = PIN_CARD_SELECT;
    } else {
        PINS_SET = PIN_CARD_SELECT;
    }
}

static uint8_t spi_exchange(void *context, uint8_t out)
{
    (void)context;
    for (uint32_t i = 0u; i < BYTE_POLLS && (SPI_STATUS & SPI_ROOM) == 0u; i++) {
    }
    SPI_DATA = out;
    for (uint32_t i = 0u; i < BYTE_POLLS; i++) {
        if ((SPI_STATUS & SPI_RECEIVED) != 0u) {
            return (uint8_t)SPI_DATA;
        }
    }
    return 0xFFu; /* a dead controller reads as an empty bus; the card's protocol finds out */
}

static void spi_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count)
{
    for (uint32_t i = 0u; i < count; i++) {
        const uint8_t in = spi_exchange(context, tx != NULL ? tx[i] : 0xFFu);
        if (rx != NULL) {
            rx[i] = in;
        }
    }
}

static uint32_t spi_micros(void *context)
{
    (void)context;
    return poet_port_micros();
}

static const poet_spi_bus bus = {
    .set_clock = spi_set_clock,
    .select = spi_select,
    .exchange = spi_exchange,
    .transfer = spi_transfer,
    .micros = spi_micros,
    .context = NULL,
};
static const poet_sd_spi_config card_config = {.bus = &bus, .clock_hz = 12000000u};
static poet_sd_spi_state card_state;
static const poet_bdev card = {.ops = &poet_sd_spi_ops, .state = &card_state};

/* ---- the contract ---- */

void poet_port_init(void)
{
    if (!start_clock()) {
        poet_port_stop();
    }
    CLOCK_GATES |= CLOCK_GATE_UART | CLOCK_GATE_SPI | CLOCK_GATE_PINS;
    (void)CLOCK_GATES; /* the read takes as long as the gates need */
    PINS_SET = PIN_CARD_SELECT;
    PINS_OUTPUT |= PIN_CARD_SELECT;
    PINS_FUNCTION |= PINS_OF_UART_AND_SPI;
    poet_cortex_m_start_clock();
    UART_DIVIDER = (POET_CORE_HZ + BAUD / 2u) / BAUD;
    UART_CONTROL = UART_ON;
    poet_sd_spi_init(&card_state, &card_config);
}

/* Core cycles: SysTick's. A core with a DWT has a better counter (port/stm32f7/core.c). */
uint64_t poet_port_cycles(void)
{
    return poet_cortex_m_cycles();
}

int poet_port_getc(void)
{
    if ((UART_STATUS & UART_RECEIVED) != 0u) {
        return (int)(UART_DATA & 0xFFu);
    }
    /* Nothing there: sleep until a byte or another interrupt comes, without losing one between. */
    poet_cortex_m_begin_wait(UART_IRQ);
    UART_CONTROL |= UART_INTERRUPT_RECEIVED;
    if ((UART_STATUS & UART_RECEIVED) == 0u) {
        __asm volatile("wfi");
    }
    UART_CONTROL &= ~UART_INTERRUPT_RECEIVED;
    poet_cortex_m_end_wait(UART_IRQ);
    return -1;
}

void poet_port_putc(uint8_t byte)
{
    for (uint32_t i = 0u; i < BYTE_POLLS && (UART_STATUS & UART_ROOM) == 0u; i++) {
    }
    UART_DATA = byte;
}

void poet_port_flush(void)
{
    for (uint32_t i = 0u; i < BYTE_POLLS && (UART_STATUS & UART_IDLE) == 0u; i++) {
    }
}

const poet_bdev *poet_port_bdev(void)
{
    return &card;
}

_Noreturn void poet_port_stop(void)
{
    __asm volatile("cpsid i" ::: "memory");
    for (;;) {
        __asm volatile("wfi");
    }
}
