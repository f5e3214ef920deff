/* Square root, rounded to nearest as IEEE 754 asks, so the same bits on every target: the core's
 * instruction where there is one, integers where there is none. NaN below 0 and for NaN.
 */
#ifndef POET_ROOT_H
#define POET_ROOT_H

#include <stdint.h>

#include "float_bits.h"

/* One bit of the root at a time, two of the radicand: 25 rounds give 24 bits and the one that
 * decides the rounding. A root of 24 bits is never exactly between two floats.
 */
static inline float poet_root_by_integers(float x)
{
    const uint32_t bits = poet_bits_of(x);
    if ((bits << 1) == 0U || bits == 0x7F800000U) {
        return x; /* zeros keep their sign */
    }
    if (bits >= 0x7F800000U) {
        return poet_float_of(0x7FC00000U);
    }
    int32_t exponent = (int32_t)(bits >> 23);
    uint32_t rest = bits & 0x7FFFFFU;
    if (exponent == 0) {
        exponent = 1; /* subnormal: shift its first bit up */
        while (rest < 0x800000U) {
            rest = rest << 1;
            exponent--;
        }
    } else {
        rest = rest | 0x800000U;
    }
    exponent = exponent - 127;
    if ((exponent & 1) != 0) {
        rest = rest << 1; /* the exponent becomes even */
        exponent--;
    }
    rest = rest << 1;
    uint32_t root = 0U;
    uint32_t sum = 0U;
    for (uint32_t bit = 0x1000000U; bit != 0U; bit = bit >> 1) {
        const uint32_t trial = sum + bit;
        if (trial <= rest) {
            sum = trial + bit;
            rest = rest - trial;
            root = root + bit;
        }
        rest = rest << 1;
    }
    root = (root >> 1) + (root & 1U);
    return poet_float_of(root + ((uint32_t)(exponent / 2 + 126) << 23));
}

static inline float poet_root(float x)
{
#if defined(__arm__) && defined(__ARM_FP)
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return root;
#elif defined(__arm__)
    return poet_root_by_integers(x);
#else
    return __builtin_sqrtf(x);
#endif
}

#endif
