/* Adam and AdamW (Kingma and Ba 2015; Loshchilov and Hutter 2019) in the order of PyTorch. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "root.h"

void poet_adam_f32(const poet_adam_shape *shape, const float *g, float lr, float bias1,
                   float bias2, float *mean, float *square, float *w)
{
    const float step = lr / bias1;
    const float bias2_root = poet_root(bias2);
    const float coupled = (shape->decoupled != 0) ? 0.0F : shape->weight_decay;
    const float decay = (shape->decoupled != 0) ? lr * shape->weight_decay : 0.0F;
    for (int32_t i = 0; i < shape->count; i++) {
        const float kept = POET_FMA(-decay, w[i], w[i]);
        const float gradient = POET_FMA(coupled, w[i], g[i]);
        const float m = POET_FMA(shape->complement1, gradient - mean[i], mean[i]);
        const float v =
            POET_FMA(shape->beta2, square[i], shape->complement2 * (gradient * gradient));
        mean[i] = m;
        square[i] = v;
        w[i] = POET_FMA(-step, m / (poet_root(v) / bias2_root + shape->eps), kept);
    }
}
