/* Inside the trainer: answers to the request under way. */
#ifndef POET_TRAIN_REPLY_H
#define POET_TRAIN_REPLY_H

#include "poet/link.h"
#include "poet/status.h"

typedef struct {
    poet_link link;
    uint16_t sequence; /* of the request */
    uint8_t type;
} poet_reply;

/* The head of the good answer; puts on reply->link and poet_link_end follow. */
void poet_reply_begin(poet_reply *reply);
/* A good answer without content. */
void poet_reply_done(poet_reply *reply);
/* The request was refused or failed: why, and the record of it. */
void poet_reply_error(poet_reply *reply, poet_status status, const poet_fault *fault);
/* At most limit bytes of the text, without its length. */
uint32_t poet_reply_length(const char *text, uint32_t limit);

#endif
