/* The largest error of the functions of poet/math.h against the double functions of libm, in ulps
 * of the exact result (subnormal results in units of 2^-149), over every step-th bit pattern.
 * Arguments: step, and the bit pattern to start with. Prints one line "<name> <ulp> <bits>" each.
 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "poet/math.h"

/* The exponent as frexp gives it, from the bits: it is asked thirty thousand million times. */
static int exponent_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return (int)((bits >> 52) & 0x7FFu) - 1022;
}

static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value = 0.0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* At most 0.5 where the result is the rounded one. */
static double ulps(float got, double exact)
{
    const float rounded = (float)exact;
    if (got == rounded) {
        return 0.5;
    }
    if (isinf(got) || isinf(rounded)) {
        return 1e9;
    }
    const int place = exponent_of(exact) - 24;
    return fabs((double)got - exact) * power_of_two((place < -149) ? 149 : -place);
}

/* The functions of libm, without calling them where the first terms of the series say as much
 * (|x| below 2^-13: what is left out is below 2^-41 of the value, 2^-17 ulp of a float) and where
 * the float is 0, 1 or infinite for certain. Most floats are in one of these ranges.
 */
#define SMALL 0x1p-13

static double exact_exp(double x)
{
    if (fabs(x) < SMALL) {
        return 1.0 + x + x * x / 2.0;
    }
    return (x > 90.0) ? (double)INFINITY : ((x < -110.0) ? 0.0 : exp(x));
}

static double exact_expm1(double x)
{
    if (fabs(x) < SMALL) {
        return x + x * x / 2.0 + x * x * x / 6.0;
    }
    return (x > 90.0) ? (double)INFINITY : ((x < -110.0) ? -1.0 : expm1(x));
}

static double exact_log1p(double x)
{
    return (fabs(x) < SMALL) ? x - x * x / 2.0 + x * x * x / 3.0 : log1p(x);
}

static double exact_tanh(double x)
{
    if (fabs(x) < SMALL) {
        return x - x * x * x / 3.0;
    }
    return (fabs(x) > 20.0) ? copysign(1.0, x) : tanh(x);
}

static double exact_erf(double x)
{
    const double slope = 1.1283791670955126; /* 2 / sqrt(pi) */
    if (fabs(x) < SMALL) {
        return slope * (x - x * x * x / 3.0);
    }
    return (fabs(x) > 7.0) ? copysign(1.0, x) : erf(x);
}

static double exact_sigmoid(double x)
{
    if (fabs(x) < SMALL) {
        return 0.5 + x / 4.0;
    }
    return (x > 60.0) ? 1.0 : ((x < -110.0) ? 0.0 : 1.0 / (1.0 + exp(-x)));
}

typedef struct {
    double worst;
    uint32_t at;
} record;

static void note(record *r, double error, uint32_t bits)
{
    if (!(error <= r->worst)) {
        r->worst = error;
        r->at = bits;
    }
}

typedef struct {
    const char *name;
    float (*ours)(float);
    double (*exact)(double);
    float from; /* the least argument of the range */
} function;

static const function functions[] = {
    {"exp", poet_expf, exact_exp, -INFINITY},
    {"log", poet_logf, log, 0x1p-149F},
    {"expm1", poet_expm1f, exact_expm1, -INFINITY},
    {"log1p", poet_log1pf, exact_log1p, -0x1.fffffep-1F},
    {"tanh", poet_tanhf, exact_tanh, -INFINITY},
    {"erf", poet_erff, exact_erf, -INFINITY},
    {"sigmoid", poet_sigmoidf, exact_sigmoid, -INFINITY},
    {"sqrt", poet_sqrtf, sqrt, 0.0F},
};
#define COUNT (sizeof(functions) / sizeof(functions[0]))

int main(int argc, char **argv)
{
    const uint64_t step = (argc > 1) ? strtoull(argv[1], NULL, 10) : 1;
    record records[COUNT] = {{0.0, 0}};
    for (uint64_t i = (argc > 2) ? strtoull(argv[2], NULL, 10) : 0; i <= UINT32_MAX; i += step) {
        const uint32_t bits = (uint32_t)i;
        float x = 0.0F;
        memcpy(&x, &bits, sizeof(x));
        for (size_t f = 0; f < COUNT; f++) {
            if (x >= functions[f].from) {
                note(&records[f], ulps(functions[f].ours(x), functions[f].exact((double)x)), bits);
            }
        }
    }
    for (size_t f = 0; f < COUNT; f++) {
        (void)printf("%s %.4f %08" PRIx32 "\n", functions[f].name, records[f].worst,
                     records[f].at);
    }
    return 0;
}
