/* The complete firmware: bring up the board, then serve the host for ever. */
#include "poet/port.h"
#include "server.h"

int main(void); /* freestanding: main has no prototype of its own */

int main(void)
{
    poet_port_init();
    poet_selftest_init();
    for (;;) {
        poet_selftest_poll();
    }
}
