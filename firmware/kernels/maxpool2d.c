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

#if !defined(__arm__) || defined(__ARM_FP)
#define SQUARES_BY_ROWS 1
/* Rows of 2 x 2 windows side by side, without NaN: one comparison decides. To sum they add all
 * inputs; it becomes NaN when one of them is (or when infinities of both signs meet). */

#if defined(__ARM_FP)
#define SQUARE_SUMS                                                                              \
    "vadd.f32 %3, %3, s0\n\tvadd.f32 %3, %3, s1\n\tvadd.f32 %3, %3, s2\n\t"                      \
    "vadd.f32 %3, %3, s3\n\tvadd.f32 %3, %3, s4\n\tvadd.f32 %3, %3, s5\n\t"                      \
    "vadd.f32 %3, %3, s6\n\tvadd.f32 %3, %3, s7\n\t"
#define COMPARED(a, b) "vcmp.f32 " b ", " a "\n\tvmrs APSR_nzcv, fpscr\n\t"
#if defined(__ARM_FEATURE_DIRECTED_ROUNDING) /* an FPv5 selects without a block of IT */
#define LARGER(a, b) COMPARED(a, b) "vselgt.f32 " a ", " b ", " a "\n\t"
#else
#define LARGER(a, b) COMPARED(a, b) "it gt\n\tvmovgt.f32 " a ", " b "\n\t"
#endif
#define WINS(a, b, winner, tap)                                                                  \
    COMPARED(a, b) "itt gt\n\tvmovgt.f32 " a ", " b "\n\tmovgt " winner ", " tap "\n\t"
#endif

static inline float row_of_squares(const window *win, const float *x, int32_t count, float *y,
                                   uint8_t *argmax, float sum)
{
    const float *below = x + win->row_step;
#if defined(__ARM_FP)
    for (; count >= 2; count -= 2) {
        int32_t tap;
        int32_t next;
        __asm__ volatile("vldmia %0!, {s0-s3}\n\tvldmia %1!, {s4-s7}\n\t" SQUARE_SUMS
                         "mov %5, #0\n\tmov %6, #0\n\t"
                         WINS("s0", "s1", "%5", "#1") WINS("s0", "s4", "%5", "#2")
                         WINS("s0", "s5", "%5", "#3") WINS("s2", "s3", "%6", "#1")
                         WINS("s2", "s6", "%6", "#2") WINS("s2", "s7", "%6", "#3")
                         "vmov.f32 s1, s2\n\tvstmia %2!, {s0-s1}\n\t"
                         "strb %5, [%4], #1\n\tstrb %6, [%4], #1"
                         : "+r"(x), "+r"(below), "+r"(y), "+t"(sum), "+r"(argmax), "=&r"(tap),
                           "=&r"(next)
                         :
                         : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc", "memory");
    }
#endif
    for (; count > 0; count--) {
        best holder = {x[0], 0};
        sum = ((sum + x[0]) + (x[1] + below[0])) + below[1];
        challenge(&holder, x[1], 1);
        challenge(&holder, below[0], 2);
        challenge(&holder, below[1], 3);
        *y++ = holder.value;
        *argmax++ = (uint8_t)holder.tap;
        x += 2;
        below += 2;
    }
    return sum;
}

static inline float larger(float a, float b)
{
    return (b > a) ? b : a;
}

static inline float row_of_maxima(const window *win, const float *x, int32_t count, float *y,
                                  float sum)
{
    const float *below = x + win->row_step;
#if defined(__ARM_FP)
    for (; count >= 2; count -= 2) {
        __asm__ volatile("vldmia %0!, {s0-s3}\n\tvldmia %1!, {s4-s7}\n\t" SQUARE_SUMS
                         LARGER("s0", "s1") LARGER("s0", "s4") LARGER("s0", "s5")
                         LARGER("s2", "s3") LARGER("s2", "s6") LARGER("s2", "s7")
                         "vmov.f32 s1, s2\n\tvstmia %2!, {s0-s1}"
                         : "+r"(x), "+r"(below), "+r"(y), "+t"(sum)
                         :
                         : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc", "memory");
    }
#endif
    for (; count > 0; count--) {
        sum = ((sum + x[0]) + (x[1] + below[0])) + below[1];
        *y++ = larger(larger(larger(x[0], x[1]), below[0]), below[1]);
        x += 2;
        below += 2;
    }
    return sum;
}
#else
#define SQUARES_BY_ROWS 0
#endif

typedef struct {
    const float *x;
    float *y;
    uint8_t *argmax; /* may be NULL */
} plane;

/* A row of windows of one kind, by steps of stride in x. */
static void pool_row(const window *win, const float *x, int32_t stride, int32_t count, float *y,
                     uint8_t *argmax)
{
    for (; count > 0; count--) {
        best found = {-__builtin_inff(), 0};
        if ((win->rows > 0) && (win->columns > 0)) {
            found = pool_window(win, x);
        }
        *y++ = found.value;
        if (argmax != 0) {
            *argmax++ = (uint8_t)found.tap;
        }
        x += stride;
    }
}

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
    for (int32_t i = 0; i < rows->count; i++) {
        const float *x = p->x + (rows->source + i * s->stride_h) * s->w + columns->source;
        const int32_t at = (rows->first + i) * s->ow + columns->first;
        pool_row(&win, x, s->stride_w, columns->count, p->y + at,
                 (p->argmax != 0) ? p->argmax + at : 0);
    }
}

#if SQUARES_BY_ROWS
/* A plane of 2 x 2 windows side by side; false: it is to be done again, with an eye on NaN. */
static bool pool_squares(const poet_maxpool2d_shape *s, const window *win, const plane *p)
{
    const float *x = p->x;
    float *y = p->y;
    float sum = 0.0F;
    if (p->argmax != 0) {
        uint8_t *argmax = p->argmax;
        for (int32_t rows = s->oh; rows > 0; rows--) {
            sum = row_of_squares(win, x, s->ow, y, argmax, sum);
            x += 2 * win->row_step;
            y += s->ow;
            argmax += s->ow;
        }
    } else {
        for (int32_t rows = s->oh; rows > 0; rows--) {
            sum = row_of_maxima(win, x, s->ow, y, sum);
            x += 2 * win->row_step;
            y += s->ow;
        }
    }
    return sum == sum;
}
#endif

/* Windows that are all whole: no rectangles to find. */
static void pool_whole(const poet_maxpool2d_shape *s, const float *x, float *y, uint8_t *argmax)
{
    const window win = {.rows = s->kh,
                        .columns = s->kw,
                        .row_step = s->dilation_h * s->w,
                        .column_step = s->dilation_w,
                        .first = 0,
                        .row_skip = s->kw};
#if SQUARES_BY_ROWS
    const bool squares = (s->kh == 2) && (s->kw == 2) && (s->stride_h == 2) && (s->stride_w == 2)
                         && (s->dilation_h == 1) && (s->dilation_w == 1);
#endif
    plane p = {x, y, argmax};
    for (int32_t left = s->planes; left > 0; left--) {
#if SQUARES_BY_ROWS
        const bool done = squares && pool_squares(s, &win, &p);
#else
        const bool done = false;
#endif
        for (int32_t i = 0; (i < s->oh) && !done; i++) {
            pool_row(&win, p.x + i * s->stride_h * s->w, s->stride_w, s->ow, p.y + i * s->ow,
                     (p.argmax != 0) ? p.argmax + i * s->ow : 0);
        }
        p.x += s->h * s->w;
        p.y += s->oh * s->ow;
        p.argmax = (p.argmax != 0) ? p.argmax + s->oh * s->ow : 0;
    }
}

/* Whether all taps of all outputs of an axis lie inside. */
static bool is_whole(int32_t outs, int32_t size, int32_t kernel, int32_t stride, int32_t pad,
                     int32_t dilation)
{
    return (pad == 0) && ((outs - 1) * stride + (kernel - 1) * dilation < size);
}

void poet_maxpool2d_fwd_f32(const poet_maxpool2d_shape *shape, const float *x, float *y,
                            uint8_t *argmax)
{
    const poet_maxpool2d_shape *s = shape;
    if (is_whole(s->oh, s->h, s->kh, s->stride_h, s->pad_top, s->dilation_h)
        && is_whole(s->ow, s->w, s->kw, s->stride_w, s->pad_left, s->dilation_w)) {
        pool_whole(s, x, y, argmax);
        return;
    }
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
