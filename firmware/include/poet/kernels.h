/* Every kernel, forward and backward, float32, layout [N, C, H, W] and [N, K], dense.
 *
 * Common rules. No kernel allocates, waits or fails: shapes were checked when the program was
 * made. Pointers do not overlap unless "in place" is said. Each output element is ONE accumulation
 * chain, in the order stated at the prototype, built with POET_FMA; blocking and unrolling go
 * across outputs or continue the chain, so that every variant gives the same bits. Padding
 * positions take no part in a chain (they are skipped, not multiplied by zero).
 */
#ifndef POET_KERNELS_H
#define POET_KERNELS_H

#include <stdint.h>

/* x [n, c, h, w], w [m, c/groups, kh, kw], y [n, m, oh, ow]. */
typedef struct {
    int32_t n, c, h, w;
    int32_t m, oh, ow;
    int32_t kh, kw;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left;
    int32_t dilation_h, dilation_w;
    int32_t groups;
} poet_conv2d_shape;

/* y = x (*) w + b. Chain: starts at b[m] (0 without bias, b may be NULL); then c, kh, kw. */
void poet_conv2d_fwd_f32(const poet_conv2d_shape *shape, const float *x, const float *w,
                         const float *b, float *y);
/* dx. Chain: starts at 0; then m (of the group), kh, kw ascending. */
void poet_conv2d_bwd_x_f32(const poet_conv2d_shape *shape, const float *dy, const float *w,
                           float *dx);
/* dw. Chain: starts at 0; then n, oh, ow. */
void poet_conv2d_bwd_w_f32(const poet_conv2d_shape *shape, const float *x, const float *dy,
                           float *dw);
/* db[m] = sum of dy over n, then the plane. Plain adds. dy [n, m, plane]. */
typedef struct {
    int32_t n, m, plane;
} poet_channel_sum_shape;
void poet_channel_sum_f32(const poet_channel_sum_shape *shape, const float *dy, float *db);

/* y[n, m] = x[n, k] . w + b. w is [m, k] when w_rows_are_outputs, else [k, m]. */
typedef struct {
    int32_t n, k, m;
    int32_t w_rows_are_outputs;
} poet_dense_shape;

/* Chain: starts at b[m] (0 without bias, b may be NULL); then k. */
void poet_dense_fwd_f32(const poet_dense_shape *shape, const float *x, const float *w,
                        const float *b, float *y);
/* dx[n, k]. Chain: starts at 0; then m. */
void poet_dense_bwd_x_f32(const poet_dense_shape *shape, const float *dy, const float *w,
                          float *dx);
/* dw in w's layout. Chain: starts at -0, so that with one sample it is the product; then n. */
void poet_dense_bwd_w_f32(const poet_dense_shape *shape, const float *x, const float *dy,
                          float *dw);

/* x [n*c planes of h x w] -> y [planes, oh, ow], argmax = kh*KW + kw of the winner (first one
 * wins; NaN wins over numbers, as in PyTorch). argmax may be NULL. kh*kw <= 255. */
typedef struct {
    int32_t planes, h, w, oh, ow;
    int32_t kh, kw;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left;
    int32_t dilation_h, dilation_w;
} poet_maxpool2d_shape;
void poet_maxpool2d_fwd_f32(const poet_maxpool2d_shape *shape, const float *x, float *y,
                            uint8_t *argmax);
/* dx = scatter of dy. Chain: starts at 0; adds in the order of oh, ow. */
void poet_maxpool2d_bwd_f32(const poet_maxpool2d_shape *shape, const float *dy,
                            const uint8_t *argmax, float *dx);

/* Element-wise over count elements; may run in place (output over any input). */
typedef struct {
    int32_t count;
} poet_vector_shape;
/* y = x > 0 ? x : 0 (NaN stays NaN, as in PyTorch). */
void poet_relu_fwd_f32(const poet_vector_shape *shape, const float *x, float *y);
/* dx = y > 0 ? dy : 0. */
void poet_relu_bwd_f32(const poet_vector_shape *shape, const float *y, const float *dy, float *dx);
/* y = a + b. */
void poet_add_fwd_f32(const poet_vector_shape *shape, const float *a, const float *b, float *y);

/* Mean over n of the cross-entropy of softmax(z[n, k]) with labels (class index, int32), and its
 * gradient dz (may be z: in place). Chain of the sum of exp: k; of the loss: n.
 * A label outside 0..k-1 gives a NaN loss and touches nothing out of bounds. */
typedef struct {
    int32_t n, k;
} poet_rows_shape;
void poet_softmax_xent_f32(const poet_rows_shape *shape, const float *z, const int32_t *labels,
                           float *loss, float *dz);
/* Mean over all count elements of (y - t)^2 and its gradient dy (may be y: in place). */
void poet_mse_f32(const poet_vector_shape *shape, const float *y, const float *t, float *loss,
                  float *dy);

/* w = w - lr * g, as POET_FMA(-lr, g, w). */
void poet_sgd_f32(const poet_vector_shape *shape, const float *g, float lr, float *w);

#endif
