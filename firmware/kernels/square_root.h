/* The square root, correctly rounded (IEEE 754), from integers alone: the same bits on every core,
 * and no call into a mathematical library. 25 steps; for a few calls a channel or a row.
 */
#ifndef POET_SQUARE_ROOT_H
#define POET_SQUARE_ROOT_H

#include <stdint.h>

#include "float_bits.h"

static inline float poet_square_root(float x)
{
    const uint32_t infinite = 0x7F800000U;
    int32_t exponent = -127;
    if (!(x > 0.0F)) {
        return (x == 0.0F) ? x : poet_float_of(0x7FC00000U);
    }
    if (poet_bits_of(x) >= infinite) {
        return x;
    }
    if (x < 0x1p-126F) { /* subnormal */
        x = x * 0x1p24F;
        exponent -= 24;
    }
    exponent += (int32_t)(poet_bits_of(x) >> 23);
    uint32_t digits = (poet_bits_of(x) & 0x7FFFFFU) | 0x800000U;
    if ((exponent & 1) != 0) {
        digits <<= 1;
        exponent--;
    }
    /* x = digits * 2^-23 * 2^exponent, the first factor in [1, 4). Digit by digit, two bits of the
     * radicand to one of the root: 24 bits of it and one for rounding. */
    uint32_t word = digits << 7;
    uint32_t rest = 0U;
    uint32_t root = 0U;
    for (int32_t i = 0; i < 25; i++) {
        rest = (rest << 2) | (word >> 30);
        word <<= 2;
        const uint32_t trial = (root << 2) | 1U;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1U;
        }
    }
    /* No root of 24 bits lies half-way: the last bit alone decides. */
    const uint32_t rounded = (root + 1U) >> 1;
    return poet_float_of(((uint32_t)(exponent / 2 + 127) << 23) + (rounded - 0x800000U));
}

#endif
