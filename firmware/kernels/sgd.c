/* Plain stochastic gradient descent. */
#include <stdint.h>

#include "pair.h"
#include "poet/kernels.h"

#if !POET_SOFT_FLOAT && !POET_QUAD_IS_VECTOR
POET_INLINE void update_two(const float *g, float step, float *w)
{
    poet_pair_store(poet_pair_fma_both(poet_pair_load(g), step, poet_pair_load(w)), w);
}
#endif

void poet_sgd_f32(const poet_vector_shape *shape, const float *g, float lr, float *w)
{
    const float step = -lr;
    int32_t left = shape->count;
#if POET_QUAD_IS_VECTOR
    for (; left >= 4; left -= 4) {
        poet_quad_store_adjacent(poet_quad_fma(vld1q_f32(g), step, vld1q_f32(w)), w);
        g += 4;
        w += 4;
    }
#elif !POET_SOFT_FLOAT
    for (; left >= 8; left -= 8) {
        update_two(g, step, w);
        update_two(g + 2, step, w + 2);
        update_two(g + 4, step, w + 4);
        update_two(g + 6, step, w + 6);
        g += 8;
        w += 8;
    }
#endif
    for (; left > 0; left--) {
        *w = POET_FMA(step, *g, *w);
        g++;
        w++;
    }
}
