/* Gradients of the recurrent weights and biases of LSTM, GRU and RNN. */
#include "recurrent.h"

void poet_recurrent_bwd_r_f32(const poet_recurrent_shape *shape, const float *dgates,
                              const float *y, const float *h0, float *dr)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    for (int32_t i = 0; i < s->directions * width * s->hidden; i++) {
        dr[i] = 0.0F;
    }
    for (int32_t d = 0; d < s->directions; d++) {
        add_weights(s, d, width, dgates + d * width, gates_row(s), y, h0,
                    dr + d * width * s->hidden);
    }
}

void poet_recurrent_bwd_b_f32(const poet_recurrent_shape *shape, const float *dgates, float *db)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        float *to = db + 2 * d * width;
        sum_rows(s, width, dgates + d * width, gates_row(s), to);
        for (int32_t j = 0; j < width; j++) {
            to[width + j] = to[j];
        }
    }
}
