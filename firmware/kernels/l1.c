/* Mean of absolute differences and its gradient sign(y - t) / count, 0 where both are equal. */
#include <stdint.h>

#include "poet/kernels.h"

void poet_l1_f32(const poet_vector_shape *shape, const float *y, const float *t, float *loss,
                 float *dy)
{
    const float scale = 1.0F / (float)shape->count;
    float total = 0.0F;
    for (int32_t left = shape->count; left > 0; left--) {
        const float difference = *y++ - *t++;
        const float size = (difference < 0.0F) ? -difference : difference;
        total = total + size;
        /* A difference that is no number is its own gradient. */
        *dy++ = (size > 0.0F) ? ((difference < 0.0F) ? -scale : scale) : difference;
    }
    *loss = total / (float)shape->count;
}
