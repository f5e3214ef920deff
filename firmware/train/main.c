/* The complete firmware: bring up the board, then serve the host for ever. */
#include "poet/model.h"
#include "poet/port.h"
#include "poet/trainer.h"

int main(void); /* freestanding: main has no prototype of its own */

int main(void)
{
    poet_port_init();
    poet_trainer_init(&poet_the_model);
    for (;;) {
        poet_trainer_poll();
    }
}
