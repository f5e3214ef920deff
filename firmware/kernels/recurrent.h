/* What LSTM, GRU and RNN share: where a direction's parts lie, its order of steps, the product of
 * the state with the recurrent weights.
 */
#ifndef POET_RECURRENT_H
#define POET_RECURRENT_H

#include <stdint.h>

#include "poet/kernels.h"
#include "poet/math.h"
#include "product.h"

/* Numbers of one row (one step of one sample): of the gates, and of y and the cells. */
static inline int32_t gates_row(const poet_recurrent_shape *s)
{
    return s->directions * s->gates * s->hidden;
}
static inline int32_t hidden_row(const poet_recurrent_shape *s)
{
    return s->directions * s->hidden;
}

/* The second direction, and the only one of a reversed layer, begins with the last step. */
static inline int32_t is_reversed(const poet_recurrent_shape *s, int32_t direction)
{
    return (s->reversed != 0) || (direction != 0);
}

/* The step that runs as number index, counted from 0. */
static inline int32_t step_at(const poet_recurrent_shape *s, int32_t direction, int32_t index)
{
    return (is_reversed(s, direction) != 0) ? s->steps - 1 - index : index;
}

/* Rows of numbers that lie row floats apart. */
typedef struct {
    const float *at; /* NULL: there are none, they count as zeros */
    int32_t row;
} poet_state_rows;

/* The state before the step that runs as number index: a row of all, or the initial one (NULL: 0),
 * which is [directions, batch, hidden]. */
static inline poet_state_rows state_before(const poet_recurrent_shape *s, int32_t direction,
                                              int32_t index, const float *all,
                                              const float *initial)
{
    poet_state_rows rows;
    if (index > 0) {
        const int32_t step = step_at(s, direction, index - 1);
        rows.at = all + step * s->batch * hidden_row(s) + direction * s->hidden;
        rows.row = hidden_row(s);
    } else {
        rows.at = (initial != 0) ? initial + direction * s->batch * s->hidden : 0;
        rows.row = s->hidden;
    }
    return rows;
}

/* Element j of sample i. */
static inline float state_of(const poet_state_rows *rows, int32_t i, int32_t j)
{
    return (rows->at != 0) ? rows->at[i * rows->row + j] : 0.0F;
}

static inline float activated(int32_t activation, float x)
{
    if (activation == POET_GATE_SIGMOID) {
        return poet_sigmoidf(x);
    }
    if (activation == POET_GATE_TANH) {
        return poet_tanhf(x);
    }
    return (x > 0.0F) ? x : 0.0F;
}

/* The derivative where the activation is y. */
static inline float slope_at(int32_t activation, float y)
{
    if (activation == POET_GATE_SIGMOID) {
        return y * (1.0F - y);
    }
    if (activation == POET_GATE_TANH) {
        return (1.0F - y) * (1.0F + y);
    }
    return (y > 0.0F) ? 1.0F : 0.0F;
}

/* gates = pre + (bias of the input + bias of the state) for count gates from first on; gates may
 * be pre. Both point at the step's first row of the direction. */
static inline void start_gates(const poet_recurrent_shape *s, const float *pre, const float *bias,
                                  int32_t first, int32_t count, float *gates)
{
    const int32_t width = s->gates * s->hidden;
    for (int32_t i = 0; i < s->batch; i++) {
        const int32_t at = i * gates_row(s);
        for (int32_t j = first * s->hidden; j < (first + count) * s->hidden; j++) {
            gates[at + j] = (bias != 0) ? pre[at + j] + (bias[j] + bias[width + j]) : pre[at + j];
        }
    }
}

/* out[i, j] = start[i, j] + sum over k of state[i, k] r[j, k]: columns outputs of each sample, k
 * ascending. The state is there. start NULL: 0; with start_row 0 all samples start alike. */
static inline void add_state(const poet_recurrent_shape *s, const poet_state_rows *state,
                                const float *r, int32_t columns, const float *start,
                                int32_t start_row, float *out, int32_t out_row)
{
    const poet_product p = {.rows = s->batch,
                            .columns = columns,
                            .terms = s->hidden,
                            .left_row = state->row,
                            .left_term = 1,
                            .right_row = s->hidden,
                            .right_term = 1,
                            .out_row = out_row,
                            .out_column = 1,
                            .start_row = start_row,
                            .start_column = 1,
                            .left = state->at,
                            .right = r,
                            .start = start,
                            .out = out};
    poet_multiply(&p);
}

/* out[i, k] = start[i, k] + sum over j of d[i, j] r[j, k]: terms gates' gradients, j ascending. */
static inline void state_gradient(const poet_recurrent_shape *s, const float *d, int32_t d_row,
                                     int32_t terms, const float *r, const float *start, float *out)
{
    const poet_product p = {.rows = s->batch,
                            .columns = s->hidden,
                            .terms = terms,
                            .left_row = d_row,
                            .left_term = 1,
                            .right_row = 1,
                            .right_term = s->hidden,
                            .out_row = s->hidden,
                            .out_column = 1,
                            .start_row = s->hidden,
                            .start_column = 1,
                            .left = d,
                            .right = r,
                            .start = start,
                            .out = out};
    poet_multiply(&p);
}

/* The rows of the last step that runs, to [batch, hidden] of the direction; last may be NULL. */
static inline void keep_last(const poet_recurrent_shape *s, int32_t direction, const float *all,
                                float *last)
{
    if (last == 0) {
        return;
    }
    const poet_state_rows rows = state_before(s, direction, s->steps, all, 0);
    float *out = last + direction * s->batch * s->hidden;
    for (int32_t i = 0; i < s->batch; i++) {
        for (int32_t j = 0; j < s->hidden; j++) {
            *out++ = rows.at[i * rows.row + j];
        }
    }
}

/* The gradient that reaches a direction's state from outside after the last step; given may be
 * NULL: 0. */
static inline void start_gradient(const poet_recurrent_shape *s, int32_t direction,
                                     const float *given, float *out)
{
    const int32_t count = s->batch * s->hidden;
    for (int32_t i = direction * count; i < (direction + 1) * count; i++) {
        out[i] = (given != 0) ? given[i] : 0.0F;
    }
}

/* dr[j, k] += sum over rows of d[row, j] state[row, k]. */
static inline void add_rows(const poet_recurrent_shape *s, int32_t columns, int32_t rows, const float *d,
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

/* dr[j, k] += sum over steps and samples of d[j] state[k]: columns numbers of the direction's rows
 * of d, and the state before each. The initial one comes first, then the y of each neighbour. */
static inline void add_weights(const poet_recurrent_shape *s, int32_t direction, int32_t columns,
                               const float *d, int32_t d_row, const float *y, const float *h0,
                               float *dr)
{
    const int32_t step = s->batch * d_row;
    const float *state = y + direction * s->hidden;
    if (h0 != 0) {
        add_rows(s, columns, s->batch, d + step_at(s, direction, 0) * step, d_row,
                 h0 + direction * s->batch * s->hidden, s->hidden, dr);
    }
    if (s->steps > 1) {
        const int32_t back = is_reversed(s, direction);
        add_rows(s, columns, (s->steps - 1) * s->batch, (back != 0) ? d : d + step, d_row,
                 (back != 0) ? state + s->batch * hidden_row(s) : state, hidden_row(s), dr);
    }
}

/* sum[j] = sum of d over steps and samples. */
static inline void sum_rows(const poet_recurrent_shape *s, int32_t columns, const float *d,
                            int32_t d_row, float *sum)
{
    for (int32_t j = 0; j < columns; j++) {
        sum[j] = 0.0F;
    }
    for (int32_t row = 0; row < s->steps * s->batch; row++) {
        for (int32_t j = 0; j < columns; j++) {
            sum[j] = sum[j] + d[j];
        }
        d += d_row;
    }
}

#endif
