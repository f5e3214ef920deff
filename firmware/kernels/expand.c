/* A tensor repeated along the axes it is broadcast over. */
#include <stdint.h>

#include "broadcast.h"
#include "poet/kernels.h"

void poet_expand_fwd_f32(const poet_broadcast_shape *shape, const float *x, float *y)
{
    const int32_t last = shape->rank - 1;
    const int32_t count = shape->d[last];
    const int32_t step = shape->a[last];
    poet_walk walk = {{0}, 0, 0, 0};
    do {
        for (int32_t i = 0; i < count; i++) {
            *y++ = x[walk.a + (i * step)];
        }
    } while (poet_next_row(shape, &walk) != 0);
}
