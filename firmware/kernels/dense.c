/* Fully connected layer, forward and the gradients of input and weights: three matrix products. */
#include "pair.h"
#include "poet/kernels.h"
#include "product.h"

/* One term: an outer product, whose cost is its stores. out_column must be 1. */
static void multiply_one_term(const poet_product *p)
{
    for (int32_t i = 0; i < p->rows; i++) {
        const float factor = p->left[i * p->left_row];
        const float *right = p->right;
        float *out = p->out + i * p->out_row;
        int32_t left = p->columns;
        for (; left >= 4; left -= 4) {
            const poet_pair r01 = poet_pair_load(right);
            const poet_pair r23 = poet_pair_load(right + 2);
            out[0] = poet_pair_fma_one(r01, 0, factor, 0.0F);
            out[1] = poet_pair_fma_one(r01, 1, factor, 0.0F);
            out[2] = poet_pair_fma_one(r23, 0, factor, 0.0F);
            out[3] = poet_pair_fma_one(r23, 1, factor, 0.0F);
            right += 4;
            out += 4;
        }
        for (; left > 0; left--) {
            *out++ = POET_FMA(factor, *right++, 0.0F);
        }
    }
}

void poet_dense_fwd_f32(const poet_dense_shape *shape, const float *x, const float *w,
                        const float *b, float *y)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    const poet_product p = {.rows = s->n,
                       .columns = s->m,
                       .terms = s->k,
                       .left_row = s->k,
                       .left_term = 1,
                       .right_row = (by_output != 0) ? s->k : 1,
                       .right_term = (by_output != 0) ? 1 : s->m,
                       .out_row = s->m,
                       .out_column = 1,
                       .start_row = 0,
                       .start_column = 1,
                       .left = x,
                       .right = w,
                       .start = b,
                       .out = y};
    poet_multiply(&p);
}

void poet_dense_bwd_x_f32(const poet_dense_shape *shape, const float *dy, const float *w,
                          float *dx)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    const poet_product p = {.rows = s->n,
                       .columns = s->k,
                       .terms = s->m,
                       .left_row = s->m,
                       .left_term = 1,
                       .right_row = (by_output != 0) ? 1 : s->m,
                       .right_term = (by_output != 0) ? s->k : 1,
                       .out_row = s->k,
                       .out_column = 1,
                       .left = dy,
                       .right = w,
                       .start = 0,
                       .out = dx};
    poet_multiply(&p);
}

void poet_dense_bwd_w_f32(const poet_dense_shape *shape, const float *x, const float *dy,
                          float *dw)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    const poet_product p = {.rows = s->m,
                       .columns = s->k,
                       .terms = s->n,
                       .left_row = 1,
                       .left_term = s->m,
                       .right_row = 1,
                       .right_term = s->k,
                       .out_row = (by_output != 0) ? s->k : 1,
                       .out_column = (by_output != 0) ? 1 : s->m,
                       .left = dy,
                       .right = x,
                       .start = 0,
                       .out = dw};
    if (s->n > 1) {
        poet_multiply(&p);
    } else if (by_output != 0) {
        multiply_one_term(&p);
    } else {
        const poet_product transposed = {.rows = s->k,
                                         .columns = s->m,
                                         .terms = 1,
                                         .left_row = 1,
                                         .out_row = s->m,
                                         .left = x,
                                         .right = dy,
                                         .out = dw};
        multiply_one_term(&transposed);
    }
}
