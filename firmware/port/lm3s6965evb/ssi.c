#include "ssi.h"

#include <stddef.h>

#include "../common/cortex_m.h"
#include "poet/port.h"

/* LM3S6965 data sheet: SSI register map (PL022), GPIO register map. */
#define SSI_CR0 POET_REGISTER(0x40008000u)
#define SSI_CR1 POET_REGISTER(0x40008004u)
#define SSI_CR1_ENABLE 2u
#define SSI_DR POET_REGISTER(0x40008008u)
#define SSI_SR POET_REGISTER(0x4000800Cu)
#define SSI_SR_NOT_FULL 2u
#define SSI_SR_NOT_EMPTY 4u
#define SSI_CPSR POET_REGISTER(0x40008010u)
#define SSI_FIFO_BYTES 8u
#define SSI_8_BITS 7u

#define GPIO_A_AFSEL POET_REGISTER(0x40004420u)
#define GPIO_A_DEN POET_REGISTER(0x4000451Cu)
#define GPIO_A_SSI_PINS 0x34u /* PA2 clock, PA4 receive, PA5 transmit */
#define GPIO_D_PD0 POET_REGISTER(0x40007004u) /* the address masks all other pins */
#define GPIO_D_DIR POET_REGISTER(0x40007400u)
#define GPIO_D_DEN POET_REGISTER(0x4000751Cu)

/* A byte takes 80 us at 100 kHz, far less than this many polls of the status register. */
#define STALL_POLLS 1000000u

static uint32_t ssi_set_clock(void *context, uint32_t hz)
{
    (void)context;
    const uint32_t half = POET_CORE_HZ / 2u; /* prescaler 2, the least */
    uint32_t divider = hz == 0u ? 256u : (half + hz - 1u) / hz;
    divider = divider == 0u ? 1u : divider;
    divider = divider > 256u ? 256u : divider;
    SSI_CR1 = 0u;
    SSI_CPSR = 2u;
    SSI_CR0 = ((divider - 1u) << 8) | SSI_8_BITS;
    SSI_CR1 = SSI_CR1_ENABLE;
    return half / divider;
}

static void ssi_select(void *context, bool selected)
{
    (void)context;
    GPIO_D_PD0 = selected ? 0u : 1u;
}

static void ssi_transfer(void *context, const uint8_t *tx, uint8_t *rx, uint32_t count)
{
    (void)context;
    uint32_t sent = 0u;
    uint32_t received = 0u;
    uint32_t idle_polls = 0u;
    while (received < count && idle_polls < STALL_POLLS) {
        const uint32_t status = SSI_SR;
        idle_polls++;
        if (sent < count && sent - received < SSI_FIFO_BYTES && (status & SSI_SR_NOT_FULL) != 0u) {
            SSI_DR = tx != NULL ? tx[sent] : 0xFFu;
            sent++;
            idle_polls = 0u;
        }
        if ((status & SSI_SR_NOT_EMPTY) != 0u) {
            const uint8_t byte = (uint8_t)SSI_DR;
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

static uint8_t ssi_exchange(void *context, uint8_t out)
{
    uint8_t in = 0xFFu;
    ssi_transfer(context, &out, &in, 1u);
    return in;
}

static uint32_t ssi_micros(void *context)
{
    (void)context;
    return poet_port_micros();
}

const poet_spi_bus poet_lm3s_ssi_bus = {
    .set_clock = ssi_set_clock,
    .select = ssi_select,
    .exchange = ssi_exchange,
    .transfer = ssi_transfer,
    .micros = ssi_micros,
    .context = NULL,
};

void poet_lm3s_ssi_init(void)
{
    GPIO_D_PD0 = 1u;
    GPIO_D_DIR |= 1u;
    GPIO_D_DEN |= 1u;
    GPIO_D_PD0 = 1u;
    GPIO_A_AFSEL |= GPIO_A_SSI_PINS;
    GPIO_A_DEN |= GPIO_A_SSI_PINS;
    (void)ssi_set_clock(NULL, 400000u);
}
