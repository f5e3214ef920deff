/* Block device in memory: for tests and for boards with RAM to spare. Always idle. */
#ifndef POET_BDEV_RAM_H
#define POET_BDEV_RAM_H

#include <stdint.h>

#include "poet/bdev.h"

typedef struct {
    uint8_t *memory; /* block_count * 512 bytes, the caller's */
    uint32_t block_count;
} poet_bdev_ram_config;

typedef struct {
    const poet_bdev_ram_config *config;
    uint32_t open; /* 0 or 1 */
} poet_bdev_ram_state;

/* The state argument is a poet_bdev_ram_state. */
extern const poet_bdev_ops poet_bdev_ram_ops;

/* Bind; closed until open. */
void poet_bdev_ram_init(poet_bdev_ram_state *state, const poet_bdev_ram_config *config);

#endif
