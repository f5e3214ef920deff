/* Block device that wraps any other and misbehaves on purpose: the oracle of the paging tests.
 *
 * Operations are the start_read and start_write calls that were accepted, counted from 0. The
 * fault hits operation `operation` and the `repeat` after it. Independent of the fault, every
 * transfer can be slow (delay_polls) and can touch memory only at its end (late_copy), as DMA may:
 * a reused source or a destination used too early then gives wrong bytes, and never by chance the
 * right ones, because a late read first fills its destination with POET_BDEV_FAULT_POISON.
 */
#ifndef POET_BDEV_FAULT_H
#define POET_BDEV_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/bdev.h"

#define POET_BDEV_FAULT_POISON 0xA5u

typedef enum {
    POET_FAULT_NONE = 0,
    /* The transfer does nothing and reports `status`. */
    POET_FAULT_FAIL = 1,
    /* Only keep_blocks blocks are transferred; reports `status`. */
    POET_FAULT_TEAR = 2,
    /* As TEAR, but a write pretends to be well; a read delivers poison for the rest. */
    POET_FAULT_TEAR_SILENT = 3,
    /* Bit 0 of byte flip_byte of the data is inverted on its way (on the medium for a write,
     * in memory for a read). Nothing is reported. */
    POET_FAULT_FLIP = 4,
    /* The transfer goes to block + shift_blocks. Nothing is reported. */
    POET_FAULT_MISDIRECT = 5,
    /* As TEAR, and from then on nothing answers (POET_E_NO_CARD) until power comes back. */
    POET_FAULT_POWER_CUT = 6,
} poet_bdev_fault_kind;

typedef struct {
    const poet_bdev *inner;
    poet_bdev_fault_kind kind;
    uint32_t operation;
    uint32_t repeat;
    poet_status status;    /* for FAIL and TEAR; an error */
    uint32_t keep_blocks;  /* for TEAR, TEAR_SILENT and POWER_CUT */
    bool keep_last;        /* the kept blocks are the last ones: the card reordered its writes */
    uint32_t flip_byte;    /* for FLIP; taken modulo the transfer's bytes */
    uint32_t shift_blocks; /* for MISDIRECT, modulo 2^32 */
    uint32_t delay_polls;  /* calls of busy that still answer true */
    bool late_copy;        /* memory is read or written at the end of the transfer */
} poet_bdev_fault_config;

typedef struct {
    const poet_bdev_fault_config *config;
    uint32_t operations; /* accepted so far */
    uint32_t faults;     /* how often the fault struck */
    uint32_t polls_left;
    uint8_t *buffer; /* of the transfer under way */
    const uint8_t *source;
    uint32_t block;
    uint32_t nbytes;
    poet_status result; /* of an ended transfer, until wait reports it */
    bool under_way;
    bool copied; /* the inner transfer is done, only the delay runs */
    bool strike; /* the fault hits this transfer */
    bool power_off;
    bool disarmed; /* the fault does not strike any more */
} poet_bdev_fault_state;

/* The state argument is a poet_bdev_fault_state. Errors are reported by wait, not by start_*, as
 * an asynchronous device does; only refusals (POET_E_ARG, POET_E_STATE, no power) come from
 * start_*. */
extern const poet_bdev_ops poet_bdev_fault_ops;

void poet_bdev_fault_init(poet_bdev_fault_state *state, const poet_bdev_fault_config *config);

/* Power returns: the device must be opened again; the fault does not strike any more. */
void poet_bdev_fault_power_on(poet_bdev_fault_state *state);

#endif
