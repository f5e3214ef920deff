/* Answers: good ones and errors. */
#include "reply.h"

void poet_reply_begin(poet_reply *reply)
{
    poet_link_begin(&reply->link, (uint8_t)(reply->type | POET_MSG_ANSWER), reply->sequence);
}

void poet_reply_done(poet_reply *reply)
{
    poet_reply_begin(reply);
    poet_link_end(&reply->link);
}

void poet_reply_error(poet_reply *reply, poet_status status, const poet_fault *fault)
{
    poet_link_begin(&reply->link, (uint8_t)POET_MSG_ERROR, reply->sequence);
    poet_link_put_u32(&reply->link, (uint32_t)status);
    poet_link_put_u32(&reply->link, fault->step);
    poet_link_put_u32(&reply->link, fault->action);
    poet_link_put_u32(&reply->link, fault->block);
    poet_link_put_u32(&reply->link, (uint32_t)fault->status);
    poet_link_end(&reply->link);
}

uint32_t poet_reply_length(const char *text, uint32_t limit)
{
    uint32_t length = 0;
    while (length < limit && text[length] != '\0') {
        length++;
    }
    return length;
}
