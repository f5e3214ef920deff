/* The host's side of the link within the same process, and the port of the board: what a session
 * sends, which answer it gets, what it computes at each step.
 */
#ifndef POET_TESTS_HOST_SESSION_H
#define POET_TESTS_HOST_SESSION_H

#include <stdbool.h>

#include "poet/bdev.h"
#include "poet/model.h"

#ifndef SESSION_BYTES
#define SESSION_BYTES 65536u /* most bytes of parameters and state */
#endif

typedef struct {
    poet_status status; /* POET_OK: the good answer came */
    poet_fault fault;   /* with an error */
    uint8_t payload[512];
    uint32_t nbytes;
} reply;

/* The card of the board; the test's. */
extern const poet_bdev *const session_device;

/* The board starts, with garbage in its arena. */
void session_boot(void);
reply session_ask(uint8_t type, const uint8_t *payload, uint32_t nbytes);
/* The same with the sequence number of the request before: a copy of it. */
reply session_ask_again(uint8_t type, const uint8_t *payload, uint32_t nbytes);
/* Every step has inputs of its own, made from its number. */
reply session_train(uint32_t step);
reply session_plan(uint32_t every);
reply session_restore(uint32_t *step);
reply session_format(void);
/* Steps done and status of the card, and whether a step has failed, by IDENTIFY. */
uint32_t session_steps(poet_status *card, bool *failed);
/* All parameters and states into bytes; the status of the first READ that was refused. */
poet_status session_weights(uint8_t *bytes, uint32_t *nbytes);

#endif
