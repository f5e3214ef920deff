/* Sums of products over channels, rows and taps for a block of outputs at once.
 *
 * Each output's chain runs channels outermost, taps innermost, in order. A block has four lanes
 * and one, two or four broadcast rows: lane l of row r is the chain of one output, fed with
 * lane operand l times row operand r. Either side may be the input and the other the weights.
 * All counts are at least 1 except channels, which may be 0 (the output is then its start value).
 */
#ifndef POET_BLOCKS_H
#define POET_BLOCKS_H

#include "quad.h"

/* Steps in floats of one operand; the _rest steps are what is left after the loop inside. */
typedef struct {
    int32_t tap, row, row_rest, channel_rest;
} poet_steps;

enum { POET_X = 0, POET_W = 1 };

typedef struct {
    int32_t channels, rows, taps;
    poet_steps of[2]; /* POET_X, POET_W */
} poet_sum;

typedef struct {
    const float *p0, *p1, *p2, *p3;
} poet_rows;

typedef struct {
    poet_quad r0, r1, r2, r3;
} poet_block;

/* What the compiler must know of a block to make good code of it: constants at every call. */
typedef struct {
    int lane_operand;   /* POET_X or POET_W; the rows are the other */
    int rows;           /* 1, 2 or 4 */
    int lanes_adjacent; /* the four lane operands are neighbours in memory */
    int rows_adjacent;
    int x_tap; /* +1 or -1 when the input steps so and the weights step +1; 0: any steps */
    int taps;  /* 3, or 0 for a count known only at run time */
} poet_block_kind;

POET_INLINE void poet_sum_finish(poet_sum *sum, int32_t x_channel, int32_t w_channel)
{
    for (int side = 0; side < 2; side++) {
        poet_steps *steps = &sum->of[side];
        steps->row_rest = steps->row - sum->taps * steps->tap;
        steps->channel_rest
            = ((side == POET_X) ? x_channel : w_channel) - sum->rows * steps->row;
    }
}

POET_INLINE void poet_rows_advance(poet_rows *rows, int32_t by, const poet_block_kind *kind)
{
    rows->p0 += by;
    if (kind->rows_adjacent == 0) {
        if (kind->rows >= 2) {
            rows->p1 += by;
        }
        if (kind->rows == 4) {
            rows->p2 += by;
            rows->p3 += by;
        }
    }
}

POET_INLINE void poet_block_tap(poet_block *acc, const poet_lanes *lanes, const poet_rows *rows,
                                int32_t lane_at, int32_t row_at, const poet_block_kind *kind)
{
    const int adjacent = kind->rows_adjacent;
    const float *p = rows->p0 + row_at;
    const poet_quad v = poet_lanes_load(lanes, lane_at, kind->lanes_adjacent);
    acc->r0 = poet_quad_fma(v, p[0], acc->r0);
    if (kind->rows >= 2) {
        acc->r1 = poet_quad_fma(v, (adjacent != 0) ? p[1] : rows->p1[row_at], acc->r1);
    }
    if (kind->rows == 4) {
        acc->r2 = poet_quad_fma(v, (adjacent != 0) ? p[2] : rows->p2[row_at], acc->r2);
        acc->r3 = poet_quad_fma(v, (adjacent != 0) ? p[3] : rows->p3[row_at], acc->r3);
    }
}

/* One row of taps; leaves both operands at the next row. */
POET_INLINE void poet_block_row(poet_block *acc, const poet_sum *sum, poet_lanes *lanes,
                                poet_rows *rows, const poet_block_kind *kind)
{
    const poet_steps *ls = &sum->of[kind->lane_operand];
    const poet_steps *rs = &sum->of[1 - kind->lane_operand];
    const int32_t x_tap = kind->x_tap;
    const int32_t lane_unit = (kind->lane_operand == POET_X) ? x_tap : 1;
    const int32_t row_unit = (kind->lane_operand == POET_X) ? 1 : x_tap;
    if (kind->taps == 3) {
        poet_block_tap(acc, lanes, rows, 0, 0, kind);
        poet_block_tap(acc, lanes, rows, lane_unit, row_unit, kind);
        poet_block_tap(acc, lanes, rows, 2 * lane_unit, 2 * row_unit, kind);
        poet_lanes_advance(lanes, ls->row, kind->lanes_adjacent);
        poet_rows_advance(rows, rs->row, kind);
        return;
    }
    int32_t left = sum->taps;
    do {
        poet_block_tap(acc, lanes, rows, 0, 0, kind);
        poet_lanes_advance(lanes, (x_tap != 0) ? lane_unit : ls->tap, kind->lanes_adjacent);
        poet_rows_advance(rows, (x_tap != 0) ? row_unit : rs->tap, kind);
        left--;
    } while (left > 0);
    poet_lanes_advance(lanes, ls->row_rest, kind->lanes_adjacent);
    poet_rows_advance(rows, rs->row_rest, kind);
}

POET_INLINE void poet_block_run(poet_block *acc, const poet_sum *sum, poet_lanes lanes,
                                poet_rows rows, poet_block_kind kind)
{
    poet_block a = *acc;
    for (int32_t c = sum->channels; c > 0; c--) {
        int32_t left = sum->rows;
        do {
            poet_block_row(&a, sum, &lanes, &rows, &kind);
            left--;
        } while (left > 0);
        poet_lanes_advance(&lanes, sum->of[kind.lane_operand].channel_rest, kind.lanes_adjacent);
        poet_rows_advance(&rows, sum->of[1 - kind.lane_operand].channel_rest, &kind);
    }
    *acc = a;
}

/* A block of four neighbouring positions of one row under three taps, as 3-wide kernels with
 * padding 1 have it: the first position may lack the tap that reads left of the row, the last the
 * one that reads right of it. step is +1 forward and -1 back; x is read at x + lane + step * tap.
 */
typedef struct {
    int rows; /* output channels: 1 or 4 */
    int step;
    int left, right; /* the first, the last position lacks a tap */
    int two;         /* two positions instead of four, the first of which has all its taps */
} poet_edge_kind;

/* One chain alone. */
POET_INLINE float poet_single_run(float acc, const poet_sum *sum, const float *x, const float *w)
{
    const poet_steps *xs = &sum->of[POET_X];
    const poet_steps *ws = &sum->of[POET_W];
    for (int32_t c = sum->channels; c > 0; c--) {
        int32_t rows = sum->rows;
        do {
            int32_t taps = sum->taps;
            do {
                acc = POET_FMA(*x, *w, acc);
                x += xs->tap;
                w += ws->tap;
                taps--;
            } while (taps > 0);
            x += xs->row_rest;
            w += ws->row_rest;
            rows--;
        } while (rows > 0);
        x += xs->channel_rest;
        w += ws->channel_rest;
    }
    return acc;
}

#endif
