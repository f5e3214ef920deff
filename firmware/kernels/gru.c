/* GRU: the recurrence over projected inputs, its gradient through time and of its weights.
 *
 * kept is what the hidden gate needs of the state besides the gates: the reset state r h, or with
 * linear_before_reset the state's product R h + b before it is reset.
 */
#include "poet/fma.h"
#include "recurrent.h"

/* Gates of a row in ONNX's order. */
enum { UPDATE = 0, RESET = 1, HIDDEN = 2 };
/* Columns of a product whose results are used at once. */
enum { COLUMNS = 16 };

/* Where a step of a direction lies. */
typedef struct {
    int32_t gates, rows; /* its first row in gates, and in y and kept */
} gru_step;

static gru_step at_step(const poet_recurrent_shape *s, int32_t direction, int32_t index)
{
    const int32_t row = step_at(s, direction, index) * s->batch;
    const gru_step at = {row * gates_row(s) + direction * s->gates * s->hidden,
                         row * hidden_row(s) + direction * s->hidden};
    return at;
}

/* The weights of a direction's gate. */
static const float *gate_weights(const poet_recurrent_shape *s, const float *r, int32_t direction,
                                 int32_t gate)
{
    return r + (direction * s->gates + gate) * s->hidden * s->hidden;
}

/* kept = R h + b of the hidden gate, which starts at its own bias. */
static void project_state(const poet_recurrent_shape *s, const poet_state_rows *h, const float *r,
                          const float *bias, float *kept)
{
    const float *start = (bias != 0) ? bias + (s->gates + HIDDEN) * s->hidden : 0;
    if (h->at != 0) {
        add_state(s, h, r, s->hidden, start, 0, kept, hidden_row(s));
        return;
    }
    for (int32_t i = 0; i < s->batch; i++) {
        for (int32_t j = 0; j < s->hidden; j++) {
            kept[i * hidden_row(s) + j] = (start != 0) ? start[j] : 0.0F;
        }
    }
}

/* pre + b of the hidden gate alone: R h + b is in kept. */
static void start_hidden(const poet_recurrent_shape *s, const float *pre, const float *bias,
                         float *gates)
{
    for (int32_t i = 0; i < s->batch; i++) {
        const int32_t at = i * gates_row(s);
        for (int32_t j = HIDDEN * s->hidden; j < s->gates * s->hidden; j++) {
            gates[at + j] = (bias != 0) ? pre[at + j] + bias[j] : pre[at + j];
        }
    }
}

/* Update and reset gate of every sample, after their activation. */
static void open_gates(const poet_recurrent_shape *s, float *gates)
{
    for (int32_t i = 0; i < s->batch; i++) {
        for (int32_t j = 0; j < HIDDEN * s->hidden; j++) {
            float *gate = gates + i * gates_row(s) + j;
            *gate = activated(s->gate_activation, *gate);
        }
    }
}

/* kept = r h, and its product joins the hidden gate. */
static void add_reset_state(const poet_recurrent_shape *s, const poet_state_rows *h,
                            const float *r, float *kept, float *gates)
{
    for (int32_t i = 0; i < s->batch; i++) {
        for (int32_t j = 0; j < s->hidden; j++) {
            kept[i * hidden_row(s) + j]
                = gates[i * gates_row(s) + RESET * s->hidden + j] * state_of(h, i, j);
        }
    }
    if (h->at != 0) {
        const poet_state_rows reset = {kept, hidden_row(s)};
        float *hidden = gates + HIDDEN * s->hidden;
        add_state(s, &reset, r, s->hidden, hidden, gates_row(s), hidden, gates_row(s));
    }
}

static void states_of(const poet_recurrent_shape *s, const poet_state_rows *h, const float *kept,
                      float *gates, float *y)
{
    for (int32_t i = 0; i < s->batch; i++) {
        float *gate = gates + i * gates_row(s);
        for (int32_t j = 0; j < s->hidden; j++) {
            float *fresh = gate + HIDDEN * s->hidden + j;
            float sum = *fresh;
            if (s->linear_before_reset != 0) {
                sum = POET_FMA(gate[RESET * s->hidden + j], kept[i * hidden_row(s) + j], sum);
            }
            *fresh = activated(s->cell_activation, sum);
            y[i * hidden_row(s) + j] = POET_FMA(gate[UPDATE * s->hidden + j],
                                                state_of(h, i, j) - *fresh, *fresh);
        }
    }
}

void poet_gru_fwd_f32(const poet_recurrent_shape *shape, const float *pre, const float *r,
                      const float *b, const float *h0, float *y, float *gates, float *kept,
                      float *last)
{
    const poet_recurrent_shape *s = shape;
    for (int32_t d = 0; d < s->directions; d++) {
        const float *bias = (b != 0) ? b + d * 2 * s->gates * s->hidden : 0;
        const float *weights = gate_weights(s, r, d, HIDDEN);
        for (int32_t index = 0; index < s->steps; index++) {
            const gru_step at = at_step(s, d, index);
            const poet_state_rows h = state_before(s, d, index, y, h0);
            float *now = gates + at.gates;
            start_gates(s, pre + at.gates, bias, 0, HIDDEN, now);
            if (h.at != 0) {
                add_state(s, &h, gate_weights(s, r, d, UPDATE), HIDDEN * s->hidden, now,
                          gates_row(s), now, gates_row(s));
            }
            open_gates(s, now);
            if (s->linear_before_reset != 0) {
                start_hidden(s, pre + at.gates, bias, now);
                project_state(s, &h, weights, bias, kept + at.rows);
            } else {
                start_gates(s, pre + at.gates, bias, HIDDEN, 1, now);
                add_reset_state(s, &h, weights, kept + at.rows, now);
            }
            states_of(s, &h, kept + at.rows, now, y + at.rows);
        }
        keep_last(s, d, y, last);
    }
}

/* What a step's gradient reads and writes. */
typedef struct {
    poet_state_rows h;
    const float *gates, *kept, *dy;
    float *dgates, *dkept, *dh;
} gru_rows;

/* Gradients of the hidden and the update gate; dh goes on with what passes the update gate. With
 * linear_before_reset those of kept and of the reset gate too. */
static void first_gradients(const poet_recurrent_shape *s, const gru_rows *rows, int32_t i)
{
    const int32_t h = s->hidden;
    const float *gate = rows->gates + i * gates_row(s);
    float *to = rows->dgates + i * gates_row(s);
    float *dh = rows->dh + i * h;
    for (int32_t j = 0; j < h; j++) {
        const int32_t at = i * hidden_row(s) + j;
        const float all = (rows->dy != 0) ? dh[j] + rows->dy[at] : dh[j];
        const float update = gate[UPDATE * h + j];
        const float reset = gate[RESET * h + j];
        const float fresh = gate[HIDDEN * h + j];
        const float d_fresh = (all * (1.0F - update)) * slope_at(s->cell_activation, fresh);
        const float d_update = (all * (state_of(&rows->h, i, j) - fresh))
                               * slope_at(s->gate_activation, update);
        if (s->linear_before_reset != 0) {
            to[RESET * h + j] = (d_fresh * rows->kept[at]) * slope_at(s->gate_activation, reset);
            rows->dkept[at] = d_fresh * reset;
        } else {
            to[RESET * h + j] = reset; /* until the gradient of r h is there */
        }
        to[UPDATE * h + j] = d_update;
        to[HIDDEN * h + j] = d_fresh;
        dh[j] = all * update;
    }
}

/* The gradient of r h of one sample, a few columns at a time: its parts to the reset gate, which
 * still holds r, and to dh. */
static void reset_gradients(const poet_recurrent_shape *s, const gru_rows *rows, int32_t i,
                            const float *r)
{
    const int32_t h = s->hidden;
    float *gate = rows->dgates + i * gates_row(s) + RESET * h;
    float *dh = rows->dh + i * h;
    for (int32_t first = 0; first < h; first += COLUMNS) {
        const int32_t left = h - first;
        float came[COLUMNS];
        const poet_product p = {.rows = 1,
                                .columns = (left < COLUMNS) ? left : COLUMNS,
                                .terms = h,
                                .left_row = h,
                                .left_term = 1,
                                .right_row = 1,
                                .right_term = h,
                                .out_row = COLUMNS,
                                .out_column = 1,
                                .left = rows->dgates + i * gates_row(s) + HIDDEN * h,
                                .right = r + first,
                                .start = 0,
                                .out = came};
        poet_multiply(&p);
        for (int32_t k = 0; k < p.columns; k++) {
            const int32_t j = first + k;
            const float reset = gate[j];
            gate[j] = (came[k] * state_of(&rows->h, i, j)) * slope_at(s->gate_activation, reset);
            dh[j] = POET_FMA(came[k], reset, dh[j]);
        }
    }
}

void poet_gru_bwd_f32(const poet_recurrent_shape *shape, const float *gates, const float *kept,
                      const float *y, const float *r, const float *dy, const float *d_last,
                      const float *h0, float *dgates, float *dkept, float *dh)
{
    const poet_recurrent_shape *s = shape;
    for (int32_t d = 0; d < s->directions; d++) {
        const float *weights = gate_weights(s, r, d, HIDDEN);
        start_gradient(s, d, d_last, dh);
        for (int32_t index = s->steps - 1; index >= 0; index--) {
            const gru_step at = at_step(s, d, index);
            const gru_rows rows = {.h = state_before(s, d, index, y, h0),
                                   .gates = gates + at.gates,
                                   .kept = (kept != 0) ? kept + at.rows : 0,
                                   .dy = (dy != 0) ? dy + at.rows : 0,
                                   .dgates = dgates + at.gates,
                                   .dkept = (dkept != 0) ? dkept + at.rows : 0,
                                   .dh = dh + d * s->batch * s->hidden};
            for (int32_t i = 0; i < s->batch; i++) {
                first_gradients(s, &rows, i);
                if (s->linear_before_reset == 0) {
                    reset_gradients(s, &rows, i, weights);
                }
            }
            if (s->linear_before_reset != 0) {
                state_gradient(s, rows.dkept, hidden_row(s), s->hidden, weights, rows.dh, rows.dh);
            }
            state_gradient(s, rows.dgates, gates_row(s), HIDDEN * s->hidden,
                           gate_weights(s, r, d, UPDATE), rows.dh, rows.dh);
        }
    }
}

void poet_gru_bwd_r_f32(const poet_recurrent_shape *shape, const float *dgates,
                        const float *kept, const float *y, const float *h0, float *dr)
{
    const poet_recurrent_shape *s = shape;
    const int32_t h = s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        const float *from = dgates + d * s->gates * h;
        const float *also = kept + d * h;
        float *to = dr + d * s->gates * h * h;
        float *hidden = to + HIDDEN * h * h;
        for (int32_t i = 0; i < s->gates * h * h; i++) {
            to[i] = 0.0F;
        }
        add_weights(s, d, HIDDEN * h, from, gates_row(s), y, h0, to);
        if (s->linear_before_reset != 0) {
            add_weights(s, d, h, also, hidden_row(s), y, h0, hidden);
        } else {
            add_rows(s, h, s->steps * s->batch, from + HIDDEN * h, gates_row(s), also,
                     hidden_row(s), hidden);
        }
    }
}

void poet_gru_bwd_b_f32(const poet_recurrent_shape *shape, const float *dgates,
                        const float *dkept, float *db)
{
    const poet_recurrent_shape *s = shape;
    const int32_t width = s->gates * s->hidden;
    for (int32_t d = 0; d < s->directions; d++) {
        float *to = db + 2 * d * width;
        sum_rows(s, width, dgates + d * width, gates_row(s), to);
        for (int32_t j = 0; j < HIDDEN * s->hidden; j++) {
            to[width + j] = to[j];
        }
        sum_rows(s, s->hidden, dkept + d * s->hidden, hidden_row(s),
                 to + width + HIDDEN * s->hidden);
    }
}
