/* Overflows the stack: by small frames, or with LEAP by one that jumps over all of it. */
#include "poet/port.h"

int main(void);

#if defined(LEAP)
#define FRAME_BYTES 6000u
#else
#define FRAME_BYTES 16u
#endif

static uint32_t sink;

__attribute__((noinline)) static void deeper(uint32_t depth)
{
    volatile uint8_t frame[FRAME_BYTES];
    frame[0] = (uint8_t)depth;
    if (depth != 0u) {
        deeper(depth - 1u);
    }
    sink += frame[0];
}

int main(void)
{
    poet_port_init();
    deeper(100000u);
    poet_port_putc((uint8_t)sink);
    poet_port_flush();
    for (;;) {
    }
}
