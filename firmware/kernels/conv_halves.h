/* Depthwise 3 x 3 with stride 2, forward and back: the step of a mobile network from one
 * resolution to the next. Each output meets few taps, so what counts is to find them without a
 * search: by rows of outputs, with tests only at the ends of a row. Part of conv2d.c.
 */
#ifndef POET_CONV_HALVES_H
#define POET_CONV_HALVES_H

#include "pair.h"
#include "poet/kernels.h"

/* The rows of taps one row of outputs meets, in the order of the chain. */
typedef struct {
    const float *from[3]; /* the source row of each */
    const float *w[3];    /* its three weights */
    int32_t rows;
} tap_rows;

#if !POET_SOFT_FLOAT
static int halves_fit(const poet_conv2d_shape *s)
{
    return (s->c == s->groups) && (s->m == s->groups) && (s->kh == 3)
           && (s->kw == 3) && (s->stride_h == 2) && (s->stride_w == 2) && (s->dilation_h == 1)
           && (s->dilation_w == 1);
}

/* One output of the forward pass; column is its first tap's source, which may be outside. */
static float halved_output(const tap_rows *taps, int32_t column, int32_t width, float sum)
{
    const int32_t low = (column < 0) ? -column : 0;
    const int32_t high = (width - column < 3) ? width - column : 3;
    for (int32_t r = 0; r < taps->rows; r++) {
        for (int32_t kw = low; kw < high; kw++) {
            sum = POET_FMA(taps->from[r][column + kw], taps->w[r][kw], sum);
        }
    }
    return sum;
}

POET_INLINE float halved_row_of_taps(const float *x, const float *w, float sum)
{
    const poet_pair two = poet_pair_load(x);
    sum = poet_pair_fma_one(two, 0, w[0], sum);
    sum = poet_pair_fma_one(two, 1, w[1], sum);
    return POET_FMA(x[2], w[2], sum);
}

/* count outputs with all of their columns inside; column is the first one's source. */
POET_INLINE void halved_inner(const tap_rows *taps, int32_t column, int32_t count, float start,
                              float *out, int rows)
{
    const float *x0 = taps->from[0] + column;
    const float *x1 = taps->from[1] + column;
    const float *x2 = (rows == 3) ? taps->from[2] + column : x1;
    const float w0[3] = {taps->w[0][0], taps->w[0][1], taps->w[0][2]};
    const float w1[3] = {taps->w[1][0], taps->w[1][1], taps->w[1][2]};
    const float *last = (rows == 3) ? taps->w[2] : taps->w[1];
    const float w2[3] = {last[0], last[1], last[2]};
    for (; count > 0; count--) {
        float sum = halved_row_of_taps(x0, w0, start);
        sum = halved_row_of_taps(x1, w1, sum);
        if (rows == 3) {
            sum = halved_row_of_taps(x2, w2, sum);
        }
        *out++ = sum;
        x0 += 2;
        x1 += 2;
        x2 += 2;
    }
}

/* One row of y. */
static void halved_row(const poet_conv2d_shape *s, const tap_rows *taps, float start, float *y)
{
    int32_t column = -s->pad_left;
    int32_t ow = 0;
    for (; (ow < s->ow) && (column < 0); ow++) {
        y[ow] = halved_output(taps, column, s->w, start);
        column += 2;
    }
    int32_t inner = (s->w - 3 - column >= 0) ? (s->w - 3 - column) / 2 + 1 : 0;
    inner = (inner < s->ow - ow) ? inner : s->ow - ow;
    if ((taps->rows >= 2) && (inner > 0)) {
        if (taps->rows == 3) {
            halved_inner(taps, column, inner, start, y + ow, 3);
        } else {
            halved_inner(taps, column, inner, start, y + ow, 2);
        }
        ow += inner;
        column += 2 * inner;
    }
    for (; ow < s->ow; ow++) {
        y[ow] = halved_output(taps, column, s->w, start);
        column += 2;
    }
}

static void halves_forward(const poet_conv2d_shape *s, const float *x, const float *w,
                           const float *b, float *y)
{
    for (int32_t plane = 0; plane < s->n * s->c; plane++) {
        const int32_t c = plane % s->c;
        for (int32_t oh = 0; oh < s->oh; oh++) {
            tap_rows taps = {.rows = 0};
            for (int32_t kh = 0; kh < 3; kh++) {
                const int32_t h = oh * 2 - s->pad_top + kh;
                if ((h >= 0) && (h < s->h)) {
                    taps.from[taps.rows] = x + h * s->w;
                    taps.w[taps.rows] = w + c * 9 + kh * 3;
                    taps.rows++;
                }
            }
            halved_row(s, &taps, (b != 0) ? b[c] : 0.0F, y);
            y += s->ow;
        }
        x += s->h * s->w;
    }
}

/* One number of dx whose distance from the first tap is t: an even t meets tap 0 at t / 2 and tap
 * 2 at t / 2 - 1, an odd one tap 1 at (t - 1) / 2. */
static float doubled_output(const tap_rows *taps, int32_t t, int32_t width)
{
    const int32_t j = t / 2;
    float sum = 0.0F;
    for (int32_t r = 0; r < taps->rows; r++) {
        const float *dy = taps->from[r];
        if (t % 2 != 0) {
            sum = (j < width) ? POET_FMA(dy[j], taps->w[r][1], sum) : sum;
            continue;
        }
        sum = (j < width) ? POET_FMA(dy[j], taps->w[r][0], sum) : sum;
        sum = ((j >= 1) && (j - 1 < width)) ? POET_FMA(dy[j - 1], taps->w[r][2], sum) : sum;
    }
    return sum;
}

/* Pairs of dx, even and odd, from distance 2 j to 2 (j + count), all of whose taps are inside. */
POET_INLINE void doubled_inner(const tap_rows *taps, int32_t j, int32_t count, float *dx, int rows)
{
    const float *a = taps->from[0] + j;
    const float *b = (rows == 2) ? taps->from[1] + j : a;
    const float a0 = taps->w[0][0];
    const float a1 = taps->w[0][1];
    const float a2 = taps->w[0][2];
    const float b0 = (rows == 2) ? taps->w[1][0] : a0;
    const float b1 = (rows == 2) ? taps->w[1][1] : a1;
    const float b2 = (rows == 2) ? taps->w[1][2] : a2;
    float a_before = a[-1];
    float b_before = b[-1];
    for (; count > 0; count--) {
        const float a_here = *a++;
        float even = POET_FMA(a_before, a2, POET_FMA(a_here, a0, 0.0F));
        float odd = POET_FMA(a_here, a1, 0.0F);
        if (rows == 2) {
            const float b_here = *b++;
            even = POET_FMA(b_before, b2, POET_FMA(b_here, b0, even));
            odd = POET_FMA(b_here, b1, odd);
            b_before = b_here;
        }
        a_before = a_here;
        dx[0] = even;
        dx[1] = odd;
        dx += 2;
    }
}

/* One row of dx. */
static void doubled_row(const poet_conv2d_shape *s, const tap_rows *taps, float *dx)
{
    const int32_t pad = s->pad_left;
    int32_t t = pad;
    const int32_t end = s->w + pad;
    for (; (t < end) && ((t < 2) || (t % 2 != 0)); t++) {
        dx[t - pad] = doubled_output(taps, t, s->ow);
    }
    const int32_t whole = (end / 2 < s->ow) ? end / 2 : s->ow;
    const int32_t count = whole - t / 2;
    if ((taps->rows >= 1) && (count > 0)) {
        if (taps->rows == 2) {
            doubled_inner(taps, t / 2, count, dx + t - pad, 2);
        } else {
            doubled_inner(taps, t / 2, count, dx + t - pad, 1);
        }
        t += 2 * count;
    }
    for (; t < end; t++) {
        dx[t - pad] = doubled_output(taps, t, s->ow);
    }
}

static void halves_back(const poet_conv2d_shape *s, const float *dy, const float *w, float *dx)
{
    for (int32_t plane = 0; plane < s->n * s->c; plane++) {
        const int32_t c = plane % s->c;
        for (int32_t h = 0; h < s->h; h++) {
            tap_rows taps = {.rows = 0};
            const int32_t t = h + s->pad_top;
            for (int32_t kh = t % 2; kh < 3; kh += 2) {
                const int32_t oh = (t - kh) / 2;
                if ((t >= kh) && (oh < s->oh)) {
                    taps.from[taps.rows] = dy + oh * s->ow;
                    taps.w[taps.rows] = w + c * 9 + kh * 3;
                    taps.rows++;
                }
            }
            doubled_row(s, &taps, dx);
            dx += s->w;
        }
        dy += s->oh * s->ow;
    }
}
#endif

#endif
