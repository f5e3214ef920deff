/* Whole rows under three neighbouring taps with padding of at most one: the most common layer.
 * The first and last position of a row lack a tap; the blocks at the ends leave it out of those
 * lanes. Part of conv2d.c.
 */
#ifndef POET_CONV_ROWS_H
#define POET_CONV_ROWS_H

#include "conv_rectangle.h"
#if !POET_QUAD_IS_VECTOR
#include "edge_pairs.h"
#define EDGE_BY_TWO 1 /* rows whose length leaves two positions over end in half a block */
#else
#define EDGE_BY_TWO 0 /* vectors need not be full */
#include "edge_channels.h"
#include "edge_vectors.h"
#endif

/* outs (1 or 4) channels of four (or two) neighbouring positions; offsets are those of the first. */
typedef void edge_function(const rectangle *rect, const group_data *data, int32_t x, int32_t out);

POET_INLINE void edge_store(poet_quad v, float *out, poet_edge_kind kind)
{
#if EDGE_BY_TWO
    if (kind.two != 0) {
        out[0] = v.a;
        out[1] = v.b;
        return;
    }
#endif
    (void)kind;
    poet_quad_store_adjacent(v, out);
}

POET_INLINE void edge_block(const rectangle *rect, const group_data *data, int32_t x, int32_t out,
                            poet_edge_kind kind)
{
    const int32_t step = rect->cor->w_out;
    const int32_t plane = rect->cor->out_plane;
    const poet_rows w = {data->w, data->w + step, data->w + 2 * step, data->w + 3 * step};
    poet_block acc;
    acc.r0 = poet_quad_of(start_of(data, 0));
    acc.r1 = (kind.rows == 4) ? poet_quad_of(start_of(data, 1)) : acc.r0;
    acc.r2 = (kind.rows == 4) ? poet_quad_of(start_of(data, 2)) : acc.r0;
    acc.r3 = (kind.rows == 4) ? poet_quad_of(start_of(data, 3)) : acc.r0;
    edge_run(&acc, &rect->sum, data->x + x, w, kind);
    float *to = data->out + out;
    edge_store(acc.r0, to, kind);
    if (kind.rows == 4) {
        edge_store(acc.r1, to + plane, kind);
        edge_store(acc.r2, to + 2 * plane, kind);
        edge_store(acc.r3, to + 3 * plane, kind);
    }
}

#if POET_QUAD_IS_VECTOR
#define four_channels channels_block
#else
#define four_channels edge_block
#endif

#define EDGE_FUNCTION(name, block, outs, step, left, right, two)                                \
    static void name(const rectangle *rect, const group_data *data, int32_t x, int32_t out)     \
    {                                                                                           \
        const poet_edge_kind kind = {(outs), (step), (left), (right), (two)};                   \
        block(rect, data, x, out, kind);                                                        \
    }
/* name[2 * left + right], and for two positions name[4 + right] */
#define EDGE_FOURS(name, block, outs, step)                                                     \
    EDGE_FUNCTION(name##_inner, block, (outs), (step), 0, 0, 0)                                 \
    EDGE_FUNCTION(name##_right, block, (outs), (step), 0, 1, 0)                                 \
    EDGE_FUNCTION(name##_left, block, (outs), (step), 1, 0, 0)                                  \
    EDGE_FUNCTION(name##_both, block, (outs), (step), 1, 1, 0)
#if EDGE_BY_TWO
#define EDGE_SET(name, block, outs, step)                                                       \
    EDGE_FOURS(name, block, outs, step)                                                         \
    EDGE_FUNCTION(name##_two_inner, block, (outs), (step), 0, 0, 1)                             \
    EDGE_FUNCTION(name##_two_right, block, (outs), (step), 0, 1, 1)                             \
    static edge_function *const name[6] = {name##_inner, name##_right,     name##_left,         \
                                           name##_both,  name##_two_inner, name##_two_right};
#else
#define EDGE_SET(name, block, outs, step)                                                       \
    EDGE_FOURS(name, block, outs, step)                                                         \
    static edge_function *const name[4] = {name##_inner, name##_right, name##_left, name##_both};
#endif

#if !POET_SOFT_FLOAT
EDGE_SET(edge_up, four_channels, 4, 1)
EDGE_SET(edge_up_thin, edge_block, 1, 1)
EDGE_SET(edge_down, four_channels, 4, -1)
EDGE_SET(edge_down_thin, edge_block, 1, -1)
#endif

/* A whole row of one channel from one: all its blocks in one call. */
POET_INLINE void edge_row(const rectangle *rect, const group_data *data, int32_t x, int32_t out,
                          int lacks_left, int lacks_right, int step)
{
    const int32_t end = rect->cor->w.targets - 4;
    const poet_edge_kind inner = {1, step, 0, 0, 0};
    const poet_edge_kind right = {1, step, 0, 1, 0};
    const poet_edge_kind left = {1, step, 1, 0, 0};
    const poet_edge_kind both = {1, step, 1, 1, 0};
    for (int32_t column = 0; column <= end;) {
        const int at_left = lacks_left && (column == 0);
        const int at_right = lacks_right && (column == end);
        if (at_left && at_right) {
            edge_block(rect, data, x + column, out + column, both);
        } else if (at_left) {
            edge_block(rect, data, x + column, out + column, left);
        } else if (at_right) {
            edge_block(rect, data, x + column, out + column, right);
        } else {
            edge_block(rect, data, x + column, out + column, inner);
        }
        column = ((column < end) && (column + 4 > end)) ? end : column + 4;
    }
}

#if !POET_SOFT_FLOAT
static void edge_row_up(const rectangle *rect, const group_data *data, int32_t x, int32_t out,
                        int lacks_left, int lacks_right)
{
    edge_row(rect, data, x, out, lacks_left, lacks_right, 1);
}

static void edge_row_down(const rectangle *rect, const group_data *data, int32_t x, int32_t out,
                          int lacks_left, int lacks_right)
{
    edge_row(rect, data, x, out, lacks_left, lacks_right, -1);
}
#endif

typedef void edge_row_function(const rectangle *rect, const group_data *data, int32_t x,
                               int32_t out, int lacks_left, int lacks_right);

#endif
