/* Single-precision functions of our own: float operations only, so host and target agree to the
 * bit (newlib's use double and differ between cores). Error bounds are measured over all floats of
 * the range by tests/host.
 */
#ifndef POET_MATH_H
#define POET_MATH_H

/* e^x. 0 below -103.98, +inf above 88.73, NaN for NaN. */
float poet_expf(float x);
/* Natural logarithm. -inf at 0, NaN below 0 and for NaN. */
float poet_logf(float x);

#endif
