/* Vectors whose lanes are channels, with MVE: the lanes' addresses lie in a register and the loads
 * name the distance from them, so that a walk through neighbouring numbers of four channels costs
 * one addition; the operand that all channels share comes from core registers, up to six numbers
 * of a row to a load (LDM: two words a cycle, as LDRD). gcc 12.2 has neither form in C with the
 * registers where they are wanted; hence the instructions by name.
 */
#ifndef POET_CHANNEL_LANES_H
#define POET_CHANNEL_LANES_H

#include "scalars.h"

/* Addresses of four numbers. */
typedef uint32x4_t poet_spread;

/* Bytes from the first lane to each, for a step in floats; lanes from count on repeat the last one
 * before. */
POET_INLINE uint32x4_t poet_lane_offsets(int32_t step, int32_t count)
{
    const uint32x4_t lane = vminq_u32(vidupq_n_u32(0U, 1), vdupq_n_u32((uint32_t)count - 1U));
    return vmulq_n_u32(lane, (uint32_t)step * 4U);
}

POET_INLINE poet_spread poet_spread_from(const float *base, uint32x4_t offsets)
{
    return vaddq_n_u32(offsets, (uint32_t)(uintptr_t)base);
}

/* Lane i at base + i * step. */
POET_INLINE poet_spread poet_spread_at(const float *base, int32_t step, int32_t count)
{
    return poet_spread_from(base, poet_lane_offsets(step, count));
}

POET_INLINE poet_spread poet_spread_on(poet_spread at, int32_t by)
{
    return vaddq_n_u32(at, (uint32_t)by * 4U);
}

/* The numbers at + ahead; ahead is a constant, 0 to 31. The kernels read so what they do not
 * write, hence no word of memory. */
#define POET_SPREAD_LOAD(v, at, ahead)                                                           \
    __asm__ volatile("vldrw.u32 %q0, [%q1, %2]" : "=&w"(v) : "w"(at), "i"((ahead) * 4))

/* The same; at then stands there. */
#define POET_SPREAD_NEXT(v, at, ahead)                                                           \
    __asm__ volatile("vldrw.u32 %q0, [%q1, %2]!" : "=&w"(v), "+w"(at) : "i"((ahead) * 4))

POET_INLINE void poet_spread_store(poet_quad v, poet_spread at)
{
    vstrwq_scatter_base_f32(at, 0, v);
}

/* sum + a * b, lane by lane. */
POET_INLINE poet_quad poet_lanes_fma(poet_quad a, poet_quad b, poet_quad sum)
{
#if POET_FMA_FUSED
    return vfmaq_f32(sum, a, b);
#else
    return vaddq_f32(vmulq_f32(a, b), sum);
#endif
}

/* Bits of six neighbouring floats; the first and the last may be left out. */
typedef struct {
    uint32_t f0, f1, f2, f3, f4, f5;
} poet_six;

/* What such a load may read. */
typedef struct {
    float f[6];
} __attribute__((may_alias)) poet_some_floats;

/* p is at the first of those that are read. */
POET_INLINE poet_six poet_six_at(const float *p, int no_first, int no_last)
{
    register uint32_t f0 __asm__("r4") = 0U;
    register uint32_t f1 __asm__("r5");
    register uint32_t f2 __asm__("r6");
    register uint32_t f3 __asm__("r8");
    register uint32_t f4 __asm__("r9");
    register uint32_t f5 __asm__("r10") = 0U;
    if (no_first && no_last) {
        __asm__ volatile("ldm %4, {r5, r6, r8, r9}"
                : "=r"(f1), "=r"(f2), "=r"(f3), "=r"(f4)
                : "r"(p), "m"(*(const poet_some_floats *)(const void *)p));
    } else if (no_first) {
        __asm__ volatile("ldm %5, {r5, r6, r8, r9, r10}"
                : "=r"(f1), "=r"(f2), "=r"(f3), "=r"(f4), "=r"(f5)
                : "r"(p), "m"(*(const poet_some_floats *)(const void *)p));
    } else if (no_last) {
        __asm__ volatile("ldm %5, {r4, r5, r6, r8, r9}"
                : "=r"(f0), "=r"(f1), "=r"(f2), "=r"(f3), "=r"(f4)
                : "r"(p), "m"(*(const poet_some_floats *)(const void *)p));
    } else {
        __asm__ volatile("ldm %6, {r4, r5, r6, r8, r9, r10}"
                : "=r"(f0), "=r"(f1), "=r"(f2), "=r"(f3), "=r"(f4), "=r"(f5)
                : "r"(p), "m"(*(const poet_some_floats *)(const void *)p));
    }
    return (poet_six){f0, f1, f2, f3, f4, f5};
}

/* Bits of three neighbouring floats. */
typedef struct {
    uint32_t f0, f1, f2;
} poet_three;

/* The three at *p; *p then points behind them. Two of them may be held at once: odd tells them
 * apart. */
POET_INLINE poet_three poet_three_next(const float **p, int odd)
{
    const poet_some_floats *from = (const poet_some_floats *)(const void *)*p;
    if (odd) {
        register uint32_t f0 __asm__("r8");
        register uint32_t f1 __asm__("r9");
        register uint32_t f2 __asm__("r10");
        __asm__ volatile("ldm %3!, {r8, r9, r10}"
                : "=r"(f0), "=r"(f1), "=r"(f2), "+r"(*p)
                : "m"(*from));
        return (poet_three){f0, f1, f2};
    }
    register uint32_t f0 __asm__("r4");
    register uint32_t f1 __asm__("r5");
    register uint32_t f2 __asm__("r6");
    __asm__ volatile("ldm %3!, {r4, r5, r6}" : "=r"(f0), "=r"(f1), "=r"(f2), "+r"(*p) : "m"(*from));
    return (poet_three){f0, f1, f2};
}

#endif
