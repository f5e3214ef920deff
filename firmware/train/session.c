/* Answers that depend on the state of the session. */
#include "session.h"

#include "poet/trainer.h"

void poet_session_refuse(poet_session *self, poet_status status)
{
    const poet_fault fault = {.step = self->steps_done,
                              .action = POET_NO_ACTION,
                              .block = POET_NO_BLOCK,
                              .status = (int32_t)status};
    poet_reply_error(&self->reply, status, &fault);
}

void poet_session_answer(poet_session *self, poet_status status)
{
    if (status == POET_OK) {
        poet_reply_done(&self->reply);
    } else {
        poet_session_refuse(self, status);
    }
}

bool poet_session_refused(poet_session *self)
{
    if ((self->state & POET_STATE_FAILED) == 0u) {
        return false;
    }
    poet_reply_error(&self->reply, POET_E_STATE, &self->fault);
    return true;
}
