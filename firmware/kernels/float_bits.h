/* A float seen as its 32 bits (IEEE 754 binary32) and back: free on every core. */
#ifndef POET_FLOAT_BITS_H
#define POET_FLOAT_BITS_H

#include <stdint.h>

static inline uint32_t poet_bits_of(float value)
{
    union {
        float f;
        uint32_t u;
    } both = {.f = value};
    return both.u;
}

static inline float poet_float_of(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } both = {.u = bits};
    return both.f;
}

#endif
