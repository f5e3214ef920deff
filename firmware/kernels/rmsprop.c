/* RMSprop in PyTorch's form: the root of the mean square first, then eps. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "root.h"

void poet_rmsprop_f32(const poet_rmsprop_shape *shape, const float *g, float lr, float *square,
                      float *w)
{
    for (int32_t i = 0; i < shape->count; i++) {
        const float gradient = POET_FMA(shape->weight_decay, w[i], g[i]);
        const float v =
            POET_FMA(shape->alpha, square[i], shape->complement * (gradient * gradient));
        square[i] = v;
        w[i] = POET_FMA(-lr, gradient / (poet_root(v) + shape->eps), w[i]);
    }
}
