/* Element-wise functions of one tensor and their derivatives: one loop for all of them.
 *
 * The derivative takes what was kept: the output where the derivative follows from it (then the
 * input is free after the forward call), else the input; poet/kernels.h says which.
 */
#include <stdint.h>

#include "float_bits.h"
#include "poet/fma.h"
#include "poet/kernels.h"
#include "poet/math.h"

#define SIGN 0x80000000U
#define TWO_OVER_ROOT_PI 0x1.20dd76p+0F
#define ROOT_HALF 0x1.6a09e6p-1F
#define ONE_OVER_ROOT_TWO_PI 0x1.988454p-2F
#define ROOT_TWO_OVER_PI 0x1.988454p-1F
#define GELU_CUBE 0.044715F

static inline float magnitude(float x)
{
    return poet_float_of(poet_bits_of(x) & ~SIGN);
}

typedef poet_activation_shape shape_t;

static inline float leaky_relu_of(const shape_t *s, float x)
{
    return (x < 0.0F) ? s->alpha * x : x;
}
static inline float leaky_relu_slope(const shape_t *s, float kept)
{
    return (kept > 0.0F) ? 1.0F : s->alpha;
}

static inline float elu_of(const shape_t *s, float x)
{
    return (x < 0.0F) ? s->alpha * poet_expm1f(x) : x;
}
static inline float elu_slope(const shape_t *s, float y)
{
    return (y > 0.0F) ? 1.0F : y + s->alpha;
}

static inline float celu_of(const shape_t *s, float x)
{
    return (x < 0.0F) ? s->alpha * poet_expm1f(x / s->alpha) : x;
}
static inline float celu_slope(const shape_t *s, float y)
{
    return (y > 0.0F) ? 1.0F : (y / s->alpha) + 1.0F;
}

static inline float selu_of(const shape_t *s, float x)
{
    return (x < 0.0F) ? s->beta * (s->alpha * poet_expm1f(x)) : s->beta * x;
}
static inline float selu_slope(const shape_t *s, float y)
{
    return (y > 0.0F) ? s->beta : POET_FMA(s->beta, s->alpha, y);
}

static inline float sigmoid_of(const shape_t *s, float x)
{
    (void)s;
    return poet_sigmoidf(x);
}
static inline float sigmoid_slope(const shape_t *s, float y)
{
    (void)s;
    return y * (1.0F - y);
}

static inline float tanh_of(const shape_t *s, float x)
{
    (void)s;
    return poet_tanhf(x);
}
static inline float tanh_slope(const shape_t *s, float y)
{
    (void)s;
    return (1.0F - y) * (1.0F + y);
}

static inline float hard_sigmoid_of(const shape_t *s, float x)
{
    const float line = POET_FMA(s->alpha, x, s->beta);
    return (line < 0.0F) ? 0.0F : ((line > 1.0F) ? 1.0F : line);
}
static inline float hard_sigmoid_slope(const shape_t *s, float y)
{
    return ((y > 0.0F) && (y < 1.0F)) ? s->alpha : 0.0F;
}

/* x times the clipped line (x + 3) / 6. */
static inline float hard_swish_of(const shape_t *s, float x)
{
    (void)s;
    const float line = x + 3.0F;
    const float clipped = (line < 0.0F) ? 0.0F : ((line > 6.0F) ? 6.0F : line);
    return (x * clipped) / 6.0F;
}
static inline float hard_swish_slope(const shape_t *s, float x)
{
    (void)s;
    return (x < -3.0F) ? 0.0F : ((x > 3.0F) ? 1.0F : (x / 3.0F) + 0.5F);
}

/* ln(1 + e^x) without overflow. */
static inline float softplus_of(const shape_t *s, float x)
{
    (void)s;
    return ((x > 0.0F) ? x : 0.0F) + poet_log1pf(poet_expf(-magnitude(x)));
}
static inline float softplus_slope(const shape_t *s, float y)
{
    (void)s;
    return -poet_expm1f(-y);
}

static inline float mish_of(const shape_t *s, float x)
{
    return x * poet_tanhf(softplus_of(s, x));
}
static inline float mish_slope(const shape_t *s, float x)
{
    const float t = poet_tanhf(softplus_of(s, x));
    return POET_FMA(x * poet_sigmoidf(x), (1.0F - t) * (1.0F + t), t);
}

static inline float softsign_of(const shape_t *s, float x)
{
    (void)s;
    return x / (1.0F + magnitude(x));
}
static inline float softsign_slope(const shape_t *s, float y)
{
    (void)s;
    const float rest = 1.0F - magnitude(y);
    return rest * rest;
}

static inline float swish_of(const shape_t *s, float x)
{
    return x * poet_sigmoidf(s->alpha * x);
}
static inline float swish_slope(const shape_t *s, float x)
{
    const float gate = poet_sigmoidf(s->alpha * x);
    return POET_FMA((s->alpha * x) * gate, 1.0F - gate, gate);
}

static inline float gelu_of(const shape_t *s, float x)
{
    (void)s;
    return (0.5F * x) * (1.0F + poet_erff(x * ROOT_HALF));
}
static inline float gelu_slope(const shape_t *s, float x)
{
    (void)s;
    const float share = 0.5F * (1.0F + poet_erff(x * ROOT_HALF));
    return POET_FMA(x * ONE_OVER_ROOT_TWO_PI, poet_expf(-0.5F * (x * x)), share);
}

static inline float gelu_tanh_inner(float x)
{
    return ROOT_TWO_OVER_PI * POET_FMA(GELU_CUBE * (x * x), x, x);
}
static inline float gelu_tanh_of(const shape_t *s, float x)
{
    (void)s;
    return (0.5F * x) * (1.0F + poet_tanhf(gelu_tanh_inner(x)));
}
static inline float gelu_tanh_slope(const shape_t *s, float x)
{
    (void)s;
    const float t = poet_tanhf(gelu_tanh_inner(x));
    const float inner = ROOT_TWO_OVER_PI * POET_FMA(3.0F * GELU_CUBE, x * x, 1.0F);
    return POET_FMA((0.5F * x) * inner, (1.0F - t) * (1.0F + t), 0.5F * (1.0F + t));
}

/* alpha is the lower bound, beta the upper one, which wins when they cross. */
static inline float clip_of(const shape_t *s, float x)
{
    const float above = (x < s->alpha) ? s->alpha : x;
    return (above > s->beta) ? s->beta : above;
}
static inline float clip_slope(const shape_t *s, float y)
{
    return ((y > s->alpha) && (y < s->beta)) ? 1.0F : 0.0F;
}

static inline float thresholded_relu_of(const shape_t *s, float x)
{
    return (x > s->alpha) ? x : 0.0F;
}
static inline float thresholded_relu_slope(const shape_t *s, float x)
{
    return (x > s->alpha) ? 1.0F : 0.0F;
}

/* alpha is the bias, beta the half width. */
static inline float shrink_of(const shape_t *s, float x)
{
    return (x < -s->beta) ? x + s->alpha : ((x > s->beta) ? x - s->alpha : 0.0F);
}
static inline float shrink_slope(const shape_t *s, float x)
{
    return (magnitude(x) > s->beta) ? 1.0F : 0.0F;
}

static inline float neg_of(const shape_t *s, float x)
{
    (void)s;
    return -x;
}

static inline float abs_of(const shape_t *s, float x)
{
    (void)s;
    return magnitude(x);
}
static inline float abs_slope(const shape_t *s, float x)
{
    (void)s;
    return (x > 0.0F) ? 1.0F : ((x < 0.0F) ? -1.0F : 0.0F);
}

static inline float sqrt_of(const shape_t *s, float x)
{
    (void)s;
    return poet_sqrtf(x);
}
static inline float sqrt_slope(const shape_t *s, float y)
{
    (void)s;
    return 0.5F / y;
}

static inline float exp_of(const shape_t *s, float x)
{
    (void)s;
    return poet_expf(x);
}
static inline float exp_slope(const shape_t *s, float y)
{
    (void)s;
    return y;
}

static inline float log_of(const shape_t *s, float x)
{
    (void)s;
    return poet_logf(x);
}
static inline float log_slope(const shape_t *s, float x)
{
    (void)s;
    return 1.0F / x;
}

static inline float erf_of(const shape_t *s, float x)
{
    (void)s;
    return poet_erff(x);
}
static inline float erf_slope(const shape_t *s, float x)
{
    (void)s;
    return TWO_OVER_ROOT_PI * poet_expf(-(x * x));
}

static inline float reciprocal_of(const shape_t *s, float x)
{
    (void)s;
    return 1.0F / x;
}
static inline float reciprocal_slope(const shape_t *s, float y)
{
    (void)s;
    return -(y * y);
}

/* scale * x: the gradient of a mean and the like. */
static inline float scale_of(const shape_t *s, float x)
{
    return s->alpha * x;
}

#define FORWARD(name)                                                                        \
    void poet_##name##_fwd_f32(const poet_activation_shape *shape, const float *x, float *y) \
    {                                                                                        \
        for (int32_t i = 0; i < shape->count; i++) {                                         \
            y[i] = name##_of(shape, x[i]);                                                   \
        }                                                                                    \
    }

#define BACKWARD(name)                                                                  \
    void poet_##name##_bwd_f32(const poet_activation_shape *shape, const float *kept,   \
                               const float *dy, float *dx)                              \
    {                                                                                   \
        for (int32_t i = 0; i < shape->count; i++) {                                    \
            dx[i] = dy[i] * name##_slope(shape, kept[i]);                               \
        }                                                                               \
    }

#define BOTH(name) FORWARD(name) BACKWARD(name)

BOTH(leaky_relu)
BOTH(elu)
BOTH(celu)
BOTH(selu)
BOTH(sigmoid)
BOTH(tanh)
BOTH(hard_sigmoid)
BOTH(hard_swish)
BOTH(softplus)
BOTH(mish)
BOTH(softsign)
BOTH(swish)
BOTH(gelu)
BOTH(gelu_tanh)
BOTH(clip)
BOTH(thresholded_relu)
BOTH(shrink)
BOTH(abs)
BOTH(sqrt)
BOTH(exp)
BOTH(log)
BOTH(erf)
BOTH(reciprocal)
FORWARD(neg)
FORWARD(scale)
