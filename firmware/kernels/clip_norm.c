/* Clipping by the norm of all gradients together, as torch.nn.utils.clip_grad_norm_ does it. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "root.h"

void poet_square_sum_f32(const poet_vector_shape *shape, const float *g, const float *before,
                         float *total)
{
    float sum = 0.0F;
    for (int32_t i = 0; i < shape->count; i++) {
        sum = POET_FMA(g[i], g[i], sum);
    }
    *total = (before != 0) ? (*before + sum) : sum;
}

void poet_clip_factor_f32(const poet_clip_shape *shape, const float *total, float *factor)
{
    const float found = shape->most / (poet_root(*total) + 1e-6F);
    *factor = (found > 1.0F) ? 1.0F : found; /* NaN stays NaN */
}

void poet_scale_f32(const poet_vector_shape *shape, const float *g, const float *factor,
                    float *scaled)
{
    const float by = *factor;
    for (int32_t i = 0; i < shape->count; i++) {
        scaled[i] = g[i] * by;
    }
}
