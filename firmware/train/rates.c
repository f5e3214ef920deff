/* Learning rate and bias corrections of an update. */
#include "poet/rates.h"

#include "poet/fma.h"

#define HALF_PI 0x1.921fb6p0F

/* sin(x) and cos(x) for x in 0..pi/4: Taylor's series, cut below 2e-9 and 3e-8. */
static float sine(float x)
{
    const float s = x * x;
    float q = 0x1.71de3ap-19F; /* 1/9! */
    q = POET_FMA(q, s, -0x1.a01a02p-13F);
    q = POET_FMA(q, s, 0x1.111112p-7F);
    q = POET_FMA(q, s, -0x1.555556p-3F);
    return POET_FMA(x * s, q, x);
}

static float cosine(float x)
{
    const float s = x * x;
    float q = 0x1.a01a02p-16F; /* 1/8! */
    q = POET_FMA(q, s, -0x1.6c16c2p-10F);
    q = POET_FMA(q, s, 0x1.555556p-5F);
    q = POET_FMA(q, s, -0x1p-1F);
    return POET_FMA(s, q, 1.0F);
}

/* (1 + cos(pi n/period)) / 2 as the square of cos(pi/2 n/period), which the half with the smaller
 * angle gives: small near the end without a difference of large numbers. */
static float half_wave(uint32_t n, uint32_t period)
{
    const uint32_t left = period - n;
    const float length = (float)period;
    const float root = (n <= left) ? cosine(HALF_PI * ((float)n / length))
                                   : sine(HALF_PI * ((float)left / length));
    return root * root;
}

static float power(float base, uint32_t exponent)
{
    float result = 1.0F;
    for (; exponent != 0U; exponent = exponent >> 1) {
        if ((exponent & 1U) != 0U) {
            result = result * base;
        }
        base = base * base;
    }
    return result;
}

float poet_lr_factor(const poet_training *training, uint32_t n)
{
    if (n < training->warmup) {
        return (float)(n + 1U) / (float)(training->warmup + 1U);
    }
    const uint32_t after = n - training->warmup;
    if (training->lr_kind == (uint32_t)POET_LR_STEP) {
        return power(training->gamma, after / training->period);
    }
    if (training->lr_kind == (uint32_t)POET_LR_COSINE) {
        const uint32_t at = (after < training->period) ? after : training->period;
        const float floor = training->floor;
        return POET_FMA(1.0F - floor, half_wave(at, training->period), floor);
    }
    return 1.0F;
}

float poet_bias_correction(float complement, uint32_t n)
{
    float result = 0.0F;
    for (uint32_t bit = 0x80000000U; bit != 0U; bit = bit >> 1) {
        result = result * (2.0F - result);
        if ((n & bit) != 0U) {
            result = result + complement * (1.0F - result);
        }
    }
    return result;
}
