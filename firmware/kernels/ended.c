/* Kernels that end in a rectifier or a clip: one call, and for a sum one pass. The products' outputs
 * are gone over once more while the call lasts; to do it in their blocks would save one load and
 * one store an output, and cost every block its own copy of the comparisons.
 */
#include "float_bits.h"
#include "poet/kernels.h"

static void end_with(const poet_ending *end, int32_t count, float *y)
{
    if (end->kind == POET_END_RELU) {
        const poet_vector_shape all = {count};
        poet_relu_fwd_f32(&all, y, y);
    } else {
        const poet_activation_shape all = {count, end->low, end->high};
        poet_clip_fwd_f32(&all, y, y);
    }
}

static int32_t outputs_of(const poet_conv2d_shape *s)
{
    return s->n * s->m * s->oh * s->ow;
}

void poet_conv2d_fwd_ended_f32(const poet_conv2d_ended_shape *shape, const float *x,
                               const float *w, const float *b, float *y)
{
    poet_conv2d_fwd_f32(&shape->before, x, w, b, y);
    end_with(&shape->end, outputs_of(&shape->before), y);
}

void poet_conv2d_fwd_packed_ended_f32(const poet_conv2d_packed_ended_shape *shape, const float *x,
                                      const float *w, const float *b, float *work, float *y)
{
    poet_conv2d_fwd_packed_f32(&shape->before, x, w, b, work, y);
    end_with(&shape->end, outputs_of(&shape->before.conv), y);
}

void poet_dense_fwd_ended_f32(const poet_dense_ended_shape *shape, const float *x, const float *w,
                              const float *b, float *y)
{
    poet_dense_fwd_f32(&shape->before, x, w, b, y);
    end_with(&shape->end, shape->before.n * shape->before.m, y);
}

/* -0 and all negative numbers become +0; a NaN stays (relu.c). */
static inline float rectified(float x)
{
    return ((int32_t)poet_bits_of(x) <= (int32_t)(-0x7FFFFFFF - 1 + 0x7F800000)) ? 0.0F : x;
}

void poet_add_fwd_ended_f32(const poet_vector_ended_shape *shape, const float *a, const float *b,
                            float *y)
{
    const int32_t count = shape->before.count;
    if (shape->end.kind != POET_END_RELU) {
        poet_add_fwd_f32(&shape->before, a, b, y);
        end_with(&shape->end, count, y);
        return;
    }
    int32_t left = count;
    for (; left >= 4; left -= 4) {
        y[0] = rectified(a[0] + b[0]);
        y[1] = rectified(a[1] + b[1]);
        y[2] = rectified(a[2] + b[2]);
        y[3] = rectified(a[3] + b[3]);
        a += 4;
        b += 4;
        y += 4;
    }
    for (; left > 0; left--) {
        *y++ = rectified(*a++ + *b++);
    }
}
