/* 2-D convolution, forward and the gradients of input, weights and bias. */
#include "conv_halves.h"
#include "conv_plane_weights.h"
#include "conv_weights.h"
#include "correlate.h"
#if POET_QUAD_IS_VECTOR
#include "plane_lanes.h"
#endif
#include "poet/kernels.h"
#include "product.h"

/* 1 x 1 on every position: a matrix product, with no taps to think of. */
static int is_pointwise(const poet_conv2d_shape *s)
{
    return (s->kh == 1) && (s->kw == 1) && (s->oh == s->h) && (s->ow == s->w)
           && (s->stride_h == 1) && (s->stride_w == 1) && (s->pad_top == 0) && (s->pad_left == 0);
}

/* The product for every sample and group. */
static void multiply_planes(const poet_conv2d_shape *s, poet_product p)
{
    const int32_t plane = s->h * s->w;
    for (int32_t i = 0; i < s->n * s->groups; i++) {
        const int32_t group = i % s->groups;
        poet_product one = p;
        one.left += group * (s->m / s->groups) * (s->c / s->groups);
        one.start = (p.start != 0) ? p.start + group * p.rows : 0;
        one.right += i * p.terms * plane;
        one.out += i * p.rows * plane;
        poet_multiply(&one);
    }
}

static correlation forward_of(const poet_conv2d_shape *s)
{
    const int32_t area = s->kh * s->kw;
    const int32_t channels = s->c / s->groups;
    const int32_t outs = s->m / s->groups;
    return (correlation){
        .h = poet_axis_forward(s->oh, s->h, s->kh, s->stride_h, s->pad_top, s->dilation_h),
        .w = poet_axis_forward(s->ow, s->w, s->kw, s->stride_w, s->pad_left, s->dilation_w),
        .samples = s->n,
        .groups = s->groups,
        .outs = outs,
        .channels = channels,
        .x_row = s->w,
        .x_plane = s->h * s->w,
        .out_row = s->ow,
        .out_plane = s->oh * s->ow,
        .w_out = channels * area,
        .w_channel = area,
        .w_row = s->kw,
        .w_group = outs * channels * area,
        .x_tap = 1,
    };
}

void poet_conv2d_fwd_f32(const poet_conv2d_shape *shape, const float *x, const float *w,
                         const float *b, float *y)
{
    const poet_conv2d_shape *s = shape;
    const int32_t channels = s->c / s->groups;
    const int32_t outs = s->m / s->groups;
    if (is_pointwise(s)) {
        const poet_product p = {.rows = outs,
                                .columns = s->h * s->w,
                                .terms = channels,
                                .left_row = channels,
                                .left_term = 1,
                                .right_row = 1,
                                .right_term = s->h * s->w,
                                .out_row = s->h * s->w,
                                .out_column = 1,
                                .start_row = 1,
                                .left = w,
                                .right = x,
                                .start = b,
                                .out = y};
        multiply_planes(s, p);
        return;
    }
#if POET_QUAD_IS_VECTOR
    if (plane_lanes_fit(s, 0)) {
        plane_lanes_forward(s, x, w, b, y);
        return;
    }
#endif
#if !POET_SOFT_FLOAT
    if (halves_fit(s)) {
        halves_forward(s, x, w, b, y);
        return;
    }
#endif
    const correlation cor = forward_of(s);
    const group_data first = {.x = x, .w = w, .bias = b, .out = y};
    correlate(&cor, &first, &forward);
}

static correlation back_of(const poet_conv2d_shape *s)
{
    const int32_t area = s->kh * s->kw;
    const int32_t channels = s->m / s->groups;
    const int32_t outs = s->c / s->groups;
    return (correlation){
        .h = poet_axis_back(s->h, s->oh, s->kh, s->stride_h, s->pad_top, s->dilation_h),
        .w = poet_axis_back(s->w, s->ow, s->kw, s->stride_w, s->pad_left, s->dilation_w),
        .samples = s->n,
        .groups = s->groups,
        .outs = outs,
        .channels = channels,
        .x_row = s->ow,
        .x_plane = s->oh * s->ow,
        .out_row = s->w,
        .out_plane = s->h * s->w,
        .w_out = area,
        .w_channel = outs * area,
        .w_row = s->kw,
        .w_group = outs * channels * area,
        .x_tap = -1,
    };
}

void poet_conv2d_bwd_x_f32(const poet_conv2d_shape *shape, const float *dy, const float *w,
                           float *dx)
{
    const poet_conv2d_shape *s = shape;
    const int32_t channels = s->m / s->groups;
    const int32_t outs = s->c / s->groups;
    if (is_pointwise(s)) {
        const poet_product p = {.rows = outs,
                                .columns = s->h * s->w,
                                .terms = channels,
                                .left_row = 1,
                                .left_term = outs,
                                .right_row = 1,
                                .right_term = s->h * s->w,
                                .out_row = s->h * s->w,
                                .out_column = 1,
                                .left = w,
                                .right = dy,
                                .out = dx};
        multiply_planes(s, p);
        return;
    }
#if POET_QUAD_IS_VECTOR
    if (plane_lanes_fit(s, 1)) {
        plane_lanes_back(s, dy, w, dx);
        return;
    }
#endif
#if !POET_SOFT_FLOAT
    if (halves_fit(s)) {
        halves_back(s, dy, w, dx);
        return;
    }
#endif
    const correlation cor = back_of(s);
    const group_data first = {.x = dy, .w = w, .bias = 0, .out = dx};
    correlate(&cor, &first, &back);
}

void poet_conv2d_fwd_packed_f32(const poet_conv2d_packed_shape *shape, const float *x,
                                const float *w, const float *b, float *work, float *y)
{
    correlation cor = forward_of(&shape->conv);
    cor.work = work;
    cor.work_floats = shape->work_floats;
    const group_data first = {.x = x, .w = w, .bias = b, .out = y};
    correlate(&cor, &first, &packed);
}

void poet_conv2d_bwd_x_packed_f32(const poet_conv2d_packed_shape *shape, const float *dy,
                                  const float *w, float *work, float *dx)
{
    correlation cor = back_of(&shape->conv);
    cor.work = work;
    cor.work_floats = shape->work_floats;
    const group_data first = {.x = dy, .w = w, .bias = 0, .out = dx};
    correlate(&cor, &first, &packed);
}

#if POET_QUAD_IS_VECTOR
/* 1 x 1 on every position: a product for each sample, whose chains the next one goes on with. */
POET_APART static void weights_by_products(const weight_part *part, const float *x,
                                           const float *dy, float *dw)
{
    const poet_conv2d_shape *s = &part->shape;
    const int32_t plane = s->h * s->w;
    const int32_t channels = s->c / s->groups;
    const int32_t outs = s->m / s->groups;
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t g = 0; g < s->groups; g++) {
            float *out = dw + g * outs * channels;
            const poet_product p = {.rows = outs,
                                    .columns = channels,
                                    .terms = plane,
                                    .left_row = plane,
                                    .left_term = 1,
                                    .right_row = plane,
                                    .right_term = 1,
                                    .out_row = channels,
                                    .out_column = 1,
                                    .start_row = channels,
                                    .start_column = 1,
                                    .left = dy + n * part->dy_sample + g * outs * plane,
                                    .right = x + n * part->x_sample + g * channels * plane,
                                    .start = (n > 0) ? out : 0,
                                    .out = out};
            poet_multiply(&p);
        }
    }
}
#endif

static void weight_gradient(const weight_part *part, const float *x, const float *dy, float *dw)
{
    const poet_conv2d_shape *s = &part->shape;
#if !POET_SOFT_FLOAT
    if (plane_weights_fit(s)) {
        weights_of_planes(part, x, dy, dw);
        return;
    }
#endif
#if POET_QUAD_IS_VECTOR
    if (is_pointwise(s)) {
        weights_by_products(part, x, dy, dw);
        return;
    }
    if (rows_of_lanes_fit(part)) {
        weights_by_rows(part, x, dy, dw);
        return;
    }
#endif
    const int few = (s->c / s->groups < 4);
    if (!POET_SOFT_FLOAT && (s->kw == 3) && (s->dilation_w == 1) && (few || (s->stride_w == 2))) {
        weights_by_rows(part, x, dy, dw);
    } else {
        weights_by_taps(part, x, dy, dw);
    }
}

void poet_conv2d_bwd_w_rows_f32(const poet_conv2d_shape *shape, int32_t first, int32_t count,
                                const float *x, const float *dy, float *dw)
{
    const int32_t x_plane = shape->h * shape->w;
    const int32_t dy_plane = shape->oh * shape->ow;
    weight_part part = {.shape = *shape,
                        .x_sample = shape->c * x_plane,
                        .dy_sample = shape->m * dy_plane};
    part.shape.m = count;
    if (shape->groups > 1) {
        const int32_t outs = shape->m / shape->groups;
        const int32_t channels = shape->c / shape->groups;
        part.shape.groups = count / outs;
        part.shape.c = part.shape.groups * channels;
        x += (first / outs) * channels * x_plane;
    }
    weight_gradient(&part, x, dy + first * dy_plane, dw);
}

void poet_conv2d_bwd_w_f32(const poet_conv2d_shape *shape, const float *x, const float *dy,
                           float *dw)
{
    poet_conv2d_bwd_w_rows_f32(shape, 0, shape->m, x, dy, dw);
}

/* db of four neighbouring channels. */
#if POET_QUAD_IS_VECTOR
static void sum_four_channels(const poet_channel_sum_shape *s, const float *dy, float *db)
{
    poet_quad sum = poet_quad_of(0.0F);
    for (int32_t n = s->n; n > 0; n--) {
        poet_spread at = poet_spread_at(dy - 1, s->plane, 4);
        poet_quad v;
        for (int32_t fours = s->plane / 4; fours > 0; fours--) {
            POET_SPREAD_LOAD(v, at, 1);
            sum = vaddq_f32(sum, v);
            POET_SPREAD_LOAD(v, at, 2);
            sum = vaddq_f32(sum, v);
            POET_SPREAD_LOAD(v, at, 3);
            sum = vaddq_f32(sum, v);
            POET_SPREAD_NEXT(v, at, 4);
            sum = vaddq_f32(sum, v);
        }
        for (int32_t left = s->plane % 4; left > 0; left--) {
            POET_SPREAD_NEXT(v, at, 1);
            sum = vaddq_f32(sum, v);
        }
        dy += s->m * s->plane;
    }
    poet_quad_store_adjacent(sum, db);
}
#else
static void sum_four_channels(const poet_channel_sum_shape *s, const float *dy, float *db)
{
    float sum[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    for (int32_t n = s->n; n > 0; n--) {
        const float *p0 = dy;
        const float *p1 = p0 + s->plane;
        const float *p2 = p1 + s->plane;
        const float *p3 = p2 + s->plane;
        for (int32_t left = s->plane; left > 0; left--) {
            sum[0] = sum[0] + *p0++;
            sum[1] = sum[1] + *p1++;
            sum[2] = sum[2] + *p2++;
            sum[3] = sum[3] + *p3++;
        }
        dy += s->m * s->plane;
    }
    db[0] = sum[0];
    db[1] = sum[1];
    db[2] = sum[2];
    db[3] = sum[3];
}
#endif

static float sum_channel(const poet_channel_sum_shape *s, const float *dy)
{
    float sum = 0.0F;
    for (int32_t n = s->n; n > 0; n--) {
        const float *from = dy;
        for (int32_t left = s->plane; left > 0; left--) {
            sum = sum + *from++;
        }
        dy += s->m * s->plane;
    }
    return sum;
}

void poet_channel_sum_rows_f32(const poet_channel_sum_shape *shape, int32_t first, int32_t count,
                               const float *dy, float *db)
{
    const float *from = dy + first * shape->plane;
    int32_t m = 0;
    for (; m + 4 <= count; m += 4) {
        sum_four_channels(shape, from + m * shape->plane, db + m);
    }
    for (; m < count; m++) {
        db[m] = sum_channel(shape, from + m * shape->plane);
    }
}

void poet_channel_sum_f32(const poet_channel_sum_shape *shape, const float *dy, float *db)
{
    poet_channel_sum_rows_f32(shape, 0, shape->m, dy, db);
}
