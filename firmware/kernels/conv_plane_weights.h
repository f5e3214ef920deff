/* The weight gradient of a depthwise 3 x 3 convolution: the nine chains of a plane side by side,
 * so that dy is read once. Each chain still runs over samples, rows, columns. Part of conv2d.c.
 */
#ifndef POET_CONV_PLANE_WEIGHTS_H
#define POET_CONV_PLANE_WEIGHTS_H

#include "conv_weights.h"
#include "pair.h"

#if !POET_SOFT_FLOAT
static int plane_weights_fit(const poet_conv2d_shape *s)
{
    const int32_t last = (s->ow - 1) * s->stride_w - s->pad_left;
    return (s->c == s->groups) && (s->m == s->groups) && (s->kh == 3)
           && (s->kw == 3) && (s->stride_w <= 2) && (s->dilation_h == 1) && (s->dilation_w == 1)
           && (s->pad_left <= 1) && (last + 1 < s->w) && (last >= 0) && (s->ow >= 2)
           && (s->pad_top <= 1) && (s->h >= 3);
}

#if POET_QUAD_IS_VECTOR
#include "plane_weights_channels.h"
#else
typedef struct {
    float t0, t1, t2;
} three_sums;

/* Two columns under one row of taps. */
POET_INLINE three_sums plane_two(poet_pair d, const float *x, three_sums sum, int stride)
{
    const poet_pair x01 = poet_pair_load(x);
    const poet_pair x23 = poet_pair_load(x + 2);
    if (stride == 1) {
        sum.t0 = poet_pair_fma(d, 1, x01, 1, poet_pair_fma(d, 0, x01, 0, sum.t0));
        sum.t1 = poet_pair_fma(d, 1, x23, 0, poet_pair_fma(d, 0, x01, 1, sum.t1));
        sum.t2 = poet_pair_fma(d, 1, x23, 1, poet_pair_fma(d, 0, x23, 0, sum.t2));
    } else {
        sum.t0 = poet_pair_fma(d, 1, x23, 0, poet_pair_fma(d, 0, x01, 0, sum.t0));
        sum.t1 = poet_pair_fma(d, 1, x23, 1, poet_pair_fma(d, 0, x01, 1, sum.t1));
        sum.t2 = poet_pair_fma_one(d, 1, x[4], poet_pair_fma(d, 0, x23, 0, sum.t2));
    }
    return sum;
}

/* One column under the taps from low to high. */
POET_INLINE three_sums plane_one(float d, const float *x, three_sums sum, int low, int high)
{
    sum.t0 = (low == 0) ? POET_FMA(d, x[0], sum.t0) : sum.t0;
    sum.t1 = POET_FMA(d, x[1], sum.t1);
    sum.t2 = (high == 2) ? POET_FMA(d, x[2], sum.t2) : sum.t2;
    return sum;
}

/* One row of dy under rows (1 to 3) rows of taps; x is at the first one's input of column 0. */
POET_INLINE void plane_weights_row(const poet_conv2d_shape *s, const float *x, const float *dy,
                                   three_sums *sums, int rows, int stride)
{
    const int32_t w = s->w;
    three_sums a = sums[0];
    three_sums b = (rows >= 2) ? sums[1] : a;
    three_sums c = (rows == 3) ? sums[2] : a;
    int32_t left = s->ow;
    if (s->pad_left == 1) {
        a = plane_one(*dy, x, a, 1, 2);
        b = (rows >= 2) ? plane_one(*dy, x + w, b, 1, 2) : b;
        c = (rows == 3) ? plane_one(*dy, x + 2 * w, c, 1, 2) : c;
        dy++;
        x += stride;
        left--;
    }
    const int lacking = ((s->ow - 1) * stride - s->pad_left + 2 >= w);
    left -= lacking;
    const float *x1 = x + ((rows >= 2) ? w : 0);
    const float *x2 = x + ((rows == 3) ? 2 * w : 0);
    for (; left >= 2; left -= 2) {
        const poet_pair d = poet_pair_next(&dy);
        a = plane_two(d, x, a, stride);
        b = (rows >= 2) ? plane_two(d, x1, b, stride) : b;
        c = (rows == 3) ? plane_two(d, x2, c, stride) : c;
        x += 2 * stride;
        x1 += 2 * stride;
        x2 += 2 * stride;
    }
    if (left > 0) {
        a = plane_one(*dy, x, a, 0, 2);
        b = (rows >= 2) ? plane_one(*dy, x1, b, 0, 2) : b;
        c = (rows == 3) ? plane_one(*dy, x2, c, 0, 2) : c;
        dy++;
        x += stride;
        x1 += stride;
        x2 += stride;
    }
    if (lacking) {
        a = plane_one(*dy, x, a, 0, 1);
        b = (rows >= 2) ? plane_one(*dy, x1, b, 0, 1) : b;
        c = (rows == 3) ? plane_one(*dy, x2, c, 0, 1) : c;
    }
    sums[0] = a;
    if (rows >= 2) {
        sums[1] = b;
    }
    if (rows == 3) {
        sums[2] = c;
    }
}

/* One sample of one plane. */
POET_INLINE void plane_weights_sample(const poet_conv2d_shape *s, const float *x, const float *dy,
                                      three_sums *sums, int stride)
{
    for (int32_t oh = 0; oh < s->oh; oh++) {
        const int32_t h = oh * s->stride_h - s->pad_top;
        const int32_t first = (h < 0) ? -h : 0;
        const int32_t rows = ((s->h - h < 3) ? s->h - h : 3) - first;
        const float *from = x + (h + first) * s->w - s->pad_left;
        if (rows == 3) {
            plane_weights_row(s, from, dy, sums, 3, stride);
        } else if (rows == 2) {
            plane_weights_row(s, from, dy, sums + first, 2, stride);
        } else if (rows == 1) {
            plane_weights_row(s, from, dy, sums + first, 1, stride);
        }
        dy += s->ow;
    }
}

static void weights_of_planes(const weight_part *part, const float *x, const float *dy, float *dw)
{
    const poet_conv2d_shape *s = &part->shape;
    const int32_t x_plane = s->h * s->w;
    const int32_t dy_plane = s->oh * s->ow;
    for (int32_t c = 0; c < s->c; c++) {
        three_sums sums[3] = {{0.0F, 0.0F, 0.0F}, {0.0F, 0.0F, 0.0F}, {0.0F, 0.0F, 0.0F}};
        for (int32_t n = 0; n < s->n; n++) {
            const float *xn = x + n * part->x_sample + c * x_plane;
            const float *dyn = dy + n * part->dy_sample + c * dy_plane;
            if (s->stride_w == 1) {
                plane_weights_sample(s, xn, dyn, sums, 1);
            } else {
                plane_weights_sample(s, xn, dyn, sums, 2);
            }
        }
        for (int32_t kh = 0; kh < 3; kh++) {
            *dw++ = sums[kh].t0;
            *dw++ = sums[kh].t1;
            *dw++ = sums[kh].t2;
        }
    }
}
#endif
#endif

#endif
