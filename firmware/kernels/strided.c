/* Copies between layouts: transpose, slice, pad and their gradients. */
#include <stdint.h>

#include "poet/kernels.h"

enum { AXES = 6 };

/* Writes the whole box. */
static void move_box(const poet_strided_shape *s, const float *x, float *y)
{
    int32_t at[AXES] = {0};
    int32_t from = s->from;
    int32_t to = s->to;
    const int32_t from_step = s->from_step[AXES - 1];
    const int32_t to_step = s->to_step[AXES - 1];
    int32_t axis = 0;
    do {
        int32_t source = from;
        int32_t target = to;
        for (int32_t left = s->size[AXES - 1]; left > 0; left--) {
            y[target] = x[source];
            source += from_step;
            target += to_step;
        }
        /* the next row of the box: the innermost outer axis that is not at its end */
        for (axis = AXES - 2; axis >= 0; axis--) {
            at[axis]++;
            from += s->from_step[axis];
            to += s->to_step[axis];
            if (at[axis] < s->size[axis]) {
                break;
            }
            from -= s->size[axis] * s->from_step[axis];
            to -= s->size[axis] * s->to_step[axis];
            at[axis] = 0;
        }
    } while (axis >= 0);
}

static void fill_all(const poet_strided_shape *s, float value, float *y)
{
    for (int32_t left = s->count; left > 0; left--) {
        *y++ = value;
    }
}

void poet_strided_copy_f32(const poet_strided_shape *shape, const float *x, float *y)
{
    move_box(shape, x, y);
}

void poet_strided_place_f32(const poet_strided_shape *shape, const float *x, float *y)
{
    fill_all(shape, shape->fill, y);
    move_box(shape, x, y);
}
