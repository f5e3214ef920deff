/* Nearest-neighbour resizing: which input each output shows is a table of rows and columns. */
#include <stdint.h>

#include "poet/kernels.h"

void poet_resize_fwd_f32(const poet_resize_shape *shape, const float *x, const int32_t *rows,
                         const int32_t *columns, float *y)
{
    const poet_resize_shape *s = shape;
    for (int32_t p = 0; p < s->planes; p++) {
        for (int32_t i = 0; i < s->oh; i++) {
            const float *row = x + rows[i] * s->w;
            for (int32_t j = 0; j < s->ow; j++) {
                *y++ = row[columns[j]];
            }
        }
        x += s->h * s->w;
    }
}

void poet_resize_bwd_f32(const poet_resize_shape *shape, const float *dy, const int32_t *rows,
                         const int32_t *columns, float *dx)
{
    const poet_resize_shape *s = shape;
    for (int32_t p = 0; p < s->planes; p++) {
        for (int32_t i = 0; i < s->h * s->w; i++) {
            dx[i] = 0.0F;
        }
        for (int32_t i = 0; i < s->oh; i++) {
            float *row = dx + rows[i] * s->w;
            for (int32_t j = 0; j < s->ow; j++) {
                row[columns[j]] = row[columns[j]] + *dy++;
            }
        }
        dx += s->h * s->w;
    }
}
