/* Checkpoints: when and what for; card.c knows how. */
#include <string.h>

#include "poet/trainer.h"
#include "session.h"

static poet_fault fault_of(const poet_session *self, poet_status status)
{
    const poet_fault fault = {.step = self->steps_done,
                              .action = POET_ACTION_CHECKPOINT,
                              .block = self->card.pages.fault_block,
                              .status = (int32_t)status};
    return fault;
}

poet_fault poet_session_save(poet_session *self)
{
    poet_checkpoint_info info = {.step = self->steps_done, .loss_bits = self->loss_bits};
    memcpy(info.position, self->position, sizeof(info.position));
    const poet_status status = poet_card_save(&self->card, &info);
    self->saved = status == POET_OK;
    return fault_of(self, status);
}

void poet_on_checkpoint_plan(poet_session *self, const poet_link_request *request)
{
    self->saved = false;
    self->checkpoint_every = poet_link_get_u32(request->payload);
    memcpy(self->position, &request->payload[4], sizeof(self->position));
    poet_reply_done(&self->reply);
}

/* The host says of which step it wants a checkpoint: a board that has restarted since must not
 * write the start values over one. */
static bool is_of_now(const poet_session *self, const poet_link_request *request)
{
    return request->nbytes == 0u ||
           (poet_link_get_u32(request->payload) == self->steps_done &&
            (self->state & POET_STATE_BEGUN) != 0u);
}

void poet_on_checkpoint(poet_session *self, const poet_link_request *request)
{
    if (poet_session_refused(self)) {
        return;
    }
    if (request->nbytes != 0u && request->nbytes != 4u) {
        poet_session_refuse(self, POET_E_PROTOCOL);
        return;
    }
    if (!is_of_now(self, request)) {
        poet_session_refuse(self, POET_E_STATE);
        return;
    }
    if (!self->saved) { /* else asked again: it is there already */
        const poet_fault fault = poet_session_save(self);
        if (fault.status != (int32_t)POET_OK) {
            poet_reply_error(&self->reply, (poet_status)fault.status, &fault);
            return;
        }
        self->fault.status = (int32_t)POET_OK; /* the step's own checkpoint has been made good */
    }
    poet_reply_begin(&self->reply);
    poet_link_put_u32(&self->reply.link, self->card.sequence);
    poet_link_end(&self->reply.link);
}

static void take_over(poet_session *self, const poet_checkpoint_info *info)
{
    self->state &= ~POET_STATE_FAILED;
    self->state |= POET_STATE_BEGUN;
    self->fault.status = (int32_t)POET_OK;
    self->steps_done = info->step;
    self->loss_bits = info->loss_bits;
    self->step_cycles = 0u;
    self->eval_known = false;
    self->saved = true;
    memcpy(self->position, info->position, sizeof(self->position));
}

static void restore(poet_session *self)
{
    poet_checkpoint_info info;
    bool changed = false;
    const poet_status status = poet_card_load(&self->card, &info, &changed);
    self->outcome = (int32_t)status;
    if (status == POET_OK) {
        self->damaged = info.damaged != 0u;
        take_over(self, &info);
    } else if (changed) {
        self->state |= POET_STATE_FAILED;
        self->fault = fault_of(self, status);
    }
}

void poet_on_restore(poet_session *self, const poet_link_request *request)
{
    (void)request;
    if (!self->repeated) {
        restore(self);
    }
    if (self->outcome != (int32_t)POET_OK) {
        const poet_fault fault = fault_of(self, (poet_status)self->outcome);
        poet_reply_error(&self->reply, (poet_status)self->outcome, &fault);
        return;
    }
    poet_reply_begin(&self->reply);
    poet_link_put_u32(&self->reply.link, self->card.sequence);
    poet_link_put_u32(&self->reply.link, self->steps_done);
    poet_link_put_u32(&self->reply.link, self->damaged ? 1u : 0u);
    poet_link_put(&self->reply.link, self->position, sizeof(self->position));
    poet_link_end(&self->reply.link);
}
