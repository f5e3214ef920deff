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

typedef struct {
    float value;
    int32_t tap;
} best;

/* The negated comparison is true for a larger number and for any NaN; a NaN that has won stays. */
static inline void challenge(best *holder, float value, int32_t tap)
{
    if (!(value <= holder->value) && (holder->value == holder->value)) {
        holder->value = value;
        holder->tap = tap;
    }
}

static inline best pool_square2(const window *win, const float *x)
{
    const float *below = x + win->row_step;
    best holder = {x[0], win->first};
    challenge(&holder, x[1], win->first + 1);
    challenge(&holder, below[0], win->first + win->row_skip);
    challenge(&holder, below[1], win->first + win->row_skip + 1);
    return holder;
}

static inline best pool_window(const window *win, const float *x)
{
    best holder = {*x, win->first};
    int32_t row_tap = win->first;
    for (int32_t rows = win->rows; rows > 0; rows--) {
        const float *from = x;
        for (int32_t j = 0; j < win->columns; j++) {
            challenge(&holder, *from, row_tap + j);
            from += win->column_step;
        }
        x += win->row_step;
        row_tap += win->row_skip;
    }
    return holder;
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
        float *y = p->y + at;
        uint8_t *argmax = (p->argmax != 0) ? p->argmax + at : 0;
        for (int32_t left = columns->count; left > 0; left--) {
            best found = {-__builtin_inff(), 0};
            if (square2) {
                found = pool_square2(&win, x);
            } else if ((win.rows > 0) && (win.columns > 0)) {
                found = pool_window(&win, x);
            }
            *y++ = found.value;
            if (argmax != 0) {
                *argmax++ = (uint8_t)found.tap;
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

/* By fours: the C library's memset may go byte by byte. */
static void fill_zero(float *to, int32_t left)
{
    for (; left >= 4; left -= 4) {
        to[0] = 0.0F;
        to[1] = 0.0F;
        to[2] = 0.0F;
        to[3] = 0.0F;
        to += 4;
    }
    for (; left > 0; left--) {
        *to++ = 0.0F;
    }
}

void poet_maxpool2d_bwd_f32(const poet_maxpool2d_shape *shape, const float *dy,
                            const uint8_t *argmax, float *dx)
{
    const poet_maxpool2d_shape s = *shape; /* a copy: writing dx cannot change it */
    /* winner / kw by multiplication, exact for winner and kw up to 255: M0+ cannot divide. */
    const uint32_t reciprocal = 65536U / (uint32_t)s.kw + 1U;
    const int32_t row_tap = s.dilation_h * s.w; /* dx step of one kh */
    for (int32_t p = s.planes; p > 0; p--) {
        fill_zero(dx, s.h * s.w);
        for (int32_t oh = 0; oh < s.oh; oh++) {
            const int32_t top = oh * s.stride_h - s.pad_top;
            int32_t left = -s.pad_left;
            float *corner = dx + top * s.w + left;
            for (int32_t ow = s.ow; ow > 0; ow--) {
                const int32_t winner = *argmax++;
                const int32_t kh = (int32_t)(((uint32_t)winner * reciprocal) >> 16);
                const int32_t kw = winner - kh * s.kw;
                const uint32_t ih = (uint32_t)(top + kh * s.dilation_h);
                const uint32_t iw = (uint32_t)(left + kw * s.dilation_w);
                /* a window all in padding has no winner: its gradient goes nowhere */
                if ((ih < (uint32_t)s.h) && (iw < (uint32_t)s.w)) {
                    float *to = corner + kh * row_tap + kw * s.dilation_w;
                    *to = *to + *dy;
                }
                dy++;
                left += s.stride_w;
                corner += s.stride_w;
            }
        }
        dx += s.h * s.w;
    }
}
