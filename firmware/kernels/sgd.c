/* Plain stochastic gradient descent, without and with weight decay. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"

void poet_sgd_f32(const poet_vector_shape *shape, const float *g, float lr, float *w)
{
    const float step = -lr;
    int32_t left = shape->count;
    for (; left >= 4; left -= 4) {
        w[0] = POET_FMA(step, g[0], w[0]);
        w[1] = POET_FMA(step, g[1], w[1]);
        w[2] = POET_FMA(step, g[2], w[2]);
        w[3] = POET_FMA(step, g[3], w[3]);
        g += 4;
        w += 4;
    }
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
