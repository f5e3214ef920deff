/* A block of 4 lanes by 1, 2 or 4 rows whose terms are neighbours in memory in both operands: two
 * terms a load. Part of product.c and conv2d.c.
 */
#ifndef POET_TERMS_PAIRS_H
#define POET_TERMS_PAIRS_H

#include "blocks.h"
#include "pair.h"

/* One term of a block whose four lanes are four pairs along the terms. */
POET_INLINE poet_quad across(const poet_pair v[4], int at, poet_pair f, poet_quad sum)
{
    sum.a = poet_pair_fma(v[0], at, f, at, sum.a);
    sum.b = poet_pair_fma(v[1], at, f, at, sum.b);
    sum.c = poet_pair_fma(v[2], at, f, at, sum.c);
    sum.d = poet_pair_fma(v[3], at, f, at, sum.d);
    return sum;
}

POET_INLINE void terms_terms_step(poet_block *acc, poet_rows *right, poet_rows *left, int rows)
{
    const poet_pair v[4] = {poet_pair_next(&right->p0), poet_pair_next(&right->p1),
                            poet_pair_next(&right->p2), poet_pair_next(&right->p3)};
    poet_pair f = poet_pair_next(&left->p0);
    acc->r0 = across(v, 1, f, across(v, 0, f, acc->r0));
    if (rows >= 2) {
        f = poet_pair_next(&left->p1);
        acc->r1 = across(v, 1, f, across(v, 0, f, acc->r1));
    }
    if (rows == 4) {
        f = poet_pair_next(&left->p2);
        acc->r2 = across(v, 1, f, across(v, 0, f, acc->r2));
        f = poet_pair_next(&left->p3);
        acc->r3 = across(v, 1, f, across(v, 0, f, acc->r3));
    }
}

/* The next terms of every chain; leaves all pointers behind them. */
POET_INLINE void terms_terms_run(poet_block *acc, poet_rows *right, poet_rows *left, int32_t terms,
                                 int rows)
{
    for (; (rows == 1) && (terms >= 4); terms -= 4) {
        terms_terms_step(acc, right, left, rows);
        terms_terms_step(acc, right, left, rows);
    }
    for (; terms >= 2; terms -= 2) {
        terms_terms_step(acc, right, left, rows);
    }
    if (terms > 0) {
        const poet_quad v = {*right->p0++, *right->p1++, *right->p2++, *right->p3++};
        acc->r0 = poet_quad_fma(v, *left->p0++, acc->r0);
        acc->r1 = (rows >= 2) ? poet_quad_fma(v, *left->p1++, acc->r1) : acc->r1;
        acc->r2 = (rows == 4) ? poet_quad_fma(v, *left->p2++, acc->r2) : acc->r2;
        acc->r3 = (rows == 4) ? poet_quad_fma(v, *left->p3++, acc->r3) : acc->r3;
    }
}

#endif
