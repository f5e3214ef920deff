/* The correlation that convolution is, forward and back through its input: each output sums
 * products of a source plane with weights over channels, rows and taps. The output plane is cut
 * into rectangles of positions that meet the same taps (conv_axis.h), so padding costs no test,
 * and each rectangle is done in blocks (conv_blocks.h, conv_rows.h, conv_single.h).
 * Part of conv2d.c.
 */
#ifndef POET_CORRELATE_H
#define POET_CORRELATE_H

#include "conv_blocks.h"
#include "conv_depthwise.h"
#include "conv_packed.h"
#include "conv_rows.h"
#include "conv_single.h"

typedef void rectangle_function(const rectangle *rect, const group_data *group,
                                const block_set *blocks);

/* Everything that differs between forward and back in the choice of blocks. */
typedef struct {
    edge_row_function *row;
    plane_function *two_rows, *three_rows; /* of one channel, under so many rows of taps */
    const block_set *three, *some;
    edge_function *const *edge, *const *edge_thin;
    rectangle_function *rectangle;
} direction;

#if POET_SOFT_FLOAT
static const direction forward = {0, 0, 0, &any, &any, 0, 0, run_rectangle};
static const direction back = {0, 0, 0, &any, &any, 0, 0, run_rectangle};
static const direction packed = {0, 0, 0, &any, &any, 0, 0, run_packed};
#else
static const direction forward = {edge_row_up, plane_two_up, plane_three_up,
                                  &up3, &up, edge_up, edge_up_thin, run_rectangle};
static const direction back = {edge_row_down, plane_two_down, plane_three_down,
                               &down3, &down, edge_down, edge_down_thin, run_rectangle};
/* Both directions; what is too small to be packed takes any blocks. */
static const direction packed = {0, 0, 0, &any, &any, 0, 0, run_packed};
#endif

/* Three neighbouring taps, at most one of them missing at either end of a row. */
static int rows_fit(const correlation *cor)
{
    const poet_axis *w = &cor->w;
    const int32_t leftmost = (w->back != 0) ? w->pad - 2 : -w->pad;
    const int32_t rightmost = w->targets + 1 + leftmost;
    return !POET_SOFT_FLOAT && (w->kernel == 3) && (w->stride == 1) && (w->dilation == 1)
           && (w->targets >= 4) && (leftmost >= -1) && (leftmost <= 0) && (rightmost <= w->sources)
           && (w->sources >= 2);
}

/* All channels of four positions from column on. */
static void run_four(const rectangle *rect, const group_data *group, int32_t x, int32_t out,
                     int edge, const direction *way)
{
    group_data data = *group;
    const int32_t least = POET_QUAD_IS_VECTOR ? 2 : 4; /* vectors need not be full */
    int32_t left = rect->cor->outs;
    for (; left >= least; left -= 4) {
        data.outs = left;
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

/* One row in blocks. The last may have two positions, or overlap the one before it: what it
 * computes again comes out the same. */
static void run_row(const rectangle *rect, const group_data *group, int32_t x, int32_t out,
                    int lacks_left, int lacks_right, const direction *way)
{
    const int32_t end = rect->cor->w.targets - 4;
    for (int32_t column = 0; column < end + 4;) {
        if (EDGE_BY_TWO && (column == end + 2)) {
            run_four(rect, group, x + column, out + column, 4 + lacks_right, way);
            return;
        }
        const int32_t at = (column < end) ? column : end;
        const int edge = ((at == 0) ? 2 * lacks_left : 0) + ((at == end) ? lacks_right : 0);
        run_four(rect, group, x + at, out + at, edge, way);
        column = at + 4;
    }
}

/* The whole rows of a run of rows. */
static void run_rows(const rectangle *rect, const group_data *group, const direction *way)
{
    const correlation *cor = rect->cor;
    const int32_t first = (cor->w.back != 0) ? cor->w.pad : -cor->w.pad; /* source of tap 0 */
    const int32_t leftmost = (cor->w.back != 0) ? first - 2 : first;
    const int32_t end = cor->w.targets - 4;
    const int lacks_left = (leftmost < 0);
    const int lacks_right = (leftmost + cor->w.targets + 1 >= cor->w.sources);
    const int single = (cor->outs == 1) && (cor->channels == 1);
    plane_function *rows = (rect->sum.rows == 3)   ? way->three_rows
                           : (rect->sum.rows == 2) ? way->two_rows
                                                   : 0;
    const int whole = single && lacks_left && lacks_right && (end > 0) && (rows != 0);
    group_data data = *group;
    for (int32_t n = 0; n < cor->samples; n++) {
        if (whole) {
            rows(rect, &data, data.x + rect->h.source * cor->x_row + first,
                 data.out + rect->h.first * cor->out_row);
        }
        for (int32_t i = 0; (i < rect->h.count) && !whole; i++) {
            const int32_t x = (rect->h.source + i * cor->h.run_move) * cor->x_row + first;
            const int32_t out = (rect->h.first + i * cor->h.period) * cor->out_row;
            if (single) {
                way->row(rect, &data, x, out, lacks_left, lacks_right);
                continue;
            }
            run_row(rect, &data, x, out, lacks_left, lacks_right, way);
        }
        data.x += cor->groups * cor->channels * cor->x_plane;
        data.out += cor->groups * cor->outs * cor->out_plane;
    }
}

/* One run of rows by one run of columns, or by whole rows when columns is NULL. */
POET_APART static void run_groups(const correlation *cor, const group_data *first,
                                  const direction *way, const poet_axis_run *rows,
                                  const poet_axis_run *columns)
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
            way->rectangle(&rect, &group, blocks);
        }
        group.x += cor->channels * cor->x_plane;
        group.w += cor->w_group;
        group.out += cor->outs * cor->out_plane;
        group.bias = (group.bias != 0) ? group.bias + cor->outs : group.bias;
    }
}

static void correlate(const correlation *cor, const group_data *first, const direction *way)
{
    const int whole_rows = (way->row != 0) && rows_fit(cor);
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
