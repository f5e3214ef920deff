/* Rectified linear unit. Compared as integers: one comparison decides, with no trip through the
 * FPU's flags and no library call on a core without FPU.
 */
#include <stdint.h>

#include "float_bits.h"
#include "poet/kernels.h"
#include "quad.h"

/* As signed integers -0 and all negative numbers are no larger than -inf, a NaN of either sign is. */
#define MINUS_INFINITE (-0x7FFFFFFF - 1 + 0x7F800000)
#define INFINITE_BITS 0x7F800000U

/* -0, negative numbers and -inf become +0; a NaN of either sign stays. */
static inline float kept_if_positive(float x)
{
    return ((int32_t)poet_bits_of(x) <= MINUS_INFINITE) ? 0.0F : x;
}

/* y > 0 for +inf and every positive number; not for zeros and NaN. */
static inline float passed_if_positive(float y, float dy)
{
    return (poet_bits_of(y) - 1U < INFINITE_BITS) ? dy : 0.0F;
}

#if POET_QUAD_IS_VECTOR
/* By instructions: gcc 12.2 carries each mask through a core register. */
POET_INLINE uint32x4_t four_kept_if_positive(uint32x4_t x)
{
    uint32x4_t y;
    mve_pred16_t positive;
    __asm__("vcmp.s32 gt, %q2, %3\n\tvpsel %q0, %q2, %q4"
            : "=w"(y), "=Up"(positive)
            : "w"(x), "r"(MINUS_INFINITE), "w"(vdupq_n_u32(0U)));
    return y;
}

POET_INLINE uint32x4_t four_passed_if_positive(uint32x4_t y, uint32x4_t dy)
{
    uint32x4_t dx;
    mve_pred16_t stopped;
    __asm__("vcmp.u32 cs, %q2, %3\n\tvpsel %q0, %q4, %q5"
            : "=w"(dx), "=Up"(stopped)
            : "w"(vsubq_n_u32(y, 1U)), "r"(INFINITE_BITS), "w"(vdupq_n_u32(0U)), "w"(dy));
    return dx;
}

POET_INLINE uint32x4_t four_at(const float *x)
{
    return vreinterpretq_u32_f32(vld1q_f32(x));
}

POET_INLINE void put_four(uint32x4_t v, float *y)
{
    vst1q_f32(y, vreinterpretq_f32_u32(v));
}
#elif defined(__arm__) && (__ARM_ARCH_ISA_THUMB == 2)
#define RELU_BY_INTEGERS 1
#define KEEP(r) "cmp " r ", %2\n\tit le\n\tmovle " r ", #0\n\t"
/* Eight numbers through the core's registers: half the instructions of a compiled loop, which
 * loads and stores them one by one. Both pointers then stand behind them. */
static inline void keep_eight(const float **x, float **y)
{
    __asm__ volatile("ldmia %0!, {r3-r6, r8-r11}\n\t" /* r7 may be the frame's */
                     KEEP("r3") KEEP("r4") KEEP("r5") KEEP("r6")
                     KEEP("r8") KEEP("r9") KEEP("r10") KEEP("r11")
                     "stmia %1!, {r3-r6, r8-r11}"
                     : "+r"(*x), "+r"(*y)
                     : "r"(MINUS_INFINITE)
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
}

#define PASS(y, dy) \
    "sub " y ", " y ", #1\n\tcmp " y ", %3\n\tit cs\n\tmovcs " dy ", #0\n\t"
static inline void pass_four(const float **y, const float **dy, float **dx)
{
    __asm__ volatile("ldmia %0!, {r3-r6}\n\tldmia %1!, {r8-r11}\n\t"
                     PASS("r3", "r8") PASS("r4", "r9") PASS("r5", "r10") PASS("r6", "r11")
                     "stmia %2!, {r8-r11}"
                     : "+r"(*y), "+r"(*dy), "+r"(*dx)
                     : "r"(INFINITE_BITS)
                     : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
}
#endif

void poet_relu_fwd_f32(const poet_vector_shape *shape, const float *x, float *y)
{
    int32_t left = shape->count;
#if POET_QUAD_IS_VECTOR
    for (; left >= 4; left -= 4) {
        put_four(four_kept_if_positive(four_at(x)), y);
        x += 4;
        y += 4;
    }
#else
#ifdef RELU_BY_INTEGERS
    for (; left >= 8; left -= 8) {
        keep_eight(&x, &y);
    }
#endif
    for (; left >= 4; left -= 4) {
        y[0] = kept_if_positive(x[0]);
        y[1] = kept_if_positive(x[1]);
        y[2] = kept_if_positive(x[2]);
        y[3] = kept_if_positive(x[3]);
        x += 4;
        y += 4;
    }
#endif
    for (; left > 0; left--) {
        *y++ = kept_if_positive(*x++);
    }
}

void poet_relu_bwd_f32(const poet_vector_shape *shape, const float *y, const float *dy, float *dx)
{
    int32_t left = shape->count;
#if POET_QUAD_IS_VECTOR
    for (; left >= 4; left -= 4) {
        put_four(four_passed_if_positive(four_at(y), four_at(dy)), dx);
        y += 4;
        dy += 4;
        dx += 4;
    }
#else
#ifdef RELU_BY_INTEGERS
    for (; left >= 4; left -= 4) {
        pass_four(&y, &dy, &dx);
    }
#endif
    for (; left >= 4; left -= 4) {
        dx[0] = passed_if_positive(y[0], dy[0]);
        dx[1] = passed_if_positive(y[1], dy[1]);
        dx[2] = passed_if_positive(y[2], dy[2]);
        dx[3] = passed_if_positive(y[3], dy[3]);
        y += 4;
        dy += 4;
        dx += 4;
    }
#endif
    for (; left > 0; left--) {
        *dx++ = passed_if_positive(*y++, *dy++);
    }
}
