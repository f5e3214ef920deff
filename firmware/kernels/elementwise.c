/* Element-wise functions of two tensors that broadcast against each other: one loop for all. */
#include <stdint.h>

#include "broadcast.h"
#include "poet/fma.h"
#include "poet/kernels.h"
#include "poet/math.h"

#define WHOLE_POWERS 64.0F

static inline float add_of(float a, float b)
{
    return a + b;
}
static inline float sub_of(float a, float b)
{
    return a - b;
}
static inline float mul_of(float a, float b)
{
    return a * b;
}
static inline float div_of(float a, float b)
{
    return a / b;
}

/* A NaN of either wins, as in PyTorch. */
static inline float min_of(float a, float b)
{
    return ((a < b) || (a != a)) ? a : b;
}
static inline float max_of(float a, float b)
{
    return ((a > b) || (a != a)) ? a : b;
}

/* Whole exponents of a small size by squaring, which also takes negative bases; else e^(b ln a). */
static float pow_of(float a, float b)
{
    if ((b >= -WHOLE_POWERS) && (b <= WHOLE_POWERS) && (b == (float)(int32_t)b)) {
        uint32_t left = (uint32_t)((b < 0.0F) ? -(int32_t)b : (int32_t)b);
        float square = a;
        float power = 1.0F;
        while (left != 0U) {
            power = ((left & 1U) != 0U) ? power * square : power;
            square = square * square;
            left >>= 1;
        }
        return (b < 0.0F) ? 1.0F / power : power;
    }
    if (a == 0.0F) {
        return (b > 0.0F) ? 0.0F : 1.0F / (a * a);
    }
    return poet_expf(b * poet_logf(a));
}
/* Derivative by a of a^b; by b, given the power y: y ln a, and 0 where a is 0. */
static float pow_slope_of(float a, float b)
{
    return (b == 0.0F) ? 0.0F : b * pow_of(a, b - 1.0F);
}
static float pow_log_of(float a, float y)
{
    return (a == 0.0F) ? 0.0F : y * poet_logf(a);
}

static inline float prelu_of(float x, float slope)
{
    return (x < 0.0F) ? slope * x : x;
}
static inline float prelu_slope_of(float x, float slope)
{
    return (x > 0.0F) ? 1.0F : slope;
}

/* The share of a in the gradient of max(a, b): equals split it. */
static inline float greater_of(float a, float b)
{
    return (a > b) ? 1.0F : ((a == b) ? 0.5F : 0.0F);
}
static inline float equal_of(float a, float b)
{
    return (a == b) ? 1.0F : 0.0F;
}
/* a / b, and 0 where b is 0: the gradient of a norm at the origin. */
static inline float ratio_of(float a, float b)
{
    return (b == 0.0F) ? 0.0F : a / b;
}

#define BINARY(name)                                                                          \
    void poet_##name##_fwd_broadcast_f32(const poet_broadcast_shape *shape, const float *a,   \
                                         const float *b, float *y)                            \
    {                                                                                         \
        const int32_t last = shape->rank - 1;                                                 \
        const int32_t count = shape->d[last];                                                 \
        const int32_t step_a = shape->a[last];                                                \
        const int32_t step_b = shape->b[last];                                                \
        poet_walk walk = {{0}, 0, 0, 0};                                                      \
        do {                                                                                  \
            const float *row_a = a + walk.a;                                                  \
            const float *row_b = b + walk.b;                                                  \
            for (int32_t i = 0; i < count; i++) {                                             \
                y[i] = name##_of(row_a[i * step_a], row_b[i * step_b]);                       \
            }                                                                                 \
            y += count;                                                                       \
        } while (poet_next_row(shape, &walk) != 0);                                           \
    }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(min)
BINARY(max)
BINARY(pow)
BINARY(pow_slope)
BINARY(pow_log)
BINARY(prelu)
BINARY(prelu_slope)
BINARY(greater)
BINARY(equal)
BINARY(ratio)
