/* One step: run the straight line, send keep-alive and trace frames between its actions. */
#include "step.h"

#include "poet/port.h"

#define NO_PENDING_PAGE UINT32_MAX

typedef struct {
    const poet_step_order *order;
    uint64_t start;    /* cycles at the start */
    uint64_t overhead; /* cycles spent on sending frames: not the step's */
    uint32_t progress_us;
} watch;

static void watch_action(poet_run *run)
{
    watch *const seen = run->context;
    const poet_step_order *const order = seen->order;
    const uint32_t now_us = poet_port_micros();
    const bool progress = now_us - seen->progress_us >= POET_PROGRESS_PERIOD_US;
    if (!order->trace && !progress) {
        return;
    }
    const uint64_t now = poet_port_cycles();
    if (order->trace) {
        poet_link_begin(order->link, (uint8_t)POET_MSG_TRACE, order->sequence);
        poet_link_put_u32(order->link, run->action);
        poet_link_put_u64(order->link, now - seen->start - seen->overhead);
        poet_link_end(order->link);
    }
    if (progress) {
        seen->progress_us = now_us;
        poet_link_begin(order->link, (uint8_t)POET_MSG_PROGRESS, order->sequence);
        poet_link_put_u32(order->link, run->action);
        poet_link_end(order->link);
    }
    seen->overhead += poet_port_cycles() - now;
}

/* A failed step may leave a transfer that still uses its buffer: end it. Whatever status that
 * gives comes second, and the first failure wins. */
static void end_transfer(poet_page_store *pages)
{
    if (pages->pending_page != NO_PENDING_PAGE) {
        const poet_status second = poet_page_wait(pages, pages->pending_page);
        (void)second;
    }
}

/* What kernels need to know of the step and of its update. */
static void prepare_update(poet_run *run, const poet_step_order *order)
{
    const poet_training *const training = order->training;
    const uint32_t steps = (training->accumulate == 0u) ? 1u : training->accumulate;
    const uint32_t updates = order->step / steps;
    run->step = order->step;
    run->update = (order->step % steps == steps - 1u) ? 1u : 0u;
    run->lr = order->lr * poet_lr_factor(training, updates);
    run->bias1 = poet_bias_correction(training->complement1, updates + 1u);
    run->bias2 = poet_bias_correction(training->complement2, updates + 1u);
}

poet_status poet_step_run(const poet_step_order *order, uint64_t *cycles, poet_fault *fault)
{
    watch seen = {
        .order = order,
        .start = 0u,
        .overhead = 0u,
        .progress_us = poet_port_micros(),
    };
    poet_run run = {
        .pages = order->pages,
        .action = POET_NO_ACTION,
        .after_action = watch_action,
        .context = &seen,
    };
    prepare_update(&run, order);
    order->pages->fault_block = POET_NO_BLOCK;
    seen.start = poet_port_cycles();
    const poet_status status = order->function(&run);
    *cycles = poet_port_cycles() - seen.start - seen.overhead;
    fault->step = order->step;
    fault->action = status == POET_OK ? POET_NO_ACTION : run.action;
    fault->block = order->pages->fault_block;
    fault->status = (int32_t)status;
    if (status != POET_OK) {
        end_transfer(order->pages);
    }
    return status;
}
