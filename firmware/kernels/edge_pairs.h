/* Blocks of four neighbouring positions under three taps that load two operands at once. Part of
 * conv2d.c.
 */
#ifndef POET_EDGE_PAIRS_H
#define POET_EDGE_PAIRS_H

#include "blocks.h"
#include "pair.h"

/* The six inputs that four positions under three taps meet, numbered from the left. Input 0 is
 * not read where the first position lacks it, input 5 where the last one does. Two positions meet
 * four inputs, the last of which may be missing. */
typedef struct {
    poet_pair a, b, c; /* 0 1, 2 3, 4 5; with left missing 1 2, 3 4 and nothing */
    float alone;       /* with left missing 5; else with right missing 4; of two positions' 2 */
} edge_inputs;

POET_INLINE edge_inputs edge_load(const float *x, const poet_edge_kind *kind)
{
    edge_inputs in;
    const int32_t from = (kind->left != 0) ? 1 : 0;
    in.a = poet_pair_load(x + from);
    in.alone = 0.0F;
    if ((kind->two != 0) && (kind->right != 0)) {
        in.b = in.a;
        in.c = in.a;
        in.alone = x[2];
        return in;
    }
    in.b = poet_pair_load(x + from + 2);
    in.c = in.b;
    if (kind->two != 0) {
        return in;
    }
    if ((kind->left != 0) && (kind->right == 0)) {
        in.alone = x[5];
    } else if ((kind->left == 0) && (kind->right != 0)) {
        in.alone = x[4];
    } else if (kind->left == 0) {
        in.c = poet_pair_load(x + 4);
    }
    return in;
}

/* Weights of one output channel: taps 0 and 1, tap 2. */
typedef struct {
    poet_pair two;
    float third;
} edge_weights;

POET_INLINE edge_weights edge_weights_at(const float *w)
{
    return (edge_weights){poet_pair_load(w), w[2]};
}

/* sum + input i times the weight of one tap; input and tap are constants. */
POET_INLINE float edge_fma(const edge_inputs *in, int i, const edge_weights *w, int tap, float sum,
                           const poet_edge_kind *kind)
{
    const int last = (kind->two != 0) ? 3 : 5;
    if (((i == 0) && (kind->left != 0)) || ((i == last) && (kind->right != 0))) {
        return sum;
    }
    if (((i == last) && (kind->left != 0))
        || ((i == last - 1) && (kind->left == 0) && (kind->right != 0))) {
        return (tap == 2) ? POET_FMA(in->alone, w->third, sum)
                          : poet_pair_fma_one(w->two, tap, in->alone, sum);
    }
    const int at = (kind->left != 0) ? i - 1 : i;
    const poet_pair v = (at < 2) ? in->a : (at < 4) ? in->b : in->c;
    return (tap == 2) ? poet_pair_fma_one(v, at % 2, w->third, sum)
                      : poet_pair_fma(v, at % 2, w->two, tap, sum);
}

POET_INLINE poet_quad edge_tap(const edge_inputs *in, const edge_weights *w, int tap,
                               poet_quad sum, const poet_edge_kind *kind)
{
    const int i = (kind->step > 0) ? tap : 2 - tap; /* the input of the first position */
    sum.a = edge_fma(in, i, w, tap, sum.a, kind);
    sum.b = edge_fma(in, i + 1, w, tap, sum.b, kind);
    if (kind->two != 0) {
        return sum;
    }
    sum.c = edge_fma(in, i + 2, w, tap, sum.c, kind);
    sum.d = edge_fma(in, i + 3, w, tap, sum.d, kind);
    return sum;
}

POET_INLINE poet_quad edge_taps(const edge_inputs *in, const float *weights, poet_quad sum,
                                const poet_edge_kind *kind)
{
    const edge_weights w = edge_weights_at(weights);
    sum = edge_tap(in, &w, 0, sum, kind);
    sum = edge_tap(in, &w, 1, sum, kind);
    return edge_tap(in, &w, 2, sum, kind);
}

POET_INLINE void edge_run(poet_block *acc, const poet_sum *sum, const float *x, poet_rows w,
                          poet_edge_kind kind)
{
    const poet_block_kind four = {.rows = kind.rows};
    const poet_steps *xs = &sum->of[POET_X];
    const poet_steps *ws = &sum->of[POET_W];
    poet_block a = *acc;
    x -= (kind.step > 0) ? 0 : 2; /* the leftmost input of the first position */
    for (int32_t c = sum->channels; c > 0; c--) {
        int32_t left = sum->rows;
        do {
            const edge_inputs in = edge_load(x, &kind);
            a.r0 = edge_taps(&in, w.p0, a.r0, &kind);
            if (kind.rows == 4) {
                a.r1 = edge_taps(&in, w.p1, a.r1, &kind);
                a.r2 = edge_taps(&in, w.p2, a.r2, &kind);
                a.r3 = edge_taps(&in, w.p3, a.r3, &kind);
            }
            x += xs->row;
            poet_rows_advance(&w, ws->row, &four);
            left--;
        } while (left > 0);
        x += xs->channel_rest;
        poet_rows_advance(&w, ws->channel_rest, &four);
    }
    *acc = a;
}

#endif
