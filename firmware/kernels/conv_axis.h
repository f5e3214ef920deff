/* Which taps of a convolution meet which positions, along one axis.
 *
 * Positions that use the same taps form a run, so that the work on a run needs no test for
 * padding. Going forward a run has a step of 1; going back through a stride s the positions of
 * one residue modulo s share their taps, so a run steps by s.
 */
#ifndef POET_CONV_AXIS_H
#define POET_CONV_AXIS_H

#include <stdint.h>

/* Target position t uses source position (t * stride - pad + tap * dilation) going forward, and
 * (t + pad - tap * dilation) / stride, where that divides, going back. */
typedef struct {
    int32_t targets, sources;
    int32_t kernel, stride, pad, dilation;
    int32_t back;     /* 0 forward, 1 back */
    int32_t period;   /* step of a run: 1 forward, stride back */
    int32_t tap_step; /* taps of one run are this far apart */
    int32_t tap_move; /* source step from one tap of a run to its next */
    int32_t run_move; /* source step from one position of a run to its next */
} poet_axis;

typedef struct {
    int32_t first, count;   /* target positions first, first + period, ... */
    int32_t tap, taps;      /* first tap, number of taps */
    int32_t source;         /* source of the first position at the first tap */
} poet_axis_run;

static inline int32_t poet_gcd(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline poet_axis poet_axis_forward(int32_t targets, int32_t sources, int32_t kernel,
                                          int32_t stride, int32_t pad, int32_t dilation)
{
    const poet_axis axis = {.targets = targets,
                            .sources = sources,
                            .kernel = kernel,
                            .stride = stride,
                            .pad = pad,
                            .dilation = dilation,
                            .back = 0,
                            .period = 1,
                            .tap_step = 1,
                            .tap_move = dilation,
                            .run_move = stride};
    return axis;
}

static inline poet_axis poet_axis_back(int32_t targets, int32_t sources, int32_t kernel,
                                       int32_t stride, int32_t pad, int32_t dilation)
{
    const int32_t common = poet_gcd(stride, dilation);
    const poet_axis axis = {.targets = targets,
                            .sources = sources,
                            .kernel = kernel,
                            .stride = stride,
                            .pad = pad,
                            .dilation = dilation,
                            .back = 1,
                            .period = stride,
                            .tap_step = stride / common,
                            .tap_move = -(dilation / common),
                            .run_move = 1};
    return axis;
}

/* First tap >= from with source >= 0 forward (< sources back), and the end of the taps. */
static inline void poet_axis_taps(const poet_axis *axis, int32_t target, poet_axis_run *run)
{
    int32_t tap = 0;
    int32_t source = target * axis->stride - axis->pad;
    if (axis->back != 0) {
        const int32_t at = target + axis->pad;
        while ((tap < axis->tap_step) && ((at - tap * axis->dilation) % axis->stride != 0)) {
            tap++;
        }
        if (tap == axis->tap_step) { /* this residue meets no tap at all */
            run->tap = 0;
            run->taps = 0;
            run->source = 0;
            return;
        }
        source = (at - tap * axis->dilation) / axis->stride;
    }
    while ((tap < axis->kernel) && ((source < 0) || (source >= axis->sources))) {
        tap += axis->tap_step;
        source += axis->tap_move;
    }
    run->tap = tap;
    run->source = source;
    run->taps = 0;
    while ((tap < axis->kernel) && (source >= 0) && (source < axis->sources)) {
        run->taps++;
        tap += axis->tap_step;
        source += axis->tap_move;
    }
}

/* How many positions from the first on have all taps, given that the first has. */
static inline int32_t poet_axis_interior(const poet_axis *axis, const poet_axis_run *run)
{
    const int32_t last_source = run->source + (run->taps - 1) * axis->tap_move;
    const int32_t far = (axis->tap_move > 0) ? last_source : run->source;
    const int32_t inside = (axis->sources - 1 - far) / axis->run_move + 1;
    const int32_t there = (axis->targets - 1 - run->first) / axis->period + 1;
    return (inside < there) ? inside : there;
}

/* The run that starts at a target position; its first position must be given. */
static inline poet_axis_run poet_axis_run_at(const poet_axis *axis, int32_t first)
{
    poet_axis_run run = {.first = first, .count = 1};
    poet_axis_taps(axis, first, &run);
    if ((run.taps > 0) && (run.tap < axis->tap_step)
        && (run.tap + run.taps * axis->tap_step >= axis->kernel)) {
        run.count = poet_axis_interior(axis, &run);
        return run;
    }
    int32_t target = first + axis->period;
    while (target < axis->targets) {
        poet_axis_run next;
        poet_axis_taps(axis, target, &next);
        if ((next.tap != run.tap) || (next.taps != run.taps)) {
            break;
        }
        run.count++;
        target += axis->period;
    }
    return run;
}

/* The start of the run after this one; targets when there is none. Runs of one residue follow
 * each other, then comes the next residue. */
static inline int32_t poet_axis_next(const poet_axis *axis, const poet_axis_run *run)
{
    const int32_t next = run->first + run->count * axis->period;
    if (next < axis->targets) {
        return next;
    }
    const int32_t residue = (run->first % axis->period) + 1;
    return ((residue < axis->period) && (residue < axis->targets)) ? residue : axis->targets;
}

#endif
