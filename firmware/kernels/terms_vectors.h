/* A vector block of 1, 2 or 4 rows whose terms are neighbours in the rows' operand, two terms a
 * load. Part of product.c and conv2d.c; only with MVE.
 */
#ifndef POET_TERMS_VECTORS_H
#define POET_TERMS_VECTORS_H

#include "blocks.h"
#include "scalars.h"

/* The next count terms of every chain, step apart in the lanes; leaves all pointers behind them. */
POET_INLINE void by_terms_run(poet_block *acc, poet_lanes *right, poet_rows *left, int32_t count,
                              int32_t step, int rows, int adjacent)
{
    for (int32_t terms = count / 2; terms > 0; terms--) {
        const poet_quad v = poet_lanes_load(right, 0, adjacent);
        right->p0 += step;
        const poet_quad w = poet_lanes_load(right, 0, adjacent);
        right->p0 += step;
        poet_scalars f = poet_scalars_next(&left->p0);
        acc->r0 = poet_quad_fma_bits(w, f.b, poet_quad_fma_bits(v, f.a, acc->r0));
        if (rows >= 2) {
            f = poet_scalars_next(&left->p1);
            acc->r1 = poet_quad_fma_bits(w, f.b, poet_quad_fma_bits(v, f.a, acc->r1));
        }
        if (rows == 4) {
            f = poet_scalars_next(&left->p2);
            acc->r2 = poet_quad_fma_bits(w, f.b, poet_quad_fma_bits(v, f.a, acc->r2));
            f = poet_scalars_next(&left->p3);
            acc->r3 = poet_quad_fma_bits(w, f.b, poet_quad_fma_bits(v, f.a, acc->r3));
        }
    }
    if (count % 2 != 0) {
        const poet_quad v = poet_lanes_load(right, 0, adjacent);
        right->p0 += step;
        acc->r0 = poet_quad_fma(v, *left->p0++, acc->r0);
        acc->r1 = (rows >= 2) ? poet_quad_fma(v, *left->p1++, acc->r1) : acc->r1;
        acc->r2 = (rows == 4) ? poet_quad_fma(v, *left->p2++, acc->r2) : acc->r2;
        acc->r3 = (rows == 4) ? poet_quad_fma(v, *left->p3++, acc->r3) : acc->r3;
    }
}

#endif
