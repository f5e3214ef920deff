/* Softmax and its logarithm along one axis of [outer, k, inner], and their gradients. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "poet/math.h"

/* Index of element 0 of line number i: outer index i / inner, inner index i % inner. */
static int32_t start_of(const poet_softmax_shape *s, int32_t i)
{
    return ((i / s->inner) * s->k * s->inner) + (i % s->inner);
}

static float largest(int32_t k, int32_t step, const float *x)
{
    float max = x[0];
    for (int32_t j = 1; j < k; j++) {
        max = (x[j * step] > max) ? x[j * step] : max;
    }
    return max;
}

void poet_softmax_fwd_f32(const poet_softmax_shape *shape, const float *x, float *y)
{
    const int32_t step = shape->inner;
    for (int32_t i = 0; i < shape->outer * shape->inner; i++) {
        const float *in = x + start_of(shape, i);
        float *out = y + start_of(shape, i);
        const float max = largest(shape->k, step, in);
        float sum = 0.0F;
        for (int32_t j = 0; j < shape->k; j++) {
            const float e = poet_expf(in[j * step] - max);
            out[j * step] = e;
            sum += e;
        }
        for (int32_t j = 0; j < shape->k; j++) {
            out[j * step] = out[j * step] / sum;
        }
    }
}

void poet_softmax_bwd_f32(const poet_softmax_shape *shape, const float *y, const float *dy,
                          float *dx)
{
    const int32_t step = shape->inner;
    for (int32_t i = 0; i < shape->outer * shape->inner; i++) {
        const int32_t at = start_of(shape, i);
        float dot = 0.0F;
        for (int32_t j = 0; j < shape->k; j++) {
            dot = POET_FMA(y[at + (j * step)], dy[at + (j * step)], dot);
        }
        for (int32_t j = 0; j < shape->k; j++) {
            const int32_t here = at + (j * step);
            dx[here] = y[here] * (dy[here] - dot);
        }
    }
}

void poet_log_softmax_fwd_f32(const poet_softmax_shape *shape, const float *x, float *y)
{
    const int32_t step = shape->inner;
    for (int32_t i = 0; i < shape->outer * shape->inner; i++) {
        const float *in = x + start_of(shape, i);
        float *out = y + start_of(shape, i);
        const float max = largest(shape->k, step, in);
        float sum = 0.0F;
        for (int32_t j = 0; j < shape->k; j++) {
            sum += poet_expf(in[j * step] - max);
        }
        const float log_sum = poet_logf(sum);
        for (int32_t j = 0; j < shape->k; j++) {
            out[j * step] = (in[j * step] - max) - log_sum;
        }
    }
}

void poet_log_softmax_bwd_f32(const poet_softmax_shape *shape, const float *y, const float *dy,
                              float *dx)
{
    const int32_t step = shape->inner;
    for (int32_t i = 0; i < shape->outer * shape->inner; i++) {
        const int32_t at = start_of(shape, i);
        float sum = 0.0F;
        for (int32_t j = 0; j < shape->k; j++) {
            sum += dy[at + (j * step)];
        }
        for (int32_t j = 0; j < shape->k; j++) {
            const int32_t here = at + (j * step);
            dx[here] = POET_FMA(-poet_expf(y[here]), sum, dy[here]);
        }
    }
}
