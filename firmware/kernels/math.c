/* e^x, ln x and what follows from them, from float operations alone. Reduction is Cody and Waite's: ln 2 is split in a high
 * part so short that its product with the exponent is exact, so fusing or not cannot matter there.
 * The polynomials of e^x and ln x are our own minimax fits (Remez exchange in 40 digits, coefficients
 * rounded), those of tanh and erf interpolate at Chebyshev nodes in 50 digits.
 */
#include "poet/math.h"

#include <stdint.h>

#include "float_bits.h"
#include "poet/fma.h"
#include "root.h"

#define LOG2_E 0x1.715476p+0F
#define LN2_HIGH 0x1.62e4p-1F /* 15 bits: exact times any integer below 2^9 */
#define LN2_LOW 0x1.7f7d1cp-20F

#define ROUNDER 12582912.0F /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */
#define INFINITE_BITS 0x7F800000U
#define SIGN 0x80000000U
#define SQRT_HALF_BITS 0x3F3504F3U

/* 2^n for n in -126..127. */
static float power_of_two(int32_t n)
{
    return poet_float_of((uint32_t)(n + 127) << 23);
}

/* e^r - 1 = r + r^2 q(r) on |r| <= 0.35, q within 2^-34 of e^r. */
static float small_expm1(float r)
{
    float q = 0x1.9f02cap-13F;
    q = POET_FMA(q, r, 0x1.6d945cp-10F);
    q = POET_FMA(q, r, 0x1.11128p-7F);
    q = POET_FMA(q, r, 0x1.555486p-5F);
    q = POET_FMA(q, r, 0x1.555554p-3F);
    q = POET_FMA(q, r, 0x1p-1F);
    return POET_FMA(r * r, q, r);
}

static float magnitude(float x)
{
    return poet_float_of(poet_bits_of(x) & ~SIGN);
}

static float with_sign_of(float value, float x)
{
    return poet_float_of(poet_bits_of(value) | (poet_bits_of(x) & SIGN));
}

float poet_expf(float x)
{
    if (x != x) {
        return x;
    }
    if (x > 89.0F) {
        return poet_float_of(INFINITE_BITS);
    }
    if (x < -104.0F) {
        return 0.0F;
    }
    const float shifted = POET_FMA(x, LOG2_E, ROUNDER);
    const float count = shifted - ROUNDER;
    const int32_t n = (int32_t)(poet_bits_of(shifted) - poet_bits_of(ROUNDER));
    float r = POET_FMA(-count, LN2_HIGH, x);
    r = POET_FMA(-count, LN2_LOW, r);
    const float result = 1.0F + small_expm1(r);

    /* Two factors, because 2^128 is no float and 2^-150 is no normal one: the first product is
     * exact, the second rounds once into the subnormals. */
    const int32_t half = ((n + 256) / 2) - 128;
    return result * power_of_two(half) * power_of_two(n - half);
}

float poet_logf(float x)
{
    int32_t exponent = 0;
    if (!(x >= 0x1p-126F)) {
        if (x == 0.0F) {
            return -poet_float_of(INFINITE_BITS);
        }
        if (!(x > 0.0F)) {
            return poet_float_of(0x7FC00000U);
        }
        x = x * 0x1p23F;
        exponent = -23;
    }
    const uint32_t bits = poet_bits_of(x);
    if (bits >= INFINITE_BITS) {
        return x;
    }
    /* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). The bias keeps the shift unsigned. */
    const uint32_t biased = (bits + (128U << 23) - SQRT_HALF_BITS) >> 23;
    const float k = (float)((int32_t)biased - 128 + exponent);
    const float f = poet_float_of(bits - ((biased - 128U) << 23)) - 1.0F;

    /* ln(1 + f) = f - f^2/2 + f^3 p(f), p within 2^-27 of the result. */
    float p = -0x1.38b46cp-4F;
    p = POET_FMA(p, f, 0x1.056f9cp-3F);
    p = POET_FMA(p, f, -0x1.0d8eccp-3F);
    p = POET_FMA(p, f, 0x1.22d812p-3F);
    p = POET_FMA(p, f, -0x1.547128p-3F);
    p = POET_FMA(p, f, 0x1.99a014p-3F);
    p = POET_FMA(p, f, -0x1.00022ap-2F);
    p = POET_FMA(p, f, 0x1.555554p-2F);
    p = POET_FMA(p, f, -0.5F);
    const float tail = POET_FMA(f * f, p, k * LN2_LOW);
    return POET_FMA(k, LN2_HIGH, f + tail);
}

float poet_expm1f(float x)
{
    return (magnitude(x) <= 0.34F) ? with_sign_of(small_expm1(x), x) : poet_expf(x) - 1.0F;
}

float poet_log1pf(float x)
{
    /* Kahan's: the rounding of 1 + x is the same in the logarithm and in the divisor. */
    const float rounded = 1.0F + x;
    if ((rounded == 1.0F) || (poet_bits_of(rounded) == INFINITE_BITS)) {
        return x;
    }
    return poet_logf(rounded) * (x / (rounded - 1.0F));
}

float poet_tanhf(float x)
{
    const float size = magnitude(x);
    if (size < 0.625F) {
        /* tanh x = x + x^3 p(x^2), p within 2^-30 of the result. */
        const float square = x * x;
        float p = -0x1.b9510ep-11F;
        p = POET_FMA(p, square, 0x1.ae64ecp-9F);
        p = POET_FMA(p, square, -0x1.1fc262p-7F);
        p = POET_FMA(p, square, 0x1.661fbcp-6F);
        p = POET_FMA(p, square, -0x1.ba1a0ap-5F);
        p = POET_FMA(p, square, 0x1.11110ep-3F);
        p = POET_FMA(p, square, -0x1.555556p-2F);
        return with_sign_of(POET_FMA(x * square, p, x), x);
    }
    if (size > 9.5F) {
        return with_sign_of(1.0F, x);
    }
    return with_sign_of(1.0F - (2.0F / (poet_expf(size + size) + 1.0F)), x);
}

float poet_erff(float x)
{
    const float size = magnitude(x);
    if (size < 0.9375F) {
        /* erf x = x + x p(x^2), p within 2^-30 of the result. */
        const float square = x * x;
        float p = -0x1.54f4aap-17F;
        p = POET_FMA(p, square, 0x1.dee1a6p-14F);
        p = POET_FMA(p, square, -0x1.bdc318p-11F);
        p = POET_FMA(p, square, 0x1.563c64p-8F);
        p = POET_FMA(p, square, -0x1.b82b24p-6F);
        p = POET_FMA(p, square, 0x1.ce2f16p-4F);
        p = POET_FMA(p, square, -0x1.812746p-2F);
        p = POET_FMA(p, square, 0x1.06eba8p-3F);
        return POET_FMA(x, p, x);
    }
    if (size > 3.94F) {
        return with_sign_of(1.0F, x);
    }
    /* erf x = 1 - e^-p(x): the exponent within 2^-25, on a factor of at most 0.19. */
    float p = -0x1.bdc35p-20F;
    p = POET_FMA(p, size, 0x1.8603bcp-15F);
    p = POET_FMA(p, size, -0x1.3ab0d6p-11F);
    p = POET_FMA(p, size, 0x1.38e4c4p-8F);
    p = POET_FMA(p, size, -0x1.b182d4p-6F);
    p = POET_FMA(p, size, 0x1.c322cp-4F);
    p = POET_FMA(p, size, 0x1.43774cp-1F);
    p = POET_FMA(p, size, 0x1.2158d6p+0F);
    p = POET_FMA(p, size, -0x1.55bc8ep-12F);
    return with_sign_of(1.0F - poet_expf(-p), x);
}

float poet_sigmoidf(float x)
{
    const float e = poet_expf(-magnitude(x));
    return ((x < 0.0F) ? e : 1.0F) / (1.0F + e);
}

float poet_sqrtf(float x)
{
    return (x != x) ? x : (x < 0.0F) ? poet_float_of(0x7FC00000U) : poet_root(x);
}
