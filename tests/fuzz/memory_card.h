/* A card in memory that keeps watch: an access outside of the window it was given ends the process,
 * and one fault at a time may be armed.
 */
#ifndef POET_FUZZ_MEMORY_CARD_H
#define POET_FUZZ_MEMORY_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/bdev.h"

#define FUZZ_CARD_BLOCKS 64u

typedef enum {
    FUZZ_CARD_WELL = 0,
    FUZZ_CARD_REFUSE = 1,  /* start_* fails */
    FUZZ_CARD_FAIL = 2,    /* wait fails, half of the bytes moved */
    FUZZ_CARD_FLIP = 3,    /* one bit turned on its way, silently */
    FUZZ_CARD_LOSE = 4,    /* a write is forgotten, a read gives zeros, silently */
    FUZZ_CARD_ABSENT = 5,  /* nothing answers, open neither, for as long as it is armed */
    FUZZ_CARD_FAULTS = 6,
} fuzz_card_fault;

typedef struct {
    uint8_t memory[FUZZ_CARD_BLOCKS][POET_BLOCK_BYTES];
    uint32_t block_count;  /* what it says of itself */
    uint32_t first_block;  /* window of allowed accesses */
    uint32_t end_block;
    fuzz_card_fault fault;
    uint32_t countdown;    /* transfers until the fault strikes, once but for ABSENT */
    uint32_t struck;       /* how often it did */
    bool open;
    bool under_way;
    poet_status result;
} fuzz_card;

extern const poet_bdev_ops fuzz_card_ops;

#endif
