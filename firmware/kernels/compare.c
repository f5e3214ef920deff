/* Comparisons of two tensors that broadcast, as bytes 1 and 0. */
#include <stdint.h>

#include "broadcast.h"
#include "poet/kernels.h"

#define COMPARISON(name, sign)                                                               \
    void poet_##name##_mask_f32(const poet_broadcast_shape *shape, const float *a,           \
                                const float *b, uint8_t *y)                                  \
    {                                                                                        \
        const int32_t last = shape->rank - 1;                                                \
        poet_walk walk = {{0}, 0, 0, 0};                                                     \
        do {                                                                                 \
            for (int32_t i = 0; i < shape->d[last]; i++) {                                   \
                const float left = a[walk.a + (i * shape->a[last])];                         \
                const float right = b[walk.b + (i * shape->b[last])];                        \
                *y++ = (left sign right) ? 1U : 0U;                                          \
            }                                                                                \
        } while (poet_next_row(shape, &walk) != 0);                                          \
    }

COMPARISON(greater, >)
COMPARISON(greater_equal, >=)
COMPARISON(equal, ==)
