/* Gradients of several batches, summed up for one update. */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"

void poet_accumulate_f32(const poet_accumulate_shape *shape, const float *g, float *sum)
{
    for (int32_t i = 0; i < shape->count; i++) {
        sum[i] = POET_FMA(shape->scale, g[i], sum[i]);
    }
}

void poet_clear_f32(const poet_vector_shape *shape, float *sum)
{
    for (int32_t i = 0; i < shape->count; i++) {
        sum[i] = 0.0F;
    }
}
