/* Whole training steps over a card that misbehaves, for any board: what the host is told is said;
 * then the card is healthy again, and the host goes back to the last checkpoint and on to the end.
 */
#include "scenario.h"

#include <string.h>

#include "../power/host_session.h"
#include "poet/crc.h"
#include "poet/link.h"
#include "poet/port.h"

#define STEPS 4u
#define SAVED 2u /* the checkpoint that a fault must not harm is of this step */

static uint32_t expected[STEPS + 1u]; /* checksums of the weights */
static uint8_t seen[SESSION_BYTES];

static void must(poet_status status, const char *what)
{
    if (status != POET_OK) {
        scenario_fail(what, poet_status_text(status));
    }
}

static void check(bool good, const char *what)
{
    if (!good) {
        scenario_fail(what, "");
    }
}

static poet_status weights(uint32_t *crc)
{
    uint32_t nbytes = 0u;
    POET_TRY(session_weights(seen, &nbytes));
    *crc = poet_crc32(nbytes, seen, nbytes);
    return POET_OK;
}

static bool weights_are(uint32_t step)
{
    uint32_t crc = 0u;
    return weights(&crc) == POET_OK && crc == expected[step];
}

void scenario_reference(void)
{
    scenario_card(SCENARIO_HEALTHY, SCENARIO_POWER_ON);
    must(session_format().status, "format");
    scenario_card(SCENARIO_HEALTHY, SCENARIO_POWER_ON);
    for (uint32_t step = 0u; step <= STEPS; step++) {
        must(weights(&expected[step]), "weights");
        must(step < STEPS ? session_train(step).status : POET_OK, "reference");
    }
}

/* A run that has just acknowledged its checkpoint of step SAVED. */
static void at_the_checkpoint(void)
{
    scenario_card(SCENARIO_HEALTHY, SCENARIO_POWER_ON);
    must(session_plan(SAVED).status, "plan");
    must(session_train(0u).status, "step 0");
    must(session_train(1u).status, "step 1");
}

/* In what state the model is, told by IDENTIFY and proven by the weights where they can be read. */
static const char *state_of_model(void)
{
    poet_status card = POET_OK;
    bool failed = false;
    uint32_t crc = 0u;
    const uint32_t step = session_steps(&card, &failed);
    const poet_status status = weights(&crc);
    if (failed) {
        check(status == POET_E_STATE, "half a step was given out");
        check(session_train(step).status == POET_E_STATE, "a step after a failed one");
        return "spoiled";
    }
    check(status != POET_OK || crc == expected[step], "weights of no step");
    return status == POET_OK ? "whole" : "unreadable";
}

static void report(const reply *got)
{
    scenario_say("told", poet_status_text(got->status));
    if (got->status != POET_OK) {
        scenario_say("where", got->fault.action == POET_ACTION_CHECKPOINT ? "checkpoint"
                              : got->fault.action == POET_NO_ACTION       ? "outside"
                                                                          : "action");
        scenario_say("block", got->fault.block != POET_NO_BLOCK ? "1" : "0");
    }
    scenario_say("model", state_of_model());
}

/* A healthy card again, which has kept its content: back to the checkpoint, on to the end. */
static void recover(scenario_power power)
{
    uint32_t step = 0u;
    scenario_card(SCENARIO_HEALTHY, power);
    must(session_restore(&step).status, "restore");
    check(step >= SAVED && weights_are(step), "restored to something else");
    for (; step < STEPS; step++) {
        must(session_train(step).status, "step after the fault");
    }
    check(weights_are(STEPS), "other bits at the end");
}

void scenario_in_use(scenario_moment moment)
{
    reply got;
    at_the_checkpoint();
    if (moment == SCENARIO_CHECKPOINT) {
        must(session_train(2u).status, "step 2");
        scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_KEPT);
        got = session_ask(POET_MSG_CHECKPOINT, NULL, 0u);
    } else if (moment == SCENARIO_RESTORE) {
        uint32_t step = 0u;
        scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_KEPT);
        got = session_restore(&step);
    } else {
        scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_KEPT);
        got = session_train(2u);
        /* What a step has left on the card is met by the next one. */
        got = got.status == POET_OK ? session_train(3u) : got;
    }
    report(&got);
    recover(SCENARIO_CARD_ALONE);
    scenario_say("end", "same");
}

void scenario_at_start(void)
{
    poet_status card = POET_OK;
    bool failed = false;
    at_the_checkpoint();
    scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_ON);
    (void)session_steps(&card, &failed);
    scenario_say("card", poet_status_text(card));
    const reply got = session_train(0u);
    report(&got);
    recover(SCENARIO_POWER_ON);
    scenario_say("end", "same");
}

void scenario_while_prepared(void)
{
    scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_ON);
    const reply got = session_format();
    scenario_say("told", poet_status_text(got.status));
}

void scenario_steps(void)
{
    at_the_checkpoint();
    scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_KEPT);
    must(session_train(2u).status, "step 2");
    must(session_train(3u).status, "step 3"); /* with a checkpoint */
}

bool scenario_removed(void)
{
    at_the_checkpoint();
    scenario_card(SCENARIO_FAULTY, SCENARIO_POWER_KEPT);
    reply got = session_train(2u);
    if (got.status == POET_OK) {
        got = session_train(3u);
    }
    check(got.status != POET_OK, "a step without a card");
    const bool spoiled = strcmp(state_of_model(), "spoiled") == 0;
    recover(SCENARIO_CARD_ALONE);
    return spoiled;
}
