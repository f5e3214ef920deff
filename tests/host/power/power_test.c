/* Sweeps over one model: power cut at every block write, every operation failing once and for ever.
 *
 * After each of them the board must be where a host may go on: at the last acknowledged checkpoint
 * or at a newer whole one, and the rest of the training must give the bits of an undisturbed run.
 * argv: scenario, steps, steps between checkpoints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_card.h"
#include "host_session.h"
#include "poet/crc.h"
#include "poet/link.h"

#define MOST_STEPS 16u
#define HEADER_BYTES 116u /* of a checkpoint, SPEC.md */

const poet_bdev *const session_device = &cache_card;

static uint32_t steps, every;
static uint8_t expected[MOST_STEPS + 1u][SESSION_BYTES];
static uint8_t seen[SESSION_BYTES];
static uint32_t weight_bytes;

static void fail(const char *what, uint32_t a, uint32_t b)
{
    printf("FAIL %s %u %u\n", what, a, b);
    exit(1);
}

static void must(const reply *got, const char *what)
{
    if (got->status != POET_OK) {
        printf("FAIL %s: %s\n", what, poet_status_text(got->status));
        exit(1);
    }
}

/* The weights are those after so many steps, to the bit. */
static bool weights_are(uint32_t step)
{
    uint32_t nbytes = 0u;
    return session_weights(seen, &nbytes) == POET_OK && nbytes == weight_bytes &&
           memcmp(seen, expected[step], nbytes) == 0;
}

static void plan_now(void)
{
    const reply got = session_plan(every);
    must(&got, "plan");
}

/* From step on until the end or the first error. *acknowledged: of the last checkpoint. */
static reply train_on(uint32_t step, uint32_t *acknowledged)
{
    reply got = {.status = POET_OK};
    for (; step < steps && got.status == POET_OK && !card_is_off; step++) {
        got = session_train(step);
        if (got.status == POET_OK && !card_is_off && (step + 1u) % every == 0u) {
            *acknowledged = step + 1u;
        }
    }
    return got;
}

static uint32_t slot_header(uint32_t slot)
{
    const poet_page_config *config = poet_the_model.pages;
    return config->region_block + config->slot_block + slot * config->slot_blocks;
}

static bool header_is_whole(const uint8_t *header)
{
    return memcmp(header, "POET-MCU CHECKPT", 16u) == 0 &&
           poet_link_get_u32(&header[112]) == poet_crc32(0u, header, 112u);
}

/* Some slot's header is neither whole nor erased: the cut came while it was written or erased. */
static bool header_is_torn(void)
{
    bool torn = false;
    for (uint32_t slot = 0u; slot < 2u; slot++) {
        const uint8_t *header = card_bytes(slot_header(slot));
        torn |= (header[0] != 0u || memcmp(header, &header[1], POET_BLOCK_BYTES - 1u) != 0) &&
                !header_is_whole(header);
    }
    return torn;
}

static uint32_t told_as_torn;

/* What a host does with a board that has just started: newest checkpoint, or the beginning. */
static uint32_t resume(uint32_t acknowledged)
{
    uint32_t step = 0u;
    const bool torn = header_is_torn();
    const reply got = session_restore(&step);
    if (got.status != POET_OK) {
        if (got.status != POET_E_CHECKPOINT || acknowledged != 0u) {
            fail("restore", (uint32_t)-(int32_t)got.status, acknowledged);
        }
        const reply reset = session_ask(POET_MSG_RESET_MODEL, NULL, 0u);
        must(&reset, "reset");
    }
    if (step < acknowledged || step % every != 0u) {
        fail("an older checkpoint came back", step, acknowledged);
    }
    told_as_torn += (got.status == POET_OK && got.payload[8] != 0u) ? 1u : 0u;
    if (got.status == POET_OK && got.payload[8] != 0u && !torn) {
        fail("a cut was taken for damage", step, acknowledged);
    }
    if (!weights_are(step)) {
        fail("a mixture came back", step, acknowledged);
    }
    plan_now();
    return step;
}

static void finish(uint32_t step)
{
    uint32_t acknowledged = step;
    const reply got = train_on(step, &acknowledged);
    must(&got, "training on");
    if (!weights_are(steps)) {
        fail("other bits at the end", step, 0u);
    }
}

/* The undisturbed run; the medium it started from is kept. */
static void reference(void)
{
    card_blank();
    session_boot();
    reply got = session_format();
    must(&got, "format");
    got = session_ask(POET_MSG_RESET_MODEL, NULL, 0u);
    must(&got, "reset");
    card_keep();
    card_bring_back();
    session_boot();
    plan_now();
    for (uint32_t step = 0u; step <= steps; step++) {
        if (session_weights(expected[step], &weight_bytes) != POET_OK) {
            fail("weights", step, 0u);
        }
        if (step < steps) {
            got = session_train(step);
            must(&got, "step");
        }
    }
    if (memcmp(expected[0], expected[steps], weight_bytes) == 0) {
        fail("nothing was learnt", 0u, 0u);
    }
}

static const cut_variant variants[] = {
    {CUT_KEEPS_ALL, 0u, false, 0u},   {CUT_KEEPS_ALL, 1u, false, 0u},
    {CUT_KEEPS_ALL, 100u, false, 0u}, {CUT_KEEPS_ALL, 511u, false, 0u},
    {CUT_KEEPS_ALL, 256u, true, 0u},  {CUT_KEEPS_NONE, 512u, false, 0u},
    {CUT_KEEPS_NONE, 0u, true, 0u},   {CUT_KEEPS_SOME, 300u, false, 1u},
    {CUT_KEEPS_SOME, 512u, false, 2u}, {CUT_KEEPS_SOME, 0u, false, 3u},
};
#define VARIANTS (sizeof variants / sizeof variants[0])

static void cut_at(uint32_t n, uint32_t variant)
{
    card_fault.cut_at = n;
    card_fault.variant = variants[variant];
}

/* What a cut has left: a header that is whole stands for data that is whole. By the layout of
 * SPEC.md, without the code under test. */
static void check_headers(uint32_t n, uint32_t variant)
{
    for (uint32_t slot = 0u; slot < 2u; slot++) {
        const uint32_t first = slot_header(slot);
        const uint8_t *header = card_bytes(first);
        uint32_t crc = poet_link_get_u32(&header[76]);
        if (!header_is_whole(header)) {
            continue;
        }
        for (uint32_t block = 1u; block <= poet_link_get_u32(&header[80]); block++) {
            crc = poet_crc32(crc, card_bytes(first + block), POET_BLOCK_BYTES);
        }
        if (crc != poet_link_get_u32(&header[108])) {
            fail("a cut has left a header without its data", n, variant);
        }
    }
}

/* One cut, and where there is a second: while the resumed training is under way. */
static void cut_once(uint32_t n, uint32_t variant, uint32_t second)
{
    uint32_t acknowledged = 0u;
    card_bring_back();
    cut_at(n, variant);
    session_boot();
    if (!card_is_off) {
        plan_now();
        (void)train_on(0u, &acknowledged);
    }
    if (!card_is_off) {
        fail("no cut", n, variant);
    }
    card_power_on();
    check_headers(n, variant);
    if (second != CACHE_NEVER) {
        cut_at(second, (variant + 3u) % VARIANTS);
        session_boot();
        uint32_t step = 0u;
        if (!card_is_off && session_restore(&step).status == POET_OK && !card_is_off) {
            plan_now();
            (void)train_on(step, &acknowledged);
        }
        card_power_on();
    }
    session_boot();
    finish(resume(acknowledged));
}

static void scenario_power(void)
{
    const uint32_t writes = card_block_writes;
    uint32_t cuts = 0u;
    uint32_t random = 12345u;
    for (uint32_t n = 0u; n < writes; n++) {
        for (uint32_t variant = 0u; variant < VARIANTS; variant++) {
            cut_once(n, variant, CACHE_NEVER);
            cuts++;
        }
        random = random * 1664525u + 1013904223u;
        cut_once(n, n % VARIANTS, (random >> 8) % writes);
        cuts++;
    }
    printf("writes=%u\ncuts=%u\ntorn=%u\n", writes, cuts, told_as_torn);
}

/* A card is prepared, power fails, and it is prepared again. */
static void scenario_format(void)
{
    card_blank();
    session_boot();
    const reply first = session_format();
    must(&first, "format");
    const uint32_t writes = card_block_writes;
    for (uint32_t n = 0u; n < writes; n++) {
        for (uint32_t variant = 0u; variant < VARIANTS; variant++) {
            card_blank();
            cut_at(n, variant);
            session_boot();
            if (session_format().status == POET_OK) {
                fail("format without power", n, variant);
            }
            card_power_on();
            session_boot();
            uint32_t step = 0u;
            const poet_status found = session_restore(&step).status;
            if (found != POET_E_CARD_IMAGE && found != POET_E_CHECKPOINT) {
                fail("half a format", n, variant);
            }
            const reply again = session_format();
            must(&again, "format again");
        }
    }
    plan_now();
    finish(0u);
    printf("writes=%u\ncuts=%u\n", writes, writes * (uint32_t)VARIANTS);
}

static struct {
    uint32_t points, told, retried, spoiled, whole;
} io;

/* After an error the weights are those of a whole step, or nobody can read them. */
static void check_told(const reply *got)
{
    poet_status card = POET_OK;
    bool failed = false;
    uint32_t nbytes = 0u;
    const uint32_t done = session_steps(&card, &failed);
    if (!failed) {
        io.whole++;
        /* With the homes on a card that does not answer, reading may fail, but never be wrong. */
        if (session_weights(seen, &nbytes) == POET_OK &&
            memcmp(seen, expected[done], weight_bytes) != 0) {
            fail("weights of no step", done, (uint32_t)-(int32_t)got->status);
        }
        return;
    }
    io.spoiled++;
    if (session_weights(seen, &nbytes) != POET_E_STATE ||
        session_train(done).status != POET_E_STATE ||
        session_ask(POET_MSG_CHECKPOINT, NULL, 0u).status != POET_E_STATE) {
        fail("half a step was given out", done, 0u);
    }
}

/* What went wrong was told with the weights, if not before. */
static bool told_with_weights(void)
{
    uint32_t nbytes = 0u;
    return session_weights(seen, &nbytes) != POET_OK;
}

static void fail_once(uint32_t n, bool forever, bool flip)
{
    uint32_t acknowledged = 0u;
    poet_status card = POET_OK;
    bool failed = false;
    io.points++;
    card_bring_back();
    card_fault.fail_at = n;
    card_fault.fail_forever = forever;
    card_fault.flip = flip;
    session_boot();
    const uint32_t begun = session_steps(&card, &failed);
    reply got = {.status = card};
    if (card == POET_OK && begun == 0u) {
        plan_now();
        got = train_on(0u, &acknowledged);
    }
    if (card_failures == 0u) {
        fail("no failure", n, forever);
    }
    if (got.status == POET_OK && weights_are(steps) && !forever) {
        io.retried++;
        return;
    }
    if (got.status == POET_OK && (!flip || !told_with_weights())) {
        fail("silent", n, forever);
    }
    io.told++;
    check_told(&got);
    card_calm();
    uint32_t step = 0u;
    got = session_restore(&step);
    if (got.status == POET_E_CHECKPOINT && acknowledged == 0u) {
        got = session_ask(POET_MSG_RESET_MODEL, NULL, 0u);
    }
    must(&got, "restore");
    if (step < acknowledged || !weights_are(step)) {
        fail("restored to something else", step, acknowledged);
    }
    plan_now();
    finish(step);
}

static void scenario_io(void)
{
    card_bring_back();
    session_boot();
    plan_now();
    uint32_t acknowledged = 0u;
    (void)train_on(0u, &acknowledged);
    const uint32_t count = card_operations;
    for (uint32_t n = 0u; n < count; n++) {
        fail_once(n, false, false);
        fail_once(n, true, false);
        fail_once(n, false, true);
    }
    printf("operations=%u\npoints=%u\ntold=%u\nretried=%u\nspoiled=%u\nwhole=%u\n", count,
           io.points, io.told, io.retried, io.spoiled, io.whole);
}

/* Every operation of a restore fails, once and for ever. */
static void scenario_restore(void)
{
    uint32_t step = 0u;
    card_keep(); /* of the reference, after its last checkpoint */
    card_bring_back();
    session_boot();
    const uint32_t before = card_operations;
    reply got = session_restore(&step);
    must(&got, "restore");
    const uint32_t count = card_operations;
    const uint32_t newest = step;
    const reply again = session_ask_again(POET_MSG_RESTORE, NULL, 0u);
    if (card_operations != count || again.nbytes != got.nbytes ||
        memcmp(again.payload, got.payload, got.nbytes) != 0) {
        fail("a copy of the request was served", card_operations, count);
    }
    uint32_t told = 0u;
    uint32_t retried = 0u;
    for (uint32_t n = before; n < count; n++) {
        for (uint32_t way = 0u; way < 3u; way++) { /* once, for ever, a bit turned */
            card_bring_back();
            card_fault.fail_at = n;
            card_fault.fail_forever = way == 1u;
            card_fault.flip = way == 2u;
            session_boot();
            step = 0u;
            got = session_restore(&step);
            /* A bit turned on its way to a page is told by the page's checksum, when it is read. */
            if (got.status == POET_OK &&
                (step != newest || way == 1u ||
                 (!weights_are(step) && (way != 2u || !told_with_weights())))) {
                fail("restored something else", n, way);
            }
            if (got.status != POET_OK) {
                check_told(&got);
            }
            told += got.status != POET_OK ? 1u : 0u;
            retried += got.status == POET_OK ? 1u : 0u;
            card_calm();
            got = session_restore(&step);
            must(&got, "restore again");
            if (step != newest || !weights_are(newest)) {
                fail("restored something else again", n, way);
            }
        }
    }
    printf("points=%u\ntold=%u\nretried=%u\nstep=%u\n", 3u * (count - before), told, retried,
           newest);
}

/* One bit of the newest checkpoint's slot rots: the older one comes back, and says so. */
static void scenario_rot(void)
{
    const poet_page_config *config = poet_the_model.pages;
    uint32_t step = 0u;
    uint32_t older = 0u;
    uint32_t damaged = 0u;
    card_keep();
    for (uint32_t slot = 0u; slot < 2u; slot++) {
        /* Every byte of the header, some of the data. */
        for (uint32_t at = 0u; at < config->slot_blocks * POET_BLOCK_BYTES;
             at += at < HEADER_BYTES ? 1u : 37u) {
            card_bring_back();
            const uint32_t block = config->region_block + config->slot_block +
                                   slot * config->slot_blocks + at / POET_BLOCK_BYTES;
            card_bytes(block)[at % POET_BLOCK_BYTES] ^= (uint8_t)(1u << (at % 8u));
            session_boot();
            const reply got = session_restore(&step);
            must(&got, "restore");
            if (!weights_are(step) || (step != steps && step != steps - every)) {
                fail("rotten weights", slot, at);
            }
            older += step == steps ? 0u : 1u;
            damaged += got.payload[8];
        }
    }
    printf("older=%u\ndamaged=%u\n", older, damaged);
}

static void scenario_cards(void)
{
    uint32_t step = 0u;
    card_bring_back();
    card_fault.write_protected = true;
    session_boot();
    poet_status card = POET_OK;
    bool failed = false;
    (void)session_steps(&card, &failed);
    printf("protected=%s\n", poet_status_text(card != POET_OK ? card : session_ask(
                                 POET_MSG_CHECKPOINT, NULL, 0u).status));
    const poet_page_config *config = poet_the_model.pages;
    const uint32_t end = config->region_block + config->region_blocks;
    uint32_t found = 0u;
    /* Capacities that make blocks of the region share a place. */
    for (uint32_t real = 1u; real < config->region_blocks; real++) {
        card_blank();
        card_fault.real_blocks = real;
        session_boot();
        found += session_format().status == POET_E_CARD_SMALL ? 1u : 0u;
    }
    printf("wrapped=%u\nfound=%u\n", config->region_blocks - 1u, found);
    card_blank();
    card_fault.real_blocks = end;
    session_boot();
    printf("exact=%s\n", poet_status_text(session_format().status));
    printf("none=%s\n", poet_status_text(session_restore(&step).status));
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 2;
    }
    steps = (uint32_t)atoi(argv[2]);
    every = (uint32_t)atoi(argv[3]);
    if (steps > MOST_STEPS || every == 0u) {
        return 2;
    }
    reference();
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
        {"power", scenario_power}, {"format", scenario_format},   {"io", scenario_io},
        {"rot", scenario_rot},     {"restore", scenario_restore}, {"cards", scenario_cards},
    };
    for (uint32_t i = 0u; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    return 2;
}
