/* A PL011 as the console and a card on a PL022, behind the contract of poet/port.h. */
#include "primecell.h"

#include "../common/cortex_m.h"
#include "poet/port.h"
#include "poet/sd_spi.h"

#define IDENTIFY_HZ 400000u /* most that a card must take before it is identified */
#define TRANSFER_HZ 12500000u

static const poet_spi_bus bus = {
    .set_clock = poet_pl022_set_clock,
    .select = poet_pl022_select,
    .exchange = poet_pl022_exchange,
    .transfer = poet_pl022_transfer,
    .micros = poet_pl022_micros,
    .context = (void *)(uintptr_t)&poet_primecell_spi,
};
static const poet_sd_spi_config card_config = {.bus = &bus, .clock_hz = TRANSFER_HZ};
static poet_sd_spi_state card_state;
static const poet_bdev card = {.ops = &poet_sd_spi_ops, .state = &card_state};

void poet_primecell_start(void)
{
    poet_pl011_start(&poet_primecell_console);
    (void)poet_pl022_set_clock(bus.context, IDENTIFY_HZ);
    poet_sd_spi_init(&card_state, &card_config);
}

uint64_t poet_port_cycles(void)
{
    return poet_cortex_m_cycles();
}

int poet_port_getc(void)
{
    return poet_pl011_getc(&poet_primecell_console);
}

void poet_port_putc(uint8_t byte)
{
    poet_pl011_putc(&poet_primecell_console, byte);
}

void poet_port_flush(void)
{
    poet_pl011_flush(&poet_primecell_console);
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
