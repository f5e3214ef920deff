/* Plain stochastic gradient descent, without and with weight decay. */
#include <stdint.h>

#include "pair.h"
#include "poet/kernels.h"

void poet_sgd_f32(const poet_vector_shape *shape, const float *g, float lr, float *w)
{
    const float step = -lr;
    int32_t left = shape->count;
#if POET_QUAD_IS_VECTOR
    for (; left >= 4; left -= 4) {
        poet_quad_store_adjacent(poet_quad_fma(vld1q_f32(g), step, vld1q_f32(w)), w);
        g += 4;
        w += 4;
    }
#elif !POET_SOFT_FLOAT
    for (; left >= 8; left -= 8) {
        poet_eight_fma(&g, step, &w);
    }
#endif
    for (; left > 0; left--) {
        *w = POET_FMA(step, *g, *w);
        g++;
        w++;
    }
}

void poet_sgd_decay_f32(const poet_decay_shape *shape, const float *g, float lr, float *w)
{
    for (int32_t i = 0; i < shape->count; i++) {
        const float gradient = POET_FMA(shape->weight_decay, w[i], g[i]);
        w[i] = POET_FMA(-lr, gradient, w[i]);
    }
}
