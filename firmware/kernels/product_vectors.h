/* Blocks of a product on a core with MVE: four columns are a vector, the rows' factors come from
 * core registers, two to a load. Part of product.c.
 */
#ifndef POET_PRODUCT_VECTORS_H
#define POET_PRODUCT_VECTORS_H

#include "product.h"
#include "terms_vectors.h"

/* Terms are neighbours in left; the columns are neighbours in right, or any. */
POET_INLINE void block_by_terms(const poet_product *p, int32_t i, int32_t j, int rows,
                                int adjacent)
{
    const int32_t step = p->right_row;
    poet_lanes right = poet_lanes_at(p->right + j * step, 0, step, 2 * step, 3 * step);
    poet_rows left = left_rows(p, i, rows);
    poet_block acc = block_start(p, i, j, rows);
    by_terms_run(&acc, &right, &left, p->terms, p->right_term, rows, adjacent);
    block_finish(p, &acc, i, j, rows);
}

/* Rows are neighbours in left, columns in right; rows is 2 or 4. */
POET_INLINE void block_rows_rows(const poet_product *p, int32_t i, int32_t j, int rows)
{
    const float *right = p->right + j;
    const float *left = p->left + i;
    poet_block acc = block_start(p, i, j, rows);
    for (int32_t terms = p->terms; terms > 0; terms--) {
        const poet_quad v = vld1q_f32(right);
        right += p->right_term;
        poet_scalars f = poet_scalars_at(left);
        acc.r0 = poet_quad_fma_bits(v, f.a, acc.r0);
        acc.r1 = poet_quad_fma_bits(v, f.b, acc.r1);
        if (rows == 4) {
            f = poet_scalars_behind(left);
            acc.r2 = poet_quad_fma_bits(v, f.a, acc.r2);
            acc.r3 = poet_quad_fma_bits(v, f.b, acc.r3);
        }
        left += p->left_term;
    }
    block_finish(p, &acc, i, j, rows);
}

PRODUCT_SET(terms_terms, block_by_terms(p, i, j, 1, 0), block_by_terms(p, i, j, 2, 0),
            block_by_terms(p, i, j, 4, 0))
PRODUCT_SET(terms_rows, block_by_terms(p, i, j, 1, 1), block_by_terms(p, i, j, 2, 1),
            block_by_terms(p, i, j, 4, 1))
PRODUCT_FUNCTION(rows_rows_two, block_rows_rows(p, i, j, 2))
PRODUCT_FUNCTION(rows_rows_four, block_rows_rows(p, i, j, 4))
static product_set rows_rows = {any_one, rows_rows_two, rows_rows_four};

#endif
