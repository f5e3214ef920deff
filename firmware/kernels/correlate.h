/* The correlation that convolution is, forward and back through its input: each output sums
 * products of a source plane with weights over channels, rows and taps. The output plane is cut
 * into rectangles of positions that meet the same taps (conv_axis.h), so padding costs no test,
 * and each rectangle is done in blocks of four channels by four positions (blocks.h); positions
 * of one block may lie in different rows and samples. For conv2d.c alone.
 */
#ifndef POET_CORRELATE_H
#define POET_CORRELATE_H

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

/* Operands of one group. bias is NULL where chains start at 0. */
typedef struct {
    const float *x, *w, *bias;
    float *out;
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

POET_INLINE float start_of(const group_data *data, int32_t out)
{
    return (data->bias != 0) ? data->bias[out] : 0.0F;
}

POET_INLINE void store_lanes(poet_quad v, float *out, const int32_t at[4])
{
    poet_quad_store(v, out + at[0], out + at[1], out + at[2], out + at[3]);
}

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

static const block_set *blocks_for(const rectangle *rect, const block_set *three,
                                   const block_set *some)
{
    const poet_sum *sum = &rect->sum;
    if ((sum->of[POET_W].tap != 1) || (sum->of[POET_X].tap != rect->cor->x_tap)) {
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
        const int32_t done = (left >= 4) ? 4 : 1;
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

/* ---- one channel to one channel: depthwise ---- */

/* Four positions, step apart in x, under 3 x 3 taps; unit is the step of the taps in x. */
POET_INLINE poet_quad nine_taps(const float *x, int32_t x_row, const float *k, poet_quad acc,
                                int32_t step, int32_t unit)
{
    for (int32_t row = 0; row < 3; row++) {
        acc = poet_quad_fma(poet_quad_read(x, step), k[0], acc);
        acc = poet_quad_fma(poet_quad_read(x + unit, step), k[1], acc);
        acc = poet_quad_fma(poet_quad_read(x + 2 * unit, step), k[2], acc);
        x += x_row;
        k += 3;
    }
    return acc;
}

/* One row of positions; k is 3 x 3, in registers once the loop runs. */
POET_INLINE void nine_row(const rectangle *rect, const float *x, const float k[9], float start,
                          float *out, int32_t step, int32_t unit)
{
    const int32_t row = rect->sum.of[POET_X].row;
    int32_t left = rect->w.count;
    for (; left >= 4; left -= 4) {
        const poet_quad acc = nine_taps(x, row, k, poet_quad_of(start), step, unit);
        poet_quad_store_adjacent(acc, out);
        x += 4 * step;
        out += 4;
    }
    for (; left > 0; left--) {
        *out++ = poet_single_run(start, &rect->sum, x, k);
        x += step;
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

static void nine_row_up(const rectangle *rect, const float *x, const float *k, float start,
                        float *out)
{
    nine_row(rect, x, k, start, out, 1, 1);
}

static void nine_row_up2(const rectangle *rect, const float *x, const float *k, float start,
                         float *out)
{
    nine_row(rect, x, k, start, out, 2, 1);
}

static void nine_row_down(const rectangle *rect, const float *x, const float *k, float start,
                          float *out)
{
    nine_row(rect, x, k, start, out, 1, -1);
}

typedef void row_function(const rectangle *rect, const float *x, const float *k, float start,
                          float *out);

static row_function *row_for(const rectangle *rect)
{
    const poet_sum *sum = &rect->sum;
    const correlation *cor = rect->cor;
    if ((sum->rows != 3) || (sum->taps != 3) || (sum->channels != 1) || (cor->w.period != 1)
        || (sum->of[POET_W].tap != 1) || (sum->of[POET_W].row != 3)) {
        return any_row;
    }
    if (sum->of[POET_X].tap == 1) {
        return (cor->w.run_move == 1)   ? nine_row_up
               : (cor->w.run_move == 2) ? nine_row_up2
                                        : any_row;
    }
    return ((sum->of[POET_X].tap == -1) && (cor->w.run_move == 1)) ? nine_row_down : any_row;
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

/* One rectangle of one group. */
static void run_rectangle(const rectangle *rect, const group_data *group,
                          const block_set *blocks)
{
    cursor at = {.x = rect->h.source * rect->cor->x_row + rect->w.source,
                 .out = rect->h.first * rect->cor->out_row + rect->w.first};
    spots four;
    for (int32_t left = rect->positions; left > 0;) {
        const int32_t positions = (left >= 4) ? 4 : (left >= 2) ? 2 : 1;
        for (int32_t i = 0; i < positions; i++) {
            four.x[i] = at.x;
            four.out[i] = at.out;
            cursor_next(&at, rect);
        }
        run_spots(rect, group, &four, positions, blocks);
        left -= positions;
    }
}

/* ---- whole rows under three taps ---- */

/* outs (1 or 4) channels of four neighbouring positions; offsets are those of the first. */
typedef void edge_function(const rectangle *rect, const group_data *data, int32_t x, int32_t out);

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
    poet_edge_run(&acc, &rect->sum, data->x + x, w, kind);
    float *to = data->out + out;
    poet_quad_store_adjacent(acc.r0, to);
    if (kind.rows == 4) {
        poet_quad_store_adjacent(acc.r1, to + plane);
        poet_quad_store_adjacent(acc.r2, to + 2 * plane);
        poet_quad_store_adjacent(acc.r3, to + 3 * plane);
    }
}

#define EDGE_FUNCTION(name, outs, step, left, right)                                            \
    static void name(const rectangle *rect, const group_data *data, int32_t x, int32_t out)     \
    {                                                                                           \
        const poet_edge_kind kind = {(outs), (step), (left), (right)};                          \
        edge_block(rect, data, x, out, kind);                                                   \
    }
/* name[2 * left + right] */
#define EDGE_SET(name, outs, step)                                                              \
    EDGE_FUNCTION(name##_inner, (outs), (step), 0, 0)                                           \
    EDGE_FUNCTION(name##_right, (outs), (step), 0, 1)                                           \
    EDGE_FUNCTION(name##_left, (outs), (step), 1, 0)                                            \
    EDGE_FUNCTION(name##_both, (outs), (step), 1, 1)                                            \
    static edge_function *const name[4] = {name##_inner, name##_right, name##_left, name##_both};

EDGE_SET(edge_up, 4, 1)
EDGE_SET(edge_up_thin, 1, 1)
EDGE_SET(edge_down, 4, -1)
EDGE_SET(edge_down_thin, 1, -1)

/* Everything that differs between forward and back in the choice of blocks. */
typedef struct {
    const block_set *three, *some;
    edge_function *const *edge, *const *edge_thin;
} direction;

/* Three neighbouring taps, at most one of them missing at either end of a row. */
static int rows_fit(const correlation *cor)
{
    const poet_axis *w = &cor->w;
    const int32_t leftmost = (w->back != 0) ? w->pad - 2 : -w->pad;
    const int32_t rightmost = w->targets + 1 + leftmost;
    if ((cor->outs == 1) && (cor->channels == 1)) {
        return 0;
    }
    return (w->kernel == 3) && (w->stride == 1) && (w->dilation == 1) && (w->targets >= 4)
           && (leftmost >= -1) && (leftmost <= 0) && (rightmost <= w->sources)
           && (w->sources >= 2);
}

/* All channels of four positions from column on. */
static void run_four(const rectangle *rect, const group_data *group, int32_t x, int32_t out,
                     int edge, const direction *way)
{
    group_data data = *group;
    int32_t left = rect->cor->outs;
    for (; left >= 4; left -= 4) {
        way->edge[edge](rect, &data, x, out);
        data.out += 4 * rect->cor->out_plane;
        data.w += 4 * rect->cor->w_out;
        data.bias = (data.bias != 0) ? data.bias + 4 : data.bias;
    }
    for (; left > 0; left--) {
        way->edge_thin[edge](rect, &data, x, out);
        data.out += rect->cor->out_plane;
        data.w += rect->cor->w_out;
        data.bias = (data.bias != 0) ? data.bias + 1 : data.bias;
    }
}

/* The whole rows of a run of rows. The last block of a row may overlap the one before it: what
 * it computes again comes out the same. */
static void run_rows(const rectangle *rect, const group_data *group, const direction *way)
{
    const correlation *cor = rect->cor;
    const int32_t first = (cor->w.back != 0) ? cor->w.pad : -cor->w.pad; /* source of tap 0 */
    const int32_t leftmost = (cor->w.back != 0) ? first - 2 : first;
    const int32_t end = cor->w.targets - 4;
    const int lacks_left = (leftmost < 0);
    const int lacks_right = (leftmost + cor->w.targets + 1 >= cor->w.sources);
    group_data data = *group;
    for (int32_t n = 0; n < cor->samples; n++) {
        for (int32_t i = 0; i < rect->h.count; i++) {
            const int32_t x = (rect->h.source + i * cor->h.run_move) * cor->x_row + first;
            const int32_t out = (rect->h.first + i * cor->h.period) * cor->out_row;
            for (int32_t column = 0; column <= end;) {
                const int edge = ((column == 0) ? 2 * lacks_left : 0)
                                 + ((column == end) ? lacks_right : 0);
                run_four(rect, &data, x + column, out + column, edge, way);
                column = ((column < end) && (column + 4 > end)) ? end : column + 4;
            }
        }
        data.x += cor->groups * cor->channels * cor->x_plane;
        data.out += cor->groups * cor->outs * cor->out_plane;
    }
}

/* One run of rows by one run of columns, or by whole rows when columns is NULL. */
static void run_groups(const correlation *cor, const group_data *first, const direction *way,
                       const poet_axis_run *rows, const poet_axis_run *columns)
{
    const poet_axis_run whole = {.tap = 0, .taps = 3};
    const poet_axis_run *across = (columns != 0) ? columns : &whole;
    const rectangle rect = rectangle_of(cor, *rows, *across);
    const block_set *blocks = blocks_for(&rect, way->three, way->some);
    group_data group = *first;
    group.w += rows->tap * cor->w_row + across->tap;
    for (int32_t g = 0; g < cor->groups; g++) {
        if (columns == 0) {
            run_rows(&rect, &group, way);
        } else if ((cor->outs == 1) && (cor->channels == 1)) {
            run_single(&rect, &group);
        } else {
            run_rectangle(&rect, &group, blocks);
        }
        group.x += cor->channels * cor->x_plane;
        group.w += cor->w_group;
        group.out += cor->outs * cor->out_plane;
        group.bias = (group.bias != 0) ? group.bias + cor->outs : group.bias;
    }
}

static void correlate(const correlation *cor, const group_data *first, const direction *way)
{
    const int whole_rows = rows_fit(cor);
    for (int32_t h = 0; h < cor->h.targets;) {
        const poet_axis_run rows = poet_axis_run_at(&cor->h, h);
        if (whole_rows && (rows.taps > 0)) {
            run_groups(cor, first, way, &rows, 0);
        }
        for (int32_t w = 0; (w < cor->w.targets) && !(whole_rows && (rows.taps > 0));) {
            const poet_axis_run columns = poet_axis_run_at(&cor->w, w);
            run_groups(cor, first, way, &rows, &columns);
            w = poet_axis_next(&cor->w, &columns);
        }
        h = poet_axis_next(&cor->h, &rows);
    }
}

#endif
