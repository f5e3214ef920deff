/* A bias a channel. */
#include <stdint.h>

#include "poet/kernels.h"

void poet_channel_add_f32(const poet_channel_sum_shape *shape, const float *x, const float *b,
                          float *y)
{
    for (int32_t n = shape->n; n > 0; n--) {
        for (int32_t m = 0; m < shape->m; m++) {
            for (int32_t left = shape->plane; left > 0; left--) {
                *y++ = *x++ + b[m];
            }
        }
    }
}
