/* Blocks of a product that load two operands at once (pair.h). Part of product.c. */
#ifndef POET_PRODUCT_PAIRS_H
#define POET_PRODUCT_PAIRS_H

#include "product.h"
#include "terms_pairs.h"

/* The terms are neighbours in both operands. */
POET_INLINE void block_terms_terms(const poet_product *p, int32_t i, int32_t j, int rows)
{
    const float *r = p->right + j * p->right_row;
    const int32_t step = p->right_row;
    poet_rows right = {r, r + step, r + 2 * step, r + 3 * step};
    poet_rows left = left_rows(p, i, rows);
    poet_block acc = block_start(p, i, j, rows);
    terms_terms_run(&acc, &right, &left, p->terms, rows);
    block_finish(p, &acc, i, j, rows);
}

/* Terms are neighbours in left, rows are neighbours in right. */
POET_INLINE void block_terms_rows(const poet_product *p, int32_t i, int32_t j, int rows)
{
    const float *right = p->right + j;
    const int32_t step = p->right_term;
    poet_rows left = left_rows(p, i, rows);
    poet_block acc = block_start(p, i, j, rows);
    int32_t terms = p->terms;
    for (; terms >= 2; terms -= 2) {
        const poet_pair f0 = poet_pair_next(&left.p0);
        const poet_pair f1 = (rows >= 2) ? poet_pair_next(&left.p1) : f0;
        const poet_pair f2 = (rows == 4) ? poet_pair_next(&left.p2) : f0;
        const poet_pair f3 = (rows == 4) ? poet_pair_next(&left.p3) : f0;
        poet_pair v01 = poet_pair_load(right);
        poet_pair v23 = poet_pair_load(right + 2);
        right += step;
        acc.r0 = poet_quad_fma_two(v01, v23, f0, 0, acc.r0);
        acc.r1 = (rows >= 2) ? poet_quad_fma_two(v01, v23, f1, 0, acc.r1) : acc.r1;
        acc.r2 = (rows == 4) ? poet_quad_fma_two(v01, v23, f2, 0, acc.r2) : acc.r2;
        acc.r3 = (rows == 4) ? poet_quad_fma_two(v01, v23, f3, 0, acc.r3) : acc.r3;
        v01 = poet_pair_load(right);
        v23 = poet_pair_load(right + 2);
        right += step;
        acc.r0 = poet_quad_fma_two(v01, v23, f0, 1, acc.r0);
        acc.r1 = (rows >= 2) ? poet_quad_fma_two(v01, v23, f1, 1, acc.r1) : acc.r1;
        acc.r2 = (rows == 4) ? poet_quad_fma_two(v01, v23, f2, 1, acc.r2) : acc.r2;
        acc.r3 = (rows == 4) ? poet_quad_fma_two(v01, v23, f3, 1, acc.r3) : acc.r3;
    }
    if (terms > 0) {
        const poet_quad v = poet_quad_read(right, 1);
        acc.r0 = poet_quad_fma(v, *left.p0, acc.r0);
        acc.r1 = (rows >= 2) ? poet_quad_fma(v, *left.p1, acc.r1) : acc.r1;
        acc.r2 = (rows == 4) ? poet_quad_fma(v, *left.p2, acc.r2) : acc.r2;
        acc.r3 = (rows == 4) ? poet_quad_fma(v, *left.p3, acc.r3) : acc.r3;
    }
    block_finish(p, &acc, i, j, rows);
}

/* One row by eight columns: with one row the loads of right are most of the work. */
POET_APART static void eight_of_one_row(const poet_product *p, int32_t j)
{
    const float *right = p->right + j;
    const float *left = p->left;
    const int32_t step = p->right_term;
    poet_quad low = start_of_four(p, 0, j);
    poet_quad high = start_of_four(p, 0, j + 4);
    int32_t terms = p->terms;
    for (; terms >= 2; terms -= 2) {
        const poet_pair f = poet_pair_next(&left);
        low = poet_quad_fma_two(poet_pair_load(right), poet_pair_load(right + 2), f, 0, low);
        high = poet_quad_fma_two(poet_pair_load(right + 4), poet_pair_load(right + 6), f, 0, high);
        right += step;
        low = poet_quad_fma_two(poet_pair_load(right), poet_pair_load(right + 2), f, 1, low);
        high = poet_quad_fma_two(poet_pair_load(right + 4), poet_pair_load(right + 6), f, 1, high);
        right += step;
    }
    if (terms > 0) {
        low = poet_quad_fma(poet_quad_read(right, 1), *left, low);
        high = poet_quad_fma(poet_quad_read(right + 4, 1), *left, high);
    }
    float *out = p->out + j * p->out_column;
    store_row(low, out, p->out_column);
    store_row(high, out + 4 * p->out_column, p->out_column);
}

POET_INLINE void rows_rows_term(poet_block *acc, const float *left, const float *right, int rows)
{
    const poet_pair v01 = poet_pair_load(right);
    const poet_pair v23 = poet_pair_load(right + 2);
    const poet_pair f01 = poet_pair_load(left);
    acc->r0 = poet_quad_fma_two(v01, v23, f01, 0, acc->r0);
    acc->r1 = poet_quad_fma_two(v01, v23, f01, 1, acc->r1);
    if (rows == 4) {
        const poet_pair f23 = poet_pair_load(left + 2);
        acc->r2 = poet_quad_fma_two(v01, v23, f23, 0, acc->r2);
        acc->r3 = poet_quad_fma_two(v01, v23, f23, 1, acc->r3);
    }
}

/* Rows are neighbours in both operands; rows is 2 or 4. */
POET_INLINE void block_rows_rows(const poet_product *p, int32_t i, int32_t j, int rows)
{
    const float *right = p->right + j;
    const float *left = p->left + i;
    poet_block acc = block_start(p, i, j, rows);
    int32_t terms = p->terms;
    for (; terms >= 2; terms -= 2) {
        rows_rows_term(&acc, left, right, rows);
        left += p->left_term;
        right += p->right_term;
        rows_rows_term(&acc, left, right, rows);
        left += p->left_term;
        right += p->right_term;
    }
    if (terms > 0) {
        rows_rows_term(&acc, left, right, rows);
    }
    block_finish(p, &acc, i, j, rows);
}

PRODUCT_SET(terms_terms, block_terms_terms(p, i, j, 1), block_terms_terms(p, i, j, 2),
            block_terms_terms(p, i, j, 4))
PRODUCT_SET(terms_rows, block_terms_rows(p, i, j, 1), block_terms_rows(p, i, j, 2),
            block_terms_rows(p, i, j, 4))
PRODUCT_FUNCTION(rows_rows_two, block_rows_rows(p, i, j, 2))
PRODUCT_FUNCTION(rows_rows_four, block_rows_rows(p, i, j, 4))
static product_set rows_rows = {any_one, rows_rows_two, rows_rows_four};

#endif
