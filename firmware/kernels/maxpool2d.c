/* Max-pooling. The winner is the first largest, or the first NaN when there is one. */
#include <stdbool.h>
#include <stdint.h>

#include "conv_axis.h"
#include "poet/kernels.h"

/* The taps of one output: the first of them in x and in argmax numbering, how many, their steps. */
typedef struct {
    int32_t rows, columns;
    int32_t row_step, column_step; /* in x */
    int32_t first, row_skip;       /* argmax of the first tap, its step from row to row */
} window;

/* The counts are arguments so that a call with constants is unrolled. The first tap is at *x. */
static inline __attribute__((always_inline)) uint8_t
pool_window(const window *win, const float *x, float *best, int32_t rows, int32_t columns,
            int32_t column_step)
{
    float value = *x;
    int32_t winner = win->first;
    int32_t row_tap = win->first;
    for (int32_t i = 0; (i < rows) && (value == value); i++) { /* a NaN has won: nothing beats it */
        for (int32_t j = 0; j < columns; j++) {
            const float v = x[j * column_step];
            if (!(v <= value)) {
                value = v;
                winner = row_tap + j;
                if (v != v) {
                    break;
                }
            }
        }
        x += win->row_step;
        row_tap += win->row_skip;
    }
    *best = value;
    return (uint8_t)winner;
}

typedef struct {
    const float *x;
    float *y;
    uint8_t *argmax; /* may be NULL */
} plane;

/* One rectangle of outputs of one plane whose windows meet the same taps. */
static void pool_rectangle(const poet_maxpool2d_shape *s, const poet_axis_run *rows,
                           const poet_axis_run *columns, const plane *p)
{
    const window win = {.rows = rows->taps,
                        .columns = columns->taps,
                        .row_step = s->dilation_h * s->w,
                        .column_step = s->dilation_w,
                        .first = rows->tap * s->kw + columns->tap,
                        .row_skip = s->kw};
    const bool square2 = (win.rows == 2) && (win.columns == 2) && (win.column_step == 1);
    for (int32_t i = 0; i < rows->count; i++) {
        const float *x = p->x + (rows->source + i * s->stride_h) * s->w + columns->source;
        const int32_t at = (rows->first + i) * s->ow + columns->first;
        for (int32_t j = 0; j < columns->count; j++) {
            uint8_t winner = 0;
            if (square2) {
                winner = pool_window(&win, x, &p->y[at + j], 2, 2, 1);
            } else if ((win.rows > 0) && (win.columns > 0)) {
                winner = pool_window(&win, x, &p->y[at + j], win.rows, win.columns,
                                     win.column_step);
            } else {
                p->y[at + j] = -__builtin_inff();
            }
            if (p->argmax != 0) {
                p->argmax[at + j] = winner;
            }
            x += s->stride_w;
        }
    }
}

void poet_maxpool2d_fwd_f32(const poet_maxpool2d_shape *shape, const float *x, float *y,
                            uint8_t *argmax)
{
    const poet_maxpool2d_shape *s = shape;
    const poet_axis h
        = poet_axis_forward(s->oh, s->h, s->kh, s->stride_h, s->pad_top, s->dilation_h);
    const poet_axis w
        = poet_axis_forward(s->ow, s->w, s->kw, s->stride_w, s->pad_left, s->dilation_w);
    for (int32_t i = 0; i < h.targets;) {
        const poet_axis_run rows = poet_axis_run_at(&h, i);
        for (int32_t j = 0; j < w.targets;) {
            const poet_axis_run columns = poet_axis_run_at(&w, j);
            plane p = {x, y, argmax};
            for (int32_t left = s->planes; left > 0; left--) {
                pool_rectangle(s, &rows, &columns, &p);
                p.x += s->h * s->w;
                p.y += s->oh * s->ow;
                p.argmax = (p.argmax != 0) ? p.argmax + s->oh * s->ow : p.argmax;
            }
            j = poet_axis_next(&w, &columns);
        }
        i = poet_axis_next(&h, &rows);
    }
}

void poet_maxpool2d_bwd_f32(const poet_maxpool2d_shape *shape, const float *dy,
                            const uint8_t *argmax, float *dx)
{
    const poet_maxpool2d_shape *s = shape;
    /* winner / kw by multiplication, exact for winner and kw up to 255: M0+ cannot divide. */
    const uint32_t reciprocal = 65536U / (uint32_t)s->kw + 1U;
    for (int32_t left = s->planes * s->h * s->w; left > 0; left--) {
        dx[left - 1] = 0.0F;
    }
    for (int32_t p = s->planes; p > 0; p--) {
        for (int32_t oh = 0; oh < s->oh; oh++) {
            const int32_t top = oh * s->stride_h - s->pad_top;
            int32_t left = -s->pad_left;
            for (int32_t ow = s->ow; ow > 0; ow--) {
                const int32_t winner = *argmax++;
                const int32_t kh = (int32_t)(((uint32_t)winner * reciprocal) >> 16);
                const int32_t ih = top + kh * s->dilation_h;
                const int32_t iw = left + (winner - kh * s->kw) * s->dilation_w;
                /* a window all in padding has no winner: its gradient goes nowhere */
                if (((uint32_t)ih < (uint32_t)s->h) && ((uint32_t)iw < (uint32_t)s->w)) {
                    float *to = dx + ih * s->w + iw;
                    *to = *to + *dy;
                }
                dy++;
                left += s->stride_w;
            }
        }
        dx += s->h * s->w;
    }
}
