/* Block device: 512-byte blocks, asynchronous start / poll / wait.
 *
 * A driver is a const table of operations plus a state of its own. At most one transfer is under
 * way per device. A driver without DMA does all the work in start_* and is idle when it returns.
 * Buffers are given in bytes: when nbytes is not a multiple of 512 the device pads the last block
 * with zeros when it writes, and drops the rest of the last block when it reads; not a byte
 * outside [buffer, buffer + nbytes) is touched. The buffer must stay as it is until the transfer
 * ended. Every call is bounded in time; a device error is kept until it was reported once.
 */
#ifndef POET_BDEV_H
#define POET_BDEV_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/status.h"

#define POET_BLOCK_BYTES 512u

typedef struct {
    /* Bring the device up. May be called again after an error. */
    poet_status (*open)(void *state);
    /* Begin to read / write nbytes (> 0) from block on. POET_E_STATE while a transfer runs. */
    poet_status (*start_read)(void *state, uint32_t block, void *buffer, uint32_t nbytes);
    poet_status (*start_write)(void *state, uint32_t block, const void *buffer, uint32_t nbytes);
    /* True while the last transfer is under way. Never blocks. */
    bool (*busy)(void *state);
    /* Wait for the end of the last transfer; its status. POET_OK when there was none. */
    poet_status (*wait)(void *state);
    /* Wait until everything written so far is on the medium. */
    poet_status (*sync)(void *state);
    /* Capacity in blocks; 0 before open. */
    uint32_t (*block_count)(void *state);
} poet_bdev_ops;

typedef struct {
    const poet_bdev_ops *ops;
    void *state;
} poet_bdev;

#endif
