/* Batch normalization: statistics of a batch, normalization by given statistics, gradients. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "root.h"

static float inverse_deviation(const poet_batchnorm_shape *s, float var)
{
    return 1.0F / poet_root_by_integers(var + s->eps);
}

void poet_batch_stats_f32(const poet_batchnorm_shape *shape, const float *x, float *mean,
                          float *var)
{
    const poet_batchnorm_shape *s = shape;
    const float count = (float)(s->n * s->plane);
    for (int32_t c = 0; c < s->c; c++) {
        float sum = 0.0F;
        for (int32_t n = 0; n < s->n; n++) {
            const float *from = x + (n * s->c + c) * s->plane;
            for (int32_t left = s->plane; left > 0; left--) {
                sum = sum + *from++;
            }
        }
        const float middle = sum / count;
        float squares = 0.0F;
        float rest = 0.0F; /* what rounding left of the mean: the long sum errs, this one hardly */
        for (int32_t n = 0; n < s->n; n++) {
            const float *from = x + (n * s->c + c) * s->plane;
            for (int32_t left = s->plane; left > 0; left--) {
                const float centred = *from++ - middle;
                squares = POET_FMA(centred, centred, squares);
                rest = rest + centred;
            }
        }
        const float correction = rest / count;
        mean[c] = middle + correction;
        var[c] = squares / count - correction * correction;
    }
}

void poet_batchnorm_fwd_f32(const poet_batchnorm_shape *shape, const float *x, const float *mean,
                            const float *var, const float *scale, const float *bias, float *y)
{
    const poet_batchnorm_shape *s = shape;
    for (int32_t c = 0; c < s->c; c++) {
        const float factor = inverse_deviation(s, var[c]) * scale[c];
        for (int32_t n = 0; n < s->n; n++) {
            const int32_t at = (n * s->c + c) * s->plane;
            for (int32_t i = at; i < at + s->plane; i++) {
                y[i] = POET_FMA(x[i] - mean[c], factor, bias[c]);
            }
        }
    }
}

void poet_batchnorm_bwd_w_f32(const poet_batchnorm_shape *shape, const float *x, const float *dy,
                              const float *mean, const float *var, float *dscale, float *dbias)
{
    const poet_batchnorm_shape *s = shape;
    for (int32_t c = 0; c < s->c; c++) {
        float products = 0.0F;
        float sum = 0.0F;
        for (int32_t n = 0; n < s->n; n++) {
            const int32_t at = (n * s->c + c) * s->plane;
            for (int32_t i = at; i < at + s->plane; i++) {
                products = POET_FMA(x[i] - mean[c], dy[i], products);
                sum = sum + dy[i];
            }
        }
        dscale[c] = products * inverse_deviation(s, var[c]);
        dbias[c] = sum;
    }
}

/* dx = r scale (dy - dbias / count - (x - mean) r dscale / count), for count elements a channel. */
void poet_batchnorm_bwd_x_f32(const poet_batchnorm_shape *shape, const float *x, const float *dy,
                              const float *mean, const float *var, const float *scale,
                              const float *dscale, const float *dbias, float *dx)
{
    const poet_batchnorm_shape *s = shape;
    const float count = (float)(s->n * s->plane);
    for (int32_t c = 0; c < s->c; c++) {
        const float inverse = inverse_deviation(s, var[c]);
        const float factor = inverse * scale[c];
        const float slope = -(inverse * dscale[c]) / count;
        const float level = dbias[c] / count;
        for (int32_t n = 0; n < s->n; n++) {
            const int32_t at = (n * s->c + c) * s->plane;
            for (int32_t i = at; i < at + s->plane; i++) {
                dx[i] = POET_FMA(x[i] - mean[c], slope, dy[i] - level) * factor;
            }
        }
    }
}

void poet_batchnorm_frozen_bwd_x_f32(const poet_batchnorm_shape *shape, const float *dy,
                                     const float *var, const float *scale, float *dx)
{
    const poet_batchnorm_shape *s = shape;
    for (int32_t c = 0; c < s->c; c++) {
        const float factor = inverse_deviation(s, var[c]) * scale[c];
        for (int32_t n = 0; n < s->n; n++) {
            const int32_t at = (n * s->c + c) * s->plane;
            for (int32_t i = at; i < at + s->plane; i++) {
                dx[i] = dy[i] * factor;
            }
        }
    }
}

void poet_running_stats_f32(const poet_running_stats_shape *shape, const float *mean,
                            const float *var, float *running_mean, float *running_var)
{
    const poet_running_stats_shape *s = shape;
    for (int32_t c = 0; c < s->c; c++) {
        running_mean[c] = POET_FMA(s->keep, running_mean[c], s->take * mean[c]);
        running_var[c]
            = POET_FMA(s->keep, running_var[c], s->take * (var[c] * s->correction));
    }
}
