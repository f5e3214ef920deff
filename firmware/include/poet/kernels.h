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
/* dw in w's layout. Chain: starts at 0; then n. */
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

/* ---- losses: the mean, and its gradient with respect to the first argument (in place is fine).
 * Chains over all elements in order, plain adds. */

/* max(z, 0) - z t + ln(1 + e^-|z|): cross-entropy of sigmoid(z) with targets in 0..1. */
void poet_bce_f32(const poet_vector_shape *shape, const float *z, const float *t, float *loss,
                  float *dz);
/* |y - t|; the gradient is 0 where they are equal. */
void poet_l1_f32(const poet_vector_shape *shape, const float *y, const float *t, float *loss,
                 float *dy);
/* d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2); d = y - t. */
typedef struct {
    int32_t count;
    float delta;
} poet_huber_shape;
void poet_huber_f32(const poet_huber_shape *shape, const float *y, const float *t, float *loss,
                    float *dy);
/* The output is the loss: loss = y, dy = 1. One element each. */
void poet_scalar_loss_f32(const float *y, float *loss, float *dy);
/* poet_softmax_xent_f32 with a weight per class and smoothed labels; divided by the sum of the
 * labels' weights. A label out of range makes loss and all gradients NaN. */
typedef struct {
    int32_t n, k;
    float smoothing;
} poet_weighted_xent_shape;
void poet_weighted_xent_f32(const poet_weighted_xent_shape *shape, const float *z,
                            const int32_t *labels, const float *weights, float *loss, float *dz);

/* ---- updates: element by element, the parameter and its state overwritten ---- */

/* d = g + weight_decay w; w = w - lr d. */
typedef struct {
    int32_t count;
    float weight_decay;
} poet_decay_shape;
void poet_sgd_decay_f32(const poet_decay_shape *shape, const float *g, float lr, float *w);
/* d as above; velocity = momentum velocity + d; w = w - lr (nesterov ? d + momentum velocity :
 * velocity). */
typedef struct {
    int32_t count;
    float momentum;
    float weight_decay;
    int32_t nesterov;
} poet_momentum_shape;
void poet_momentum_f32(const poet_momentum_shape *shape, const float *g, float lr, float *velocity,
                       float *w);
/* mean = mean + complement1 (d - mean); square = beta2 square + complement2 d^2;
 * w = w - lr/bias1 mean / (sqrt(square) / sqrt(bias2) + eps), with bias = 1 - beta^step.
 * Weight decay enters d, or when decoupled shrinks w first. complement = 1 - beta. */
typedef struct {
    int32_t count;
    float complement1;
    float beta2;
    float complement2;
    float eps;
    float weight_decay;
    int32_t decoupled;
} poet_adam_shape;
void poet_adam_f32(const poet_adam_shape *shape, const float *g, float lr, float bias1,
                   float bias2, float *mean, float *square, float *w);
/* square = alpha square + complement d^2; w = w - lr d / (sqrt(square) + eps). */
typedef struct {
    int32_t count;
    float alpha;
    float complement;
    float eps;
    float weight_decay;
} poet_rmsprop_shape;
void poet_rmsprop_f32(const poet_rmsprop_shape *shape, const float *g, float lr, float *square,
                      float *w);

/* sum = sum + scale g. */
typedef struct {
    int32_t count;
    float scale;
} poet_accumulate_shape;
void poet_accumulate_f32(const poet_accumulate_shape *shape, const float *g, float *sum);
/* sum = 0. */
void poet_clear_f32(const poet_vector_shape *shape, float *sum);

/* total = before + sum of g^2 (before may be NULL: 0). Chain: starts at 0, elements in order. */
void poet_square_sum_f32(const poet_vector_shape *shape, const float *g, const float *before,
                         float *total);
/* factor = min(1, most / (sqrt(total) + 1e-6)); may run over total. */
typedef struct {
    float most;
} poet_clip_shape;
void poet_clip_factor_f32(const poet_clip_shape *shape, const float *total, float *factor);
/* scaled = factor g; may run in place over g. */
void poet_scale_f32(const poet_vector_shape *shape, const float *g, const float *factor,
                    float *scaled);

#endif
