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
#endif

#if !POET_QUAD_IS_VECTOR
/* In place nothing is written but the zeros. */
static void stop_negative(int32_t count, float *x)
{
    for (; count >= 4; count -= 4) {
        const int32_t a = (int32_t)poet_bits_of(x[0]);
        const int32_t b = (int32_t)poet_bits_of(x[1]);
        const int32_t c = (int32_t)poet_bits_of(x[2]);
        const int32_t d = (int32_t)poet_bits_of(x[3]);
        x += 4;
        if (a <= MINUS_INFINITE) {
            x[-4] = 0.0F;
        }
        if (b <= MINUS_INFINITE) {
            x[-3] = 0.0F;
        }
        if (c <= MINUS_INFINITE) {
            x[-2] = 0.0F;
        }
        if (d <= MINUS_INFINITE) {
            x[-1] = 0.0F;
        }
    }
    for (; count > 0; count--) {
        *x = kept_if_positive(*x);
        x++;
    }
}

/* dy becomes dx. */
static void stop_where_not_positive(int32_t count, const float *y, float *dy)
{
    for (; count >= 4; count -= 4) {
        const uint32_t a = poet_bits_of(y[0]) - 1U;
        const uint32_t b = poet_bits_of(y[1]) - 1U;
        const uint32_t c = poet_bits_of(y[2]) - 1U;
        const uint32_t d = poet_bits_of(y[3]) - 1U;
        y += 4;
        dy += 4;
        if (a >= INFINITE_BITS) {
            dy[-4] = 0.0F;
        }
        if (b >= INFINITE_BITS) {
            dy[-3] = 0.0F;
        }
        if (c >= INFINITE_BITS) {
            dy[-2] = 0.0F;
        }
        if (d >= INFINITE_BITS) {
            dy[-1] = 0.0F;
        }
    }
    for (; count > 0; count--) {
        *dy = passed_if_positive(*y++, *dy);
        dy++;
    }
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
    if (x == y) {
        stop_negative(left, y);
        return;
    }
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
    if (dy == dx) {
        stop_where_not_positive(left, y, dx);
        return;
    }
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
