/* Matrix products out[i, j] = start[i, j] + sum over r of left[i, r] * right[j, r]: what dense
 * layers and 1 x 1 convolutions are made of. Each output is one chain over r, ascending.
 */
#ifndef POET_PRODUCT_H
#define POET_PRODUCT_H

#include <stdint.h>

/* Steps in floats. left is POET_X of blocks.h, right is POET_W. start may be out itself: the
 * chains then go on from what out holds. */
typedef struct {
    int32_t rows, columns, terms;    /* i, j, r; terms may be 0 */
    int32_t left_row, left_term;     /* step of left per i, per r */
    int32_t right_row, right_term;   /* step of right per j, per r */
    int32_t out_row, out_column;     /* step of out per i, per j */
    int32_t start_row, start_column; /* step of start per i, per j */
    const float *left, *right, *start; /* start may be NULL: 0 */
    float *out;
} poet_product;

void poet_multiply(const poet_product *p);

#endif
