/* Element-wise sum. */
#include <stdint.h>

#include "poet/kernels.h"

void poet_add_fwd_f32(const poet_vector_shape *shape, const float *a, const float *b, float *y)
{
    int32_t left = shape->count;
    for (; left >= 4; left -= 4) {
        y[0] = a[0] + b[0];
        y[1] = a[1] + b[1];
        y[2] = a[2] + b[2];
        y[3] = a[3] + b[3];
        a += 4;
        b += 4;
        y += 4;
    }
    for (; left > 0; left--) {
        *y++ = *a++ + *b++;
    }
}
