/* The trainer: answers the host's requests and runs the steps of the one model of this firmware.
 *
 * Everything is static and single-threaded. A failed training step leaves parameters half updated,
 * so from then on steps, evaluations, checkpoints and reading of parameters and states are refused
 * (POET_E_STATE, with the record of the first failure) until POET_MSG_RESTORE or
 * POET_MSG_RESET_MODEL. See docs/faults.md.
 */
#ifndef POET_TRAINER_H
#define POET_TRAINER_H

#include <stdint.h>

#include "poet/model.h"

/* Payload of POET_MSG_TRAIN_STEP's flags: send a POET_MSG_TRACE frame after each action. */
#define POET_TRAIN_TRACE 1u

/* Bit of the state word in the answer to POET_MSG_IDENTIFY: a step failed, restore or reset. */
#define POET_STATE_FAILED 1u
/* The same: the generated files speak another POET_ABI_VERSION, nothing but IDENTIFY works. */
#define POET_STATE_WRONG_ABI 2u
/* The same: RESET_MODEL or RESTORE was done since the start of the board. A host that has begun a
 * training so and does not find the bit any more talks to a board that has restarted since. */
#define POET_STATE_BEGUN 4u

/* Parameters from flash, optimizer state to zero, page store opened. The model stays referenced.
 * A plan without pages never touches the card; otherwise a card that fails is reported by
 * IDENTIFY, and steps are refused with its status. */
void poet_trainer_init(const poet_model *model);
/* Take what the console has and answer at most one request. Call it for ever. */
void poet_trainer_poll(void);

#endif
