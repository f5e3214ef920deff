/* Softmax and cross-entropy in one, so that the logarithm never sees a rounded probability. */
#include <stdint.h>

#include "float_bits.h"
#include "poet/kernels.h"
#include "poet/math.h"

#define NAN_BITS 0x7FC00000U

static float largest(int32_t k, const float *z)
{
    float max = z[0];
    for (int32_t i = 1; i < k; i++) {
        max = (z[i] > max) ? z[i] : max;
    }
    return max;
}

/* e[i] = exp(z[i] - max), returns their sum. e may be z. */
static float exponentials(int32_t k, const float *z, float max, float *e)
{
    float sum = 0.0F;
    for (int32_t i = 0; i < k; i++) {
        e[i] = poet_expf(z[i] - max);
        sum = sum + e[i];
    }
    return sum;
}

void poet_softmax_xent_f32(const poet_rows_shape *shape, const float *z, const int32_t *labels,
                           float *loss, float *dz)
{
    const int32_t k = shape->k;
    const float scale = 1.0F / (float)shape->n;
    float total = 0.0F;
    for (int32_t n = 0; n < shape->n; n++) {
        const int32_t label = labels[n];
        const float max = largest(k, z);
        if ((label < 0) || (label >= k)) {
            total = poet_float_of(NAN_BITS);
            for (int32_t i = 0; i < k; i++) {
                dz[i] = poet_float_of(NAN_BITS);
            }
        } else {
            const float of_label = z[label] - max; /* read before dz overwrites z */
            const float sum = exponentials(k, z, max, dz);
            for (int32_t i = 0; i < k; i++) {
                const float hot = (i == label) ? 1.0F : 0.0F;
                dz[i] = (dz[i] / sum - hot) * scale;
            }
            total = total + (poet_logf(sum) - of_label);
        }
        z += k;
        dz += k;
    }
    *loss = total / (float)shape->n;
}
