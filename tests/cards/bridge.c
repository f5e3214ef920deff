#include "bridge.h"

#define MOST_BYTES 256u
#define SLOW_HZ 400000u
#define FAST_HZ 12500000u

static void exchange(const poet_spi_bus *bus)
{
    static uint8_t bytes[MOST_BYTES];
    const uint32_t count = bridge_get();
    for (uint32_t i = 0u; i < count; i++) {
        bytes[i] = bridge_get();
    }
    for (uint32_t i = 0u; i < count; i++) {
        bridge_put(bus->exchange(bus->context, bytes[i]));
    }
}

_Noreturn void bridge(const poet_spi_bus *bus)
{
    (void)bus->set_clock(bus->context, SLOW_HZ);
    for (;;) {
        const uint8_t what = bridge_get();
        if (what == 'x') {
            exchange(bus);
            continue;
        }
        if (what == 'f') {
            (void)bus->set_clock(bus->context, FAST_HZ);
        } else {
            bus->select(bus->context, what == 's');
        }
        bridge_put(what);
    }
}
