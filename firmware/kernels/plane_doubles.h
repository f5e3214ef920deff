/* Depthwise 3 x 3 with stride 2, back, on a core with MVE: four channels are the lanes. Numbers of
 * dx come in pairs: of those at distance 2 j and 2 j + 1 from the first tap, the even one meets tap
 * 0 at dy[j] and tap 2 at dy[j - 1], the odd one tap 1 at dy[j]. Part of conv2d.c.
 */
#ifndef POET_PLANE_DOUBLES_H
#define POET_PLANE_DOUBLES_H

#include "plane_channels.h"

/* The rows of taps that a row of dx meets: every other kernel row, dy's rows upwards. */
typedef struct {
    const float *dy, *w; /* of the first of them */
    int32_t count;
} double_rows;

/* dy at j - 1 (before) and j (here), as far as there are any; the outputs as far as wanted. */
POET_INLINE void double_pair(const plane_lanes *p, const double_rows *rows, int32_t j, float *out,
                             int before, int here, int even, int odd)
{
    const float *w = rows->w;
    poet_quad sum_even = poet_quad_of(0.0F);
    poet_quad sum_odd = sum_even;
    poet_spread at = poet_spread_from(rows->dy + j - 1, p->from);
    for (int32_t left = rows->count; left > 0; left--) {
        poet_quad v;
        if (here) {
            POET_SPREAD_LOAD(v, at, 1);
            sum_even = poet_lanes_fma(v, vld1q_f32(w), sum_even);
            sum_odd = poet_lanes_fma(v, vld1q_f32(w + LANES), sum_odd);
        }
        if (before) {
            POET_SPREAD_LOAD(v, at, 0);
            sum_even = poet_lanes_fma(v, vld1q_f32(w + 2 * LANES), sum_even);
        }
        at = poet_spread_on(at, -p->columns);
        w += 2 * KERNEL * LANES;
    }
    const poet_spread to = poet_spread_from(out, p->to);
    if (even) {
        vstrwq_scatter_base_f32(to, 0, sum_even);
    }
    if (odd) {
        vstrwq_scatter_base_f32(to, 4, sum_odd);
    }
}

/* A pair at an end of the row. */
POET_APART static void double_end(const plane_lanes *p, const double_rows *rows, int32_t j,
                                  float *out)
{
    const int32_t from = p->lacks_first; /* the padding */
    const int before = (j >= 1) && (j - 1 < p->columns);
    double_pair(p, rows, j, out + 2 * j, before, j < p->columns, 2 * j >= from,
                2 * j + 1 < p->out_columns + from);
}

/* One row of dx; out is where distance 0 would be. */
POET_INLINE void double_row(const plane_lanes *p, const double_rows *rows, float *out)
{
    const int32_t end = p->out_columns + p->lacks_first;
    const int32_t whole = (end / 2 < p->columns) ? end / 2 : p->columns;
    int32_t j = 1;
    double_end(p, rows, 0, out);
    for (; j < whole; j++) {
        double_pair(p, rows, j, out + 2 * j, 1, 1, 1, 1);
    }
    for (; 2 * j < end; j++) {
        double_end(p, rows, j, out);
    }
}

/* All rows of the channels. */
POET_APART static void plane_lanes_down_two(const plane_lanes *p, const float *dy, float *dx)
{
    for (int32_t h = 0; h < p->out_rows; h++) {
        const int32_t t = h + p->pad_top;
        int32_t kernel_row = t % 2;
        int32_t row = t / 2;
        int32_t count = (kernel_row == 0) ? 2 : 1;
        if (row >= p->rows) { /* the first is below the last row of dy */
            kernel_row += 2;
            row--;
            count--;
        }
        if (row - count + 1 < 0) {
            count--;
        }
        const double_rows rows = {dy + row * p->columns, p->w[kernel_row * KERNEL],
                                  (row < p->rows) ? count : 0};
        double_row(p, &rows, dx - p->lacks_first);
        dx += p->out_columns;
    }
}

#endif
