/* Choice between two tensors by a third of bytes, and its gradients. */
#include <stdint.h>

#include "broadcast.h"
#include "poet/kernels.h"

void poet_where_fwd_f32(const poet_broadcast_shape *shape, const uint8_t *choose, const float *a,
                        const float *b, float *y)
{
    const int32_t last = shape->rank - 1;
    const int32_t count = shape->d[last];
    poet_walk walk = {{0}, 0, 0, 0};
    do {
        for (int32_t i = 0; i < count; i++) {
            const int32_t at_a = walk.b + (i * shape->b[last]);
            const int32_t at_b = walk.c + (i * shape->c[last]);
            *y++ = (choose[walk.a + (i * shape->a[last])] != 0U) ? a[at_a] : b[at_b];
        }
    } while (poet_next_row(shape, &walk) != 0);
}

/* keep is 1 for the gradient of a, 0 for that of b. */
static void masked(const poet_broadcast_shape *shape, const uint8_t *choose, const float *dy,
                   float *dx, int keep)
{
    const int32_t last = shape->rank - 1;
    const int32_t count = shape->d[last];
    poet_walk walk = {{0}, 0, 0, 0};
    do {
        for (int32_t i = 0; i < count; i++) {
            const int chosen = choose[walk.a + (i * shape->a[last])] != 0U;
            *dx++ = (chosen == keep) ? *dy : 0.0F;
            dy++;
        }
    } while (poet_next_row(shape, &walk) != 0);
}

void poet_where_bwd_a_f32(const poet_broadcast_shape *shape, const uint8_t *choose,
                          const float *dy, float *dx)
{
    masked(shape, choose, dy, dx, 1);
}

void poet_where_bwd_b_f32(const poet_broadcast_shape *shape, const uint8_t *choose,
                          const float *dy, float *dx)
{
    masked(shape, choose, dy, dx, 0);
}
