/* What a board gives: about ten small functions, one folder in firmware/port.
 *
 * Console bytes are raw: framing and checksums are link.h's. Time is in microseconds of a clock
 * that wraps at 2^32 (71 minutes), so compare differences only.
 */
#ifndef POET_PORT_H
#define POET_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "poet/bdev.h"

/* Clock, console, time, bus. Called once, first. */
void poet_port_init(void);
/* Microseconds; on an emulator without a real clock, instructions scaled by the nominal clock. */
uint32_t poet_port_micros(void);
/* Core cycles, or SysTick ticks of the core clock where no cycle counter lives. Wraps never. */
uint64_t poet_port_cycles(void);
/* Cycles per second of poet_port_cycles. */
uint32_t poet_port_cycle_hz(void);
/* Next console byte 0..255, or -1 when none has come. */
int poet_port_getc(void);
/* Send one byte; waits for room, bounded. */
void poet_port_putc(uint8_t byte);
/* Push out what is buffered. */
void poet_port_flush(void);
/* The board's block device for pages; the same object each time. */
const poet_bdev *poet_port_bdev(void);
/* Bytes of the stack never touched since start, and its size. */
uint32_t poet_port_stack_free_bytes(void);
uint32_t poet_port_stack_bytes(void);
/* Reset the board (or end the process: host). Does not return. */
_Noreturn void poet_port_reset(void);

#endif
