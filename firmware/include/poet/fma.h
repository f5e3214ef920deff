/* One choice per target, followed by the host build of that target: does c + a*b round once or
 * twice? POET_FMA_FUSED=1 where the core has a fused multiply-add and it pays, else 0. Nothing
 * else in the kernels may contract: everything is compiled with -ffp-contract=off.
 *
 * POET_FLUSH_SUBNORMALS=1 where the core takes subnormal operands as zero and makes zero of
 * subnormal results (MVE vectors can do nothing else); the host build of such a target does the
 * same, see flush_twin.h. POET_PRODUCT is a multiplication that the twin does exactly, too.
 */
#ifndef POET_FMA_H
#define POET_FMA_H

#ifndef POET_FMA_FUSED
#error "define POET_FMA_FUSED as 0 or 1 (the build file does)"
#endif
#ifndef POET_FLUSH_SUBNORMALS
#define POET_FLUSH_SUBNORMALS 0
#endif

#if POET_FLUSH_SUBNORMALS && !defined(__arm__)
#include "poet/flush_twin.h"
#define POET_PRODUCT(a, b) poet_flushed_product((a), (b))
#if POET_FMA_FUSED
#define POET_FMA(a, b, c) poet_flushed_fma((a), (b), (c))
#else
#define POET_FMA(a, b, c) (poet_flushed_product((a), (b)) + (c))
#endif
#else
#define POET_PRODUCT(a, b) ((a) * (b))
#if POET_FMA_FUSED
#define POET_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define POET_FMA(a, b, c) ((a) * (b) + (c))
#endif
#endif

#endif
