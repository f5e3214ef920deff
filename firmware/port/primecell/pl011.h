/* Arm's PL011 UART (DDI 0183), which several makers put on their chips, as the console. */
#ifndef POET_PL011_H
#define POET_PL011_H

#include <stdint.h>

typedef struct {
    uintptr_t base;
    uint32_t clock_hz; /* of the UART */
    uint32_t irq;      /* its number, to sleep until a byte comes */
} poet_pl011;

/* 115200 baud, 8N1, FIFOs on. Clock and pins are the port's, before. */
void poet_pl011_start(const poet_pl011 *uart);
/* The contract of poet_port_getc, _putc, _flush. */
int poet_pl011_getc(const poet_pl011 *uart);
void poet_pl011_putc(const poet_pl011 *uart, uint8_t byte);
void poet_pl011_flush(const poet_pl011 *uart);

#endif
