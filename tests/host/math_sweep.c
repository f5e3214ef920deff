/* The largest error of poet_expf and poet_logf against the double functions of libm, in ulps of
 * the exact result (subnormal results in units of 2^-149), over every step-th bit pattern.
 * Arguments: step, and the bit pattern to start with. Prints "exp <ulp> <bits> log <ulp> <bits>".
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

int main(int argc, char **argv)
{
    const uint64_t step = (argc > 1) ? strtoull(argv[1], NULL, 10) : 1;
    record of_exp = {0.0, 0};
    record of_log = {0.0, 0};
    for (uint64_t i = (argc > 2) ? strtoull(argv[2], NULL, 10) : 0; i <= UINT32_MAX; i += step) {
        const uint32_t bits = (uint32_t)i;
        float x = 0.0F;
        memcpy(&x, &bits, sizeof(x));
        if (isnan(x)) {
            continue;
        }
        note(&of_exp, ulps(poet_expf(x), exp((double)x)), bits);
        if (x > 0.0F) {
            note(&of_log, ulps(poet_logf(x), log((double)x)), bits);
        }
    }
    (void)printf("exp %.4f %08" PRIx32 " log %.4f %08" PRIx32 "\n", of_exp.worst, of_exp.at,
                 of_log.worst, of_log.at);
    return 0;
}
