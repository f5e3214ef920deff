#include "spi.h"

#include <stddef.h>

#include "clock.h"
#include "poet/port.h"
#include "registers.h"

#define SLOW_HZ 400000u
/* A byte takes 32 us at 250 kHz, far less than this many polls of the status register. */
#define STALL_POLLS 1000000u
#define SLOWEST_DIVISION 7u /* 2^(7 + 1) */

static const poet_stm32f7_spi *spi_of(void *context)
{
    return (const poet_stm32f7_spi *)context;
}

static poet_spi_registers *at(void *context)
{
    return (poet_spi_registers *)(uintptr_t)spi_of(context)->base;
}

uint32_t poet_stm32f7_spi_set_clock(void *context, uint32_t hz)
{
    poet_spi_registers *regs = at(context);
    uint32_t division = 0u;
    while (division < SLOWEST_DIVISION && spi_of(context)->clock_hz >> (division + 1u) > hz) {
        division++;
    }
    regs->cr1 = 0u;
    regs->cr2 = SPI_CR2_8_BITS | SPI_CR2_BYTE_THRESHOLD;
    regs->cr1 = SPI_CR1_SOFTWARE_SELECT | SPI_CR1_MASTER | division << SPI_CR1_DIVISION_SHIFT;
    regs->cr1 |= SPI_CR1_ENABLE;
    return spi_of(context)->clock_hz >> (division + 1u);
}

/* BSRR: the lower half sets, the upper half clears. */
void poet_stm32f7_spi_select(void *context, bool selected)
{
    const poet_stm32f7_pin *pin = &spi_of(context)->select;
    GPIO_PORT(pin->port)->bsrr = 1u << (pin->number + (selected ? 16u : 0u));
}

/* The data register is as wide as its access: two frames at once if read as a half-word. */
uint8_t poet_stm32f7_spi_exchange(void *context, uint8_t out)
{
    poet_spi_registers *regs = at(context);
    volatile uint8_t *data = (volatile uint8_t *)&regs->dr;
    for (uint32_t i = 0u; i < STALL_POLLS && (regs->sr & SPI_SR_TXE) == 0u; i++) {
    }
    *data = out;
    for (uint32_t i = 0u; i < STALL_POLLS; i++) {
        if ((regs->sr & SPI_SR_RXNE) != 0u) {
            return *data;
        }
    }
    return 0xFFu; /* a dead controller reads as an empty bus; the card's protocol finds out */
}

void poet_stm32f7_spi_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count)
{
    for (uint32_t i = 0u; i < count; i++) {
        const uint8_t in = poet_stm32f7_spi_exchange(context, tx != NULL ? tx[i] : 0xFFu);
        if (rx != NULL) {
            rx[i] = in;
        }
    }
}

uint32_t poet_stm32f7_spi_micros(void *context)
{
    (void)context;
    return poet_port_micros();
}

void poet_stm32f7_spi_init(const poet_stm32f7_spi *spi)
{
    poet_stm32f7_route(&spi->clock);
    poet_stm32f7_route(&spi->miso);
    poet_stm32f7_route(&spi->mosi);
    poet_stm32f7_output_high(&spi->select);
    RCC_APB2ENR |= 1u << spi->enable_bit;
    (void)RCC_APB2ENR;
}
