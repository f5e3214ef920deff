/* Cross-entropy with class weights and label smoothing, as PyTorch defines them: with W the sum of
 * the labels' weights over the batch, p the softmax and s the smoothing,
 *
 *     loss = sum over n of ((1 - s) w[label] (-ln p[label]) + s/k sum over i of w[i] (-ln p[i])) / W
 */
#include <stdint.h>

#include "float_bits.h"
#include "poet/fma.h"
#include "poet/kernels.h"
#include "poet/math.h"

#define NAN_BITS 0x7FC00000U

/* NaN when a label is out of range. */
static float weight_of_labels(const poet_weighted_xent_shape *shape, const int32_t *labels,
                              const float *weights)
{
    float sum = 0.0F;
    for (int32_t n = 0; n < shape->n; n++) {
        const int32_t label = labels[n];
        const int known = (label >= 0) && (label < shape->k);
        sum = sum + (known ? weights[label] : poet_float_of(NAN_BITS));
    }
    return sum;
}

static float sum_of(int32_t k, const float *weights)
{
    float sum = 0.0F;
    for (int32_t i = 0; i < k; i++) {
        sum = sum + weights[i];
    }
    return sum;
}

static float largest(int32_t k, const float *z)
{
    float max = z[0];
    for (int32_t i = 1; i < k; i++) {
        max = (z[i] > max) ? z[i] : max;
    }
    return max;
}

/* One row: its loss times W. hard and soft are what label and each class count. */
static float row(const poet_weighted_xent_shape *shape, const float *z, int32_t label,
                 const float *weights, float sum_of_weights, float scale, float *dz)
{
    const int32_t k = shape->k;
    const float max = largest(k, z);
    const float soft = shape->smoothing / (float)k;
    const float hard = (1.0F - shape->smoothing) * weights[label];
    const float of_label = z[label] - max; /* read before dz overwrites z */
    float sum = 0.0F;
    float weighted = 0.0F; /* sum of w[i] (z[i] - max) */
    for (int32_t i = 0; i < k; i++) {
        const float shifted = z[i] - max;
        weighted = POET_FMA(weights[i], shifted, weighted);
        dz[i] = poet_expf(shifted);
        sum = sum + dz[i];
    }
    const float mass = POET_FMA(soft, sum_of_weights, hard);
    for (int32_t i = 0; i < k; i++) {
        const float target = POET_FMA(soft, weights[i], (i == label) ? hard : 0.0F);
        dz[i] = (mass * (dz[i] / sum) - target) * scale;
    }
    const float log_sum = poet_logf(sum);
    const float spread = (soft > 0.0F) ? soft * (sum_of_weights * log_sum - weighted) : 0.0F;
    return POET_FMA(hard, log_sum - of_label, spread);
}

void poet_weighted_xent_f32(const poet_weighted_xent_shape *shape, const float *z,
                            const int32_t *labels, const float *weights, float *loss, float *dz)
{
    const int32_t k = shape->k;
    const float whole = weight_of_labels(shape, labels, weights);
    const float sum_of_weights = sum_of(k, weights);
    const float scale = 1.0F / whole;
    float total = 0.0F;
    for (int32_t n = 0; n < shape->n; n++) {
        /* A label out of range has made the whole NaN; the row is read all the same. */
        const int32_t label = labels[n];
        const int32_t safe = ((label >= 0) && (label < k)) ? label : 0;
        total = total + row(shape, z, safe, weights, sum_of_weights, scale, dz);
        z += k;
        dz += k;
    }
    *loss = total / whole;
}
