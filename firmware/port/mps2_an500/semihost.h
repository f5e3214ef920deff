/* A file of the host as block device, by Arm semihosting. Always idle.
 *
 * The file's name is the semihosting command line (QEMU: -semihosting-config
 * enable=on,target=native,arg=NAME); without one, or when it ends in ".elf" (QEMU then gives the
 * firmware's own name), it is card.img in the emulator's working directory. The file must exist;
 * a name takes up to 511 bytes.
 * Statuses: POET_E_NO_CARD the file cannot be opened or its name is too long; POET_E_IO seek, read
 * or write failed; POET_E_ARG null buffer, no bytes or past the end; POET_E_STATE not open.
 */
#ifndef POET_PORT_MPS2_SEMIHOST_H
#define POET_PORT_MPS2_SEMIHOST_H

#include <stdint.h>

#include "poet/bdev.h"

typedef struct {
    int32_t handle; /* -1: not open */
    uint32_t block_count;
} poet_semihost_state;

/* The state argument is a poet_semihost_state. */
extern const poet_bdev_ops poet_semihost_ops;

/* End the emulator with an exit code. */
_Noreturn void poet_semihost_exit(uint32_t code);

#endif
