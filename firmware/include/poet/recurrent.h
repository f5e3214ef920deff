/* Kernels of LSTM, GRU and RNN; part of poet/kernels.h, whose common rules hold. */
#ifndef POET_RECURRENT_KERNELS_H
#define POET_RECURRENT_KERNELS_H

#include <stdint.h>

/* LSTM, GRU and RNN over inputs that are projected already, pre = x w of all steps and directions.
 * Layouts: pre, gates and their gradients [steps, batch, directions, gates, hidden]; y and cells
 * [steps, batch, directions, hidden]; r [directions, gates, hidden, hidden]; b [directions, 2,
 * gates, hidden], input's biases first; states [directions, batch, hidden]. Gates in ONNX's order.
 * b, states, p, dy, d_last... and last... may be NULL: they count as 0, or are not wanted. A state
 * that is NULL takes no part in a chain. With reversed, and for the second direction, the last step
 * runs first. */
enum { POET_GATE_SIGMOID = 0, POET_GATE_TANH = 1, POET_GATE_RELU = 2 };
typedef struct {
    int32_t steps, batch, directions, gates, hidden;
    int32_t reversed;
    int32_t gate_activation;   /* of the gates; of y for RNN */
    int32_t cell_activation;   /* of what enters the cell, or GRU's hidden gate */
    int32_t hidden_activation; /* LSTM: of the cell on its way out */
    int32_t linear_before_reset; /* GRU */
} poet_recurrent_shape;
/* Gates i, o, f, c; p [directions, 3 (i, o, f), hidden] are the peepholes. Chain of a gate: starts
 * at pre + (b + b'); then the state by k; then its peephole. cell = fma(f, old, i c). gates (after
 * their activation) may run in place over pre. */
void poet_lstm_fwd_f32(const poet_recurrent_shape *shape, const float *pre, const float *r,
                       const float *b, const float *h0, const float *c0, const float *p, float *y,
                       float *gates, float *cells, float *last, float *last_cell);
/* dgates (before their activation) may run in place over gates; dh and dc are the gradients of the
 * initial states. Chain of dh: starts at 0; then the gates in order; then dy. */
void poet_lstm_bwd_f32(const poet_recurrent_shape *shape, const float *gates, const float *cells,
                       const float *r, const float *dy, const float *d_last,
                       const float *d_last_cell, const float *c0, const float *p, float *dgates,
                       float *dh, float *dc);
/* dp. Chain: starts at 0; then steps as they run, samples. */
void poet_lstm_bwd_p_f32(const poet_recurrent_shape *shape, const float *dgates,
                         const float *cells, const float *c0, float *dp);
/* dr of LSTM and RNN. Chain: starts at 0; then h0's samples; then the other steps ascending, and
 * samples. */
void poet_recurrent_bwd_r_f32(const poet_recurrent_shape *shape, const float *dgates,
                              const float *y, const float *h0, float *dr);
/* db of LSTM and RNN, both halves alike. Plain adds, steps ascending, samples. */
void poet_recurrent_bwd_b_f32(const poet_recurrent_shape *shape, const float *dgates, float *db);
/* Gates z, r, h. kept [steps, batch, directions, hidden] is r times the state, or with
 * linear_before_reset the state's product with the hidden gate's weights. Chains of z and r as
 * LSTM's gates; of h: pre + (b + b') + kept R, or fma(r, kept, pre + b) with kept = b' + state R.
 * y = fma(z, state - h, h). gates (after their activation) may run in place over pre. */
void poet_gru_fwd_f32(const poet_recurrent_shape *shape, const float *pre, const float *r,
                      const float *b, const float *h0, float *y, float *gates, float *kept,
                      float *last);
/* dgates (before their activation) may run in place over gates, dkept over kept. kept and dkept are
 * NULL without linear_before_reset. Chain of dh: the part through z; of h through kept; z, r in
 * order; then dy. */
void poet_gru_bwd_f32(const poet_recurrent_shape *shape, const float *gates, const float *kept,
                      const float *y, const float *r, const float *dy, const float *d_last,
                      const float *h0, float *dgates, float *dkept, float *dh);
/* dr. kept is dkept with linear_before_reset. Chains as poet_recurrent_bwd_r_f32. */
void poet_gru_bwd_r_f32(const poet_recurrent_shape *shape, const float *dgates,
                        const float *kept, const float *y, const float *h0, float *dr);
/* db with linear_before_reset: the state's bias of the hidden gate is that of dkept. */
void poet_gru_bwd_b_f32(const poet_recurrent_shape *shape, const float *dgates,
                        const float *dkept, float *db);
/* One gate, which is y after its activation; y may run in place over pre. */
void poet_rnn_fwd_f32(const poet_recurrent_shape *shape, const float *pre, const float *r,
                      const float *b, const float *h0, float *y, float *last);
/* dgates may run in place over dy. */
void poet_rnn_bwd_f32(const poet_recurrent_shape *shape, const float *y, const float *r,
                      const float *dy, const float *d_last, float *dgates, float *dh);

#endif
