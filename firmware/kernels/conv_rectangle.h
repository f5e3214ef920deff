/* A convolution in one direction as data, and the rectangles of positions its outputs fall into.
 * Part of conv2d.c.
 */
#ifndef POET_CONV_RECTANGLE_H
#define POET_CONV_RECTANGLE_H

#include "blocks.h"
#include "conv_axis.h"

/* One direction of the convolution. Sizes count floats; "out" is y forward and dx back, "x" is
 * the operand summed over (x forward, dy back). */
typedef struct {
    poet_axis h, w;
    int32_t samples, groups;
    int32_t outs, channels;         /* of one group: output channels, channels summed over */
    int32_t x_row, x_plane;         /* x: one row, one channel */
    int32_t out_row, out_plane;     /* out: one row, one channel */
    int32_t w_out, w_channel, w_row; /* steps of w per output channel, summed channel, kernel row */
    int32_t w_group;
    int32_t x_tap; /* step in x from one tap to the next for which there are special blocks */
    float *work;   /* workspace of the packed form, NULL without it */
    int32_t work_floats;
} correlation;

/* A rectangle of positions of all samples, walked sample by sample, row by row. */
typedef struct {
    int32_t sample, row, column;
    int32_t x, out; /* offsets of the position from the group's first float */
} cursor;

typedef struct {
    const correlation *cor;
    poet_axis_run h, w;
    poet_sum sum;
    int32_t positions; /* in all samples */
} rectangle;

/* Operands of one group. bias is NULL where chains start at 0; outs, the output channels from out
 * on, is kept by run_four alone. */
typedef struct {
    const float *x, *w, *bias;
    float *out;
    int32_t outs;
} group_data;

static void cursor_next(cursor *at, const rectangle *rect)
{
    const correlation *cor = rect->cor;
    at->column++;
    at->x += cor->w.run_move;
    at->out += cor->w.period;
    if (at->column < rect->w.count) {
        return;
    }
    at->column = 0;
    at->row++;
    at->x += cor->h.run_move * cor->x_row - rect->w.count * cor->w.run_move;
    at->out += cor->h.period * cor->out_row - rect->w.count * cor->w.period;
    if (at->row < rect->h.count) {
        return;
    }
    at->row = 0;
    at->sample++;
    at->x += cor->groups * cor->channels * cor->x_plane
             - rect->h.count * cor->h.run_move * cor->x_row;
    at->out += cor->groups * cor->outs * cor->out_plane
               - rect->h.count * cor->h.period * cor->out_row;
}

static rectangle rectangle_of(const correlation *cor, poet_axis_run h, poet_axis_run w)
{
    rectangle rect = {.cor = cor, .h = h, .w = w};
    poet_sum *sum = &rect.sum;
    rect.positions = cor->samples * h.count * w.count;
    sum->channels = ((h.taps > 0) && (w.taps > 0)) ? cor->channels : 0;
    sum->rows = h.taps;
    sum->taps = w.taps;
    sum->of[POET_X].tap = cor->w.tap_move;
    sum->of[POET_X].row = cor->h.tap_move * cor->x_row;
    sum->of[POET_W].tap = cor->w.tap_step;
    sum->of[POET_W].row = cor->h.tap_step * cor->w_row;
    int32_t x_channel = cor->x_plane;
    int32_t w_channel = cor->w_channel;
    if (sum->taps == 1) { /* keep the innermost loop long: rows become it, or channels */
        sum->taps = sum->rows;
        sum->of[POET_X].tap = sum->of[POET_X].row;
        sum->of[POET_W].tap = sum->of[POET_W].row;
        sum->rows = 1;
    }
    if ((sum->taps == 1) && (sum->rows == 1) && (sum->channels > 0)) {
        sum->taps = sum->channels;
        sum->of[POET_X].tap = x_channel;
        sum->of[POET_W].tap = w_channel;
        sum->channels = 1;
    }
    poet_sum_finish(sum, x_channel, w_channel);
    return rect;
}

POET_INLINE float start_of(const group_data *data, int32_t out)
{
    return (data->bias != 0) ? data->bias[out] : 0.0F;
}

POET_INLINE void store_lanes(poet_quad v, float *out, const int32_t at[4])
{
    poet_quad_store(v, out + at[0], out + at[1], out + at[2], out + at[3]);
}

#endif
