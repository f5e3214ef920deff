/* Layer, instance and group normalization: rows normalized by their own mean and variance. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "root.h"

typedef struct {
    float mean, inverse; /* inverse deviation */
} row_stats;

static row_stats stats_of(const poet_rownorm_shape *s, const float *x)
{
    row_stats stats = {0.0F, 0.0F};
    float sum = 0.0F;
    for (int32_t f = 0; f < s->features; f++) {
        sum = sum + x[f];
    }
    stats.mean = sum / (float)s->features;
    float squares = 0.0F;
    for (int32_t f = 0; f < s->features; f++) {
        const float centred = x[f] - stats.mean;
        squares = POET_FMA(centred, centred, squares);
    }
    stats.inverse = 1.0F / poet_root_by_integers(squares / (float)s->features + s->eps);
    return stats;
}

/* The first scale of the row in group, and the group of the next row. */
static int32_t next_row(const poet_rownorm_shape *s, int32_t channels, int32_t *group)
{
    const int32_t first = *group * channels;
    *group = (*group + 1 == s->groups) ? 0 : *group + 1;
    return first;
}

void poet_rownorm_fwd_f32(const poet_rownorm_shape *shape, const float *x, const float *scale,
                          const float *bias, float *y)
{
    const poet_rownorm_shape *s = shape;
    const int32_t channels = s->features / s->inner;
    int32_t group = 0;
    for (int32_t r = 0; r < s->rows; r++) {
        const row_stats stats = stats_of(s, x);
        const int32_t first = next_row(s, channels, &group);
        for (int32_t c = first; c < first + channels; c++) {
            const float factor = stats.inverse * scale[c];
            for (int32_t left = s->inner; left > 0; left--) {
                *y++ = POET_FMA(*x++ - stats.mean, factor, bias[c]);
            }
        }
    }
}

/* dx = r (g - (sum of g) / F - xhat (sum of g xhat) / F) with g = dy scale, xhat = (x - mean) r. */
void poet_rownorm_bwd_x_f32(const poet_rownorm_shape *shape, const float *x, const float *dy,
                            const float *scale, float *dx)
{
    const poet_rownorm_shape *s = shape;
    const int32_t channels = s->features / s->inner;
    int32_t group = 0;
    for (int32_t r = 0; r < s->rows; r++) {
        const row_stats stats = stats_of(s, x);
        const int32_t first = next_row(s, channels, &group);
        float sum = 0.0F;
        float products = 0.0F;
        for (int32_t c = 0; c < channels; c++) {
            for (int32_t i = c * s->inner; i < (c + 1) * s->inner; i++) {
                const float g = dy[i] * scale[first + c];
                sum = sum + g;
                products = POET_FMA(x[i] - stats.mean, g, products);
            }
        }
        const float level = sum / (float)s->features;
        const float slope = -(products * stats.inverse * stats.inverse) / (float)s->features;
        for (int32_t c = 0; c < channels; c++) {
            for (int32_t i = c * s->inner; i < (c + 1) * s->inner; i++) {
                const float g = dy[i] * scale[first + c];
                dx[i] = POET_FMA(x[i] - stats.mean, slope, g - level) * stats.inverse;
            }
        }
        x += s->features;
        dy += s->features;
        dx += s->features;
    }
}

void poet_rownorm_bwd_w_f32(const poet_rownorm_shape *shape, const float *x, const float *dy,
                            float *dscale, float *dbias)
{
    const poet_rownorm_shape *s = shape;
    const int32_t channels = s->features / s->inner;
    for (int32_t c = 0; c < channels * s->groups; c++) {
        dscale[c] = 0.0F;
        dbias[c] = 0.0F;
    }
    int32_t group = 0;
    for (int32_t r = 0; r < s->rows; r++) {
        const row_stats stats = stats_of(s, x);
        const int32_t first = next_row(s, channels, &group);
        for (int32_t c = first; c < first + channels; c++) {
            for (int32_t left = s->inner; left > 0; left--) {
                dscale[c] = POET_FMA((*x++ - stats.mean) * stats.inverse, *dy, dscale[c]);
                dbias[c] = dbias[c] + *dy++;
            }
        }
    }
}
