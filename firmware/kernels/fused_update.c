/* Weight gradients that end in their update, band of rows by band of rows. */
#include "pair.h"
#include "poet/kernels.h"

/* One sample, plain descent: w[i, j] += step * (left[i] * right[j]), no gradient in memory. */
static void outer_descent(int32_t rows, int32_t columns, const float *left, const float *right,
                          float step, float *w)
{
    for (int32_t i = 0; i < rows; i++) {
        const float factor = left[i];
        const float *from = right;
        int32_t rest = columns;
#if POET_QUAD_IS_VECTOR
        for (; rest >= 4; rest -= 4) {
            const poet_quad gradient = vmulq_n_f32(vld1q_f32(from), factor);
            poet_quad_store_adjacent(poet_quad_fma(gradient, step, vld1q_f32(w)), w);
            from += 4;
            w += 4;
        }
#elif !POET_SOFT_FLOAT
        for (; rest >= 8; rest -= 8) {
            poet_eight_scale_fma(&from, factor, step, &w);
        }
#endif
        for (; rest > 0; rest--) {
            const float gradient = POET_PRODUCT(factor, *from++);
            *w = POET_FMA(step, gradient, *w);
            w++;
        }
    }
}

static int32_t smaller(int32_t a, int32_t b)
{
    return (a < b) ? a : b;
}

/* What is handed on to the gradient's kernel and to the update's. */
#define GIVES_conv2d_bwd_w x, dy
#define GIVES_dense_bwd_w x, dy
#define GIVES_channel_sum dy
#define GIVES_sgd lr, w + at
#define GIVES_sgd_decay lr, w + at
#define GIVES_momentum lr, velocity + at, w + at
#define GIVES_adam lr, bias1, bias2, mean + at, square + at, w + at
#define GIVES_rmsprop lr, square + at, w + at

/* Band by band; part is the update's shape. */
#define BANDS(gradient_name, rule)                                                           \
    for (int32_t first = 0; first < shape->rows; first += shape->band_rows) {                \
        const int32_t count = smaller(shape->rows - first, shape->band_rows);                \
        const int32_t at = first * shape->row;                                               \
        part.count = count * shape->row;                                                     \
        poet_##gradient_name##_rows_f32(&shape->gradient, first, count,                      \
                                        GIVES_##gradient_name, band);                        \
        poet_##rule##_f32(&part, band, GIVES_##rule);                                        \
    }

#define FUSED(gradient_name, rule, rule_shape)                                               \
    POET_FUSED(gradient_name, rule)                                                          \
    {                                                                                        \
        rule_shape part = shape->update;                                                     \
        BANDS(gradient_name, rule)                                                           \
    }

FUSED(conv2d_bwd_w, sgd, poet_vector_shape)
FUSED(conv2d_bwd_w, sgd_decay, poet_decay_shape)
FUSED(conv2d_bwd_w, momentum, poet_momentum_shape)
FUSED(conv2d_bwd_w, adam, poet_adam_shape)
FUSED(conv2d_bwd_w, rmsprop, poet_rmsprop_shape)
FUSED(dense_bwd_w, sgd_decay, poet_decay_shape)
FUSED(dense_bwd_w, momentum, poet_momentum_shape)
FUSED(dense_bwd_w, adam, poet_adam_shape)
FUSED(dense_bwd_w, rmsprop, poet_rmsprop_shape)
FUSED(channel_sum, sgd, poet_vector_shape)
FUSED(channel_sum, sgd_decay, poet_decay_shape)
FUSED(channel_sum, momentum, poet_momentum_shape)
FUSED(channel_sum, adam, poet_adam_shape)
FUSED(channel_sum, rmsprop, poet_rmsprop_shape)

POET_FUSED(dense_bwd_w, sgd)
{
    if (shape->gradient.n == 1) {
        const int by_output = (shape->gradient.w_rows_are_outputs != 0);
        outer_descent(shape->rows, shape->row, (by_output != 0) ? dy : x,
                      (by_output != 0) ? x : dy, -lr, w);
        return;
    }
    poet_vector_shape part = shape->update;
    BANDS(dense_bwd_w, sgd)
}
