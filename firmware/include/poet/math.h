/* Single-precision functions of our own: float operations only, so host and target agree to the
 * bit (newlib's use double and differ between cores). Errors hold with
 * multiply-adds separate or fused; docs/numerics.md has what was measured, and how.
 */
#ifndef POET_MATH_H
#define POET_MATH_H

/* e^x. 0 below -103.98, +inf above 88.73, NaN for NaN. Error below 1 ulp. */
float poet_expf(float x);
/* Natural logarithm. -inf at 0, NaN below 0 and for NaN. Error below 1 ulp. */
float poet_logf(float x);
/* e^x - 1, also where e^x is near 1. -1 far below 0, +inf above 88.73, NaN for NaN. Error
 * below 3.5 ulp. */
float poet_expm1f(float x);
/* ln(1 + x), also where x is near 0. -inf at -1, NaN below -1 and for NaN. Error below 3 ulp. */
float poet_log1pf(float x);
/* Hyperbolic tangent. -1 and 1 far from 0, NaN for NaN. Error below 1.5 ulp. */
float poet_tanhf(float x);
/* Gauss' error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x. NaN for NaN. Error
 * below 1.5 ulp. */
float poet_erff(float x);
/* Square root, correctly rounded. NaN below 0 and for NaN; -0 for -0. */
float poet_sqrtf(float x);
/* 1 / (1 + e^-x). 0 and 1 far from 0, NaN for NaN. Error below 3 ulp. */
float poet_sigmoidf(float x);

#endif
