/* A rectangle in blocks of four channels by four positions; the positions of a block may lie in
 * different rows and samples. Part of conv2d.c.
 */
#ifndef POET_CONV_BLOCKS_H
#define POET_CONV_BLOCKS_H

#include "conv_rectangle.h"

/* Four positions: offsets from the group's first float. */
typedef struct {
    int32_t x[4], out[4];
} spots;

/* Computes the outputs of one block: some channels from data->out on, at some spots. */
typedef void block_function(const rectangle *rect, const group_data *data, const spots *at);

/* Blocks by size; full and thin have [0] for scattered and [1] for adjacent positions. */
typedef struct {
    block_function *full[2]; /* 4 channels, 4 positions */
    block_function *pair;    /* 4 channels, 2 positions */
    block_function *lone;    /* 4 channels, 1 position */
    block_function *thin[2]; /* 1 channel, 4 positions */
} block_set;

POET_INLINE void full_block(const rectangle *rect, const group_data *data, const spots *at,
                            int adjacent, int x_tap, int taps)
{
    const poet_block_kind kind = {.lane_operand = POET_X,
                                  .rows = 4,
                                  .lanes_adjacent = adjacent,
                                  .rows_adjacent = 0,
                                  .x_tap = x_tap,
                                  .taps = taps};
    const int32_t step = rect->cor->w_out;
    const int32_t plane = rect->cor->out_plane;
    const poet_lanes lanes = poet_lanes_at(data->x, at->x[0], at->x[1], at->x[2], at->x[3]);
    const poet_rows rows
        = {data->w, data->w + step, data->w + 2 * step, data->w + 3 * step};
    poet_block acc = {poet_quad_of(start_of(data, 0)), poet_quad_of(start_of(data, 1)),
                      poet_quad_of(start_of(data, 2)), poet_quad_of(start_of(data, 3))};
    poet_block_run(&acc, &rect->sum, lanes, rows, kind);
    store_lanes(acc.r0, data->out, at->out);
    store_lanes(acc.r1, data->out + plane, at->out);
    store_lanes(acc.r2, data->out + 2 * plane, at->out);
    store_lanes(acc.r3, data->out + 3 * plane, at->out);
}

/* One or two positions: the four channels are the lanes. */
POET_INLINE void narrow_block(const rectangle *rect, const group_data *data, const spots *at,
                              int positions, int x_tap, int taps)
{
    const poet_block_kind kind = {.lane_operand = POET_W,
                                  .rows = positions,
                                  .lanes_adjacent = 0,
                                  .rows_adjacent = 0,
                                  .x_tap = x_tap,
                                  .taps = taps};
    const int32_t step = rect->cor->w_out;
    const int32_t plane = rect->cor->out_plane;
    const poet_lanes lanes = poet_lanes_at(data->w, 0, step, 2 * step, 3 * step);
    const float *x = data->x + at->x[0];
    const poet_rows rows = {x, (positions == 2) ? data->x + at->x[1] : x, x, x};
    const poet_quad start
        = (data->bias != 0) ? poet_quad_read(data->bias, 1) : poet_quad_of(0.0F);
    poet_block acc = {start, start, start, start};
    poet_block_run(&acc, &rect->sum, lanes, rows, kind);
    const int32_t channels[4] = {0, plane, 2 * plane, 3 * plane};
    store_lanes(acc.r0, data->out + at->out[0], channels);
    if (positions == 2) {
        store_lanes(acc.r1, data->out + at->out[1], channels);
    }
}

POET_INLINE void thin_block(const rectangle *rect, const group_data *data, const spots *at,
                            int adjacent, int x_tap, int taps)
{
    const poet_block_kind kind = {.lane_operand = POET_X,
                                  .rows = 1,
                                  .lanes_adjacent = adjacent,
                                  .rows_adjacent = 0,
                                  .x_tap = x_tap,
                                  .taps = taps};
    const poet_lanes lanes = poet_lanes_at(data->x, at->x[0], at->x[1], at->x[2], at->x[3]);
    const poet_rows rows = {data->w, data->w, data->w, data->w};
    const poet_quad start = poet_quad_of(start_of(data, 0));
    poet_block acc = {start, start, start, start};
    poet_block_run(&acc, &rect->sum, lanes, rows, kind);
    store_lanes(acc.r0, data->out, at->out);
}

/* The blocks for one step of the taps in x and one count of taps (0: read from the sum). */
#define BLOCK_FUNCTION(name, call)                                                          \
    static void name(const rectangle *rect, const group_data *data, const spots *at)        \
    {                                                                                       \
        call;                                                                               \
    }
#if POET_SOFT_FLOAT
BLOCK_FUNCTION(any_thin, thin_block(rect, data, at, 0, 0, 0))
BLOCK_FUNCTION(any_lone, narrow_block(rect, data, at, 1, 0, 0))
static const block_set any = {{0, 0}, 0, any_lone, {any_thin, any_thin}};
#else
#define BLOCK_SET(name, x_tap, taps)                                                        \
    BLOCK_FUNCTION(name##_scattered, full_block(rect, data, at, 0, (x_tap), (taps)))        \
    BLOCK_FUNCTION(name##_adjacent, full_block(rect, data, at, 1, (x_tap), (taps)))         \
    BLOCK_FUNCTION(name##_pair, narrow_block(rect, data, at, 2, (x_tap), (taps)))           \
    BLOCK_FUNCTION(name##_lone, narrow_block(rect, data, at, 1, (x_tap), (taps)))           \
    BLOCK_FUNCTION(name##_thin_scattered, thin_block(rect, data, at, 0, (x_tap), (taps)))   \
    BLOCK_FUNCTION(name##_thin_adjacent, thin_block(rect, data, at, 1, (x_tap), (taps)))    \
    static const block_set name = {{name##_scattered, name##_adjacent},                     \
                                   name##_pair,                                             \
                                   name##_lone,                                             \
                                   {name##_thin_scattered, name##_thin_adjacent}};

BLOCK_SET(any, 0, 0)
BLOCK_SET(up, 1, 0)
BLOCK_SET(up3, 1, 3)
BLOCK_SET(down, -1, 0)
BLOCK_SET(down3, -1, 3)
#endif

static const block_set *blocks_for(const rectangle *rect, const block_set *three,
                                   const block_set *some)
{
    const poet_sum *sum = &rect->sum;
    if (POET_SOFT_FLOAT || (sum->of[POET_W].tap != 1)
        || (sum->of[POET_X].tap != rect->cor->x_tap)) {
        return &any;
    }
    return (sum->taps == 3) ? three : some;
}

/* All output channels of the group at some positions. */
static void run_spots(const rectangle *rect, const group_data *group, const spots *at,
                      int32_t positions, const block_set *blocks)
{
    const correlation *cor = rect->cor;
    const int adjacent = (positions == 4) && (at->x[1] == at->x[0] + 1)
                         && (at->x[2] == at->x[0] + 2) && (at->x[3] == at->x[0] + 3);
    block_function *four = (positions == 4)   ? blocks->full[adjacent]
                           : (positions == 2) ? blocks->pair
                                              : blocks->lone;
    group_data data = *group;
    for (int32_t left = cor->outs; left > 0;) {
        const int32_t done = ((left >= 4) && (!POET_SOFT_FLOAT || (positions == 1))) ? 4 : 1;
        if (done == 4) {
            four(rect, &data, at);
        } else if (positions == 4) {
            blocks->thin[adjacent](rect, &data, at);
        } else {
            for (int32_t i = 0; i < positions; i++) {
                data.out[at->out[i]] = poet_single_run(start_of(&data, 0), &rect->sum,
                                                       data.x + at->x[i], data.w);
            }
        }
        left -= done;
        data.out += done * cor->out_plane;
        data.w += done * cor->w_out;
        data.bias = (data.bias != 0) ? data.bias + done : data.bias;
    }
}

/* One rectangle of one group. */
static void run_rectangle(const rectangle *rect, const group_data *group,
                          const block_set *blocks)
{
    cursor at = {.x = rect->h.source * rect->cor->x_row + rect->w.source,
                 .out = rect->h.first * rect->cor->out_row + rect->w.first};
    spots four;
    for (int32_t left = rect->positions; left > 0;) {
        const int32_t positions = (left >= 4) ? 4 : ((left >= 2) && !POET_SOFT_FLOAT) ? 2 : 1;
        for (int32_t i = 0; i < positions; i++) {
            four.x[i] = at.x;
            four.out[i] = at.out;
            cursor_next(&at, rect);
        }
        run_spots(rect, group, &four, positions, blocks);
        left -= positions;
    }
}

#endif
