/* Walks a broadcast result row by row: the offsets of its operands at each row's start. */
#ifndef POET_KERNELS_BROADCAST_H
#define POET_KERNELS_BROADCAST_H

#include <stdint.h>

#include "poet/kernels.h"

typedef struct {
    int32_t place[POET_AXES];
    int32_t a, b, c;
} poet_walk;

/* The next row of outer axes; the last axis is the row itself. 0 when there is none. */
static inline int poet_next_row(const poet_broadcast_shape *s, poet_walk *w)
{
    for (int32_t axis = s->rank - 2; axis >= 0; axis--) {
        w->a += s->a[axis];
        w->b += s->b[axis];
        w->c += s->c[axis];
        w->place[axis]++;
        if (w->place[axis] < s->d[axis]) {
            return 1;
        }
        w->place[axis] = 0;
        w->a -= s->a[axis] * s->d[axis];
        w->b -= s->b[axis] * s->d[axis];
        w->c -= s->c[axis] * s->d[axis];
    }
    return 0;
}

#endif
