/* Reductions over any axes: each output element is one chain over the reduced axes, outermost
 * first. The kept axes stand first in the descriptor, so that outputs come in order.
 */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#include "poet/math.h"

typedef struct {
    int32_t place[POET_AXES];
    int32_t x, factor;
} cursor;

/* One step along axes first..end-1, the last fastest; 0 (and back at the start) behind the end. */
static int advance(const poet_reduce_shape *s, cursor *c, int32_t first, int32_t end)
{
    for (int32_t axis = end - 1; axis >= first; axis--) {
        c->x += s->x[axis];
        c->factor += s->factor[axis];
        c->place[axis]++;
        if (c->place[axis] < s->d[axis]) {
            return 1;
        }
        c->place[axis] = 0;
        c->x -= s->x[axis] * s->d[axis];
        c->factor -= s->factor[axis] * s->d[axis];
    }
    return 0;
}

static inline float sum_of(float sum, float x)
{
    return sum + x;
}
static inline float sum_done(const poet_reduce_shape *s, float sum)
{
    (void)s;
    return sum;
}
static inline float mean_of(float sum, float x)
{
    return sum + x;
}
static inline float mean_done(const poet_reduce_shape *s, float sum)
{
    return sum / s->divisor;
}
/* A NaN wins and stays. */
static inline float max_of(float max, float x)
{
    return ((x > max) || (x != x)) ? x : max;
}
static inline float max_done(const poet_reduce_shape *s, float max)
{
    (void)s;
    return max;
}
static inline float min_of(float min, float x)
{
    return ((x < min) || (x != x)) ? x : min;
}
static inline float min_done(const poet_reduce_shape *s, float min)
{
    (void)s;
    return min;
}
static inline float l2_of(float sum, float x)
{
    return POET_FMA(x, x, sum);
}
static inline float l2_done(const poet_reduce_shape *s, float sum)
{
    (void)s;
    return poet_sqrtf(sum);
}

#define REDUCTION(name, start)                                                            \
    void poet_reduce_##name##_f32(const poet_reduce_shape *shape, const float *x, float *y) \
    {                                                                                     \
        cursor c = {{0}, 0, 0};                                                           \
        do {                                                                              \
            float chain = (start);                                                        \
            do {                                                                          \
                chain = name##_of(chain, x[c.x]);                                         \
            } while (advance(shape, &c, shape->kept, shape->rank) != 0);                  \
            *y++ = name##_done(shape, chain);                                             \
        } while (advance(shape, &c, 0, shape->kept) != 0);                                \
    }

REDUCTION(sum, 0.0F)
REDUCTION(mean, 0.0F)
REDUCTION(max, x[c.x])
REDUCTION(min, x[c.x])
REDUCTION(l2, 0.0F)

void poet_reduce_product_f32(const poet_reduce_shape *shape, const float *x, const float *factor,
                             float *y)
{
    cursor c = {{0}, 0, 0};
    do {
        float chain = 0.0F;
        do {
            chain = POET_FMA(x[c.x], factor[c.factor], chain);
        } while (advance(shape, &c, shape->kept, shape->rank) != 0);
        *y++ = chain;
    } while (advance(shape, &c, 0, shape->kept) != 0);
}
