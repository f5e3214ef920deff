/* A rectangle of a depthwise convolution: one channel in, one out, so there is nothing to share
 * and the call of a block would cost more than its work. Part of conv2d.c.
 */
#ifndef POET_CONV_SINGLE_H
#define POET_CONV_SINGLE_H

#include "conv_rectangle.h"

/* Four positions two apart in x under one row of three taps. */
POET_INLINE poet_quad row_of_three(const float *x, const float *k, poet_quad acc)
{
    acc = poet_quad_fma(poet_quad_read(x, 2), k[0], acc);
    acc = poet_quad_fma(poet_quad_read(x + 1, 2), k[1], acc);
    return poet_quad_fma(poet_quad_read(x + 2, 2), k[2], acc);
}

/* A row of at least four positions of a forward 3 x 3 kernel with stride 2; the last block may
 * overlap the one before it and then computes the same again. */
static void nine_row(const rectangle *rect, const float *x, const float *k, float start, float *out)
{
    const int32_t row = rect->sum.of[POET_X].row;
    for (int32_t left = rect->w.count; left > 0;) {
        poet_quad acc = poet_quad_of(start);
        acc = row_of_three(x, k, acc);
        acc = row_of_three(x + row, k + 3, acc);
        acc = row_of_three(x + 2 * row, k + 6, acc);
        poet_quad_store_adjacent(acc, out);
        left -= 4;
        const int32_t on = ((left > 0) && (left < 4)) ? left : 4;
        left = ((left > 0) && (left < 4)) ? 4 : left;
        x += 2 * on;
        out += on;
    }
}

/* Any taps, one position after the other. */
static void any_row(const rectangle *rect, const float *x, const float *w, float start, float *out)
{
    for (int32_t left = rect->w.count; left > 0; left--) {
        *out = poet_single_run(start, &rect->sum, x, w);
        x += rect->cor->w.run_move;
        out += rect->cor->w.period;
    }
}

typedef void row_function(const rectangle *rect, const float *x, const float *k, float start,
                          float *out);

static row_function *row_for(const rectangle *rect)
{
    const poet_sum *sum = &rect->sum;
    const poet_axis *w = &rect->cor->w;
    const int nine = (sum->rows == 3) && (sum->taps == 3) && (sum->channels == 1);
    const int dense = (sum->of[POET_X].tap == 1) && (sum->of[POET_W].row == 3);
    const int by_two = (w->back == 0) && (w->run_move == 2) && (rect->w.count >= 4);
    return (nine && dense && by_two) ? nine_row : any_row;
}

/* One rectangle of a group of one channel in and one out. */
static void run_single(const rectangle *rect, const group_data *group)
{
    const correlation *cor = rect->cor;
    row_function *row = row_for(rect);
    const float *x = group->x + rect->h.source * cor->x_row + rect->w.source;
    float *out = group->out + rect->h.first * cor->out_row + rect->w.first;
    for (int32_t n = 0; n < cor->samples; n++) {
        for (int32_t i = 0; i < rect->h.count; i++) {
            row(rect, x + i * cor->h.run_move * cor->x_row, group->w, start_of(group, 0),
                out + i * cor->h.period * cor->out_row);
        }
        x += cor->groups * cor->x_plane;
        out += cor->groups * cor->out_plane;
    }
}

#endif
