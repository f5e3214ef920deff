/* The contract of poet/port.h for boards whose console is a PL011 and whose card is on a PL022. What
 * is left to the board is poet_port_init: clocks, gates and pins, then poet_primecell_start. */
#ifndef POET_PRIMECELL_H
#define POET_PRIMECELL_H

#include "pl011.h"
#include "pl022.h"

/* The board's. */
extern const poet_pl011 poet_primecell_console;
extern const poet_pl022 poet_primecell_spi;

void poet_primecell_start(void);

#endif
