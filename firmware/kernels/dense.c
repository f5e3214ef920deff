/* Fully connected layer, forward and the gradients of input and weights: three matrix products. */
#include "pair.h"
#include "poet/kernels.h"
#include "product.h"

/* What a chain starts at whose first product is to stay as it is: -0 + p is p, also where p is -0. */
static const float nothing = -0.0F;

/* One sample: dw is an outer product, out[i, j] = left[i] * right[j], at the price of its stores. */
POET_APART static void outer_product(int32_t rows, int32_t columns, const float *left, const float *right,
                          float *out)
{
    for (int32_t i = 0; i < rows; i++) {
        const float factor = left[i];
        const float *from = right;
        int32_t rest = columns;
#if POET_QUAD_IS_VECTOR
        for (; rest >= 4; rest -= 4) {
            vst1q_f32(out, vmulq_n_f32(vld1q_f32(from), factor));
            from += 4;
            out += 4;
        }
#endif
        for (; rest >= 8; rest -= 8) {
            poet_eight_scale(&from, factor, &out);
        }
        for (; rest > 0; rest--) {
            *out++ = POET_PRODUCT(factor, *from++);
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

void poet_dense_bwd_w_rows_f32(const poet_dense_shape *shape, int32_t first, int32_t count,
                               const float *x, const float *dy, float *dw)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    if (s->n == 1) {
        outer_product(count, (by_output != 0) ? s->k : s->m,
                      ((by_output != 0) ? dy : x) + first, (by_output != 0) ? x : dy, dw);
        return;
    }
    const poet_product p = {.rows = (by_output != 0) ? count : s->m,
                            .columns = (by_output != 0) ? s->k : count,
                            .terms = s->n,
                            .left_row = 1,
                            .left_term = s->m,
                            .right_row = 1,
                            .right_term = s->k,
                            .out_row = (by_output != 0) ? s->k : 1,
                            .out_column = (by_output != 0) ? 1 : s->m,
                            .left = (by_output != 0) ? dy + first : dy,
                            .right = (by_output != 0) ? x : x + first,
                            .start = &nothing,
                            .out = dw};
    poet_multiply(&p);
}

void poet_dense_bwd_w_f32(const poet_dense_shape *shape, const float *x, const float *dy,
                          float *dw)
{
    poet_dense_bwd_w_rows_f32(shape, 0, (shape->w_rows_are_outputs != 0) ? shape->m : shape->k, x,
                              dy, dw);
}

void poet_matmul_f32(const poet_matmul_shape *shape, const float *a, const float *c, float *y)
{
    const poet_matmul_shape *s = shape;
    poet_product p = {.rows = s->n,
                      .columns = s->m,
                      .terms = s->k,
                      .left_row = (s->a_is_turned != 0) ? 1 : s->k,
                      .left_term = (s->a_is_turned != 0) ? s->n : 1,
                      .right_row = (s->c_is_turned != 0) ? s->k : 1,
                      .right_term = (s->c_is_turned != 0) ? 1 : s->m,
                      .out_row = s->m,
                      .out_column = 1,
                      .left = a,
                      .right = c,
                      .start = 0,
                      .out = y};
    for (int32_t left = s->batch; left > 0; left--) {
        poet_multiply(&p);
        p.left += s->n * s->k;
        p.right += s->k * s->m;
        p.out += s->n * s->m;
    }
}
