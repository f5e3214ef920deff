/* Factors of vector products in core registers, two to a load (LDRD). gcc 12.2 takes them one by
 * one with an address computed for each; hence the instructions by name. Only with MVE.
 */
#ifndef POET_SCALARS_H
#define POET_SCALARS_H

#include "quad.h"

/* Bits of two floats. */
typedef struct {
    uint32_t a, b;
} poet_scalars;

typedef uint64_t poet_two_words __attribute__((may_alias, aligned(4)));

/* The two floats at *p; *p then points behind them. */
POET_INLINE poet_scalars poet_scalars_next(const float **p)
{
    poet_scalars v;
    __asm__("ldrd %0, %1, [%2], #8"
            : "=r"(v.a), "=r"(v.b), "+r"(*p)
            : "m"(*(const poet_two_words *)(const void *)*p));
    return v;
}

/* The float at *p; *p then points behind it. */
POET_INLINE uint32_t poet_scalar_next(const float **p)
{
    uint32_t v;
    __asm__("ldr %0, [%1], #4" : "=r"(v), "+r"(*p) : "m"(**p));
    return v;
}

/* The two floats at p. */
POET_INLINE poet_scalars poet_scalars_at(const float *p)
{
    poet_scalars v;
    __asm__("ldrd %0, %1, [%2]"
            : "=&r"(v.a), "=r"(v.b)
            : "r"(p), "m"(*(const poet_two_words *)(const void *)p));
    return v;
}

/* sum + v * factor, lane by lane. */
POET_INLINE poet_quad poet_quad_fma_bits(poet_quad v, uint32_t factor, poet_quad sum)
{
#if POET_FMA_FUSED
    __asm__("vfma.f32 %q0, %q1, %2" : "+w"(sum) : "w"(v), "r"(factor));
    return sum;
#else
    poet_quad product;
    __asm__("vmul.f32 %q0, %q1, %2" : "=w"(product) : "w"(v), "r"(factor));
    return vaddq_f32(product, sum);
#endif
}

#endif
