/* Average pooling and its gradient. */
#include <stdint.h>

#include "poet/kernels.h"

/* The taps of one window along one axis: the first input they meet, how many, and the number that
 * counts for the divisor. */
typedef struct {
    int32_t first, taps, counted;
} span;

static span span_at(int32_t start, int32_t size, int32_t kernel, int32_t dilation, int32_t end)
{
    span s = {0, 0, 0};
    for (int32_t k = 0; k < kernel; k++) {
        const int32_t at = start + k * dilation;
        if ((at >= 0) && (at < size)) {
            s.first = (s.taps == 0) ? at : s.first;
            s.taps++;
        }
        if (at < end) {
            s.counted++;
        }
    }
    return s;
}

static span rows_at(const poet_avgpool2d_shape *s, int32_t oh)
{
    return span_at(oh * s->stride_h - s->pad_top, s->h, s->kh, s->dilation_h,
                   s->h + s->pad_bottom);
}

static span columns_at(const poet_avgpool2d_shape *s, int32_t ow)
{
    return span_at(ow * s->stride_w - s->pad_left, s->w, s->kw, s->dilation_w,
                   s->w + s->pad_right);
}

/* At least 1: a window without taps divides a sum of 0. */
static float divisor(const poet_avgpool2d_shape *s, const span *rows, const span *columns)
{
    const int32_t inside = rows->taps * columns->taps;
    const int32_t count = (s->count_pads != 0) ? rows->counted * columns->counted : inside;
    return (float)((count > 0) ? count : 1);
}

static float sum_window(const poet_avgpool2d_shape *s, const span *rows, const span *columns,
                        const float *x)
{
    float sum = 0.0F;
    const float *row = x + rows->first * s->w + columns->first;
    int32_t row_taps = rows->taps;
    int32_t taps = columns->taps;
    if ((taps == s->w) && (s->dilation_h == 1)) { /* whole rows: one run of neighbours */
        taps = taps * row_taps;
        row_taps = (row_taps > 0) ? 1 : 0;
    }
    for (; row_taps > 0; row_taps--) {
        const float *from = row;
        int32_t j = taps;
        if (s->dilation_w == 1) {
            for (; j >= 8; j -= 8) {
                sum = (((sum + from[0]) + from[1]) + from[2]) + from[3];
                sum = (((sum + from[4]) + from[5]) + from[6]) + from[7];
                from += 8;
            }
        }
        for (; j > 0; j--) {
            sum = sum + *from;
            from += s->dilation_w;
        }
        row += s->dilation_h * s->w;
    }
    return sum;
}

static void add_window(const poet_avgpool2d_shape *s, const span *rows, const span *columns,
                       float share, float *dx)
{
    float *row = dx + rows->first * s->w + columns->first;
    for (int32_t i = rows->taps; i > 0; i--) {
        float *to = row;
        for (int32_t j = columns->taps; j > 0; j--) {
            *to = *to + share;
            to += s->dilation_w;
        }
        row += s->dilation_h * s->w;
    }
}

void poet_avgpool2d_fwd_f32(const poet_avgpool2d_shape *shape, const float *x, float *y)
{
    const poet_avgpool2d_shape *s = shape;
    for (int32_t oh = 0; oh < s->oh; oh++) {
        const span rows = rows_at(s, oh);
        for (int32_t ow = 0; ow < s->ow; ow++) {
            const span columns = columns_at(s, ow);
            const float by = divisor(s, &rows, &columns);
            const float *plane = x;
            float *to = y + oh * s->ow + ow;
            for (int32_t left = s->planes; left > 0; left--) {
                *to = sum_window(s, &rows, &columns, plane) / by;
                plane += s->h * s->w;
                to += s->oh * s->ow;
            }
        }
    }
}

void poet_avgpool2d_bwd_f32(const poet_avgpool2d_shape *shape, const float *dy, float *dx)
{
    const poet_avgpool2d_shape *s = shape;
    for (int32_t i = 0; i < s->planes * s->h * s->w; i++) {
        dx[i] = 0.0F;
    }
    for (int32_t oh = 0; oh < s->oh; oh++) {
        const span rows = rows_at(s, oh);
        for (int32_t ow = 0; ow < s->ow; ow++) {
            const span columns = columns_at(s, ow);
            const float by = divisor(s, &rows, &columns);
            const float *from = dy + oh * s->ow + ow;
            float *plane = dx;
            for (int32_t left = s->planes; left > 0; left--) {
                add_window(s, &rows, &columns, *from / by, plane);
                from += s->oh * s->ow;
                plane += s->h * s->w;
            }
        }
    }
}
