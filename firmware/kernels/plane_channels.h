/* Rows of a depthwise 3 x 3 convolution on a core with MVE, forward with stride 1 or 2 and back
 * with stride 1: four channels are the lanes of inputs, weights and outputs alike, so small planes and the
 * ends of rows cost nothing extra.
 * Part of conv2d.c.
 */
#ifndef POET_PLANE_CHANNELS_H
#define POET_PLANE_CHANNELS_H

#include "channel_lanes.h"
#include "poet/kernels.h"

enum { KERNEL = 3, TAPS = 9, LANES = 4 };

/* Some channels of a plane and of its outputs, and where in the source one output looks. */
typedef struct {
    int32_t rows, columns;         /* of the source */
    int32_t out_rows, out_columns;
    int32_t pad_top;
    int32_t lacks_first, lacks_last; /* the first (pad_left), the last column lacks a tap */
    uint32x4_t from, to;           /* offsets of the lanes in source and outputs */
    float w[TAPS][LANES];
    float start[LANES];
} plane_lanes;

/* How a row of outputs meets its inputs: constants at every call. */
typedef struct {
    int stride; /* 1 or 2 */
    int back;   /* tap 0 meets the last of three inputs, not the first */
} plane_way;

/* One output under some rows of taps from the pointers' on; x is at its leftmost input of the
 * first row, which may be missing (left), as may the rightmost (right). */
POET_INLINE void plane_output(const plane_lanes *p, const float *x, const float *w, int32_t rows,
                              int32_t x_row, float *out, int left, int right, plane_way way)
{
    const int no_first = way.back ? right : left;
    const int no_last = way.back ? left : right;
    poet_quad sum = vld1q_f32(p->start);
    poet_spread at = poet_spread_from(x, p->from);
    for (; rows > 0; rows--) {
        poet_quad v;
        if (!no_first) {
            POET_SPREAD_LOAD(v, at, (way.back ? 2 : 0));
            sum = poet_lanes_fma(v, vld1q_f32(w), sum);
        }
        POET_SPREAD_LOAD(v, at, 1);
        sum = poet_lanes_fma(v, vld1q_f32(w + LANES), sum);
        if (!no_last) {
            POET_SPREAD_LOAD(v, at, (way.back ? 0 : 2));
            sum = poet_lanes_fma(v, vld1q_f32(w + 2 * LANES), sum);
        }
        w += KERNEL * LANES;
        at = poet_spread_on(at, x_row);
    }
    poet_spread_store(sum, poet_spread_from(out, p->to));
}

/* What one input of a row adds to three neighbouring outputs; at is its place among the inputs. */
POET_INLINE poet_quad plane_tap(poet_quad v, int at, int output, const poet_quad w[KERNEL],
                                poet_quad sum, plane_way way)
{
    const int place = at - output * way.stride;
    if ((place < 0) || (place >= KERNEL)) {
        return sum;
    }
    return poet_lanes_fma(v, w[way.back ? KERNEL - 1 - place : place], sum);
}

/* Three outputs with all their columns. An output's taps ascend, so going back its inputs are
 * taken from the right. */
POET_INLINE void plane_three(const plane_lanes *p, const float *x, const float *w, int32_t rows,
                             int32_t x_row, float *out, plane_way way)
{
    poet_quad s0 = vld1q_f32(p->start);
    poet_quad s1 = s0;
    poet_quad s2 = s0;
    poet_spread at = poet_spread_from(x, p->from);
    for (; rows > 0; rows--) {
        const poet_quad taps[KERNEL]
            = {vld1q_f32(w), vld1q_f32(w + LANES), vld1q_f32(w + 2 * LANES)};
        poet_quad v;
#define PLANE_INPUT(place)                                                                       \
    if ((place) <= 2 * way.stride + 2) {                                                         \
        POET_SPREAD_LOAD(v, at, (place));                                                        \
        s0 = plane_tap(v, (place), 0, taps, s0, way);                                            \
        s1 = plane_tap(v, (place), 1, taps, s1, way);                                            \
        s2 = plane_tap(v, (place), 2, taps, s2, way);                                            \
    }
        if (way.back) {
            PLANE_INPUT(4)
            PLANE_INPUT(3)
            PLANE_INPUT(2)
            PLANE_INPUT(1)
            PLANE_INPUT(0)
        } else {
            PLANE_INPUT(0)
            PLANE_INPUT(1)
            PLANE_INPUT(2)
            PLANE_INPUT(3)
            PLANE_INPUT(4)
            PLANE_INPUT(5)
            PLANE_INPUT(6)
        }
        w += KERNEL * LANES;
        at = poet_spread_on(at, x_row);
    }
    const poet_spread to = poet_spread_from(out, p->to);
    vstrwq_scatter_base_f32(to, 0, s0);
    vstrwq_scatter_base_f32(to, 4, s1);
    vstrwq_scatter_base_f32(to, 8, s2);
}

/* One row of outputs; x is at the first one's leftmost input of the first row of taps, which lies
 * outside where lacks_first. */
POET_INLINE void plane_lanes_row(const plane_lanes *p, const float *x, const float *w,
                                 int32_t rows, float *out, plane_way way)
{
    const int32_t x_row = way.back ? -p->columns : p->columns;
    int32_t left = p->out_columns;
    if (p->lacks_first) {
        plane_output(p, x, w, rows, x_row, out, 1, 0, way);
        x += way.stride;
        out++;
        left--;
    }
    for (left -= p->lacks_last; left >= 3; left -= 3) {
        plane_three(p, x, w, rows, x_row, out, way);
        x += 3 * way.stride;
        out += 3;
    }
    for (; left > 0; left--) {
        plane_output(p, x, w, rows, x_row, out, 0, 0, way);
        x += way.stride;
        out++;
    }
    if (p->lacks_last) {
        plane_output(p, x, w, rows, x_row, out, 0, 1, way);
    }
}

/* All rows of the channels. */
POET_INLINE void plane_lanes_rows(const plane_lanes *p, const float *x, float *out, plane_way way)
{
    const int32_t most = p->rows - 1;
    for (int32_t i = 0; i < p->out_rows; i++) {
        /* the source row of kernel row 0, and which way the next one lies */
        const int32_t source = way.back ? i + p->pad_top : i * way.stride - p->pad_top;
        const int32_t outside = way.back ? source - most : -source;
        const int32_t first = (outside > 0) ? outside : 0;
        const int32_t inside = way.back ? source + 1 : most - source + 1;
        const int32_t rows = ((inside < KERNEL) ? inside : KERNEL) - first;
        const int32_t row = way.back ? source - first : source + first;
        plane_lanes_row(p, x + row * p->columns - p->lacks_first, p->w[first * KERNEL], rows, out,
                        way);
        out += p->out_columns;
    }
}

#define PLANE_LANES_FUNCTION(name, stride, back)                                                 \
    POET_APART static void name(const plane_lanes *p, const float *x, float *out)                \
    {                                                                                            \
        const plane_way way = {(stride), (back)};                                                \
        plane_lanes_rows(p, x, out, way);                                                        \
    }
PLANE_LANES_FUNCTION(plane_lanes_up, 1, 0)
PLANE_LANES_FUNCTION(plane_lanes_up_two, 2, 0)
PLANE_LANES_FUNCTION(plane_lanes_down, 1, 1)

#endif
