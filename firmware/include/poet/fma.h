/* One choice per target, followed by the host build of that target: does c + a*b round once or
 * twice? POET_FMA_FUSED=1 where the core has a fused multiply-add and it pays, else 0. Nothing
 * else in the kernels may contract: everything is compiled with -ffp-contract=off.
 */
#ifndef POET_FMA_H
#define POET_FMA_H

#ifndef POET_FMA_FUSED
#error "define POET_FMA_FUSED as 0 or 1 (the build file does)"
#endif

#if POET_FMA_FUSED
#define POET_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define POET_FMA(a, b, c) ((a) * (b) + (c))
#endif

#endif
