/* The arithmetic of a core that flushes subnormals, on this computer: only in host builds of such
 * a target (POET_FLUSH_SUBNORMALS=1), never in firmware. It may therefore use double.
 *
 * Arm decides before rounding whether a result is below the smallest normal number 2^-126 (Armv8-M
 * ARM, FPRound), and so does AArch64 (FPCR.FZ). x86 (MXCSR.FTZ) decides after rounding: a result
 * closer to 2^-126 than half a step of 24 bits, 2^-151, stays 2^-126 there and is 0 on Arm. The
 * functions below put that right for multiply-adds. Sums and differences have no such results
 * (they are exact where they are small). A lone product or quotient of a kernel may: see
 * DESIGN.md, "Subnormal numbers".
 */
#ifndef POET_FLUSH_TWIN_H
#define POET_FLUSH_TWIN_H

#include <float.h>
#include <stdint.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "a twin that flushes subnormals needs x86 with SSE2 or AArch64"
#endif

/* Switches this thread's arithmetic; before the first float operation. */
static inline void poet_flush_subnormals(void)
{
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* FTZ | DAZ */
#else
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | (1u << 24) | (1u << 25))); /* FZ | DN */
#endif
}

/* r, the rounded a * b + c, or 0 of its sign when the exact value is below FLT_MIN in size.
 * Only where r is +-FLT_MIN can that be: then the product (48 bits) and r - c are exact in double,
 * as c is a multiple of 2^-149 and below 2^-77 in size. */
static inline float poet_flushed(float a, float b, float c, float r)
{
    if ((r != FLT_MIN) && (r != -FLT_MIN)) {
        return r;
    }
    const double product = (double)a * (double)b;
    const double rest = (double)r - (double)c;
    const int tiny = (r > 0.0f) ? (product < rest) : (product > rest);
    return (tiny != 0) ? r * 0.0f : r;
}

static inline float poet_flushed_fma(float a, float b, float c)
{
    return poet_flushed(a, b, c, __builtin_fmaf(a, b, c));
}

static inline float poet_flushed_product(float a, float b)
{
    return poet_flushed(a, b, 0.0f, a * b);
}

#endif
