/* One call of a kernel with made-up operands: what benchmarks and the self-test are made of.
 *
 * poet_mcu/bench/table.py writes the rows; buffers lie side by side in one arena.
 */
#ifndef POET_CASE_H
#define POET_CASE_H

#include <stdint.h>

typedef void poet_case_call(void);

typedef struct {
    const char *name;
    poet_case_call *fast;
    poet_case_call *plain; /* the same call of another implementation; NULL: none */
    uint32_t repeats;      /* calls that time well together */
    uint32_t nbytes;       /* how much of the arena is filled and compared */
    uint32_t integers_at, integers;
    uint32_t octets_at, octets;
    uint32_t below; /* integers are 0, 1, ... below this */
    uint32_t seed;
    uint32_t odd; /* zeros, infinities and NaN among the floats */
    float low;    /* floats are from this to 1 */
} poet_case;

/* Operands into the arena (aligned to 4): floats everywhere, then integers and octets over them.
 * With POET_CASE_BITS the floats are from 1/2 to 1 and made without floating-point arithmetic. */
static inline void poet_case_fill(const poet_case *c, void *arena)
{
    uint32_t seed = c->seed;
    float *floats = arena;
    uint32_t *words = arena;
    for (uint32_t i = 0U; i < c->nbytes / 4U; i++) {
        seed = seed * 1664525U + 1013904223U;
#if defined(POET_CASE_BITS)
        (void)floats;
        words[i] = 0x3F000000U | (seed >> 9);
#else
        floats[i] = c->low + (1.0F - c->low) * (float)(seed >> 8) * 0x1p-24F;
#endif
    }
    static const uint32_t specials[7] = {0x7FC00000U, 0x80000000U, 0U,         0x7F800000U,
                                         0xFF800000U, 0xFFC00001U, 0x7F800000U};
    for (uint32_t i = 0U; c->odd != 0U && i < c->nbytes / 4U; i += 1U + (i * 7U + seed % 5U) % 9U) {
        words[i] = specials[i % 7U];
    }
    int32_t *integers = arena;
    for (uint32_t i = 0U; i < c->integers; i++) {
        integers[c->integers_at / 4U + i] = (int32_t)(i % c->below);
    }
    uint8_t *octets = arena;
    for (uint32_t i = 0U; i < c->octets; i++) {
        octets[c->octets_at + i] = (uint8_t)(i % c->below);
    }
}

#endif
