/* LSTM: the recurrence over projected inputs, and its gradient through time. */
#include "poet/fma.h"
#include "recurrent.h"

/* Gates of a row in ONNX's order. */
enum { INPUT = 0, OUTPUT = 1, FORGET = 2, CELL = 3 };
/* Peepholes in ONNX's order. */
enum { PEEP_INPUT = 0, PEEP_OUTPUT = 1, PEEP_FORGET = 2 };

/* The gates of one sample, and the peepholes of the direction (NULL: none). */
static void cells_of(const poet_recurrent_shape *s, float *gates, const float *peep,
                     const float *before, float *cell, float *y)
{
    const int32_t h = s->hidden;
    for (int32_t j = 0; j < h; j++) {
        const float old = (before != 0) ? before[j] : 0.0F;
        float in = gates[INPUT * h + j];
        float forget = gates[FORGET * h + j];
        float out = gates[OUTPUT * h + j];
        if (peep != 0) {
            in = POET_FMA(peep[PEEP_INPUT * h + j], old, in);
            forget = POET_FMA(peep[PEEP_FORGET * h + j], old, forget);
        }
        in = activated(s->gate_activation, in);
        forget = activated(s->gate_activation, forget);
        const float fresh = activated(s->cell_activation, gates[CELL * h + j]);
        const float now = POET_FMA(forget, old, in * fresh);
        if (peep != 0) {
            out = POET_FMA(peep[PEEP_OUTPUT * h + j], now, out);
        }
        out = activated(s->gate_activation, out);
        gates[INPUT * h + j] = in;
        gates[FORGET * h + j] = forget;
        gates[OUTPUT * h + j] = out;
        gates[CELL * h + j] = fresh;
        cell[j] = now;
        y[j] = out * activated(s->hidden_activation, now);
    }
}

static const float *of_direction(const float *all, int32_t direction, int32_t count)
{
    return (all != 0) ? all + direction * count : 0;
}

void poet_lstm_fwd_f32(const poet_recurrent_shape *shape, const float *pre, const float *r,
                       const float *b, const float *h0, const float *c0, const float *p, float *y,
                       float *gates, float *cells, float *last, float *last_cell)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        const float *peep = of_direction(p, d, 3 * s->hidden);
        for (int32_t index = 0; index < s->steps; index++) {
            const int32_t row = step_at(s, d, index) * s->batch;
            const int32_t at = row * gates_row(s) + d * width;
            const poet_state_rows h = state_before(s, d, index, y, h0);
            const poet_state_rows c = state_before(s, d, index, cells, c0);
            start_gates(s, pre + at, of_direction(b, d, 2 * width), 0, s->gates, gates + at);
            if (h.at != 0) {
                add_state(s, &h, r + d * width * s->hidden, width, gates + at, gates_row(s),
                          gates + at, gates_row(s));
            }
            for (int32_t i = 0; i < s->batch; i++) {
                const int32_t out = (row + i) * hidden_row(s) + d * s->hidden;
                cells_of(s, gates + at + i * gates_row(s), peep,
                         (c.at != 0) ? c.at + i * c.row : 0, cells + out, y + out);
            }
        }
        keep_last(s, d, y, last);
        keep_last(s, d, cells, last_cell);
    }
}

/* What one sample's step needs; gates become their gradients, dc that of the cell before. */
typedef struct {
    const float *gates, *before, *cell, *dy, *dh, *peep;
    float *dgates, *dc;
} lstm_row;

static void row_gradient(const poet_recurrent_shape *s, const lstm_row *row)
{
    const int32_t h = s->hidden;
    for (int32_t j = 0; j < h; j++) {
        const float old = (row->before != 0) ? row->before[j] : 0.0F;
        const float in = row->gates[INPUT * h + j];
        const float out = row->gates[OUTPUT * h + j];
        const float forget = row->gates[FORGET * h + j];
        const float fresh = row->gates[CELL * h + j];
        const float shown = activated(s->hidden_activation, row->cell[j]);
        const float dh = (row->dy != 0) ? row->dh[j] + row->dy[j] : row->dh[j];
        const float d_out = (dh * shown) * slope_at(s->gate_activation, out);
        float dc = POET_FMA(dh * out, slope_at(s->hidden_activation, shown), row->dc[j]);
        if (row->peep != 0) {
            dc = POET_FMA(d_out, row->peep[PEEP_OUTPUT * h + j], dc);
        }
        const float d_in = (dc * fresh) * slope_at(s->gate_activation, in);
        const float d_forget = (dc * old) * slope_at(s->gate_activation, forget);
        row->dgates[CELL * h + j] = (dc * in) * slope_at(s->cell_activation, fresh);
        row->dgates[INPUT * h + j] = d_in;
        row->dgates[OUTPUT * h + j] = d_out;
        row->dgates[FORGET * h + j] = d_forget;
        float d_old = dc * forget;
        if (row->peep != 0) {
            d_old = POET_FMA(d_in, row->peep[PEEP_INPUT * h + j], d_old);
            d_old = POET_FMA(d_forget, row->peep[PEEP_FORGET * h + j], d_old);
        }
        row->dc[j] = d_old;
    }
}

void poet_lstm_bwd_f32(const poet_recurrent_shape *shape, const float *gates, const float *cells,
                       const float *r, const float *dy, const float *d_last,
                       const float *d_last_cell, const float *c0, const float *p, float *dgates,
                       float *dh, float *dc)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        const float *peep = of_direction(p, d, 3 * s->hidden);
        const int32_t state = d * s->batch * s->hidden;
        start_gradient(s, d, d_last, dh);
        start_gradient(s, d, d_last_cell, dc);
        for (int32_t index = s->steps - 1; index >= 0; index--) {
            const int32_t row = step_at(s, d, index) * s->batch;
            const int32_t at = row * gates_row(s) + d * width;
            const poet_state_rows c = state_before(s, d, index, cells, c0);
            for (int32_t i = 0; i < s->batch; i++) {
                const int32_t out = (row + i) * hidden_row(s) + d * s->hidden;
                const lstm_row now = {.gates = gates + at + i * gates_row(s),
                                      .before = (c.at != 0) ? c.at + i * c.row : 0,
                                      .cell = cells + out,
                                      .dy = (dy != 0) ? dy + out : 0,
                                      .dh = dh + state + i * s->hidden,
                                      .peep = peep,
                                      .dgates = dgates + at + i * gates_row(s),
                                      .dc = dc + state + i * s->hidden};
                row_gradient(s, &now);
            }
            state_gradient(s, dgates + at, gates_row(s), width, r + d * width * s->hidden, 0,
                           dh + state);
        }
    }
}

void poet_lstm_bwd_p_f32(const poet_recurrent_shape *shape, const float *dgates,
                         const float *cells, const float *c0, float *dp)
{
    const poet_recurrent_shape *s = shape;
    const int32_t h = s->hidden;
    for (int32_t i = 0; i < s->directions * 3 * h; i++) {
        dp[i] = 0.0F;
    }
    for (int32_t d = 0; d < s->directions; d++) {
        float *to = dp + d * 3 * h;
        for (int32_t index = 0; index < s->steps; index++) {
            const poet_state_rows before = state_before(s, d, index, cells, c0);
            for (int32_t i = 0; i < s->batch; i++) {
                const int32_t row = step_at(s, d, index) * s->batch + i;
                const float *grad = dgates + row * gates_row(s) + d * s->gates * h;
                const float *cell = cells + row * hidden_row(s) + d * h;
                for (int32_t j = 0; j < h; j++) {
                    const float old = state_of(&before, i, j);
                    to[PEEP_INPUT * h + j]
                        = POET_FMA(grad[INPUT * h + j], old, to[PEEP_INPUT * h + j]);
                    to[PEEP_OUTPUT * h + j]
                        = POET_FMA(grad[OUTPUT * h + j], cell[j], to[PEEP_OUTPUT * h + j]);
                    to[PEEP_FORGET * h + j]
                        = POET_FMA(grad[FORGET * h + j], old, to[PEEP_FORGET * h + j]);
                }
            }
        }
    }
}
