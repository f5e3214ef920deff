#include "pl022.h"

#include <stddef.h>

#include "../common/cortex_m.h"
#include "poet/port.h"

/* DDI 0194 3.2, summary of registers. */
#define CR0(spi) POET_REGISTER((spi)->base + 0x00u)
#define CR0_8_BITS 7u /* mode 0, Motorola's frames */
#define CR1(spi) POET_REGISTER((spi)->base + 0x04u)
#define CR1_ENABLE 2u
#define DR(spi) POET_REGISTER((spi)->base + 0x08u)
#define SR(spi) POET_REGISTER((spi)->base + 0x0Cu)
#define SR_NOT_FULL 2u
#define SR_NOT_EMPTY 4u
#define CPSR(spi) POET_REGISTER((spi)->base + 0x10u)
#define FIFO_BYTES 8u
/* A byte takes 80 us at 100 kHz, far less than this many polls of the status register. */
#define STALL_POLLS 1000000u

static const poet_pl022 *spi_of(void *context)
{
    return (const poet_pl022 *)context;
}

uint32_t poet_pl022_set_clock(void *context, uint32_t hz)
{
    const poet_pl022 *spi = spi_of(context);
    const uint32_t half = spi->clock_hz / 2u; /* prescaler 2, the least */
    uint32_t divider = hz == 0u ? 256u : (half + hz - 1u) / hz;
    divider = divider == 0u ? 1u : divider;
    divider = divider > 256u ? 256u : divider;
    CR1(spi) = 0u;
    CPSR(spi) = 2u;
    CR0(spi) = ((divider - 1u) << 8) | CR0_8_BITS;
    CR1(spi) = CR1_ENABLE;
    return half / divider;
}

void poet_pl022_select(void *context, bool selected)
{
    spi_of(context)->select(selected);
}

void poet_pl022_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count)
{
    const poet_pl022 *spi = spi_of(context);
    uint32_t sent = 0u;
    uint32_t received = 0u;
    uint32_t idle_polls = 0u;
    while (received < count && idle_polls < STALL_POLLS) {
        const uint32_t status = SR(spi);
        idle_polls++;
        if (sent < count && sent - received < FIFO_BYTES && (status & SR_NOT_FULL) != 0u) {
            DR(spi) = tx != NULL ? tx[sent] : 0xFFu;
            sent++;
            idle_polls = 0u;
        }
        if ((status & SR_NOT_EMPTY) != 0u) {
            const uint8_t byte = (uint8_t)DR(spi);
            if (rx != NULL) {
                rx[received] = byte;
            }
            received++;
            idle_polls = 0u;
        }
    }
    /* A dead controller reads as an empty bus; the card's protocol finds out. */
    while (rx != NULL && received < count) {
        rx[received] = 0xFFu;
        received++;
    }
}

uint8_t poet_pl022_exchange(void *context, uint8_t out)
{
    uint8_t in = 0xFFu;
    poet_pl022_transfer(context, &out, &in, 1u);
    return in;
}

uint32_t poet_pl022_micros(void *context)
{
    (void)context;
    return poet_port_micros();
}
