/* Inside the trainer: its state, and the requests that have a file of their own. */
#ifndef POET_TRAIN_SESSION_H
#define POET_TRAIN_SESSION_H

#include <stdbool.h>

#include "card.h"
#include "reply.h"

/* Before the bytes of POET_MSG_WRITE. */
#define POET_WRITE_HEADER_BYTES 8u

typedef struct {
    const poet_model *model;
    const poet_tensor *loss; /* NULL: the model has none */
    poet_reply reply;
    poet_card card;
    uint64_t step_cycles; /* of the last step */
    uint64_t eval_cycles;
    uint32_t state; /* POET_STATE_* */
    uint32_t steps_done;
    uint32_t loss_bits;        /* answer to the last step */
    uint32_t checkpoint_every; /* steps; 0: only when asked */
    uint32_t eval_token;       /* of the last evaluation, when eval_known */
    poet_fault fault;      /* first failure of a step; its checkpoint's when the step was well */
    poet_fault eval_fault; /* of the last evaluation; its status may be POET_OK */
    uint8_t position[POET_POSITION_BYTES]; /* the host's, for the next checkpoint */
    int32_t outcome; /* of the last RESTORE or FORMAT_CARD: a poet_status */
    bool repeated;   /* the request under way is the one before, asked again */
    bool damaged;    /* what the last RESTORE told */
    bool eval_known;
    bool saved; /* the newest checkpoint holds the model as it is */
} poet_session;

/* A request was refused or failed outside of an action; or it was done. */
void poet_session_refuse(poet_session *self, poet_status status);
void poet_session_answer(poet_session *self, poet_status status);
/* After a failed step parameters and states are those of no step: true, and refused with the record
 * of that failure. */
bool poet_session_refused(poet_session *self);

/* Write a checkpoint of the step just done; the record of how that ended. */
poet_fault poet_session_save(poet_session *self);
void poet_on_checkpoint_plan(poet_session *self, const poet_link_request *request);
void poet_on_checkpoint(poet_session *self, const poet_link_request *request);
void poet_on_restore(poet_session *self, const poet_link_request *request);

void poet_on_tensor_info(poet_session *self, const poet_link_request *request);
void poet_on_read(poet_session *self, const poet_link_request *request);
void poet_on_write(poet_session *self, const poet_link_request *request);
void poet_on_tensor_crc(poet_session *self, const poet_link_request *request);

#endif
