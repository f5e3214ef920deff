/* A rectangle by way of workspace: the inputs of four positions and the weights of four channels
 * are packed term by term, so that a block of 4 x 4 chains needs two loads a term whatever stride,
 * dilation and number of taps. Chains keep their order: channels, rows, taps. Part of conv2d.c.
 */
#ifndef POET_CONV_PACKED_H
#define POET_CONV_PACKED_H

#include "conv_blocks.h"
#include "pair.h"
#if !POET_QUAD_IS_VECTOR
#include "terms_pairs.h"
#endif

/* With fewer positions packing costs more than it saves. */
#define PACKED_LEAST 4
/* Panels of positions at a time, at most: their places in the output are kept on the stack. */
#define PACKED_PANELS 16

/* Numbers that are moved, not computed with. */
typedef uint32_t moved_word __attribute__((may_alias));

/* panel[4 * term + i] = the term's number at from[i]; step: distances in floats. */
static void pack_panel(const poet_sum *sum, const poet_steps *step, const float *const from[4],
                       float *panel)
{
    const moved_word *a = (const moved_word *)(const void *)from[0];
    const moved_word *b = (const moved_word *)(const void *)from[1];
    const moved_word *c = (const moved_word *)(const void *)from[2];
    const moved_word *d = (const moved_word *)(const void *)from[3];
    moved_word *to = (moved_word *)(void *)panel;
    int32_t at = 0;
    for (int32_t channels = sum->channels; channels > 0; channels--) {
        for (int32_t rows = sum->rows; rows > 0; rows--) {
            for (int32_t taps = sum->taps; taps > 0; taps--) {
                to[0] = a[at];
                to[1] = b[at];
                to[2] = c[at];
                to[3] = d[at];
                to += 4;
                at += step->tap;
            }
            at += step->row_rest;
        }
        at += step->channel_rest;
    }
}

#if !POET_QUAD_IS_VECTOR
/* One term of all 16 chains. */
POET_INLINE void packed_term(poet_block *acc, const float **x, const float **w)
{
    const poet_pair v01 = poet_pair_next(x);
    const poet_pair v23 = poet_pair_next(x);
    const poet_pair f01 = poet_pair_next(w);
    const poet_pair f23 = poet_pair_next(w);
    acc->r0 = poet_quad_fma_two(v01, v23, f01, 0, acc->r0);
    acc->r1 = poet_quad_fma_two(v01, v23, f01, 1, acc->r1);
    acc->r2 = poet_quad_fma_two(v01, v23, f23, 0, acc->r2);
    acc->r3 = poet_quad_fma_two(v01, v23, f23, 1, acc->r3);
}
#else
POET_INLINE void packed_term(poet_block *acc, const float **x, const float **w)
{
    const poet_quad v = poet_quad_read(*x, 1);
    acc->r0 = poet_quad_fma(v, (*w)[0], acc->r0);
    acc->r1 = poet_quad_fma(v, (*w)[1], acc->r1);
    acc->r2 = poet_quad_fma(v, (*w)[2], acc->r2);
    acc->r3 = poet_quad_fma(v, (*w)[3], acc->r3);
    *x += 4;
    *w += 4;
}
#endif

/* Writes some of the four positions of one channel. */
POET_INLINE void packed_store(poet_quad v, float *out, const int32_t at[4], int32_t positions)
{
    if (positions == 4) {
        store_lanes(v, out, at);
        return;
    }
    float all[4];
    poet_quad_store_adjacent(v, all);
    for (int32_t i = 0; i < positions; i++) {
        out[at[i]] = all[i];
    }
}

/* Up to four channels (outs) at up to four positions. */
static void packed_block(const group_data *data, int32_t terms, const float *x, const float *w,
                         int32_t outs, int32_t plane, const int32_t at[4], int32_t positions)
{
    poet_block acc = {poet_quad_of(start_of(data, 0)),
                      poet_quad_of(start_of(data, (outs > 1) ? 1 : 0)),
                      poet_quad_of(start_of(data, (outs > 2) ? 2 : 0)),
                      poet_quad_of(start_of(data, (outs > 3) ? 3 : 0))};
    for (int32_t left = terms / 2; left > 0; left--) {
        packed_term(&acc, &x, &w);
        packed_term(&acc, &x, &w);
    }
    if (terms % 2 != 0) {
        packed_term(&acc, &x, &w);
    }
    packed_store(acc.r0, data->out, at, positions);
    if (outs > 1) {
        packed_store(acc.r1, data->out + plane, at, positions);
    }
    if (outs > 2) {
        packed_store(acc.r2, data->out + 2 * plane, at, positions);
    }
    if (outs > 3) {
        packed_store(acc.r3, data->out + 3 * plane, at, positions);
    }
}

/* All channels at the positions whose panels are packed. */
static void packed_channels(const rectangle *rect, const group_data *group, int32_t terms,
                            const float *panels, float *weights, int32_t (*at)[4],
                            int32_t positions)
{
    const correlation *cor = rect->cor;
    const int32_t step = cor->w_out;
    group_data data = *group;
    for (int32_t left = cor->outs; left > 0; left -= 4) {
        const int32_t outs = (left < 4) ? left : 4;
        const float *const from[4]
            = {data.w, data.w + ((outs > 1) ? step : 0), data.w + ((outs > 2) ? 2 * step : 0),
               data.w + ((outs > 3) ? 3 * step : 0)};
        pack_panel(&rect->sum, &rect->sum.of[POET_W], from, weights);
        for (int32_t p = 0; 4 * p < positions; p++) {
            const int32_t rest = positions - 4 * p;
            packed_block(&data, terms, panels + 4 * terms * p, weights, outs, cor->out_plane,
                         at[p], (rest < 4) ? rest : 4);
        }
        data.out += 4 * cor->out_plane;
        data.w += 4 * step;
        data.bias = (data.bias != 0) ? data.bias + 4 : data.bias;
    }
}

/* One rectangle of one group, by bands of as many positions as the workspace holds. */
static void run_packed(const rectangle *rect, const group_data *group, const block_set *blocks)
{
    const correlation *cor = rect->cor;
    const int32_t terms = rect->sum.channels * rect->sum.rows * rect->sum.taps;
    int32_t most = (terms > 0) ? cor->work_floats / (4 * terms) - 1 : 0;
    most = (most < PACKED_PANELS) ? most : PACKED_PANELS;
    if ((most < 1) || (rect->positions < PACKED_LEAST)) {
        run_rectangle(rect, group, blocks);
        return;
    }
    float *const panels = cor->work + 4 * terms; /* behind the weights' panel */
    cursor at = {.x = rect->h.source * cor->x_row + rect->w.source,
                 .out = rect->h.first * cor->out_row + rect->w.first};
    int32_t out[PACKED_PANELS][4];
    for (int32_t left = rect->positions; left > 0;) {
        const int32_t positions = (left < 4 * most) ? left : 4 * most;
        for (int32_t p = 0; 4 * p < positions; p++) {
            const float *from[4];
            for (int32_t i = 0; i < 4; i++) {
                from[i] = group->x + at.x;
                out[p][i] = at.out;
                if (4 * p + i + 1 < positions) {
                    cursor_next(&at, rect);
                }
            }
            pack_panel(&rect->sum, &rect->sum.of[POET_X], from, panels + 4 * terms * p);
        }
        packed_channels(rect, group, terms, panels, cor->work, out, positions);
        left -= positions;
        if (left > 0) {
            cursor_next(&at, rect);
        }
    }
}

#endif
