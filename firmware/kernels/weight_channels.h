/* Three neighbouring taps of the weight gradient on a core with MVE: up to four output channels
 * are the lanes, so a vector of dy meets three inputs of a row, which come from core registers and
 * are shared by the columns beside. Part of conv2d.c.
 */
#ifndef POET_WEIGHT_CHANNELS_H
#define POET_WEIGHT_CHANNELS_H

#include "channel_lanes.h"

/* The chains of the three taps, and where dy was read last. */
typedef struct {
    poet_quad t0, t1, t2;
    poet_spread dy;
} tap_sums;

/* One column; x is at its first tap, which may be missing, as may the last. */
POET_INLINE void taps_of_column(tap_sums *sum, const float *x, int no_first, int no_last)
{
    poet_quad v;
    POET_SPREAD_NEXT(v, sum->dy, 1);
    if (!no_first) {
        sum->t0 = poet_quad_fma(v, x[0], sum->t0);
    }
    sum->t1 = poet_quad_fma(v, x[1], sum->t1);
    if (!no_last) {
        sum->t2 = poet_quad_fma(v, x[2], sum->t2);
    }
}

/* Four columns a step of one apart; the first may lack its first tap, the last its last. */
POET_INLINE void taps_of_four(tap_sums *sum, const float *x, int left, int right)
{
    poet_quad v0;
    poet_quad v1;
    poet_quad v2;
    poet_quad v3;
    POET_SPREAD_LOAD(v0, sum->dy, 1);
    POET_SPREAD_LOAD(v1, sum->dy, 2);
    POET_SPREAD_LOAD(v2, sum->dy, 3);
    POET_SPREAD_NEXT(v3, sum->dy, 4);
    const poet_six in = poet_six_at(x + ((left != 0) ? 1 : 0), left, right);
    sum->t0 = left ? sum->t0 : poet_quad_fma_bits(v0, in.f0, sum->t0);
    sum->t1 = poet_quad_fma_bits(v0, in.f1, sum->t1);
    sum->t2 = poet_quad_fma_bits(v0, in.f2, sum->t2);
    sum->t0 = poet_quad_fma_bits(v1, in.f1, sum->t0);
    sum->t1 = poet_quad_fma_bits(v1, in.f2, sum->t1);
    sum->t2 = poet_quad_fma_bits(v1, in.f3, sum->t2);
    sum->t0 = poet_quad_fma_bits(v2, in.f2, sum->t0);
    sum->t1 = poet_quad_fma_bits(v2, in.f3, sum->t1);
    sum->t2 = poet_quad_fma_bits(v2, in.f4, sum->t2);
    sum->t0 = poet_quad_fma_bits(v3, in.f3, sum->t0);
    sum->t1 = poet_quad_fma_bits(v3, in.f4, sum->t1);
    sum->t2 = right ? sum->t2 : poet_quad_fma_bits(v3, in.f5, sum->t2);
}

/* Two columns a step of two apart, with all taps. */
POET_INLINE void taps_of_two(tap_sums *sum, const float *x)
{
    poet_quad v0;
    poet_quad v1;
    POET_SPREAD_LOAD(v0, sum->dy, 1);
    POET_SPREAD_NEXT(v1, sum->dy, 2);
    const poet_six in = poet_six_at(x, 0, 1);
    sum->t0 = poet_quad_fma_bits(v0, in.f0, sum->t0);
    sum->t1 = poet_quad_fma_bits(v0, in.f1, sum->t1);
    sum->t2 = poet_quad_fma_bits(v0, in.f2, sum->t2);
    sum->t0 = poet_quad_fma_bits(v1, in.f2, sum->t0);
    sum->t1 = poet_quad_fma_bits(v1, in.f3, sum->t1);
    sum->t2 = poet_quad_fma_bits(v1, in.f4, sum->t2);
}

/* A row of columns a step of one apart. */
POET_INLINE void taps_of_row_by_fours(tap_sums *sum, const float *x, int32_t columns, int left,
                                      int right)
{
    int32_t rest = columns;
    if (rest >= 4) {
        if (left && right && (rest == 4)) {
            taps_of_four(sum, x, 1, 1);
        } else if (left) {
            taps_of_four(sum, x, 1, 0);
        }
        if (left) {
            rest -= 4;
            x += 4;
        }
        const int32_t last = ((rest > 0) && (rest % 4 == 0) && right) ? 4 : 0;
        for (int32_t fours = (rest - last) / 4; fours > 0; fours--) {
            taps_of_four(sum, x, 0, 0);
            x += 4;
        }
        if (last != 0) {
            taps_of_four(sum, x, 0, 1);
            return;
        }
        rest %= 4;
        left = 0;
    }
    for (; rest > 0; rest--) {
        const int lacks_last = right && (rest == 1);
        if (left) {
            taps_of_column(sum, x, 1, lacks_last);
        } else if (lacks_last) {
            taps_of_column(sum, x, 0, 1);
        } else {
            taps_of_column(sum, x, 0, 0);
        }
        left = 0;
        x++;
    }
}

/* A row of columns a step of two apart. */
POET_INLINE void taps_of_row_by_twos(tap_sums *sum, const float *x, int32_t columns, int left,
                                     int right)
{
    int32_t rest = columns - (left ? 1 : 0) - (right ? 1 : 0);
    if (left) {
        taps_of_column(sum, x, 1, 0);
        x += 2;
    }
    for (int32_t pairs = rest / 2; pairs > 0; pairs--) {
        taps_of_two(sum, x);
        x += 4;
    }
    if (rest % 2 != 0) {
        taps_of_column(sum, x, 0, 0);
        x += 2;
    }
    if (right) {
        taps_of_column(sum, x, 0, 1);
    }
}

/* Whole fours, at least two of them: the most common row, without a decision. */
POET_INLINE void taps_of_whole_row(tap_sums *sum, const float *x, int32_t inner)
{
    taps_of_four(sum, x, 1, 0);
    for (; inner > 0; inner--) {
        x += 4;
        taps_of_four(sum, x, 0, 0);
    }
    taps_of_four(sum, x + 4, 0, 1);
}

/* dw of one kernel row, input channel and up to four output channels: lanes of them. */
POET_INLINE void weight_three_lanes(const weight_row *row, const float *x, const float *dy,
                                    float *dw, int32_t lanes, int whole)
{
    const int left = (row->from == 1);
    const int right = (row->to < row->end[0]);
    const int32_t columns = row->end[0];
    tap_sums sum = {.t0 = poet_quad_of(0.0F), .t1 = poet_quad_of(0.0F), .t2 = poet_quad_of(0.0F)};
    for (int32_t n = 0; n < row->samples; n++) {
        const float *from = x;
        sum.dy = poet_spread_at(dy - 1, row->dy_plane, lanes);
        for (int32_t i = row->rows; i > 0; i--) {
            if (whole) {
                taps_of_whole_row(&sum, from, columns / 4 - 2);
            } else if (row->stride == 1) {
                taps_of_row_by_fours(&sum, from, columns, left, right);
            } else {
                taps_of_row_by_twos(&sum, from, columns, left, right);
            }
            from += row->x_row;
        }
        x += row->x_sample;
        dy += row->dy_sample;
    }
    const poet_spread to = poet_spread_at(dw, row->w_out, lanes);
    vstrwq_scatter_base_f32(to, 0, sum.t0);
    vstrwq_scatter_base_f32(to, 4, sum.t1);
    vstrwq_scatter_base_f32(to, 8, sum.t2);
}

POET_APART static void weight_three_whole(const weight_row *row, const float *x, const float *dy,
                                          float *dw, int32_t lanes)
{
    weight_three_lanes(row, x, dy, dw, lanes, 1);
}

POET_APART static void weight_three_any(const weight_row *row, const float *x, const float *dy,
                                        float *dw, int32_t lanes)
{
    weight_three_lanes(row, x, dy, dw, lanes, 0);
}

static void weight_three_of_lanes(const weight_row *row, const float *x, const float *dy,
                                  float *dw, int32_t lanes)
{
    const int32_t columns = row->end[0];
    if ((row->stride == 1) && (row->from == 1) && (row->to < columns) && (columns >= 8)
        && (columns % 4 == 0)) {
        weight_three_whole(row, x, dy, dw, lanes);
    } else {
        weight_three_any(row, x, dy, dw, lanes);
    }
}

#endif
