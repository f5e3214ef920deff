/* Lets a test on this computer speak to the card on an SPI bus, byte by byte. */
#ifndef POET_TESTS_BRIDGE_H
#define POET_TESTS_BRIDGE_H

#include "poet/spi_bus.h"

/* The line to the test; bridge_get waits. */
uint8_t bridge_get(void);
void bridge_put(uint8_t byte);

/* For ever. One byte says what to do: 's' and 'd' select and deselect the card; 'x', a count and
 * as many bytes: they are exchanged, and what came goes back; 'f' gives the fast clock. 's', 'd'
 * and 'f' go back themselves. */
_Noreturn void bridge(const poet_spi_bus *bus);

#endif
