/* RNN with one gate, which is its output. */
#include "recurrent.h"

void poet_rnn_fwd_f32(const poet_recurrent_shape *shape, const float *pre, const float *r,
                      const float *b, const float *h0, float *y, float *last)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        for (int32_t index = 0; index < s->steps; index++) {
            const int32_t at = step_at(s, d, index) * s->batch * hidden_row(s) + d * width;
            const poet_state_rows h = state_before(s, d, index, y, h0);
            start_gates(s, pre + at, (b != 0) ? b + d * 2 * width : 0, 0, 1, y + at);
            if (h.at != 0) {
                add_state(s, &h, r + d * width * width, width, y + at, hidden_row(s), y + at,
                          hidden_row(s));
            }
            for (int32_t i = 0; i < s->batch; i++) {
                float *row = y + at + i * hidden_row(s);
                for (int32_t j = 0; j < width; j++) {
                    row[j] = activated(s->gate_activation, row[j]);
                }
            }
        }
        keep_last(s, d, y, last);
    }
}

void poet_rnn_bwd_f32(const poet_recurrent_shape *shape, const float *y, const float *r,
                      const float *dy, const float *d_last, float *dgates, float *dh)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->hidden;
    /* All of d_last is read first: with one step dgates may lie over it. */
    for (int32_t d = 0; d < s->directions; d++) {
        start_gradient(s, d, d_last, dh);
    }
    for (int32_t d = 0; d < s->directions; d++) {
        float *state = dh + d * s->batch * width;
        for (int32_t index = s->steps - 1; index >= 0; index--) {
            const int32_t at = step_at(s, d, index) * s->batch * hidden_row(s) + d * width;
            for (int32_t i = 0; i < s->batch; i++) {
                const int32_t row = at + i * hidden_row(s);
                for (int32_t j = 0; j < width; j++) {
                    const float came = state[i * width + j];
                    const float all = (dy != 0) ? came + dy[row + j] : came;
                    dgates[row + j] = all * slope_at(s->gate_activation, y[row + j]);
                }
            }
            state_gradient(s, dgates + at, hidden_row(s), width, r + d * width * width, 0, state);
        }
    }
}
