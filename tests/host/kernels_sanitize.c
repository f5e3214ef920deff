/* Runs every kernel over random shapes on heap blocks of exactly the stated size, so that
 * AddressSanitizer sees one float too far, and compares with the plain kernels bit for bit.
 * Argument: number of rounds. Exit code 1 and a message at the first difference.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "poet/kernels.h"

#define PLAIN(name) plain_##name
#define DECLARE(name, ...) void PLAIN(name)(__VA_ARGS__)
DECLARE(conv2d_fwd_f32, const poet_conv2d_shape *, const float *, const float *, const float *,
        float *);
DECLARE(conv2d_bwd_x_f32, const poet_conv2d_shape *, const float *, const float *, float *);
DECLARE(conv2d_bwd_w_f32, const poet_conv2d_shape *, const float *, const float *, float *);
DECLARE(channel_sum_f32, const poet_channel_sum_shape *, const float *, float *);
DECLARE(dense_fwd_f32, const poet_dense_shape *, const float *, const float *, const float *,
        float *);
DECLARE(dense_bwd_x_f32, const poet_dense_shape *, const float *, const float *, float *);
DECLARE(dense_bwd_w_f32, const poet_dense_shape *, const float *, const float *, float *);
DECLARE(maxpool2d_fwd_f32, const poet_maxpool2d_shape *, const float *, float *, uint8_t *);
DECLARE(maxpool2d_bwd_f32, const poet_maxpool2d_shape *, const float *, const uint8_t *, float *);
DECLARE(softmax_xent_f32, const poet_rows_shape *, const float *, const int32_t *, float *,
        float *);

static uint32_t state = 1U;

static int32_t pick(int32_t low, int32_t high)
{
    state = state * 1664525U + 1013904223U;
    return low + (int32_t)((state >> 8) % (uint32_t)(high - low + 1));
}

static float *floats(int32_t count)
{
    float *block = malloc((size_t)count * sizeof(float));
    if (block == NULL) {
        exit(2);
    }
    for (int32_t i = 0; i < count; i++) {
        block[i] = (float)pick(-1000, 1000) * 0x1p-9F;
    }
    return block;
}

static void same(const char *what, const void *fast, const void *plain, int32_t count, size_t size)
{
    if (memcmp(fast, plain, (size_t)count * size) != 0) {
        (void)printf("%s: expected the bits of the plain kernel, got others\n", what);
        exit(1);
    }
}

/* Fills output size, kernel and padding of one axis so that the kernel fits. */
static void axis(int32_t *size, int32_t *out, int32_t *kernel, int32_t *stride, int32_t *pad,
                 int32_t *dilation, int32_t most)
{
    *kernel = pick(1, 5);
    *stride = pick(1, 3);
    *dilation = pick(1, 2);
    if (pick(0, 1) == 1) {
        *kernel = 3;
        *stride = *dilation; /* 1 or 2 */
        *dilation = 1;
    }
    *size = pick(1, 10);
    *pad = pick(0, (most < *kernel / 2) ? most : *kernel / 2);
    int32_t after = pick(0, 2);
    const int32_t extent = *dilation * (*kernel - 1) + 1;
    if (*size + *pad + after < extent) {
        after = extent - *size - *pad;
    }
    *out = (*size + *pad + after - extent) / *stride + 1;
}

static void convolution(void)
{
    poet_conv2d_shape s = {.n = pick(1, 3), .groups = pick(1, 3)};
    axis(&s.h, &s.oh, &s.kh, &s.stride_h, &s.pad_top, &s.dilation_h, 4);
    axis(&s.w, &s.ow, &s.kw, &s.stride_w, &s.pad_left, &s.dilation_w, 4);
    const int depthwise = (pick(0, 2) == 0);
    const int32_t channels = depthwise ? 1 : pick(1, 6);
    s.c = s.groups * channels;
    s.m = s.groups * (depthwise ? 1 : pick(1, 9));
    const int32_t xs = s.n * s.c * s.h * s.w;
    const int32_t ws = s.m * channels * s.kh * s.kw;
    const int32_t ys = s.n * s.m * s.oh * s.ow;
    float *x = floats(xs);
    float *w = floats(ws);
    float *b = floats(s.m);
    float *dy = floats(ys);
    float *y[2] = {floats(ys), floats(ys)};
    float *dx[2] = {floats(xs), floats(xs)};
    float *dw[2] = {floats(ws), floats(ws)};
    float *db[2] = {floats(s.m), floats(s.m)};
    const poet_channel_sum_shape sum = {s.n, s.m, s.oh * s.ow};
    poet_conv2d_fwd_f32(&s, x, w, b, y[0]);
    PLAIN(conv2d_fwd_f32)(&s, x, w, b, y[1]);
    same("conv2d_fwd", y[0], y[1], ys, sizeof(float));
    poet_conv2d_bwd_x_f32(&s, dy, w, dx[0]);
    PLAIN(conv2d_bwd_x_f32)(&s, dy, w, dx[1]);
    same("conv2d_bwd_x", dx[0], dx[1], xs, sizeof(float));
    poet_conv2d_bwd_w_f32(&s, x, dy, dw[0]);
    PLAIN(conv2d_bwd_w_f32)(&s, x, dy, dw[1]);
    same("conv2d_bwd_w", dw[0], dw[1], ws, sizeof(float));
    poet_channel_sum_f32(&sum, dy, db[0]);
    PLAIN(channel_sum_f32)(&sum, dy, db[1]);
    same("channel_sum", db[0], db[1], s.m, sizeof(float));
    float *all[] = {x, w, b, dy, y[0], y[1], dx[0], dx[1], dw[0], dw[1], db[0], db[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void dense(void)
{
    const poet_dense_shape s = {pick(1, 9), pick(1, 20), pick(1, 12), pick(0, 1)};
    float *x = floats(s.n * s.k);
    float *w = floats(s.k * s.m);
    float *b = floats(s.m);
    float *y[2] = {floats(s.n * s.m), floats(s.n * s.m)};
    float *dx[2] = {floats(s.n * s.k), floats(s.n * s.k)};
    float *dw[2] = {floats(s.k * s.m), floats(s.k * s.m)};
    poet_dense_fwd_f32(&s, x, w, b, y[0]);
    PLAIN(dense_fwd_f32)(&s, x, w, b, y[1]);
    same("dense_fwd", y[0], y[1], s.n * s.m, sizeof(float));
    poet_dense_bwd_x_f32(&s, y[0], w, dx[0]);
    PLAIN(dense_bwd_x_f32)(&s, y[0], w, dx[1]);
    same("dense_bwd_x", dx[0], dx[1], s.n * s.k, sizeof(float));
    poet_dense_bwd_w_f32(&s, x, y[0], dw[0]);
    PLAIN(dense_bwd_w_f32)(&s, x, y[0], dw[1]);
    same("dense_bwd_w", dw[0], dw[1], s.k * s.m, sizeof(float));
    float *all[] = {x, w, b, y[0], y[1], dx[0], dx[1], dw[0], dw[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

static void pooling(void)
{
    poet_maxpool2d_shape s = {.planes = pick(1, 4)};
    axis(&s.h, &s.oh, &s.kh, &s.stride_h, &s.pad_top, &s.dilation_h, 4);
    axis(&s.w, &s.ow, &s.kw, &s.stride_w, &s.pad_left, &s.dilation_w, 4);
    const int32_t xs = s.planes * s.h * s.w;
    const int32_t ys = s.planes * s.oh * s.ow;
    float *x = floats(xs);
    float *y[2] = {floats(ys), floats(ys)};
    float *dx[2] = {floats(xs), floats(xs)};
    uint8_t *where[2] = {malloc((size_t)ys), malloc((size_t)ys)};
    if ((where[0] == NULL) || (where[1] == NULL)) {
        exit(2);
    }
    poet_maxpool2d_fwd_f32(&s, x, y[0], where[0]);
    PLAIN(maxpool2d_fwd_f32)(&s, x, y[1], where[1]);
    same("maxpool2d_fwd", y[0], y[1], ys, sizeof(float));
    same("maxpool2d_fwd argmax", where[0], where[1], ys, 1U);
    poet_maxpool2d_bwd_f32(&s, y[0], where[0], dx[0]);
    PLAIN(maxpool2d_bwd_f32)(&s, y[0], where[0], dx[1]);
    same("maxpool2d_bwd", dx[0], dx[1], xs, sizeof(float));
    float *all[] = {x, y[0], y[1], dx[0], dx[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
    free(where[0]);
    free(where[1]);
}

/* Also labels out of range; losses run in place. */
static void losses_and_updates(void)
{
    const poet_rows_shape s = {pick(1, 4), pick(1, 9)};
    const poet_vector_shape v = {s.n * s.k};
    float *z = floats(v.count);
    float *dz = floats(v.count);
    float *loss = floats(1);
    int32_t *labels = malloc((size_t)s.n * sizeof(int32_t));
    if (labels == NULL) {
        exit(2);
    }
    for (int32_t i = 0; i < s.n; i++) {
        labels[i] = (pick(0, 3) == 0) ? ((pick(0, 1) == 0) ? INT32_MIN : INT32_MAX)
                                      : pick(0, s.k - 1);
    }
    PLAIN(softmax_xent_f32)(&s, z, labels, loss, dz);
    poet_softmax_xent_f32(&s, z, labels, loss, z);
    same("softmax_xent", z, dz, v.count, sizeof(float));
    poet_mse_f32(&v, z, dz, loss, z);
    poet_relu_fwd_f32(&v, dz, dz);
    poet_relu_bwd_f32(&v, z, dz, z);
    poet_add_fwd_f32(&v, z, dz, z);
    poet_sgd_f32(&v, z, 0.1F, dz);
    free(z);
    free(dz);
    free(loss);
    free(labels);
}

/* What follows the gradient; losses run in place. */
static void training(void)
{
    const poet_weighted_xent_shape rows = {pick(1, 4), pick(1, 9), 0.1F};
    const poet_vector_shape v = {rows.n * rows.k};
    const poet_huber_shape huber = {v.count, 0.5F};
    const poet_momentum_shape momentum = {v.count, 0.9F, 0.1F, pick(0, 1)};
    const poet_adam_shape adam = {v.count, 0.1F, 0.999F, 0.001F, 1e-8F, 0.1F, pick(0, 1)};
    const poet_rmsprop_shape rmsprop = {v.count, 0.99F, 0.01F, 1e-8F, 0.1F};
    const poet_decay_shape decay = {v.count, 0.1F};
    const poet_accumulate_shape accumulate = {v.count, 0.5F};
    const poet_clip_shape clip = {0.1F};
    float *g = floats(v.count);
    float *w = floats(v.count);
    float *first = floats(v.count);
    float *second = floats(v.count);
    float *weights = floats(rows.k);
    float *loss = floats(1);
    int32_t *labels = malloc((size_t)rows.n * sizeof(int32_t));
    if (labels == NULL) {
        exit(2);
    }
    for (int32_t i = 0; i < rows.n; i++) {
        labels[i] = (pick(0, 5) == 0) ? INT32_MIN : pick(0, rows.k - 1);
    }
    poet_bce_f32(&v, g, w, loss, g);
    poet_l1_f32(&v, g, w, loss, g);
    poet_huber_f32(&huber, g, w, loss, g);
    poet_weighted_xent_f32(&rows, g, labels, weights, loss, g);
    poet_scalar_loss_f32(loss, loss, g);
    poet_clear_f32(&v, second);
    poet_clear_f32(&v, first);
    poet_accumulate_f32(&accumulate, g, first);
    poet_square_sum_f32(&v, first, NULL, loss);
    poet_clip_factor_f32(&clip, loss, loss);
    poet_scale_f32(&v, first, loss, g);
    poet_sgd_decay_f32(&decay, g, 0.1F, w);
    poet_momentum_f32(&momentum, g, 0.1F, first, w);
    poet_rmsprop_f32(&rmsprop, g, 0.1F, second, w);
    poet_adam_f32(&adam, g, 0.1F, 0.1F, 0.001F, first, second, w);
    float *all[] = {g, w, first, second, weights, loss};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
    free(labels);
}

int main(int argc, char **argv)
{
    const long rounds = (argc > 1) ? strtol(argv[1], NULL, 10) : 100;
    for (long i = 0; i < rounds; i++) {
        convolution();
        dense();
        pooling();
        losses_and_updates();
        training();
    }
    (void)printf("%ld rounds\n", rounds);
    return 0;
}
