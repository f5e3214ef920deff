/* The weight gradient of a convolution. Part of conv2d.c.
 */
#ifndef POET_CONV_WEIGHTS_H
#define POET_CONV_WEIGHTS_H

#include "conv_rectangle.h"
#if POET_QUAD_IS_VECTOR
#include "terms_vectors.h"
#else
#include "terms_pairs.h"
#endif
#include "poet/kernels.h"

/* dw[m, c, kh, kw] sums dy[m] * x[c] over samples, rows and columns. All channels meet the same
 * positions at one tap, so a block is four m by four c there. */

typedef struct {
    poet_sum sum;                    /* channels: samples; the weights' side is dy */
    int32_t x_plane, dy_plane, w_out, area;
} weight_job;

/* The chains of a block over all samples and rows, where x steps by one. */
POET_INLINE void weight_run(poet_block *acc, const poet_sum *sum, const poet_lanes *lanes,
                            poet_rows x, const poet_block_kind *kind)
{
    const poet_steps *xs = &sum->of[POET_X];
    const poet_steps *ds = &sum->of[POET_W];
#if POET_QUAD_IS_VECTOR
    poet_lanes d = *lanes;
#else
    const poet_block_kind four = {.rows = 4};
    poet_rows d = {lanes->p0, lanes->p1, lanes->p2, lanes->p3};
#endif
    poet_block a = *acc;
    for (int32_t c = sum->channels; c > 0; c--) {
        int32_t left = sum->rows;
        do {
#if POET_QUAD_IS_VECTOR
            by_terms_run(&a, &d, &x, sum->taps, 1, kind->rows, 0);
            d.p0 += ds->row_rest;
#else
            terms_terms_run(&a, &d, &x, sum->taps, kind->rows);
            poet_rows_advance(&d, ds->row_rest, &four);
#endif
            poet_rows_advance(&x, xs->row_rest, kind);
            left--;
        } while (left > 0);
        poet_rows_advance(&x, xs->channel_rest, kind);
#if POET_QUAD_IS_VECTOR
        d.p0 += ds->channel_rest;
#else
        poet_rows_advance(&d, ds->channel_rest, &four);
#endif
    }
    *acc = a;
}

/* Four m are the lanes, one, two or four c the rows. */
POET_INLINE void weight_block(const weight_job *job, const float *x, const float *dy, float *dw,
                              int rows, int x_tap)
{
    const poet_block_kind kind = {.lane_operand = POET_W,
                                  .rows = rows,
                                  .lanes_adjacent = 0,
                                  .rows_adjacent = 0,
                                  .x_tap = x_tap,
                                  .taps = 0};
    const int32_t plane = job->dy_plane;
    const int32_t xp = job->x_plane;
    const poet_lanes lanes = poet_lanes_at(dy, 0, plane, 2 * plane, 3 * plane);
    const poet_rows from = {x, x + ((rows > 1) ? xp : 0), x + ((rows > 2) ? 2 * xp : 0),
                            x + ((rows > 2) ? 3 * xp : 0)};
    const poet_quad zero = poet_quad_of(0.0F);
    poet_block acc = {zero, zero, zero, zero};
    if (x_tap == 1) {
        weight_run(&acc, &job->sum, &lanes, from, &kind);
    } else {
        poet_block_run(&acc, &job->sum, lanes, from, kind);
    }
    const int32_t at[4] = {0, job->w_out, 2 * job->w_out, 3 * job->w_out};
    store_lanes(acc.r0, dw, at);
    if (rows >= 2) {
        store_lanes(acc.r1, dw + job->area, at);
    }
    if (rows == 4) {
        store_lanes(acc.r2, dw + 2 * job->area, at);
        store_lanes(acc.r3, dw + 3 * job->area, at);
    }
}

/* One m, four c as lanes. */
POET_INLINE void weight_thin(const weight_job *job, const float *x, const float *dy, float *dw,
                             int x_tap)
{
    const poet_block_kind kind = {.lane_operand = POET_X, .rows = 1, .x_tap = x_tap};
    const int32_t xp = job->x_plane;
    const poet_lanes lanes = poet_lanes_at(x, 0, xp, 2 * xp, 3 * xp);
    const poet_rows from = {dy, dy, dy, dy};
    const poet_quad zero = poet_quad_of(0.0F);
    poet_block acc = {zero, zero, zero, zero};
    poet_block_run(&acc, &job->sum, lanes, from, kind);
    const int32_t at[4] = {0, job->area, 2 * job->area, 3 * job->area};
    store_lanes(acc.r0, dw, at);
}

typedef void weight_function(const weight_job *job, const float *x, const float *dy, float *dw);

#define WEIGHT_FUNCTION(name, call)                                                              \
    static void name(const weight_job *job, const float *x, const float *dy, float *dw)          \
    {                                                                                            \
        call;                                                                                    \
    }
#if POET_SOFT_FLOAT
WEIGHT_FUNCTION(weight_small, weight_block(job, x, dy, dw, 1, 0))
static weight_function *const weight_any[4] = {weight_small, 0, 0, 0};
#define weight_unit weight_any
#else
#define WEIGHT_SET(name, x_tap)                                                                  \
    WEIGHT_FUNCTION(name##_four, weight_block(job, x, dy, dw, 4, (x_tap)))                       \
    WEIGHT_FUNCTION(name##_two, weight_block(job, x, dy, dw, 2, (x_tap)))                        \
    WEIGHT_FUNCTION(name##_one, weight_block(job, x, dy, dw, 1, (x_tap)))                        \
    WEIGHT_FUNCTION(name##_thin, weight_thin(job, x, dy, dw, (x_tap)))                           \
    static weight_function *const name[4] = {name##_one, name##_two, name##_four, name##_thin};

WEIGHT_SET(weight_any, 0)
WEIGHT_SET(weight_unit, 1)
#endif

/* All (m, c) of one group at one tap. */
static void weight_tap(const weight_job *job, int32_t outs, int32_t channels, const float *x,
                       const float *dy, float *dw)
{
    const int unit = (job->sum.of[POET_X].tap == 1);
    weight_function *const *blocks = (unit != 0) ? weight_unit : weight_any;
    for (int32_t m = 0; m < outs;) {
        const int32_t wide = ((outs - m) >= 4) ? 4 : 1;
        for (int32_t c = 0; c < channels;) {
            const int32_t left = channels - c;
            int32_t done = 1;
            if (!POET_SOFT_FLOAT) {
                done = (left >= 4) ? 4 : ((left >= 2) && (wide == 4)) ? 2 : 1;
            }
            const float *xc = x + c * job->x_plane;
            const float *dym = dy + m * job->dy_plane;
            float *to = dw + m * job->w_out + c * job->area;
            if (wide == 4) {
                blocks[done / 2](job, xc, dym, to);
            } else if (done == 4) {
                blocks[3](job, xc, dym, to);
            } else {
                *to = poet_single_run(0.0F, &job->sum, xc, dym);
            }
            c += done;
        }
        m += wide;
    }
}

/* Three neighbouring taps of one kernel row at once, for layers with few input channels: four m,
 * or one, are the lanes. Columns where only some of the three taps meet the input are done tap by
 * tap before and behind those where all do, so each chain keeps its order. */
typedef struct {
    int32_t samples, rows;          /* per sample, at this kernel row */
    int32_t x_sample, x_row, dy_sample, dy_row; /* steps */
    int32_t stride;
    int32_t first[3], end[3];       /* columns of each tap */
    int32_t alone[3];               /* end of each tap's columns before the shared ones */
    int32_t from, to;               /* columns of all three */
    int32_t one_lacking;            /* at most one column at either end, lacking the outer tap */
    int32_t dy_plane, w_out;
} weight_row;

#if POET_QUAD_IS_VECTOR
#include "weight_channels.h"
#else
#include "weight_pairs.h"
#endif

POET_INLINE poet_quad weight_edge(const poet_lanes *dy, const float *x, poet_quad acc,
                                  int32_t stride, int32_t from, int32_t to)
{
    for (int32_t ow = from; ow < to; ow++) {
        acc = poet_quad_fma(poet_lanes_load(dy, ow, 0), x[ow * stride], acc);
    }
    return acc;
}

#if POET_QUAD_IS_VECTOR
/* Columns of all three taps. */
POET_INLINE void weight_shared(const weight_row *row, const float *x, const poet_lanes *dy,
                               poet_block *acc, int outs)
{
    (void)outs;
    poet_lanes at = *dy;
    poet_lanes_advance(&at, row->from, 0);
    const float *p = x + row->from * row->stride;
    for (int32_t left = row->to - row->from; left > 0; left--) {
        const poet_quad v = poet_lanes_load(&at, 0, 0);
        acc->r0 = poet_quad_fma(v, p[0], acc->r0);
        acc->r1 = poet_quad_fma(v, p[1], acc->r1);
        acc->r2 = poet_quad_fma(v, p[2], acc->r2);
        poet_lanes_advance(&at, 1, 0);
        p += row->stride;
    }
}
#else
/* Columns of all three taps. */
POET_INLINE void weight_shared(const weight_row *row, const float *x, const poet_lanes *dy,
                               poet_block *acc, int outs)
{
    const float *p = x + row->from * row->stride;
    const int32_t from = row->from;
    int32_t left = row->to - from;
    if ((row->stride == 1) || (row->stride == 2)) {
        const poet_rows d = {dy->p0 + from, dy->p1 + from, dy->p2 + from, dy->p3 + from};
        if (row->stride == 1) {
            weight_columns_by_two(left / 2, p, d, acc, outs, 1);
        } else {
            weight_columns_by_two(left / 2, p, d, acc, outs, 2);
        }
        p += (left - left % 2) * row->stride;
        left = left % 2;
    }
    for (; left > 0; left--) {
        weight_column(p, dy, row->to - left, acc, outs, 0, 2);
        p += row->stride;
    }
}
#endif

/* x is at the input of column 0 and tap 0, dy at column 0. */
POET_INLINE void weight_columns(const weight_row *row, const float *x, poet_lanes dy,
                                poet_block *acc, int outs)
{
#if !POET_QUAD_IS_VECTOR
    if (row->one_lacking != 0) {
        if (row->from == 1) {
            weight_column(x, &dy, 0, acc, outs, 1, 2);
        }
        weight_shared(row, x, &dy, acc, outs);
        if (row->to < row->end[0]) {
            weight_column(x + row->to * row->stride, &dy, row->to, acc, outs, 0, 1);
        }
        return;
    }
#endif
    acc->r0 = weight_edge(&dy, x, acc->r0, row->stride, row->first[0], row->alone[0]);
    acc->r1 = weight_edge(&dy, x + 1, acc->r1, row->stride, row->first[1], row->alone[1]);
    acc->r2 = weight_edge(&dy, x + 2, acc->r2, row->stride, row->first[2], row->alone[2]);
    weight_shared(row, x, &dy, acc, outs);
    acc->r0 = weight_edge(&dy, x, acc->r0, row->stride, row->to, row->end[0]);
    acc->r1 = weight_edge(&dy, x + 1, acc->r1, row->stride, row->to, row->end[1]);
    acc->r2 = weight_edge(&dy, x + 2, acc->r2, row->stride, row->to, row->end[2]);
}

POET_INLINE void weight_three(const weight_row *row, const float *x, const float *dy, float *dw,
                              int outs)
{
    const poet_quad zero = poet_quad_of(0.0F);
    poet_block acc = {zero, zero, zero, zero};
    const int32_t plane = (outs == 4) ? row->dy_plane : 0; /* one m: four equal lanes */
    for (int32_t n = 0; n < row->samples; n++) {
        for (int32_t i = 0; i < row->rows; i++) {
            weight_columns(row, x + i * row->x_row,
                           poet_lanes_at(dy + i * row->dy_row, 0, plane, 2 * plane, 3 * plane),
                           &acc, outs);
        }
        x += row->x_sample;
        dy += row->dy_sample;
    }
    if (outs == 4) {
        const int32_t at[4] = {0, row->w_out, 2 * row->w_out, 3 * row->w_out};
        store_lanes(acc.r0, dw, at);
        store_lanes(acc.r1, dw + 1, at);
        store_lanes(acc.r2, dw + 2, at);
    } else {
        dw[0] = poet_quad_first(acc.r0);
        dw[1] = poet_quad_first(acc.r1);
        dw[2] = poet_quad_first(acc.r2);
    }
}

POET_APART static void weight_three_of_four(const weight_row *row, const float *x,
                                             const float *dy, float *dw)
{
    weight_three(row, x, dy, dw, 4);
}

POET_APART static void weight_three_of_one(const weight_row *row, const float *x,
                                             const float *dy, float *dw)
{
    weight_three(row, x, dy, dw, 1);
}

/* The output positions of one axis whose input at this tap is no padding: first, count. */
static void weight_range(int32_t outs, int32_t size, int32_t stride, int32_t shift,
                         int32_t *first, int32_t *count)
{
    int32_t from = 0;
    while ((from < outs) && (from * stride + shift < 0)) {
        from++;
    }
    int32_t to = outs;
    while ((to > from) && ((to - 1) * stride + shift >= size)) {
        to--;
    }
    *first = from;
    *count = to - from;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return (a < b) ? a : b;
}

static int32_t larger(int32_t a, int32_t b)
{
    return (a > b) ? a : b;
}

/* The column ranges of the three taps and what they share. */
static void weight_row_columns(const poet_conv2d_shape *s, weight_row *row)
{
    row->from = 0;
    row->to = s->ow;
    for (int32_t kw = 0; kw < 3; kw++) {
        int32_t count = 0;
        weight_range(s->ow, s->w, s->stride_w, kw - s->pad_left, &row->first[kw], &count);
        row->end[kw] = row->first[kw] + count;
        row->from = larger(row->from, row->first[kw]);
        row->to = smaller(row->to, row->end[kw]);
    }
    if (row->from >= row->to) { /* nothing shared: each tap is all edge */
        row->from = larger(row->end[0], larger(row->end[1], row->end[2]));
        row->to = row->from;
    }
    for (int32_t kw = 0; kw < 3; kw++) {
        row->alone[kw] = smaller(row->end[kw], row->from);
    }
    const int left = (row->from == 0) || ((row->from == 1) && (row->first[1] == 0));
    const int right = (row->to == s->ow) || ((row->to == s->ow - 1) && (row->end[1] == s->ow));
    row->one_lacking = (left && right && (row->from < row->to) && (row->end[0] == s->ow)
                        && (row->first[2] == 0))
                           ? 1
                           : 0;
}

/* The dw of a shape that may be some groups or output channels of a larger one: the steps from
 * one sample to the next are the larger one's. */
typedef struct {
    poet_conv2d_shape shape;
    int32_t x_sample, dy_sample;
} weight_part;

static weight_row weight_row_of(const weight_part *part)
{
    const poet_conv2d_shape *s = &part->shape;
    weight_row row = {.samples = s->n,
                      .x_sample = part->x_sample,
                      .x_row = s->stride_h * s->w,
                      .dy_sample = part->dy_sample,
                      .dy_row = s->ow,
                      .stride = s->stride_w,
                      .dy_plane = s->oh * s->ow,
                      .w_out = (s->c / s->groups) * s->kh * s->kw};
    weight_row_columns(s, &row);
    return row;
}

#if POET_QUAD_IS_VECTOR
/* Rows of three taps that all columns have, but for one at either end. */
POET_APART static int rows_of_lanes_fit(const weight_part *part)
{
    const poet_conv2d_shape *s = &part->shape;
    return (s->kw == 3) && (s->dilation_w == 1) && (s->stride_w <= 2)
           && (weight_row_of(part).one_lacking != 0);
}
#endif

/* All of dw by rows of three taps. */
POET_APART static void weights_by_rows(const weight_part *part, const float *x, const float *dy,
                                       float *dw)
{
    const poet_conv2d_shape *s = &part->shape;
    const int32_t channels = s->c / s->groups;
    const int32_t outs = s->m / s->groups;
    weight_row row = weight_row_of(part);
#if POET_QUAD_IS_VECTOR
    const int by_lanes = rows_of_lanes_fit(part);
#else
    const int by_lanes = 0;
#endif
    for (int32_t kh = 0; kh < s->kh; kh++) {
        const int32_t below = kh * s->dilation_h - s->pad_top;
        int32_t oh = 0;
        weight_range(s->oh, s->h, s->stride_h, below, &oh, &row.rows);
        const int32_t down = (row.rows > 0) ? (oh * s->stride_h + below) * s->w : 0;
        const float *at = x + down - s->pad_left;
        for (int32_t m = 0; m < s->m;) {
            const int32_t left = outs - m % outs;
            const int32_t wide = (left >= 4) ? 4 : by_lanes ? left : 1;
            for (int32_t c = 0; c < channels; c++) {
                const float *xc = at + ((m / outs) * channels + c) * s->h * s->w;
                const float *dym = dy + m * row.dy_plane + oh * s->ow;
                float *to = dw + m * row.w_out + (c * s->kh + kh) * 3;
#if POET_QUAD_IS_VECTOR
                if (by_lanes) {
                    weight_three_of_lanes(&row, xc, dym, to, wide);
                    continue;
                }
#endif
                if (wide == 4) {
                    weight_three_of_four(&row, xc, dym, to);
                } else {
                    weight_three_of_one(&row, xc, dym, to);
                }
            }
            m += wide;
        }
    }
}

/* All of dw tap by tap. */
POET_APART static void weights_by_taps(const weight_part *part, const float *x, const float *dy,
                                       float *dw)
{
    const poet_conv2d_shape *s = &part->shape;
    const int32_t channels = s->c / s->groups;
    const int32_t outs = s->m / s->groups;
    weight_job job = {.x_plane = s->h * s->w,
                      .dy_plane = s->oh * s->ow,
                      .area = s->kh * s->kw,
                      .w_out = channels * s->kh * s->kw};
    for (int32_t tap = 0; tap < job.area; tap++) {
        const int32_t below = (tap / s->kw) * s->dilation_h - s->pad_top;
        const int32_t right = (tap % s->kw) * s->dilation_w - s->pad_left;
        int32_t oh = 0;
        int32_t ow = 0;
        weight_range(s->oh, s->h, s->stride_h, below, &oh, &job.sum.rows);
        weight_range(s->ow, s->w, s->stride_w, right, &ow, &job.sum.taps);
        job.sum.channels = ((job.sum.rows > 0) && (job.sum.taps > 0)) ? s->n : 0;
        job.sum.of[POET_X].tap = s->stride_w;
        job.sum.of[POET_X].row = s->stride_h * s->w;
        job.sum.of[POET_W].tap = 1;
        job.sum.of[POET_W].row = s->ow;
        if ((job.sum.of[POET_X].row == job.sum.taps * s->stride_w) && (s->ow == job.sum.taps)) {
            job.sum.taps *= job.sum.rows; /* whole rows of both follow each other: one long row */
            job.sum.rows = 1;
        }
        poet_sum_finish(&job.sum, part->x_sample, part->dy_sample);
        const float *from = (job.sum.channels > 0)
                                ? x + (oh * s->stride_h + below) * s->w + ow * s->stride_w + right
                                : x;
        for (int32_t g = 0; g < s->groups; g++) {
            weight_tap(&job, outs, channels, from + g * channels * job.x_plane,
                       dy + g * outs * job.dy_plane + oh * s->ow + ow,
                       dw + g * outs * job.w_out + tap);
        }
    }
}

#endif
