/* A card with a write-back cache in front of its medium, for power cuts and failing transfers.
 *
 * Blocks written are counted from 0. Until a sync they are in the cache, and a power cut keeps any
 * of them: all in order, none, or a pseudo-random choice; the block on its way is torn. Operations
 * (open, read, write, sync) are counted too, and one of them, or all from one on, can fail.
 */
#ifndef POET_TESTS_CACHE_CARD_H
#define POET_TESTS_CACHE_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/bdev.h"

#define CACHE_CARD_BLOCKS 4096u
#define CACHE_NEVER UINT32_MAX

typedef enum { CUT_KEEPS_ALL, CUT_KEEPS_NONE, CUT_KEEPS_SOME } cut_kept;

typedef struct {
    cut_kept kept;       /* which unflushed writes reach the medium */
    uint32_t torn_bytes; /* of the block on its way: so many are new (512: all of it) */
    bool garbage;        /* ... and the rest is neither old nor new */
    uint32_t seed;       /* of the choice for CUT_KEEPS_SOME */
} cut_variant;

typedef struct {
    uint32_t cut_at;       /* number of the block write at which power fails */
    cut_variant variant;
    uint32_t fail_at;      /* number of the operation that fails */
    bool fail_forever;     /* ... and all after it */
    bool flip;             /* it does not fail: one bit of its data is turned, and nobody told */
    uint32_t real_blocks;  /* 0, or the capacity behind the one that is claimed: addresses wrap */
    bool write_protected;  /* writes fail */
} card_faults;

extern card_faults card_fault;
extern const poet_bdev cache_card;
extern uint32_t card_block_writes, card_operations, card_failures;
extern bool card_is_off;

/* Medium of all ones, empty cache, counters at 0, no faults. */
void card_blank(void);
/* Counters to 0 and no faults; the medium stays. */
void card_calm(void);
/* Power returns: what the cut left is on the medium. */
void card_power_on(void);
/* Keep a copy of the medium, or bring it back (with an empty cache). */
void card_keep(void);
void card_bring_back(void);
uint8_t *card_bytes(uint32_t block);

#endif
