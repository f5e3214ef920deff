/* What the trainer computes once before an update: the learning rate by its schedule, and Adam's
 * bias corrections. Pure functions of the number of updates done, in float operations alone.
 */
#ifndef POET_RATES_H
#define POET_RATES_H

#include <stdint.h>

typedef enum {
    POET_LR_CONSTANT = 0, /* 1 */
    POET_LR_STEP = 1,     /* gamma^(n / period) */
    POET_LR_COSINE = 2,   /* from 1 along half a cosine to floor at n = period, then floor */
} poet_lr_kind;

/* How a model is trained, as far as the runtime must know. Zeros: every step updates, at a constant
 * rate. */
typedef struct {
    uint32_t accumulate; /* training steps for one update; 0 counts as 1 */
    uint32_t lr_kind;    /* a poet_lr_kind */
    uint32_t warmup;     /* updates of linear rise before n = 0 of the schedule */
    uint32_t period;     /* updates; at least 1 where the kind needs it */
    float gamma;
    float floor;
    float complement1; /* 1 - beta of the optimizer's two means, where it has them */
    float complement2;
} poet_training;

/* Factor of the learning rate at update n, counted from 0. While n < warmup:
 * (n + 1) / (warmup + 1). Within 1e-6 of the exact value. */
float poet_lr_factor(const poet_training *training, uint32_t n);

/* 1 - beta^n from complement = 1 - beta, n >= 1, by doubling: 1 - b^2n = (1 - b^n)(1 + b^n) and
 * 1 - b^(n+1) = (1 - b^n) + b^n (1 - b). There is no difference of nearly equal numbers, so the
 * first steps of beta = 0.999 are exact to a few ulp. */
float poet_bias_correction(float complement, uint32_t n);

#endif
