/* Four accumulation chains side by side. A lane is one output's chain and never mixes with its
 * neighbours, so scalar registers and vector registers give the same bits.
 */
#ifndef POET_QUAD_H
#define POET_QUAD_H

#include <stdint.h>

#include "poet/fma.h"

#define POET_INLINE static inline __attribute__((always_inline))
/* Kept out of its caller, so that their stack frames do not add up in one. */
#define POET_APART __attribute__((noinline))

/* Where a product is a call of some 90 instructions, sharing loads saves nothing that counts: one
 * kind of block, of four chains, keeps the kernels small in flash. */
#if defined(__arm__) && !defined(__ARM_FP)
#define POET_SOFT_FLOAT 1
#else
#define POET_SOFT_FLOAT 0
#endif

#if defined(__ARM_FEATURE_MVE) && ((__ARM_FEATURE_MVE & 2) != 0)
#define POET_QUAD_IS_VECTOR 1
#include <arm_mve.h>
typedef float32x4_t poet_quad;
#else
#define POET_QUAD_IS_VECTOR 0
typedef struct {
    float a, b, c, d;
} poet_quad;
#endif

/* Where four operands are read: lane i at base + offset[i] on a vector core (one gather load),
 * else at its own pointer. Adjacent lanes need the first pointer alone.
 */
typedef struct {
    const float *p0;
#if POET_QUAD_IS_VECTOR
    uint32x4_t bytes;
#else
    const float *p1, *p2, *p3;
#endif
} poet_lanes;

POET_INLINE poet_lanes poet_lanes_at(const float *base, int32_t o0, int32_t o1, int32_t o2,
                                     int32_t o3)
{
    poet_lanes lanes;
    lanes.p0 = base + o0;
#if POET_QUAD_IS_VECTOR
    const uint32_t bytes[4] = {0U, (uint32_t)(o1 - o0) * 4U, (uint32_t)(o2 - o0) * 4U,
                               (uint32_t)(o3 - o0) * 4U};
    lanes.bytes = vld1q_u32(bytes);
#else
    lanes.p1 = base + o1;
    lanes.p2 = base + o2;
    lanes.p3 = base + o3;
#endif
    return lanes;
}

POET_INLINE void poet_lanes_advance(poet_lanes *lanes, int32_t by, int adjacent)
{
    lanes->p0 += by;
#if !POET_QUAD_IS_VECTOR
    if (adjacent == 0) {
        lanes->p1 += by;
        lanes->p2 += by;
        lanes->p3 += by;
    }
#else
    (void)adjacent;
#endif
}

POET_INLINE poet_quad poet_lanes_load(const poet_lanes *lanes, int32_t at, int adjacent)
{
    const float *p = lanes->p0 + at;
#if POET_QUAD_IS_VECTOR
    return (adjacent != 0) ? vld1q_f32(p) : vldrwq_gather_offset_f32(p, lanes->bytes);
#else
    poet_quad v;
    v.a = p[0];
    v.b = (adjacent != 0) ? p[1] : lanes->p1[at];
    v.c = (adjacent != 0) ? p[2] : lanes->p2[at];
    v.d = (adjacent != 0) ? p[3] : lanes->p3[at];
    return v;
#endif
}

#if POET_QUAD_IS_VECTOR
/* All lanes but skip (0 or 3). By instructions: gcc 12.2 makes another mask of most constants
 * (0x0FFF becomes "all lanes"). */
POET_INLINE mve_pred16_t poet_lanes_except(int skip)
{
    return (skip == 0) ? vpnot(vctp32q(1U)) : vctp32q(3U);
}
#endif

/* Like poet_lanes_load of adjacent lanes, but lane skip (0 or 3; -1: none) is not read. */
POET_INLINE poet_quad poet_quad_load_except(const float *p, int skip)
{
#if POET_QUAD_IS_VECTOR
    return (skip < 0) ? vld1q_f32(p) : vld1q_z_f32(p, poet_lanes_except(skip));
#else
    return (poet_quad){(skip == 0) ? 0.0F : p[0], p[1], p[2], (skip == 3) ? 0.0F : p[3]};
#endif
}

/* Four numbers at base, base + step, ... */
POET_INLINE poet_quad poet_quad_read(const float *base, int32_t step)
{
#if POET_QUAD_IS_VECTOR
    if (step == 1) {
        return vld1q_f32(base);
    }
    return vldrwq_gather_offset_f32(base, vmulq_n_u32(vidupq_n_u32(0, 4), (uint32_t)step));
#else
    return (poet_quad){base[0], base[step], base[2 * step], base[3 * step]};
#endif
}

POET_INLINE poet_quad poet_quad_of(float value)
{
#if POET_QUAD_IS_VECTOR
    return vdupq_n_f32(value);
#else
    return (poet_quad){value, value, value, value};
#endif
}

POET_INLINE float poet_quad_first(poet_quad v)
{
#if POET_QUAD_IS_VECTOR
    return vgetq_lane_f32(v, 0);
#else
    return v.a;
#endif
}

/* sum + v * factor, lane by lane. */
POET_INLINE poet_quad poet_quad_fma(poet_quad v, float factor, poet_quad sum)
{
#if POET_QUAD_IS_VECTOR && POET_FMA_FUSED
    return vfmaq_n_f32(sum, v, factor);
#elif POET_QUAD_IS_VECTOR
    return vaddq_f32(vmulq_n_f32(v, factor), sum);
#else
    sum.a = POET_FMA(v.a, factor, sum.a);
    sum.b = POET_FMA(v.b, factor, sum.b);
    sum.c = POET_FMA(v.c, factor, sum.c);
    sum.d = POET_FMA(v.d, factor, sum.d);
    return sum;
#endif
}

/* The same, but the chain of lane skip (0 or 3; -1: none) stays as it is. */
POET_INLINE poet_quad poet_quad_fma_except(poet_quad v, float factor, poet_quad sum, int skip)
{
#if POET_QUAD_IS_VECTOR && POET_FMA_FUSED
    return (skip < 0) ? vfmaq_n_f32(sum, v, factor)
                      : vfmaq_m_n_f32(sum, v, factor, poet_lanes_except(skip));
#elif POET_QUAD_IS_VECTOR
    const poet_quad all = poet_quad_fma(v, factor, sum);
    return (skip < 0) ? all : vpselq_f32(all, sum, poet_lanes_except(skip));
#else
    const poet_quad all = poet_quad_fma(v, factor, sum);
    return (poet_quad){(skip == 0) ? sum.a : all.a, all.b, all.c, (skip == 3) ? sum.d : all.d};
#endif
}

POET_INLINE void poet_quad_store_adjacent(poet_quad v, float *p)
{
#if POET_QUAD_IS_VECTOR
    vst1q_f32(p, v);
#else
    p[0] = v.a;
    p[1] = v.b;
    p[2] = v.c;
    p[3] = v.d;
#endif
}

POET_INLINE void poet_quad_store(poet_quad v, float *p0, float *p1, float *p2, float *p3)
{
#if POET_QUAD_IS_VECTOR
    *p0 = vgetq_lane_f32(v, 0);
    *p1 = vgetq_lane_f32(v, 1);
    *p2 = vgetq_lane_f32(v, 2);
    *p3 = vgetq_lane_f32(v, 3);
#else
    *p0 = v.a;
    *p1 = v.b;
    *p2 = v.c;
    *p3 = v.d;
#endif
}

#endif
