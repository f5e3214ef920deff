/* Four neighbouring positions of up to four output channels under three taps on a core with MVE:
 * the channels are the lanes, three vectors of weights a row of taps, and the row's six inputs
 * come from core registers, each used by up to three positions. The taps that the first and the
 * last position lack are simply not there. Part of conv2d.c.
 */
#ifndef POET_EDGE_CHANNELS_H
#define POET_EDGE_CHANNELS_H

#include "channel_lanes.h"
#include "conv_rectangle.h"

/* One row of taps; x is at the row's first input that is read. */
POET_INLINE void channels_row(poet_block *acc, const float *x, poet_spread w,
                              const poet_edge_kind *kind)
{
    const int left = kind->left;
    const int right = kind->right;
    poet_quad w0;
    poet_quad w1;
    poet_quad w2;
    POET_SPREAD_LOAD(w0, w, 0);
    POET_SPREAD_LOAD(w1, w, 1);
    POET_SPREAD_LOAD(w2, w, 2);
    const poet_six in = poet_six_at(x, left, right);
    if (kind->step > 0) {
        acc->r0 = left ? acc->r0 : poet_quad_fma_bits(w0, in.f0, acc->r0);
        acc->r1 = poet_quad_fma_bits(w0, in.f1, acc->r1);
        acc->r2 = poet_quad_fma_bits(w0, in.f2, acc->r2);
        acc->r3 = poet_quad_fma_bits(w0, in.f3, acc->r3);
        acc->r0 = poet_quad_fma_bits(w1, in.f1, acc->r0);
        acc->r1 = poet_quad_fma_bits(w1, in.f2, acc->r1);
        acc->r2 = poet_quad_fma_bits(w1, in.f3, acc->r2);
        acc->r3 = poet_quad_fma_bits(w1, in.f4, acc->r3);
        acc->r0 = poet_quad_fma_bits(w2, in.f2, acc->r0);
        acc->r1 = poet_quad_fma_bits(w2, in.f3, acc->r1);
        acc->r2 = poet_quad_fma_bits(w2, in.f4, acc->r2);
        acc->r3 = right ? acc->r3 : poet_quad_fma_bits(w2, in.f5, acc->r3);
    } else {
        acc->r0 = poet_quad_fma_bits(w0, in.f2, acc->r0);
        acc->r1 = poet_quad_fma_bits(w0, in.f3, acc->r1);
        acc->r2 = poet_quad_fma_bits(w0, in.f4, acc->r2);
        acc->r3 = right ? acc->r3 : poet_quad_fma_bits(w0, in.f5, acc->r3);
        acc->r0 = poet_quad_fma_bits(w1, in.f1, acc->r0);
        acc->r1 = poet_quad_fma_bits(w1, in.f2, acc->r1);
        acc->r2 = poet_quad_fma_bits(w1, in.f3, acc->r2);
        acc->r3 = poet_quad_fma_bits(w1, in.f4, acc->r3);
        acc->r0 = left ? acc->r0 : poet_quad_fma_bits(w2, in.f0, acc->r0);
        acc->r1 = poet_quad_fma_bits(w2, in.f1, acc->r1);
        acc->r2 = poet_quad_fma_bits(w2, in.f2, acc->r2);
        acc->r3 = poet_quad_fma_bits(w2, in.f3, acc->r3);
    }
}

/* data->outs channels from data->out on, at four positions from out on; x: the source of the first
 * one's tap 0. */
POET_INLINE void channels_block(const rectangle *rect, const group_data *data, int32_t x,
                                int32_t out, poet_edge_kind kind)
{
    const poet_sum *sum = &rect->sum;
    const correlation *cor = rect->cor;
    const int32_t x_row = sum->of[POET_X].row;
    const int32_t w_row = sum->of[POET_W].row;
    const int32_t count = (data->outs < 4) ? data->outs : 4;
    const float *from = data->x + x - ((kind.step > 0) ? 0 : 2) + ((kind.left != 0) ? 1 : 0);
    poet_spread w = poet_spread_at(data->w, cor->w_out, count);
    poet_quad start = poet_quad_of(0.0F);
    if (data->bias != 0) {
        const poet_spread bias = poet_spread_at(data->bias, 1, count);
        POET_SPREAD_LOAD(start, bias, 0);
    }
    poet_block acc = {start, start, start, start};
    for (int32_t c = sum->channels; c > 0; c--) {
        for (int32_t rows = sum->rows; rows > 0; rows--) {
            channels_row(&acc, from, w, &kind);
            w = poet_spread_on(w, w_row);
            from += x_row;
        }
        w = poet_spread_on(w, sum->of[POET_W].channel_rest);
        from += sum->of[POET_X].channel_rest;
    }
    poet_spread to = poet_spread_at(data->out + out, cor->out_plane, count);
    vstrwq_scatter_base_f32(to, 0, acc.r0);
    vstrwq_scatter_base_f32(to, 4, acc.r1);
    vstrwq_scatter_base_f32(to, 8, acc.r2);
    vstrwq_scatter_base_f32(to, 12, acc.r3);
}

#endif
