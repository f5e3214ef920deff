/* A gradient and its update in one call. Included by poet/kernels.h.
 *
 * The gradient is made band_rows rows (of the parameter's first axis) at a time in the workspace
 * band, of band_rows * row floats, and each band is used up at once: it never exists as a whole.
 * Bits are those of the two kernels one after the other. update.count is not read. In a
 * convolution with groups band_rows is a whole number of groups' output channels.
 */
#ifndef POET_FUSED_H
#define POET_FUSED_H

typedef struct {
    poet_conv2d_shape gradient;
    poet_vector_shape update;
    int32_t rows, band_rows, row;
} poet_conv2d_bwd_w_sgd_shape;
typedef struct {
    poet_conv2d_shape gradient;
    poet_decay_shape update;
    int32_t rows, band_rows, row;
} poet_conv2d_bwd_w_sgd_decay_shape;
typedef struct {
    poet_conv2d_shape gradient;
    poet_momentum_shape update;
    int32_t rows, band_rows, row;
} poet_conv2d_bwd_w_momentum_shape;
typedef struct {
    poet_conv2d_shape gradient;
    poet_adam_shape update;
    int32_t rows, band_rows, row;
} poet_conv2d_bwd_w_adam_shape;
typedef struct {
    poet_conv2d_shape gradient;
    poet_rmsprop_shape update;
    int32_t rows, band_rows, row;
} poet_conv2d_bwd_w_rmsprop_shape;

typedef struct {
    poet_dense_shape gradient;
    poet_vector_shape update;
    int32_t rows, band_rows, row;
} poet_dense_bwd_w_sgd_shape;
typedef struct {
    poet_dense_shape gradient;
    poet_decay_shape update;
    int32_t rows, band_rows, row;
} poet_dense_bwd_w_sgd_decay_shape;
typedef struct {
    poet_dense_shape gradient;
    poet_momentum_shape update;
    int32_t rows, band_rows, row;
} poet_dense_bwd_w_momentum_shape;
typedef struct {
    poet_dense_shape gradient;
    poet_adam_shape update;
    int32_t rows, band_rows, row;
} poet_dense_bwd_w_adam_shape;
typedef struct {
    poet_dense_shape gradient;
    poet_rmsprop_shape update;
    int32_t rows, band_rows, row;
} poet_dense_bwd_w_rmsprop_shape;

typedef struct {
    poet_channel_sum_shape gradient;
    poet_vector_shape update;
    int32_t rows, band_rows, row;
} poet_channel_sum_sgd_shape;
typedef struct {
    poet_channel_sum_shape gradient;
    poet_decay_shape update;
    int32_t rows, band_rows, row;
} poet_channel_sum_sgd_decay_shape;
typedef struct {
    poet_channel_sum_shape gradient;
    poet_momentum_shape update;
    int32_t rows, band_rows, row;
} poet_channel_sum_momentum_shape;
typedef struct {
    poet_channel_sum_shape gradient;
    poet_adam_shape update;
    int32_t rows, band_rows, row;
} poet_channel_sum_adam_shape;
typedef struct {
    poet_channel_sum_shape gradient;
    poet_rmsprop_shape update;
    int32_t rows, band_rows, row;
} poet_channel_sum_rmsprop_shape;

/* What gradients read and updates take. */
#define POET_READS_conv2d_bwd_w const float *x, const float *dy
#define POET_READS_dense_bwd_w const float *x, const float *dy
#define POET_READS_channel_sum const float *dy
#define POET_TAKES_sgd float lr, float *w
#define POET_TAKES_sgd_decay float lr, float *w
#define POET_TAKES_momentum float lr, float *velocity, float *w
#define POET_TAKES_adam \
    float lr, float bias1, float bias2, float *mean, float *square, float *w
#define POET_TAKES_rmsprop float lr, float *square, float *w

#define POET_FUSED(gradient, rule)                                                             \
    void poet_##gradient##_##rule##_f32(const poet_##gradient##_##rule##_shape *shape,         \
                                        POET_READS_##gradient, float *band, POET_TAKES_##rule)
POET_FUSED(conv2d_bwd_w, sgd);
POET_FUSED(conv2d_bwd_w, sgd_decay);
POET_FUSED(conv2d_bwd_w, momentum);
POET_FUSED(conv2d_bwd_w, adam);
POET_FUSED(conv2d_bwd_w, rmsprop);
POET_FUSED(dense_bwd_w, sgd); /* with one sample it needs no band: NULL */
POET_FUSED(dense_bwd_w, sgd_decay);
POET_FUSED(dense_bwd_w, momentum);
POET_FUSED(dense_bwd_w, adam);
POET_FUSED(dense_bwd_w, rmsprop);
POET_FUSED(channel_sum, sgd);
POET_FUSED(channel_sum, sgd_decay);
POET_FUSED(channel_sum, momentum);
POET_FUSED(channel_sum, adam);
POET_FUSED(channel_sum, rmsprop);

#endif
