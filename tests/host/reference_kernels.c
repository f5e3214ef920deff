/* The plain version of every kernel: one output at a time, one test per element, nothing clever.
 * These are the bit oracle of firmware/kernels and the other column of tools/bench_kernels.py.
 * plain_names.h gives each function the prefix plain_.
 */
#include "plain_names.h"

#include "poet/fma.h"
#include "poet/kernels.h"
#include "poet/math.h"

static int inside(int32_t i, int32_t size)
{
    return (i >= 0) && (i < size);
}

static float conv_output(const poet_conv2d_shape *s, const float *x, const float *w, float acc,
                         int32_t oh, int32_t ow)
{
    const int32_t cg = s->c / s->groups;
    for (int32_t c = 0; c < cg; c++) {
        for (int32_t kh = 0; kh < s->kh; kh++) {
            for (int32_t kw = 0; kw < s->kw; kw++) {
                const int32_t ih = oh * s->stride_h - s->pad_top + kh * s->dilation_h;
                const int32_t iw = ow * s->stride_w - s->pad_left + kw * s->dilation_w;
                if (inside(ih, s->h) && inside(iw, s->w)) {
                    acc = POET_FMA(x[(c * s->h + ih) * s->w + iw],
                                   w[(c * s->kh + kh) * s->kw + kw], acc);
                }
            }
        }
    }
    return acc;
}

void poet_conv2d_fwd_f32(const poet_conv2d_shape *shape, const float *x, const float *w,
                         const float *b, float *y)
{
    const poet_conv2d_shape *s = shape;
    const int32_t cg = s->c / s->groups;
    const int32_t mg = s->m / s->groups;
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t m = 0; m < s->m; m++) {
            const float *xg = x + (n * s->c + (m / mg) * cg) * s->h * s->w;
            for (int32_t oh = 0; oh < s->oh; oh++) {
                for (int32_t ow = 0; ow < s->ow; ow++) {
                    *y++ = conv_output(s, xg, w + m * cg * s->kh * s->kw,
                                       (b != 0) ? b[m] : 0.0F, oh, ow);
                }
            }
        }
    }
}

/* dy and w start at the group's first m; w also at the input channel. */
static float conv_input_gradient(const poet_conv2d_shape *s, const float *dy, const float *w,
                                 int32_t ih, int32_t iw)
{
    const int32_t row = (s->c / s->groups) * s->kh * s->kw;
    float acc = 0.0F;
    for (int32_t m = 0; m < s->m / s->groups; m++) {
        for (int32_t kh = 0; kh < s->kh; kh++) {
            for (int32_t kw = 0; kw < s->kw; kw++) {
                const int32_t th = ih + s->pad_top - kh * s->dilation_h;
                const int32_t tw = iw + s->pad_left - kw * s->dilation_w;
                if ((th >= 0) && (tw >= 0) && (th % s->stride_h == 0) && (tw % s->stride_w == 0)
                    && (th / s->stride_h < s->oh) && (tw / s->stride_w < s->ow)) {
                    acc = POET_FMA(dy[(m * s->oh + th / s->stride_h) * s->ow + tw / s->stride_w],
                                   w[m * row + kh * s->kw + kw], acc);
                }
            }
        }
    }
    return acc;
}

void poet_conv2d_bwd_x_f32(const poet_conv2d_shape *shape, const float *dy, const float *w,
                           float *dx)
{
    const poet_conv2d_shape *s = shape;
    const int32_t cg = s->c / s->groups;
    const int32_t mg = s->m / s->groups;
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t c = 0; c < s->c; c++) {
            const int32_t m0 = (c / cg) * mg;
            const float *dyg = dy + (n * s->m + m0) * s->oh * s->ow;
            const float *wc = w + (m0 * cg + c % cg) * s->kh * s->kw;
            for (int32_t ih = 0; ih < s->h; ih++) {
                for (int32_t iw = 0; iw < s->w; iw++) {
                    *dx++ = conv_input_gradient(s, dyg, wc, ih, iw);
                }
            }
        }
    }
}

static float conv_weight_gradient(const poet_conv2d_shape *s, const float *x, const float *dy,
                                  int32_t kh, int32_t kw)
{
    float acc = 0.0F;
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t oh = 0; oh < s->oh; oh++) {
            for (int32_t ow = 0; ow < s->ow; ow++) {
                const int32_t ih = oh * s->stride_h - s->pad_top + kh * s->dilation_h;
                const int32_t iw = ow * s->stride_w - s->pad_left + kw * s->dilation_w;
                if (inside(ih, s->h) && inside(iw, s->w)) {
                    acc = POET_FMA(dy[(n * s->m * s->oh + oh) * s->ow + ow],
                                   x[(n * s->c * s->h + ih) * s->w + iw], acc);
                }
            }
        }
    }
    return acc;
}

void poet_conv2d_bwd_w_f32(const poet_conv2d_shape *shape, const float *x, const float *dy,
                           float *dw)
{
    const poet_conv2d_shape *s = shape;
    const int32_t cg = s->c / s->groups;
    const int32_t mg = s->m / s->groups;
    for (int32_t m = 0; m < s->m; m++) {
        for (int32_t c = 0; c < cg; c++) {
            const float *xc = x + ((m / mg) * cg + c) * s->h * s->w;
            for (int32_t kh = 0; kh < s->kh; kh++) {
                for (int32_t kw = 0; kw < s->kw; kw++) {
                    *dw++ = conv_weight_gradient(s, xc, dy + m * s->oh * s->ow, kh, kw);
                }
            }
        }
    }
}

void poet_channel_sum_f32(const poet_channel_sum_shape *shape, const float *dy, float *db)
{
    for (int32_t m = 0; m < shape->m; m++) {
        float acc = 0.0F;
        for (int32_t n = 0; n < shape->n; n++) {
            for (int32_t i = 0; i < shape->plane; i++) {
                acc = acc + dy[(n * shape->m + m) * shape->plane + i];
            }
        }
        db[m] = acc;
    }
}

static int32_t dense_w_index(const poet_dense_shape *s, int32_t m, int32_t k)
{
    return (s->w_rows_are_outputs != 0) ? (m * s->k + k) : (k * s->m + m);
}

void poet_dense_fwd_f32(const poet_dense_shape *shape, const float *x, const float *w,
                        const float *b, float *y)
{
    for (int32_t n = 0; n < shape->n; n++) {
        for (int32_t m = 0; m < shape->m; m++) {
            float acc = (b != 0) ? b[m] : 0.0F;
            for (int32_t k = 0; k < shape->k; k++) {
                acc = POET_FMA(x[n * shape->k + k], w[dense_w_index(shape, m, k)], acc);
            }
            y[n * shape->m + m] = acc;
        }
    }
}

void poet_dense_bwd_x_f32(const poet_dense_shape *shape, const float *dy, const float *w,
                          float *dx)
{
    for (int32_t n = 0; n < shape->n; n++) {
        for (int32_t k = 0; k < shape->k; k++) {
            float acc = 0.0F;
            for (int32_t m = 0; m < shape->m; m++) {
                acc = POET_FMA(dy[n * shape->m + m], w[dense_w_index(shape, m, k)], acc);
            }
            dx[n * shape->k + k] = acc;
        }
    }
}

void poet_dense_bwd_w_f32(const poet_dense_shape *shape, const float *x, const float *dy,
                          float *dw)
{
    for (int32_t m = 0; m < shape->m; m++) {
        for (int32_t k = 0; k < shape->k; k++) {
            float acc = -0.0F;
            for (int32_t n = 0; n < shape->n; n++) {
                acc = POET_FMA(dy[n * shape->m + m], x[n * shape->k + k], acc);
            }
            dw[dense_w_index(shape, m, k)] = acc;
        }
    }
}

static void pool_output(const poet_maxpool2d_shape *s, const float *x, int32_t oh, int32_t ow,
                        float *best, uint8_t *where)
{
    int32_t found = -1;
    float value = -__builtin_inff();
    for (int32_t kh = 0; kh < s->kh; kh++) {
        for (int32_t kw = 0; kw < s->kw; kw++) {
            const int32_t ih = oh * s->stride_h - s->pad_top + kh * s->dilation_h;
            const int32_t iw = ow * s->stride_w - s->pad_left + kw * s->dilation_w;
            if (!inside(ih, s->h) || !inside(iw, s->w)) {
                continue;
            }
            const float v = x[ih * s->w + iw];
            if ((found < 0) || (v > value) || ((v != v) && (value == value))) {
                found = kh * s->kw + kw;
                value = v;
            }
        }
    }
    *best = value;
    *where = (uint8_t)((found < 0) ? 0 : found);
}

void poet_maxpool2d_fwd_f32(const poet_maxpool2d_shape *shape, const float *x, float *y,
                            uint8_t *argmax)
{
    for (int32_t p = 0; p < shape->planes; p++) {
        for (int32_t oh = 0; oh < shape->oh; oh++) {
            for (int32_t ow = 0; ow < shape->ow; ow++) {
                const int32_t at = (p * shape->oh + oh) * shape->ow + ow;
                uint8_t where = 0;
                pool_output(shape, x + p * shape->h * shape->w, oh, ow, &y[at], &where);
                if (argmax != 0) {
                    argmax[at] = where;
                }
            }
        }
    }
}

void poet_maxpool2d_bwd_f32(const poet_maxpool2d_shape *shape, const float *dy,
                            const uint8_t *argmax, float *dx)
{
    const poet_maxpool2d_shape *s = shape;
    for (int32_t i = 0; i < s->planes * s->h * s->w; i++) {
        dx[i] = 0.0F;
    }
    for (int32_t p = 0; p < s->planes; p++) {
        for (int32_t oh = 0; oh < s->oh; oh++) {
            for (int32_t ow = 0; ow < s->ow; ow++) {
                const int32_t at = (p * s->oh + oh) * s->ow + ow;
                const int32_t kh = argmax[at] / s->kw;
                const int32_t kw = argmax[at] % s->kw;
                const int32_t ih = oh * s->stride_h - s->pad_top + kh * s->dilation_h;
                const int32_t iw = ow * s->stride_w - s->pad_left + kw * s->dilation_w;
                if (inside(ih, s->h) && inside(iw, s->w)) {
                    float *to = &dx[(p * s->h + ih) * s->w + iw];
                    *to = *to + dy[at];
                }
            }
        }
    }
}

void poet_relu_fwd_f32(const poet_vector_shape *shape, const float *x, float *y)
{
    for (int32_t i = 0; i < shape->count; i++) {
        y[i] = (x[i] <= 0.0F) ? 0.0F : x[i];
    }
}

void poet_relu_bwd_f32(const poet_vector_shape *shape, const float *y, const float *dy, float *dx)
{
    for (int32_t i = 0; i < shape->count; i++) {
        dx[i] = (y[i] > 0.0F) ? dy[i] : 0.0F;
    }
}

void poet_add_fwd_f32(const poet_vector_shape *shape, const float *a, const float *b, float *y)
{
    for (int32_t i = 0; i < shape->count; i++) {
        y[i] = a[i] + b[i];
    }
}

/* Loss of one row; dz of the row. */
static float xent_row(int32_t k, const float *z, int32_t label, float scale, float *dz)
{
    float max = z[0];
    for (int32_t i = 1; i < k; i++) {
        max = (z[i] > max) ? z[i] : max;
    }
    const float of_label = inside(label, k) ? z[label] - max : __builtin_nanf("");
    float sum = 0.0F;
    for (int32_t i = 0; i < k; i++) {
        dz[i] = poet_expf(z[i] - max);
        sum = sum + dz[i];
    }
    for (int32_t i = 0; i < k; i++) {
        const float p = dz[i] / sum - ((i == label) ? 1.0F : 0.0F);
        dz[i] = inside(label, k) ? p * scale : __builtin_nanf("");
    }
    return poet_logf(sum) - of_label;
}

void poet_softmax_xent_f32(const poet_rows_shape *shape, const float *z, const int32_t *labels,
                           float *loss, float *dz)
{
    const float scale = 1.0F / (float)shape->n;
    float total = 0.0F;
    for (int32_t n = 0; n < shape->n; n++) {
        total = total
                + xent_row(shape->k, z + n * shape->k, labels[n], scale, dz + n * shape->k);
    }
    *loss = total / (float)shape->n;
}

void poet_mse_f32(const poet_vector_shape *shape, const float *y, const float *t, float *loss,
                  float *dy)
{
    const float scale = 2.0F / (float)shape->count;
    float total = 0.0F;
    for (int32_t i = 0; i < shape->count; i++) {
        const float d = y[i] - t[i];
        total = POET_FMA(d, d, total);
        dy[i] = d * scale;
    }
    *loss = total / (float)shape->count;
}

void poet_sgd_f32(const poet_vector_shape *shape, const float *g, float lr, float *w)
{
    for (int32_t i = 0; i < shape->count; i++) {
        w[i] = POET_FMA(-lr, g[i], w[i]);
    }
}
