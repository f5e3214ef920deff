/* Huber's loss: d^2 / 2 up to delta, delta (|d| - delta / 2) beyond; mean, and its gradient. */
#include <stdint.h>

#include "poet/kernels.h"

void poet_huber_f32(const poet_huber_shape *shape, const float *y, const float *t, float *loss,
                    float *dy)
{
    const float delta = shape->delta;
    const float scale = 1.0F / (float)shape->count;
    float total = 0.0F;
    for (int32_t left = shape->count; left > 0; left--) {
        const float difference = *y++ - *t++;
        const float size = (difference < 0.0F) ? -difference : difference;
        if (size > delta) {
            total = total + delta * (size - 0.5F * delta);
            *dy++ = ((difference < 0.0F) ? -delta : delta) * scale;
        } else {
            total = total + (0.5F * difference) * difference;
            *dy++ = difference * scale;
        }
    }
    *loss = total / (float)shape->count;
}
