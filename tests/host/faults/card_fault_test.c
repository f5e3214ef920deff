/* Whole training steps over the real SD driver and a card model that misbehaves.
 *
 * argv: when the fault comes (open, format, step, update, checkpoint, restore, removal), kind of
 * card, blocks, "option=value" words. What the host is told is printed; then the card is healthy
 * again, and the host goes back to the last checkpoint and on to the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../power/host_session.h"
#include "../storage/sd_card_model.h"
#include "poet/link.h"
#include "poet/sd_spi.h"

#define STEPS 4u
#define SAVED 2u /* the checkpoint that a fault must not harm is of this step */

static poet_sd_spi_state card_state;
static const poet_sd_spi_config card_config = {.bus = &card_bus, .clock_hz = 12500000u};
static const poet_bdev sd_card = {.ops = &poet_sd_spi_ops, .state = &card_state};
const poet_bdev *const session_device = &sd_card;

static card_options plain, faulty;
static uint8_t expected[STEPS + 1u][SESSION_BYTES];
static uint8_t seen[SESSION_BYTES];
static uint32_t weight_bytes;

static void must(poet_status status, const char *what)
{
    if (status != POET_OK) {
        printf("FAIL %s: %s\n", what, poet_status_text(status));
        exit(1);
    }
}

static void check(bool good, const char *what)
{
    if (!good) {
        printf("FAIL %s\n", what);
        exit(1);
    }
}

/* Power on, with this card in the slot. */
static void start_with(const card_options *options)
{
    card_insert(options);
    poet_sd_spi_init(&card_state, &card_config);
    session_boot();
}

static bool weights_are(uint32_t step)
{
    uint32_t nbytes = 0u;
    return session_weights(seen, &nbytes) == POET_OK && nbytes == weight_bytes &&
           memcmp(seen, expected[step], nbytes) == 0;
}

static void reference(void)
{
    start_with(&plain);
    must(session_format().status, "format");
    start_with(&plain);
    for (uint32_t step = 0u; step <= STEPS; step++) {
        must(session_weights(expected[step], &weight_bytes), "weights");
        must(step < STEPS ? session_train(step).status : POET_OK, "reference");
    }
}

/* A run that has just acknowledged its checkpoint of step SAVED. */
static void at_the_checkpoint(void)
{
    start_with(&plain);
    must(session_plan(SAVED).status, "plan");
    must(session_train(0u).status, "step 0");
    must(session_train(1u).status, "step 1");
}

/* In what state the model is, told by IDENTIFY and proven by the weights where they can be read. */
static const char *state_of_model(void)
{
    poet_status card = POET_OK;
    bool failed = false;
    uint32_t nbytes = 0u;
    const uint32_t step = session_steps(&card, &failed);
    const poet_status status = session_weights(seen, &nbytes);
    if (failed) {
        check(status == POET_E_STATE, "half a step was given out");
        check(session_train(step).status == POET_E_STATE, "a step after a failed one");
        return "spoiled";
    }
    check(status != POET_OK || memcmp(seen, expected[step], weight_bytes) == 0,
          "weights of no step");
    return status == POET_OK ? "whole" : "unreadable";
}

static void report(const reply *got)
{
    printf("told=%s\n", poet_status_text(got->status));
    if (got->status != POET_OK) {
        printf("where=%s\n", got->fault.action == POET_ACTION_CHECKPOINT ? "checkpoint"
                             : got->fault.action == POET_NO_ACTION       ? "outside"
                                                                         : "action");
        printf("block=%d\n", got->fault.block != POET_NO_BLOCK);
    }
    printf("model=%s\n", state_of_model());
    printf("violations=%u\n", card_seen.violations);
}

/* A healthy card again, which has kept its content: back to the checkpoint, on to the end. */
static void recover(bool restart)
{
    uint32_t step = 0u;
    card_change(&plain);
    if (restart) {
        start_with(&plain);
    } else {
        card_insert(&plain); /* it was without power */
    }
    must(session_restore(&step).status, "restore");
    check(step >= SAVED && weights_are(step), "restored to something else");
    for (; step < STEPS; step++) {
        must(session_train(step).status, "step after the fault");
    }
    check(weights_are(STEPS), "other bits at the end");
}

static void fault_in_use(const char *when)
{
    reply got;
    at_the_checkpoint();
    if (strcmp(when, "checkpoint") == 0) {
        must(session_train(2u).status, "step 2");
        card_change(&faulty);
        got = session_ask(POET_MSG_CHECKPOINT, NULL, 0u);
    } else if (strcmp(when, "restore") == 0) {
        uint32_t step = 0u;
        card_change(&faulty);
        got = session_restore(&step);
    } else {
        card_change(&faulty);
        got = session_train(2u);
        /* What a step has left on the card is met by the next one. */
        got = got.status == POET_OK ? session_train(3u) : got;
    }
    report(&got);
    recover(false);
    printf("end=same\n");
}

static void fault_at_start(void)
{
    poet_status card = POET_OK;
    bool failed = false;
    at_the_checkpoint();
    start_with(&faulty);
    (void)session_steps(&card, &failed);
    printf("card=%s\n", poet_status_text(card));
    const reply got = session_train(0u);
    report(&got);
    recover(true);
    printf("end=same\n");
}

static void fault_while_prepared(void)
{
    card_wipe();
    start_with(&faulty);
    const reply got = session_format();
    printf("told=%s\n", poet_status_text(got.status));
}

/* Pulled out at every so manieth byte of a step with its checkpoint, and put in again. */
static void removals(uint32_t points)
{
    uint32_t spoiled = 0u;
    uint32_t told = 0u;
    at_the_checkpoint();
    const uint64_t first = card_seen.bytes;
    must(session_train(2u).status, "step 2");
    must(session_train(3u).status, "step 3"); /* with a checkpoint */
    const uint64_t count = card_seen.bytes - first;
    for (uint32_t i = 0u; i < points; i++) {
        at_the_checkpoint();
        faulty.remove_at = first + count * i / points;
        card_change(&faulty);
        reply got = session_train(2u);
        if (got.status == POET_OK) {
            got = session_train(3u);
        }
        check(got.status != POET_OK, "a step without a card");
        told++;
        spoiled += strcmp(state_of_model(), "spoiled") == 0 ? 1u : 0u;
        recover(false);
    }
    printf("points=%u\ntold=%u\nspoiled=%u\n", points, told, spoiled);
}

static void set_option(card_options *options, const char *word)
{
    const char *const equals = strchr(word, '=');
    if (equals == NULL) {
        exit(2);
    }
    const uint32_t value = (uint32_t)strtoul(equals + 1, NULL, 0);
    const size_t length = (size_t)(equals - word);
    const struct {
        const char *name;
        uint32_t *target;
    } numbers[] = {
        {"garbage", &options->garbage},
        {"busy_us", &options->busy_us},
        {"damaged_blocks", &options->damaged_blocks},
        {"refused_blocks", &options->refused_blocks},
        {"write_error_at", &options->write_error_at},
        {"program_error_at", &options->program_error_at},
        {"read_error_at", &options->read_error_at},
        {"rot_at", &options->rot_at},
        {"real_blocks", &options->real_blocks},
        {"blocks", &options->blocks},
    };
    const struct {
        const char *name;
        bool *target;
    } switches[] = {
        {"absent", &options->absent},
        {"write_protected", &options->write_protected},
        {"stuck", &options->stuck},
    };
    for (uint32_t i = 0u; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strlen(numbers[i].name) == length && strncmp(numbers[i].name, word, length) == 0) {
            *numbers[i].target = value;
            return;
        }
    }
    for (uint32_t i = 0u; i < sizeof switches / sizeof switches[0]; i++) {
        if (strlen(switches[i].name) == length && strncmp(switches[i].name, word, length) == 0) {
            *switches[i].target = value != 0u;
            return;
        }
    }
    if (strncmp(word, "start=", 6u) == 0) {
        options->start = (card_start)value;
        return;
    }
    if (strncmp(word, "removed=", 8u) == 0) { /* the bus floats high, or is held low */
        options->floating = value != 0u ? 0xFFu : 0x00u;
        options->remove_at = 0u;
        return;
    }
    exit(2);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"sdsc1", "sdsc", "sdhc", "sdxc"};
    if (argc < 4) {
        return 2;
    }
    card_time_limit_ns = 1000000000000ull; /* sweeps add up */
    for (uint32_t i = 0u; i < 4u; i++) {
        if (strcmp(argv[2], kinds[i]) == 0) {
            plain = card_plain((card_kind)i, (uint32_t)strtoul(argv[3], NULL, 0));
        }
    }
    reference();
    faulty = plain;
    for (int i = 4; i < argc; i++) {
        set_option(&faulty, argv[i]);
    }
    if (strcmp(argv[1], "open") == 0) {
        fault_at_start();
    } else if (strcmp(argv[1], "format") == 0) {
        fault_while_prepared();
    } else if (strcmp(argv[1], "removal") == 0) {
        removals(200u);
    } else {
        fault_in_use(argv[1]);
    }
    return 0;
}
