/* Three neighbouring taps of the weight gradient, two columns at a time by pairs. Part of conv2d.c.
 */
#ifndef POET_WEIGHT_PAIRS_H
#define POET_WEIGHT_PAIRS_H

#include "blocks.h"
#include "pair.h"

/* One tap of two columns of one output channel: d are the columns' dy, the taps' inputs are v at
 * first and w at second. */
POET_INLINE float weight_pair(poet_pair d, poet_pair v, int first, poet_pair w, int second,
                              float sum)
{
    return poet_pair_fma(d, 1, w, second, poet_pair_fma(d, 0, v, first, sum));
}

/* Two columns of one output channel: x0..x3 (stride 1) or x0..x4 (stride 2) meet the taps. */
POET_INLINE void weight_two(poet_pair d, poet_pair x01, poet_pair x23, float x4, int stride,
                            float *t0, float *t1, float *t2)
{
    if (stride == 1) {
        *t0 = weight_pair(d, x01, 0, x01, 1, *t0);
        *t1 = weight_pair(d, x01, 1, x23, 0, *t1);
        *t2 = weight_pair(d, x23, 0, x23, 1, *t2);
    } else {
        *t0 = weight_pair(d, x01, 0, x23, 0, *t0);
        *t1 = weight_pair(d, x01, 1, x23, 1, *t1);
        *t2 = poet_pair_fma_one(d, 1, x4, poet_pair_fma(d, 0, x23, 0, *t2));
    }
}

POET_INLINE void weight_columns_by_two(int32_t pairs, const float *x, poet_rows d,
                                       poet_block *acc, int outs, int stride)
{
    for (; pairs > 0; pairs--) {
        const poet_pair x01 = poet_pair_load(x);
        const poet_pair x23 = poet_pair_load(x + 2);
        const float x4 = (stride == 1) ? 0.0F : x[4];
        weight_two(poet_pair_next(&d.p0), x01, x23, x4, stride, &acc->r0.a, &acc->r1.a, &acc->r2.a);
        if (outs == 4) {
            weight_two(poet_pair_next(&d.p1), x01, x23, x4, stride, &acc->r0.b, &acc->r1.b,
                       &acc->r2.b);
            weight_two(poet_pair_next(&d.p2), x01, x23, x4, stride, &acc->r0.c, &acc->r1.c,
                       &acc->r2.c);
            weight_two(poet_pair_next(&d.p3), x01, x23, x4, stride, &acc->r0.d, &acc->r1.d,
                       &acc->r2.d);
        }
        x += 2 * stride;
    }
}

/* One column of the taps from low to high; x is at the column's tap 0. */
POET_INLINE void weight_column(const float *x, const poet_lanes *dy, int32_t ow, poet_block *acc,
                               int outs, int low, int high)
{
    poet_quad v = poet_quad_of(dy->p0[ow]);
    if (outs == 4) {
        v = poet_lanes_load(dy, ow, 0);
    }
    acc->r0 = (low == 0) ? poet_quad_fma(v, x[0], acc->r0) : acc->r0;
    acc->r1 = poet_quad_fma(v, x[1], acc->r1);
    acc->r2 = (high == 2) ? poet_quad_fma(v, x[2], acc->r2) : acc->r2;
}

#endif
