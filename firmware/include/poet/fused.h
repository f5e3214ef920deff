/* Forms of the kernels that need workspace. Included by poet/kernels.h. */
#ifndef POET_FUSED_H
#define POET_FUSED_H

/* Convolution forward and dx, with the same bits, by packing operands in the workspace work of
 * work_floats: for a block of four channels and as many fours of positions (16 at most) as there
 * is room, 4 floats a term each; terms are c / groups * kh * kw, back m / groups times the taps
 * that one position meets. Positions that do not fit are computed without it. */
typedef struct {
    poet_conv2d_shape conv;
    int32_t work_floats;
} poet_conv2d_packed_shape;
void poet_conv2d_fwd_packed_f32(const poet_conv2d_packed_shape *shape, const float *x,
                                const float *w, const float *b, float *work, float *y);
void poet_conv2d_bwd_x_packed_f32(const poet_conv2d_packed_shape *shape, const float *dy,
                                  const float *w, float *work, float *dx);

/* Kernels whose output y then goes through an activation; with the bits of the two kernels. y = a + b
 * may run in place. low and high are clip's bounds. */
enum { POET_END_RELU = 0, POET_END_CLIP = 1 };
typedef struct {
    int32_t kind;
    float low, high;
} poet_ending;
typedef struct {
    poet_conv2d_shape before;
    poet_ending end;
} poet_conv2d_ended_shape;
typedef struct {
    poet_conv2d_packed_shape before;
    poet_ending end;
} poet_conv2d_packed_ended_shape;
typedef struct {
    poet_dense_shape before;
    poet_ending end;
} poet_dense_ended_shape;
typedef struct {
    poet_vector_shape before;
    poet_ending end;
} poet_vector_ended_shape;
void poet_conv2d_fwd_ended_f32(const poet_conv2d_ended_shape *shape, const float *x,
                               const float *w, const float *b, float *y);
void poet_conv2d_fwd_packed_ended_f32(const poet_conv2d_packed_ended_shape *shape, const float *x,
                                      const float *w, const float *b, float *work, float *y);
void poet_dense_fwd_ended_f32(const poet_dense_ended_shape *shape, const float *x, const float *w,
                              const float *b, float *y);
void poet_add_fwd_ended_f32(const poet_vector_ended_shape *shape, const float *a, const float *b,
                            float *y);

/* Gradients of count rows from first on, to dw or db: of output channels (with groups, of whole
 * groups), of rows of a dense layer's w, of channels. */
void poet_conv2d_bwd_w_rows_f32(const poet_conv2d_shape *shape, int32_t first, int32_t count,
                                const float *x, const float *dy, float *dw);
void poet_dense_bwd_w_rows_f32(const poet_dense_shape *shape, int32_t first, int32_t count,
                               const float *x, const float *dy, float *dw);
void poet_channel_sum_rows_f32(const poet_channel_sum_shape *shape, int32_t first, int32_t count,
                               const float *dy, float *db);

/* A gradient and its update in one call.
 *
 * The gradient is made band_rows rows (of the parameter's first axis) at a time in the workspace
 * band, of band_rows * row floats, and each band is used up at once: it never exists as a whole.
 * Bits are those of the two kernels one after the other. update.count is not read. In a
 * convolution with groups band_rows is a whole number of groups' output channels.
 */
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
