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

/* Element-wise functions of one tensor; may run in place (over x; dx over dy or over kept).
 * alpha and beta mean what they mean in ONNX; for clip they are the bounds, for shrink bias and
 * lambd. dx = dy * slope(kept), where kept is x for hard_swish, mish, swish, gelu, gelu_tanh,
 * thresholded_relu, shrink, abs, log, erf and y for all others (leaky_relu: y, or x when alpha is
 * negative). elu and celu need alpha >= 0. neg and scale (y = alpha * x) have no derivative of
 * their own.
 */
typedef struct {
    int32_t count;
    float alpha, beta;
} poet_activation_shape;
#define POET_FORWARD(name) \
    void poet_##name##_fwd_f32(const poet_activation_shape *shape, const float *x, float *y);
#define POET_BACKWARD(name)                                                           \
    void poet_##name##_bwd_f32(const poet_activation_shape *shape, const float *kept, \
                               const float *dy, float *dx);
POET_FORWARD(leaky_relu)
POET_BACKWARD(leaky_relu)
POET_FORWARD(elu)
POET_BACKWARD(elu)
POET_FORWARD(celu)
POET_BACKWARD(celu)
POET_FORWARD(selu)
POET_BACKWARD(selu)
POET_FORWARD(sigmoid)
POET_BACKWARD(sigmoid)
POET_FORWARD(tanh)
POET_BACKWARD(tanh)
POET_FORWARD(hard_sigmoid)
POET_BACKWARD(hard_sigmoid)
POET_FORWARD(hard_swish)
POET_BACKWARD(hard_swish)
POET_FORWARD(softplus)
POET_BACKWARD(softplus)
POET_FORWARD(mish)
POET_BACKWARD(mish)
POET_FORWARD(softsign)
POET_BACKWARD(softsign)
POET_FORWARD(swish)
POET_BACKWARD(swish)
POET_FORWARD(gelu)
POET_BACKWARD(gelu)
POET_FORWARD(gelu_tanh)
POET_BACKWARD(gelu_tanh)
POET_FORWARD(clip)
POET_BACKWARD(clip)
POET_FORWARD(thresholded_relu)
POET_BACKWARD(thresholded_relu)
POET_FORWARD(shrink)
POET_BACKWARD(shrink)
POET_FORWARD(abs)
POET_BACKWARD(abs)
POET_FORWARD(sqrt)
POET_BACKWARD(sqrt)
POET_FORWARD(exp)
POET_BACKWARD(exp)
POET_FORWARD(log)
POET_BACKWARD(log)
POET_FORWARD(erf)
POET_BACKWARD(erf)
POET_FORWARD(reciprocal)
POET_BACKWARD(reciprocal)
POET_FORWARD(neg)
POET_FORWARD(scale)
#undef POET_FORWARD
#undef POET_BACKWARD

/* A result of axes d[0..rank-1], dense, and the strides of its operands in elements; 0 along an
 * axis over which an operand is repeated. 1 <= rank <= POET_AXES.
 */
#define POET_AXES 6
typedef struct {
    int32_t rank;
    int32_t d[POET_AXES];
    int32_t a[POET_AXES];
    int32_t b[POET_AXES];
    int32_t c[POET_AXES];
} poet_broadcast_shape;
/* y = f(a, b); y may be an operand of y's own size. greater: the share of a in the gradient of
 * max(a, b); equal: 1 or 0; ratio: a / b, 0 where b is 0; prelu: a with slope b; pow_slope and
 * pow_log: the derivatives of a^b by a, and by b with the power as second operand.
 */
#define POET_BINARY(name)                                                                   \
    void poet_##name##_fwd_broadcast_f32(const poet_broadcast_shape *shape, const float *a, \
                                         const float *b, float *y);
POET_BINARY(add)
POET_BINARY(sub)
POET_BINARY(mul)
POET_BINARY(div)
POET_BINARY(min)
POET_BINARY(max)
POET_BINARY(pow)
POET_BINARY(pow_slope)
POET_BINARY(pow_log)
POET_BINARY(prelu)
POET_BINARY(prelu_slope)
POET_BINARY(greater)
POET_BINARY(equal)
POET_BINARY(ratio)
#undef POET_BINARY
/* y = x repeated; strides of x in a. */
void poet_expand_fwd_f32(const poet_broadcast_shape *shape, const float *x, float *y);
/* y = choose ? a : b. Strides of choose in a, of a in b, of b in c. y may be a or b of its size. */
void poet_where_fwd_f32(const poet_broadcast_shape *shape, const uint8_t *choose, const float *a,
                        const float *b, float *y);
/* dx, of y's shape: dy where a (where b) was chosen, else 0. dx may be dy. */
void poet_where_bwd_a_f32(const poet_broadcast_shape *shape, const uint8_t *choose,
                          const float *dy, float *dx);
void poet_where_bwd_b_f32(const poet_broadcast_shape *shape, const uint8_t *choose,
                          const float *dy, float *dx);

/* y = 1 where a > b, a >= b, a == b (never for NaN), else 0. */
void poet_greater_mask_f32(const poet_broadcast_shape *shape, const float *a, const float *b,
                           uint8_t *y);
void poet_greater_equal_mask_f32(const poet_broadcast_shape *shape, const float *a,
                                 const float *b, uint8_t *y);
void poet_equal_mask_f32(const poet_broadcast_shape *shape, const float *a, const float *b,
                         uint8_t *y);

/* Reductions of x to y, dense. Axes: first those kept, outermost first, then those reduced; x
 * and factor are their strides in the operands. Chain: over the reduced axes in order, the last
 * fastest; sum, mean (then / divisor), l2 (of squares, then the root) and product (of x * factor)
 * start at 0, max and min at the first element.
 */
typedef struct {
    int32_t rank, kept;
    float divisor;
    int32_t d[POET_AXES];
    int32_t x[POET_AXES];
    int32_t factor[POET_AXES];
} poet_reduce_shape;
void poet_reduce_sum_f32(const poet_reduce_shape *shape, const float *x, float *y);
void poet_reduce_mean_f32(const poet_reduce_shape *shape, const float *x, float *y);
void poet_reduce_max_f32(const poet_reduce_shape *shape, const float *x, float *y);
void poet_reduce_min_f32(const poet_reduce_shape *shape, const float *x, float *y);
void poet_reduce_l2_f32(const poet_reduce_shape *shape, const float *x, float *y);
void poet_reduce_product_f32(const poet_reduce_shape *shape, const float *x, const float *factor,
                             float *y);

/* Softmax and its logarithm along the middle axis of [outer, k, inner]; may run in place (y over
 * x; dx over y or dy). Chains over k; the backward ones of products y * dy and of dy.
 */
typedef struct {
    int32_t outer, k, inner;
} poet_softmax_shape;
void poet_softmax_fwd_f32(const poet_softmax_shape *shape, const float *x, float *y);
void poet_softmax_bwd_f32(const poet_softmax_shape *shape, const float *y, const float *dy,
                          float *dx);
void poet_log_softmax_fwd_f32(const poet_softmax_shape *shape, const float *x, float *y);
void poet_log_softmax_bwd_f32(const poet_softmax_shape *shape, const float *y, const float *dy,
                              float *dx);

/* y[outer, count, width] = rows of table[outer, rows, width]; a negative index counts from the end, one outside
 * gives NaN. dtable: chain starts at 0, adds in the order of the indices.
 */
typedef struct {
    int32_t outer, rows, width, count;
} poet_gather_shape;
void poet_gather_fwd_f32(const poet_gather_shape *shape, const float *table,
                         const int32_t *indices, float *y);
void poet_gather_bwd_f32(const poet_gather_shape *shape, const int32_t *indices, const float *dy,
                         float *dtable);
/* ---- layout: elements are moved, added where several meet, never computed ---- */

/* A box of size[0] x ... x size[5] elements, outermost first; element i of the box is read at
 * from + i . from_step and written at to + i . to_step (steps in floats, 0 repeats). Output
 * elements outside the box are fill; the output has count elements. */
typedef struct {
    int32_t size[6], from_step[6], to_step[6];
    int32_t from, to, count;
    float fill;
} poet_strided_shape;
/* Every output element is written by the box once (transpose, slice). */
void poet_strided_copy_f32(const poet_strided_shape *shape, const float *x, float *y);
/* Fill, then the box (pad, gradient of slice). */
void poet_strided_place_f32(const poet_strided_shape *shape, const float *x, float *y);

/* y = [a | b | c | d] in each of outer rows; the sizes are floats a row, 0 with NULL. */
typedef struct {
    int32_t outer;
    int32_t size[4];
} poet_concat_shape;
void poet_concat_f32(const poet_concat_shape *shape, const float *a, const float *b,
                     const float *c, const float *d, float *y);

/* y[plane, i, j] = x[plane, rows[i], columns[j]]. */
typedef struct {
    int32_t planes, h, w, oh, ow;
} poet_resize_shape;
void poet_resize_fwd_f32(const poet_resize_shape *shape, const float *x, const int32_t *rows,
                         const int32_t *columns, float *y);
/* dx. Chain: starts at 0; adds in the order of oh, ow. */
void poet_resize_bwd_f32(const poet_resize_shape *shape, const float *dy, const int32_t *rows,
                         const int32_t *columns, float *dx);

/* ---- average pooling ---- */

/* The divisor of a window is the number of its taps inside the input, or with count_pads inside
 * the padded input (h + pad_top + pad_bottom rows). */
typedef struct {
    int32_t planes, h, w, oh, ow;
    int32_t kh, kw;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left, pad_bottom, pad_right;
    int32_t dilation_h, dilation_w;
    int32_t count_pads;
} poet_avgpool2d_shape;
/* Chain: starts at 0; kh, kw; then one division. A window without input gives 0. */
void poet_avgpool2d_fwd_f32(const poet_avgpool2d_shape *shape, const float *x, float *y);
/* dx. Chain: starts at 0; adds dy / divisor in the order of oh, ow. */
void poet_avgpool2d_bwd_f32(const poet_avgpool2d_shape *shape, const float *dy, float *dx);

/* ---- normalization ---- */

/* y[n, m, p] = x[n, m, p] + b[m]; may run in place. */
void poet_channel_add_f32(const poet_channel_sum_shape *shape, const float *x, const float *b,
                          float *y);

/* x [n, c, plane]; mean, var, scale, bias [c]. inverse deviation r = 1 / sqrt(var + eps). */
typedef struct {
    int32_t n, c, plane;
    float eps;
} poet_batchnorm_shape;
/* Mean, then the variance over the population: m = sum / count, d = sum of (x - m) / count;
 * mean = m + d, var = sum of (x - m)^2 / count - d * d. Chains: start at 0; n, plane. */
void poet_batch_stats_f32(const poet_batchnorm_shape *shape, const float *x, float *mean,
                          float *var);
/* y = (x - mean) * (r * scale) + bias; may run in place. */
void poet_batchnorm_fwd_f32(const poet_batchnorm_shape *shape, const float *x, const float *mean,
                            const float *var, const float *scale, const float *bias, float *y);
/* dscale = r * sum of (x - mean) * dy, dbias = sum of dy. Chains: start at 0; n, plane. */
void poet_batchnorm_bwd_w_f32(const poet_batchnorm_shape *shape, const float *x, const float *dy,
                              const float *mean, const float *var, float *dscale, float *dbias);
/* dx through the batch's own statistics; may run over dy. */
void poet_batchnorm_bwd_x_f32(const poet_batchnorm_shape *shape, const float *x, const float *dy,
                              const float *mean, const float *var, const float *scale,
                              const float *dscale, const float *dbias, float *dx);
/* dx with given statistics: dy * (r * scale); may run over dy. */
void poet_batchnorm_frozen_bwd_x_f32(const poet_batchnorm_shape *shape, const float *dy,
                                     const float *var, const float *scale, float *dx);
/* running = keep * running + take * batch; the batch's variance times correction. */
typedef struct {
    int32_t c;
    float keep, take, correction;
} poet_running_stats_shape;
void poet_running_stats_f32(const poet_running_stats_shape *shape, const float *mean,
                            const float *var, float *running_mean, float *running_var);

/* Layer, instance and group normalization: each of rows rows of features elements by its own mean
 * and variance. Row r's element f uses scale and bias [(r % groups) * (features / inner)
 * + f / inner]. The backward kernels make the statistics again, so nothing is saved. */
typedef struct {
    int32_t rows, features, groups, inner;
    float eps;
} poet_rownorm_shape;
/* Chains of mean and variance: start at 0; features. May run in place. */
void poet_rownorm_fwd_f32(const poet_rownorm_shape *shape, const float *x, const float *scale,
                          const float *bias, float *y);
/* dx; may run over dy. Chains: start at 0; features. */
void poet_rownorm_bwd_x_f32(const poet_rownorm_shape *shape, const float *x, const float *dy,
                            const float *scale, float *dx);
/* dscale, dbias. Chains: start at 0; rows, features. */
void poet_rownorm_bwd_w_f32(const poet_rownorm_shape *shape, const float *x, const float *dy,
                            float *dscale, float *dbias);

/* y[b, n, m] = sum over k of a[b, n, k] * c[b, k, m]; a is stored [b, k, n] when a_is_turned, c
 * [b, m, k] when c_is_turned. Chain: starts at 0; k. */
typedef struct {
    int32_t batch, n, k, m;
    int32_t a_is_turned, c_is_turned;
} poet_matmul_shape;
void poet_matmul_f32(const poet_matmul_shape *shape, const float *a, const float *c, float *y);
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

/* y = x scale, or 0 where 16 random bits are below threshold; may run in place. The backward pass
 * is the same call over dy. Elements 4 i .. 4 i + 3 take the halves, low one first, of the words of
 * Threefry-2x32-20 with key (seed, stream) and counter (i, step). */
typedef struct {
    int32_t count;
    int32_t seed, stream;
    int32_t threshold; /* of 65536: how many of them are dropped */
    float scale;
} poet_dropout_shape;
void poet_dropout_f32(const poet_dropout_shape *shape, const float *x, uint32_t step, float *y);

#include "poet/recurrent.h"

#include "poet/fused.h"

#endif
