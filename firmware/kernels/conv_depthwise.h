/* Depthwise convolution under 3 x 3 taps with stride 1 and padding 1, the body of every mobile
 * network: one channel in, one out. The weights of a row of outputs stay in registers.
 * Part of conv2d.c.
 */
#ifndef POET_CONV_DEPTHWISE_H
#define POET_CONV_DEPTHWISE_H

#include "conv_rectangle.h"
#if !POET_QUAD_IS_VECTOR
#include "edge_pairs.h"
#endif

/* All rows of outputs of a run that meet the same rows of taps; x and out are at the first one's
 * first column, x at its first tap. */
typedef void plane_function(const rectangle *rect, const group_data *data, const float *x,
                            float *out);

#if !POET_SOFT_FLOAT
#if POET_QUAD_IS_VECTOR
/* Three weights of one row of taps. */
typedef struct {
    float w0, w1, w2;
} tap_weights;

POET_INLINE tap_weights tap_weights_at(const float *w)
{
    return (tap_weights){w[0], w[1], w[2]};
}

/* x is the leftmost input of the first position. */
POET_INLINE poet_quad taps_of_row(const float *x, const tap_weights *w, poet_quad sum,
                                  const poet_edge_kind *kind)
{
    const float *tap0 = (kind->step > 0) ? x : x + 2;
    const float *tap2 = (kind->step > 0) ? x + 2 : x;
    const int first = (kind->step > 0) ? ((kind->left != 0) ? 0 : -1) : ((kind->right != 0) ? 3 : -1);
    const int last = (kind->step > 0) ? ((kind->right != 0) ? 3 : -1) : ((kind->left != 0) ? 0 : -1);
    sum = poet_quad_fma_except(poet_quad_load_except(tap0, first), w->w0, sum, first);
    sum = poet_quad_fma(vld1q_f32(x + 1), w->w1, sum);
    return poet_quad_fma_except(poet_quad_load_except(tap2, last), w->w2, sum, last);
}
#else
typedef edge_weights tap_weights;
#define tap_weights_at edge_weights_at

POET_INLINE poet_quad taps_of_row(const float *x, const tap_weights *w, poet_quad sum,
                                  const poet_edge_kind *kind)
{
    const edge_inputs in = edge_load(x, kind);
    sum = edge_tap(&in, w, 0, sum, kind);
    sum = edge_tap(&in, w, 1, sum, kind);
    return edge_tap(&in, w, 2, sum, kind);
}
#endif

/* The weights a row of outputs meets; x_row: step from one row of taps to the next in x. */
typedef struct {
    tap_weights w0, w1, w2;
    int32_t x_row;
    float start;
} row_of_taps;

POET_INLINE void plane_block(const row_of_taps *taps, const float *x, float *out, int rows,
                             poet_edge_kind kind)
{
    poet_quad sum = poet_quad_of(taps->start);
    sum = taps_of_row(x, &taps->w0, sum, &kind);
    sum = taps_of_row(x + taps->x_row, &taps->w1, sum, &kind);
    if (rows == 3) {
        sum = taps_of_row(x + 2 * taps->x_row, &taps->w2, sum, &kind);
    }
    poet_quad_store_adjacent(sum, out);
}

/* At least five columns. The last block may overlap the one before it: what it computes again
 * comes out the same. */
POET_INLINE void plane_row(const row_of_taps *taps, const float *x, float *out, int32_t columns,
                           int rows, int step)
{
    const poet_edge_kind inner = {1, step, 0, 0, 0};
    const poet_edge_kind right = {1, step, 0, 1, 0};
    const poet_edge_kind left = {1, step, 1, 0, 0};
    plane_block(taps, x, out, rows, left);
    int32_t column = 4;
    for (; column < columns - 4; column += 4) {
        plane_block(taps, x + column, out + column, rows, inner);
    }
    plane_block(taps, x + columns - 4, out + columns - 4, rows, right);
}

POET_INLINE void plane_rows(const rectangle *rect, const group_data *data, const float *x,
                            float *out, int rows, int step)
{
    const correlation *cor = rect->cor;
    const int32_t w_row = rect->sum.of[POET_W].row;
    const row_of_taps taps = {tap_weights_at(data->w), tap_weights_at(data->w + w_row),
                              tap_weights_at(data->w + ((rows == 3) ? 2 * w_row : 0)),
                              rect->sum.of[POET_X].row, start_of(data, 0)};
    x -= (step > 0) ? 0 : 2; /* the leftmost input */
    for (int32_t i = rect->h.count; i > 0; i--) {
        plane_row(&taps, x, out, cor->w.targets, rows, step);
        x += cor->h.run_move * cor->x_row;
        out += cor->h.period * cor->out_row;
    }
}

#define PLANE_FUNCTION(name, rows, step)                                                         \
    static void name(const rectangle *rect, const group_data *data, const float *x, float *out)  \
    {                                                                                            \
        plane_rows(rect, data, x, out, (rows), (step));                                          \
    }
PLANE_FUNCTION(plane_two_up, 2, 1)
PLANE_FUNCTION(plane_three_up, 3, 1)
PLANE_FUNCTION(plane_two_down, 2, -1)
PLANE_FUNCTION(plane_three_down, 3, -1)
#endif

#endif
