/* Four neighbouring positions of one output channel under three taps on a core with MVE: a vector
 * of positions a tap, the weights from core registers, two to a load. Part of conv2d.c.
 */
#ifndef POET_EDGE_VECTORS_H
#define POET_EDGE_VECTORS_H

#include "blocks.h"
#include "scalars.h"

/* Inputs of the four positions at each tap, and the lanes that lack it (-1: none). */
typedef struct {
    poet_quad v0, v1, v2;
    int skip0, skip2;
} edge_vectors;

POET_INLINE poet_quad edge_fma_bits(poet_quad v, uint32_t factor, poet_quad sum, int skip)
{
    const poet_quad all = poet_quad_fma_bits(v, factor, sum);
    return (skip < 0) ? all : vpselq_f32(all, sum, poet_lanes_except(skip));
}

/* The three taps of one output channel; *w then points behind its three weights. */
POET_INLINE poet_quad edge_taps(const edge_vectors *in, const float **w, poet_quad sum)
{
    const poet_scalars two = poet_scalars_next(w);
    sum = edge_fma_bits(in->v0, two.a, sum, in->skip0);
    sum = poet_quad_fma_bits(in->v1, two.b, sum);
    const uint32_t third = poet_scalar_next(w);
    return edge_fma_bits(in->v2, third, sum, in->skip2);
}

POET_INLINE void edge_run(poet_block *acc, const poet_sum *sum, const float *x, poet_rows w,
                          poet_edge_kind kind)
{
    const poet_steps *xs = &sum->of[POET_X];
    const poet_steps *ws = &sum->of[POET_W];
    const int right_first = (kind.step < 0);
    const int leftmost = (kind.left != 0) ? 0 : -1;
    const int rightmost = (kind.right != 0) ? 3 : -1;
    edge_vectors in = {.skip0 = right_first ? rightmost : leftmost,
                       .skip2 = right_first ? leftmost : rightmost};
    poet_quad a = acc->r0;
    for (int32_t c = sum->channels; c > 0; c--) {
        for (int32_t left = sum->rows; left > 0; left--) {
            in.v0 = poet_quad_load_except(x, in.skip0);
            in.v1 = vld1q_f32(x + kind.step);
            in.v2 = poet_quad_load_except(x + 2 * kind.step, in.skip2);
            a = edge_taps(&in, &w.p0, a);
            x += xs->row;
            w.p0 += ws->row - 3;
        }
        x += xs->channel_rest;
        w.p0 += ws->channel_rest;
    }
    acc->r0 = a;
}

#endif
