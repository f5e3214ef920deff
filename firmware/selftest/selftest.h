/* The self-test firmware: memory, card and kernels of a board, asked for over the serial line.
 *
 * A firmware of its own, so that the one that trains does not carry it (SPEC.md, section 4). All
 * RAM that stack and statics leave is the arena: what is tested, and what the tests work in.
 */
#ifndef POET_SELFTEST_H
#define POET_SELFTEST_H

#include <stdint.h>

#include "poet/case.h"
#include "poet/status.h"

/* A piece of RAM that differs from others: addresses [origin, origin + nbytes). */
typedef struct {
    uint32_t origin;
    uint32_t nbytes;
    uint32_t in_arena; /* 1: of this range, what the arena has of it; 0: RAM beside the arena */
} poet_ram_part;

typedef struct {
    uint8_t build_id[16];
    const char *board;
    uint8_t *arena; /* aligned to 4 */
    uint32_t arena_bytes;
    const poet_ram_part *parts; /* none on a host */
    uint32_t part_count;
    const poet_case *cases;
    uint32_t case_count;
} poet_selftest;

/* The one self-test of this firmware (generated). */
extern const poet_selftest poet_the_selftest;

/* Where the calls of cases find their operands: the server sets it before each. */
extern uint8_t *poet_case_work;

typedef struct {
    uint32_t bad_words;
    uint32_t first_bad; /* the rest describes the first of them; its address */
    uint32_t expected;
    uint32_t got;
} poet_memory_result;

/* The range of part `number`, from 1 on, or for 0 the arena: its bytes, and where it begins. */
uint32_t poet_selftest_part(uint32_t number, uint8_t **base);

/* March C- over the words with each word's own address and its complement as data: finds stuck
 * bits, bits and words that are coupled, and address lines that do nothing. Destroys the words. */
void poet_selftest_memory(uint32_t *words, uint32_t count, poet_memory_result *result);

#define POET_CARD_WRITE 1u
#define POET_CARD_READ 2u /* and compare with what POET_CARD_WRITE of the same seed writes */
#define POET_CARD_KEEP 4u /* what was in the blocks is there again afterwards */
#define POET_CARD_CHECKSUM 8u /* the time has the checksum of a page in it */

/* transfers, one behind the other on the card, of nbytes each, at arena + offset. */
typedef struct {
    uint32_t block;
    uint32_t nbytes;
    uint32_t offset;
    uint32_t seed;
    uint32_t flags;
    uint32_t transfers;
} poet_card_order;

typedef struct {
    uint64_t write_cycles; /* of all transfers; the last one's with the flush behind it */
    uint64_t write_worst;  /* of the longest */
    uint64_t read_cycles;
    uint64_t read_worst;
    uint32_t bad_bytes;
    uint32_t first_bad;   /* counted from the first byte of the first transfer */
    uint32_t checksum;    /* of all transfers together, with POET_CARD_CHECKSUM */
    uint32_t guard_bytes; /* bytes beside the buffer that a transfer changed */
} poet_card_result;

/* POET_E_ARG: not inside the arena with 32 bytes on both sides, no transfer, several that are not
 * whole blocks, or POET_CARD_KEEP with several or without the room for a second buffer. Otherwise
 * a status of the card. */
poet_status poet_selftest_card(const poet_card_order *order, poet_card_result *result);

#endif
