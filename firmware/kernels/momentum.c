/* Gradient descent with momentum, plain or Nesterov's, in PyTorch's form: the velocity is a sum of
 * gradients, the learning rate stays outside of it.
 */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"

void poet_momentum_f32(const poet_momentum_shape *shape, const float *g, float lr, float *velocity,
                       float *w)
{
    const float mu = shape->momentum;
    for (int32_t i = 0; i < shape->count; i++) {
        const float gradient = POET_FMA(shape->weight_decay, w[i], g[i]);
        const float moved = POET_FMA(mu, velocity[i], gradient);
        const float along = (shape->nesterov != 0) ? POET_FMA(mu, moved, gradient) : moved;
        velocity[i] = moved;
        w[i] = POET_FMA(-lr, along, w[i]);
    }
}
