/* Inside the trainer: runs one straight line of the model and watches it. */
#ifndef POET_TRAIN_STEP_H
#define POET_TRAIN_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/link.h"
#include "poet/model.h"

/* At most one POET_MSG_PROGRESS frame in this time of the board's clock. */
#define POET_PROGRESS_PERIOD_US 1000000u

typedef struct {
    poet_step_function function;
    poet_page_store *pages;
    poet_link *link;   /* takes TRACE and PROGRESS frames */
    uint16_t sequence; /* of the request, theirs too */
    bool trace;        /* a TRACE frame after each action */
    const poet_training *training;
    float lr;      /* before the schedule */
    uint32_t step; /* steps done before: chooses the update, and for the record of a failure */
} poet_step_order;

/* Run it. *cycles is the time without the frames sent, *fault says how it ended (its status is
 * returned too). After a failure no transfer is under way any more. */
POET_MUST_CHECK poet_status poet_step_run(const poet_step_order *order, uint64_t *cycles,
                                          poet_fault *fault);

#endif
