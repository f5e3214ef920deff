/* Binary cross-entropy of sigmoid(z) with targets t, from logits, so that nothing saturates:
 * max(z, 0) - z t + ln(1 + e^-|z|), and its gradient (sigmoid(z) - t) / count.
 */
#include <stdint.h>

#include "poet/kernels.h"
#include "poet/math.h"

/* ln(1 + e) for e in 0..1. The logarithm of the rounded sum u is off by (e - (u - 1)) / u; the
 * quotient e / (u - 1) takes that out (Kahan).
 */
static float log_one_plus(float e)
{
    const float u = 1.0F + e;
    return (u == 1.0F) ? e : poet_logf(u) * (e / (u - 1.0F));
}

void poet_bce_f32(const poet_vector_shape *shape, const float *z, const float *t, float *loss,
                  float *dz)
{
    const float scale = 1.0F / (float)shape->count;
    float total = 0.0F;
    for (int32_t left = shape->count; left > 0; left--) {
        const float logit = *z++;
        const float target = *t++;
        const float e = poet_expf((logit > 0.0F) ? -logit : logit);
        const float positive = (logit < 0.0F) ? 0.0F : logit;
        const float sigmoid = ((logit < 0.0F) ? e : 1.0F) / (1.0F + e);
        total = total + ((positive - logit * target) + log_one_plus(e));
        *dz++ = (sigmoid - target) * scale;
    }
    *loss = total / (float)shape->count;
}
