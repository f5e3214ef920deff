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

static double ulps(float got, double exact)
{
    const float rounded = (float)exact;
    if (isinf(got) || isinf(rounded)) {
        return (got == rounded) ? 0.0 : 1e9;
    }
    int exponent = 0;
    (void)frexp(exact, &exponent);
    const int place = (exponent - 24 < -149) ? -149 : exponent - 24;
    return fabs((double)got - exact) / ldexp(1.0, place);
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

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

typedef struct {
    const char *name;
    float (*ours)(float);
    double (*exact)(double);
    float from; /* the least argument of the range */
} function;

static const function functions[] = {
    {"exp", poet_expf, exp, -INFINITY},       {"log", poet_logf, log, 0x1p-149F},
    {"expm1", poet_expm1f, expm1, -INFINITY}, {"log1p", poet_log1pf, log1p, -0x1.fffffep-1F},
    {"tanh", poet_tanhf, tanh, -INFINITY},    {"erf", poet_erff, erf, -INFINITY},
    {"sigmoid", poet_sigmoidf, sigmoid, -INFINITY}, {"sqrt", poet_sqrtf, sqrt, 0.0F},
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
