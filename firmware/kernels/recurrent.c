/* Gradients of the recurrent weights and biases of LSTM, GRU and RNN. */
#include "recurrent.h"

/* dr[j, k] += sum over rows of d[row, j] state[row, k]. */
static void add_rows(const poet_recurrent_shape *s, int32_t columns, int32_t rows, const float *d,
                     int32_t d_row, const float *state, int32_t state_row, float *dr)
{
    const poet_product p = {.rows = columns,
                            .columns = s->hidden,
                            .terms = rows,
                            .left_row = 1,
                            .left_term = d_row,
                            .right_row = 1,
                            .right_term = state_row,
                            .out_row = s->hidden,
                            .out_column = 1,
                            .start_row = s->hidden,
                            .start_column = 1,
                            .left = d,
                            .right = state,
                            .start = dr,
                            .out = dr};
    poet_multiply(&p);
}

/* The first step has the initial state before it, each other one the y of its neighbour. */
void poet_recurrent_bwd_r_f32(const poet_recurrent_shape *shape, const float *dgates,
                              const float *y, const float *h0, float *dr)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    const int32_t rest = (s->steps - 1) * s->batch;
    const int32_t step = s->batch * gates_row(s);
    for (int32_t d = 0; d < s->directions; d++) {
        const float *from = dgates + d * width;
        const float *state = y + d * s->hidden;
        float *to = dr + d * width * s->hidden;
        const int32_t back = is_reversed(s, d);
        for (int32_t i = 0; i < width * s->hidden; i++) {
            to[i] = 0.0F;
        }
        if (h0 != 0) {
            add_rows(s, width, s->batch, from + step_at(s, d, 0) * step, gates_row(s),
                     h0 + d * s->batch * s->hidden, s->hidden, to);
        }
        add_rows(s, width, rest, (back != 0) ? from : from + step, gates_row(s),
                 (back != 0) ? state + s->batch * hidden_row(s) : state, hidden_row(s), to);
    }
}

void poet_recurrent_bwd_b_f32(const poet_recurrent_shape *shape, const float *dgates, float *db)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        float *to = db + 2 * d * width;
        for (int32_t j = 0; j < width; j++) {
            to[j] = 0.0F;
        }
        const float *from = dgates + d * width;
        for (int32_t row = 0; row < s->steps * s->batch; row++) {
            for (int32_t j = 0; j < width; j++) {
                to[j] = to[j] + from[j];
            }
            from += gates_row(s);
        }
        for (int32_t j = 0; j < width; j++) {
            to[width + j] = to[j];
        }
    }
}
