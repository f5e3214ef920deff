/* Mean of squared differences and its gradient 2 (y - t) / count. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"

void poet_mse_f32(const poet_vector_shape *shape, const float *y, const float *t, float *loss,
                  float *dy)
{
    const float scale = 2.0F / (float)shape->count;
    float total = 0.0F;
    for (int32_t left = shape->count; left > 0; left--) {
        const float difference = *y++ - *t++;
        total = POET_FMA(difference, difference, total);
        *dy++ = difference * scale;
    }
    *loss = total / (float)shape->count;
}
