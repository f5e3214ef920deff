/* Element-wise sum. */
#include <stdint.h>

#include "poet/kernels.h"
#include "quad.h"

void poet_add_fwd_f32(const poet_vector_shape *shape, const float *a, const float *b, float *y)
{
    int32_t left = shape->count;
#if POET_QUAD_IS_VECTOR
    for (; left >= 4; left -= 4) {
        poet_quad_store_adjacent(vaddq_f32(vld1q_f32(a), vld1q_f32(b)), y);
        a += 4;
        b += 4;
        y += 4;
    }
#else
    for (; left >= 4; left -= 4) {
        y[0] = a[0] + b[0];
        y[1] = a[1] + b[1];
        y[2] = a[2] + b[2];
        y[3] = a[3] + b[3];
        a += 4;
        b += 4;
        y += 4;
    }
#endif
    for (; left > 0; left--) {
        *y++ = *a++ + *b++;
    }
}
