/* The bridge to the card of QEMU's machine lm3s6965evb. */
#include "../../firmware/port/primecell/pl022.h"
#include "../../firmware/port/primecell/primecell.h"
#include "bridge.h"
#include "poet/port.h"

int main(void);

uint8_t bridge_get(void)
{
    int byte = -1;
    while (byte < 0) {
        byte = poet_port_getc();
    }
    return (uint8_t)byte;
}

void bridge_put(uint8_t byte)
{
    poet_port_putc(byte);
}

int main(void)
{
    static const poet_spi_bus bus = {
        .set_clock = poet_pl022_set_clock,
        .select = poet_pl022_select,
        .exchange = poet_pl022_exchange,
        .transfer = poet_pl022_transfer,
        .micros = poet_pl022_micros,
        .context = (void *)(uintptr_t)&poet_primecell_spi,
    };
    poet_port_init();
    bridge(&bus);
}
