/* Two neighbouring floats of memory as one operand. On a core with an FPU they are
 * one double-word load (VLDR.64: one instruction and one load slot for two numbers, which halves
 * what a block of products spends on loads), and a multiply-add names the half it wants. gcc has
 * no type for that, hence the instructions by name; everywhere else a pair is a plain struct and
 * the same code computes the same bits.
 */
#ifndef POET_PAIR_H
#define POET_PAIR_H

#include "quad.h"

#if defined(__arm__) && defined(__ARM_FP)
#define POET_PAIR_IS_REGISTER 1
typedef uint64_t poet_pair;
#else
#define POET_PAIR_IS_REGISTER 0
typedef struct {
    float lo, hi;
} poet_pair;
#endif

#if POET_PAIR_IS_REGISTER
/* Two floats as the memory operand of an instruction: word-aligned, of any type. */
typedef uint64_t poet_two __attribute__((may_alias, aligned(4)));
#endif

POET_INLINE poet_pair poet_pair_load(const float *p)
{
#if POET_PAIR_IS_REGISTER
    poet_pair v;
    __asm__("vldr %P0, %1" : "=w"(v) : "Uv"(*(const poet_two *)(const void *)p));
    return v;
#else
    return (poet_pair){p[0], p[1]};
#endif
}

/* The pair at *p; *p then points behind it. */
POET_INLINE poet_pair poet_pair_next(const float **p)
{
#if POET_PAIR_IS_REGISTER
    poet_pair v;
    __asm__("vldmia %1!, {%P0}"
            : "=w"(v), "+r"(*p)
            : "m"(*(const poet_two *)(const void *)*p));
    return v;
#else
    const poet_pair v = {(*p)[0], (*p)[1]};
    *p += 2;
    return v;
#endif
}

POET_INLINE void poet_pair_store(poet_pair v, float *p)
{
#if POET_PAIR_IS_REGISTER
    __asm__("vstr %P1, %0" : "=Uv"(*(poet_two *)(void *)p) : "w"(v));
#else
    p[0] = v.lo;
    p[1] = v.hi;
#endif
}

/* Both numbers of v times f. */
POET_INLINE poet_pair poet_pair_scale(poet_pair v, float f)
{
#if POET_PAIR_IS_REGISTER
    poet_pair y;
    __asm__("vmul.f32 %0, %1, %2\n\tvmul.f32 %p0, %p1, %2" : "=&w"(y) : "w"(v), "t"(f));
    return y;
#else
    return (poet_pair){v.lo * f, v.hi * f};
#endif
}

/* sum + v * f, number by number. */
POET_INLINE poet_pair poet_pair_fma_both(poet_pair v, float f, poet_pair sum)
{
#if POET_PAIR_IS_REGISTER && POET_FMA_FUSED
    __asm__("vfma.f32 %0, %1, %2\n\tvfma.f32 %p0, %p1, %2" : "+w"(sum) : "w"(v), "t"(f));
    return sum;
#elif POET_PAIR_IS_REGISTER
    const poet_pair y = poet_pair_scale(v, f);
    __asm__("vadd.f32 %0, %1, %0\n\tvadd.f32 %p0, %p1, %p0" : "+w"(sum) : "w"(y));
    return sum;
#else
    return (poet_pair){POET_FMA(v.lo, f, sum.lo), POET_FMA(v.hi, f, sum.hi)};
#endif
}

#if POET_PAIR_IS_REGISTER
#if POET_FMA_FUSED
#define POET_PAIR_FMA(a, b) \
    __asm__("vfma.f32 %0, " a ", " b : "+t"(sum) : "w"(v), "w"(f))
#define POET_PAIR_FMA_ONE(a) __asm__("vfma.f32 %0, " a ", %2" : "+t"(sum) : "w"(v), "t"(f))
#else
#define POET_PAIR_FMA(a, b)                                        \
    do {                                                           \
        float product;                                             \
        __asm__("vmul.f32 %0, " a ", " b : "=t"(product) : "w"(v), "w"(f)); \
        sum = product + sum;                                       \
    } while (0)
#define POET_PAIR_FMA_ONE(a)                                       \
    do {                                                           \
        float product;                                             \
        __asm__("vmul.f32 %0, " a ", %2" : "=t"(product) : "w"(v), "t"(f)); \
        sum = product + sum;                                       \
    } while (0)
#endif
#endif

/* sum + v[at] * f[by]; at and by are constants 0 or 1. */
POET_INLINE float poet_pair_fma(poet_pair v, int at, poet_pair f, int by, float sum)
{
#if POET_PAIR_IS_REGISTER
    if ((at != 0) && (by != 0)) {
        POET_PAIR_FMA("%p1", "%p2");
    } else if (at != 0) {
        POET_PAIR_FMA("%p1", "%2");
    } else if (by != 0) {
        POET_PAIR_FMA("%1", "%p2");
    } else {
        POET_PAIR_FMA("%1", "%2");
    }
    return sum;
#else
    return POET_FMA((at != 0) ? v.hi : v.lo, (by != 0) ? f.hi : f.lo, sum);
#endif
}

/* sum + v[at] * f. */
POET_INLINE float poet_pair_fma_one(poet_pair v, int at, float f, float sum)
{
#if POET_PAIR_IS_REGISTER
    if (at != 0) {
        POET_PAIR_FMA_ONE("%p1");
    } else {
        POET_PAIR_FMA_ONE("%1");
    }
    return sum;
#else
    return POET_FMA((at != 0) ? v.hi : v.lo, f, sum);
#endif
}

/* Where a kernel does one thing to every number, the loads and stores are most of it: eight at a
 * time by VLDM and VSTM need a third fewer instructions than pairs. */

/* to = from * f for eight numbers; both pointers then stand behind them. */
POET_INLINE void poet_eight_scale(const float **from, float f, float **to)
{
#if POET_PAIR_IS_REGISTER
    __asm__ volatile("vldmia %0!, {d0-d3}\n\t"
            "vmul.f32 s0, s0, %2\n\tvmul.f32 s1, s1, %2\n\t"
            "vmul.f32 s2, s2, %2\n\tvmul.f32 s3, s3, %2\n\t"
            "vmul.f32 s4, s4, %2\n\tvmul.f32 s5, s5, %2\n\t"
            "vmul.f32 s6, s6, %2\n\tvmul.f32 s7, s7, %2\n\t"
            "vstmia %1!, {d0-d3}"
            : "+r"(*from), "+r"(*to)
            : "t"(f)
            : "d0", "d1", "d2", "d3", "memory");
#else
    for (int32_t i = 0; i < 8; i++) {
        (*to)[i] = POET_PRODUCT((*from)[i], f);
    }
    *from += 8;
    *to += 8;
#endif
}

/* sum = sum + step * (v * f) for eight numbers, the product rounded; both pointers then stand
 * behind them. */
POET_INLINE void poet_eight_scale_fma(const float **v, float f, float step, float **sum)
{
#if POET_PAIR_IS_REGISTER
    __asm__ volatile("vldmia %0!, {d0-d3}\n\tvldmia %1, {d4-d7}\n\t"
            "vmul.f32 s0, s0, %2\n\tvmul.f32 s1, s1, %2\n\t"
            "vmul.f32 s2, s2, %2\n\tvmul.f32 s3, s3, %2\n\t"
            "vmul.f32 s4, s4, %2\n\tvmul.f32 s5, s5, %2\n\t"
            "vmul.f32 s6, s6, %2\n\tvmul.f32 s7, s7, %2\n\t"
#if POET_FMA_FUSED
            "vfma.f32 s8, s0, %3\n\tvfma.f32 s9, s1, %3\n\t"
            "vfma.f32 s10, s2, %3\n\tvfma.f32 s11, s3, %3\n\t"
            "vfma.f32 s12, s4, %3\n\tvfma.f32 s13, s5, %3\n\t"
            "vfma.f32 s14, s6, %3\n\tvfma.f32 s15, s7, %3\n\t"
#else
            "vmul.f32 s0, s0, %3\n\tvmul.f32 s1, s1, %3\n\t"
            "vmul.f32 s2, s2, %3\n\tvmul.f32 s3, s3, %3\n\t"
            "vmul.f32 s4, s4, %3\n\tvmul.f32 s5, s5, %3\n\t"
            "vmul.f32 s6, s6, %3\n\tvmul.f32 s7, s7, %3\n\t"
            "vadd.f32 s8, s0, s8\n\tvadd.f32 s9, s1, s9\n\t"
            "vadd.f32 s10, s2, s10\n\tvadd.f32 s11, s3, s11\n\t"
            "vadd.f32 s12, s4, s12\n\tvadd.f32 s13, s5, s13\n\t"
            "vadd.f32 s14, s6, s14\n\tvadd.f32 s15, s7, s15\n\t"
#endif
            "vstmia %1!, {d4-d7}"
            : "+r"(*v), "+r"(*sum)
            : "t"(f), "t"(step)
            : "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "memory");
#else
    for (int32_t i = 0; i < 8; i++) {
        const float product = POET_PRODUCT((*v)[i], f);
        (*sum)[i] = POET_FMA(step, product, (*sum)[i]);
    }
    *v += 8;
    *sum += 8;
#endif
}

/* sum = sum + v * f for eight numbers; both pointers then stand behind them. */
POET_INLINE void poet_eight_fma(const float **v, float f, float **sum)
{
#if POET_PAIR_IS_REGISTER && POET_FMA_FUSED
    __asm__ volatile("vldmia %0!, {d0-d3}\n\tvldmia %1, {d4-d7}\n\t"
            "vfma.f32 s8, s0, %2\n\tvfma.f32 s9, s1, %2\n\t"
            "vfma.f32 s10, s2, %2\n\tvfma.f32 s11, s3, %2\n\t"
            "vfma.f32 s12, s4, %2\n\tvfma.f32 s13, s5, %2\n\t"
            "vfma.f32 s14, s6, %2\n\tvfma.f32 s15, s7, %2\n\t"
            "vstmia %1!, {d4-d7}"
            : "+r"(*v), "+r"(*sum)
            : "t"(f)
            : "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "memory");
#else
    for (int32_t i = 0; i < 8; i += 2) {
        const poet_pair old = poet_pair_load(*sum + i);
        poet_pair_store(poet_pair_fma_both(poet_pair_load(*v + i), f, old), *sum + i);
    }
    *v += 8;
    *sum += 8;
#endif
}

#if !POET_QUAD_IS_VECTOR
/* Four chains fed from two pairs of neighbouring operands by one factor. */
POET_INLINE poet_quad poet_quad_fma_two(poet_pair v01, poet_pair v23, poet_pair f, int by,
                                        poet_quad sum)
{
    sum.a = poet_pair_fma(v01, 0, f, by, sum.a);
    sum.b = poet_pair_fma(v01, 1, f, by, sum.b);
    sum.c = poet_pair_fma(v23, 0, f, by, sum.c);
    sum.d = poet_pair_fma(v23, 1, f, by, sum.d);
    return sum;
}
#endif

#endif
