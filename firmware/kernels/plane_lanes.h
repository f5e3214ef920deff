/* Depthwise 3 x 3 convolution on a core with MVE, four channels at a time: their nine vectors of
 * weights lie in the frame of the call. Part of conv2d.c.
 */
#ifndef POET_PLANE_LANES_H
#define POET_PLANE_LANES_H

#include "plane_channels.h"
#include "plane_doubles.h"

typedef void plane_rows_function(const plane_lanes *p, const float *x, float *out);

/* All planes; p has what all of them share. */
static void run_plane_lanes(const poet_conv2d_shape *s, plane_lanes *p, const float *x,
                            const float *w, const float *bias, float *out, plane_rows_function *rows)
{
    const int32_t x_plane = p->rows * p->columns;
    const int32_t out_plane = p->out_rows * p->out_columns;
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t c = 0; c < s->c; c += LANES) {
            const int32_t lanes = (s->c - c < LANES) ? s->c - c : LANES;
            const float *from = x + (n * s->c + c) * x_plane;
            float *to = out + (n * s->c + c) * out_plane;
            p->from = poet_lane_offsets(x_plane, lanes);
            p->to = poet_lane_offsets(out_plane, lanes);
            poet_spread at = poet_spread_at(w + c * TAPS - 1, TAPS, lanes);
            poet_quad v = poet_quad_of(0.0F);
            for (int32_t tap = 0; tap < TAPS; tap++) {
                poet_quad one;
                POET_SPREAD_NEXT(one, at, 1);
                vst1q_f32(p->w[tap], one);
            }
            if (bias != 0) {
                const poet_spread first = poet_spread_at(bias + c, 1, lanes);
                POET_SPREAD_LOAD(v, first, 0);
            }
            vst1q_f32(p->start, v);
            rows(p, from, to);
        }
    }
}

/* 3 x 3 depthwise whose outputs lack at most the outermost taps; back with stride 1: with as many
 * outputs as inputs. */
static int plane_lanes_fit(const poet_conv2d_shape *s, int backward)
{
    const int32_t last = (s->ow - 1) * s->stride_w - s->pad_left;
    const int32_t low = (s->oh - 1) * s->stride_h - s->pad_top;
    const int nine = (s->kh == 3) && (s->kw == 3) && (s->dilation_h == 1) && (s->dilation_w == 1);
    const int near = (s->pad_left <= 1) && (s->pad_top <= 1) && (last + 1 < s->w) && (last >= 0)
                     && (low + 1 < s->h) && (s->ow >= 2) && (s->w >= 3) && (s->h >= 3);
    const int same = (s->ow == s->w) && (s->oh == s->h) && (s->pad_left == 1) && (s->pad_top == 1);
    return (s->c == s->groups) && (s->m == s->groups) && (s->c >= 2) && nine && near
           && (s->stride_h == s->stride_w) && (s->stride_w <= 2) && ((backward == 0) || (s->stride_w == 2) || same);
}

POET_APART static void plane_lanes_forward(const poet_conv2d_shape *s, const float *x,
                                           const float *w, const float *bias, float *y)
{
    const int32_t last = (s->ow - 1) * s->stride_w - s->pad_left;
    plane_lanes p = {.rows = s->h,
                     .columns = s->w,
                     .out_rows = s->oh,
                     .out_columns = s->ow,
                     .pad_top = s->pad_top,
                     .lacks_first = s->pad_left,
                     .lacks_last = (last + 2 >= s->w) ? 1 : 0};
    run_plane_lanes(s, &p, x, w, bias, y,
                    (s->stride_w == 1) ? plane_lanes_up : plane_lanes_up_two);
}

POET_APART static void plane_lanes_back(const poet_conv2d_shape *s, const float *dy,
                                        const float *w, float *dx)
{
    plane_lanes p = {.rows = s->oh,
                     .columns = s->ow,
                     .out_rows = s->h,
                     .out_columns = s->w,
                     .pad_top = s->pad_top,
                     .lacks_first = s->pad_left,
                     .lacks_last = 1};
    run_plane_lanes(s, &p, dy, w, 0, dx,
                    (s->stride_w == 1) ? plane_lanes_down : plane_lanes_down_two);
}

#endif
