/* The weight gradient of a depthwise 3 x 3 convolution on a core with MVE: four channels are the
 * lanes of input, dy and dw alike, so small planes and the ends of rows cost nothing extra.
 * Part of conv2d.c.
 */
#ifndef POET_PLANE_WEIGHTS_CHANNELS_H
#define POET_PLANE_WEIGHTS_CHANNELS_H

#include "channel_lanes.h"
#include "conv_weights.h"

/* The chains of one kernel row; dy and x are where each was read last (x: the column's tap 0). */
typedef struct {
    poet_quad t0, t1, t2;
    poet_spread dy, x;
} plane_sums;

/* One column; its first or last tap may be missing. */
POET_INLINE void plane_column(plane_sums *sum, int stride, int no_first, int no_last)
{
    poet_quad d;
    poet_quad v;
    POET_SPREAD_NEXT(d, sum->dy, 1);
    sum->x = poet_spread_on(sum->x, stride);
    if (!no_first) {
        POET_SPREAD_LOAD(v, sum->x, 0);
        sum->t0 = poet_lanes_fma(v, d, sum->t0);
    }
    POET_SPREAD_LOAD(v, sum->x, 1);
    sum->t1 = poet_lanes_fma(v, d, sum->t1);
    if (!no_last) {
        POET_SPREAD_LOAD(v, sum->x, 2);
        sum->t2 = poet_lanes_fma(v, d, sum->t2);
    }
}

/* Two columns with all taps; stride is 1 or 2. */
POET_INLINE void plane_columns(plane_sums *sum, int stride)
{
    poet_quad d0;
    poet_quad d1;
    poet_quad v;
    POET_SPREAD_LOAD(d0, sum->dy, 1);
    POET_SPREAD_NEXT(d1, sum->dy, 2);
    if (stride == 1) {
        POET_SPREAD_LOAD(v, sum->x, 1);
        sum->t0 = poet_lanes_fma(v, d0, sum->t0);
        POET_SPREAD_NEXT(v, sum->x, 2);
        sum->t1 = poet_lanes_fma(v, d0, sum->t1);
        sum->t0 = poet_lanes_fma(v, d1, sum->t0);
        POET_SPREAD_LOAD(v, sum->x, 1);
        sum->t2 = poet_lanes_fma(v, d0, sum->t2);
        sum->t1 = poet_lanes_fma(v, d1, sum->t1);
    } else {
        POET_SPREAD_LOAD(v, sum->x, 2);
        sum->t0 = poet_lanes_fma(v, d0, sum->t0);
        POET_SPREAD_LOAD(v, sum->x, 3);
        sum->t1 = poet_lanes_fma(v, d0, sum->t1);
        POET_SPREAD_NEXT(v, sum->x, 4);
        sum->t2 = poet_lanes_fma(v, d0, sum->t2);
        sum->t0 = poet_lanes_fma(v, d1, sum->t0);
        POET_SPREAD_LOAD(v, sum->x, 1);
        sum->t1 = poet_lanes_fma(v, d1, sum->t1);
    }
    POET_SPREAD_LOAD(v, sum->x, 2);
    sum->t2 = poet_lanes_fma(v, d1, sum->t2);
}

/* All columns of a row of dy. */
POET_INLINE void plane_row_of_columns(plane_sums *sum, int32_t columns, int left, int right,
                                      int stride)
{
    const int32_t whole = columns - (left ? 1 : 0) - (right ? 1 : 0);
    if (left) {
        plane_column(sum, stride, 1, 0);
    }
    for (int32_t pairs = whole / 2; pairs > 0; pairs--) {
        plane_columns(sum, stride);
    }
    if (whole % 2 != 0) {
        plane_column(sum, stride, 0, 0);
    }
    if (right) {
        plane_column(sum, stride, 0, 1);
    }
}

/* dw of one kernel row of up to four channels: lanes of them. */
POET_INLINE void plane_kernel_row(const weight_part *part, const float *x, const float *dy,
                                  float *dw, int32_t kh, int32_t lanes, int stride)
{
    const poet_conv2d_shape *s = &part->shape;
    const int left = (s->pad_left == 1);
    const int right = ((s->ow - 1) * stride - s->pad_left + 2 >= s->w);
    const int32_t down = kh - s->pad_top;
    const int32_t first = (down < 0) ? 1 : 0; /* the pad is 1 at most, the stride 1 at least */
    const int32_t there = (s->h - 1 - down) / s->stride_h + 1;
    const int32_t rows = ((there < s->oh) ? there : s->oh) - first;
    const float *from = x + (first * s->stride_h + down) * s->w - s->pad_left - stride;
    plane_sums sum
        = {.t0 = poet_quad_of(0.0F), .t1 = poet_quad_of(0.0F), .t2 = poet_quad_of(0.0F)};
    for (int32_t n = 0; n < s->n; n++) {
        sum.x = poet_spread_at(from, s->h * s->w, lanes);
        sum.dy = poet_spread_at(dy + first * s->ow - 1, s->oh * s->ow, lanes);
        for (int32_t i = rows; i > 0; i--) {
            plane_row_of_columns(&sum, s->ow, left, right, stride);
            sum.x = poet_spread_on(sum.x, s->stride_h * s->w - s->ow * stride);
        }
        from += part->x_sample;
        dy += part->dy_sample;
    }
    const poet_spread to = poet_spread_at(dw + kh * 3, 9, lanes);
    vstrwq_scatter_base_f32(to, 0, sum.t0);
    vstrwq_scatter_base_f32(to, 4, sum.t1);
    vstrwq_scatter_base_f32(to, 8, sum.t2);
}

POET_APART static void weights_of_planes(const weight_part *part, const float *x,
                                         const float *dy, float *dw)
{
    const poet_conv2d_shape *s = &part->shape;
    for (int32_t c = 0; c < s->c; c += 4) {
        const int32_t lanes = (s->c - c < 4) ? s->c - c : 4;
        for (int32_t kh = 0; kh < 3; kh++) {
            if (s->stride_w == 1) {
                plane_kernel_row(part, x, dy, dw + c * 9, kh, lanes, 1);
            } else {
                plane_kernel_row(part, x, dy, dw + c * 9, kh, lanes, 2);
            }
        }
        x += 4 * s->h * s->w;
        dy += 4 * s->oh * s->ow;
    }
}

#endif
