/* SSI0 of the LM3S6965 as the SD card's bus; chip select on PD0. */
#ifndef POET_PORT_LM3S6965EVB_SSI_H
#define POET_PORT_LM3S6965EVB_SSI_H

#include "poet/spi_bus.h"

extern const poet_spi_bus poet_lm3s_ssi_bus;

/* Pins and SSI0 on, card deselected. Clock gates must be open. */
void poet_lm3s_ssi_init(void);

#endif
