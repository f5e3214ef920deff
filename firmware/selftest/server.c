/* Requests in, answers out, as the trainer does it. SPEC.md, section 4, has the bytes. */
#include "server.h"

#include <stdbool.h>
#include <string.h>

#include "../train/reply.h"
#include "poet/crc.h"
#include "poet/model.h"
#include "poet/port.h"
#include "selftest.h"

#define POLL_BYTES (2u * POET_LINK_FRAME_BYTES)
#define TITLE_BYTES 160u
#define CARD_ORDER_BYTES 24u
#define CASE_ORDER_BYTES 12u
#define ANSWER_BYTES 48u

static struct {
    poet_reply reply;
    int32_t outcome; /* of the last request that was not IDENTIFY or REBOOT */
    uint32_t fill;
    uint8_t answer[ANSWER_BYTES];
} server;

static void put_u32(uint32_t value)
{
    for (uint32_t i = 0u; i < 4u && server.fill < ANSWER_BYTES; i++) {
        server.answer[server.fill] = (uint8_t)(value >> (8u * i));
        server.fill++;
    }
}

static void put_u64(uint64_t value)
{
    put_u32((uint32_t)value);
    put_u32((uint32_t)(value >> 32));
}

uint8_t *poet_case_work;

uint32_t poet_selftest_part(uint32_t number, uint8_t **base)
{
    *base = poet_the_selftest.arena;
    if (number == 0u) {
        return poet_the_selftest.arena_bytes;
    }
    if (number > poet_the_selftest.part_count) {
        return 0u;
    }
    const poet_ram_part *const part = &poet_the_selftest.parts[number - 1u];
    uintptr_t first = part->origin;
    uintptr_t end = first + part->nbytes;
    if (part->in_arena != 0u) {
        const uintptr_t arena = (uintptr_t)poet_the_selftest.arena;
        const uintptr_t arena_end = arena + poet_the_selftest.arena_bytes;
        first = first > arena ? first : arena;
        end = end < arena_end ? end : arena_end;
    }
    *base = (uint8_t *)first;
    return end > first ? (uint32_t)(end - first) : 0u;
}

/* The arena, then all RAM beside it; of bad words the first is kept. */
static poet_status on_memory(const uint8_t *payload)
{
    (void)payload;
    uint32_t tested = 0u;
    poet_memory_result all = {0u, 0u, 0u, 0u};
    for (uint32_t number = 0u; number <= poet_the_selftest.part_count; number++) {
        if (number > 0u && poet_the_selftest.parts[number - 1u].in_arena != 0u) {
            continue;
        }
        poet_memory_result result;
        uint8_t *base;
        const uint32_t words = poet_selftest_part(number, &base) / 4u;
        poet_selftest_memory((void *)base, words, &result);
        tested += words * 4u;
        result.bad_words += all.bad_words;
        all = all.bad_words == 0u ? result : all;
        all.bad_words = result.bad_words;
    }
    put_u32(tested);
    put_u32(all.bad_words);
    put_u32(all.first_bad);
    put_u32(all.expected);
    put_u32(all.got);
    return POET_OK;
}

static poet_status on_case(const uint8_t *payload)
{
    const uint32_t number = poet_link_get_u32(payload);
    const uint32_t repeats = poet_link_get_u32(&payload[4]);
    const uint32_t room = poet_selftest_part(poet_link_get_u32(&payload[8]), &poet_case_work);
    if (number >= poet_the_selftest.case_count ||
        poet_the_selftest.cases[number].nbytes > room) {
        return POET_E_ARG;
    }
    const poet_case *c = &poet_the_selftest.cases[number];
    poet_case_fill(c, poet_case_work);
    c->fast();
    const uint32_t crc = poet_crc32(0u, poet_case_work, c->nbytes);
    poet_case_fill(c, poet_case_work);
    const uint64_t start = poet_port_cycles();
    for (uint32_t i = 0u; i < repeats; i++) {
        c->fast();
    }
    put_u64(poet_port_cycles() - start);
    put_u32(crc);
    return POET_OK;
}

static poet_status on_card_open(const uint8_t *payload)
{
    (void)payload;
    const poet_bdev *card = poet_port_bdev();
    POET_TRY(card->ops->open(card->state));
    put_u32(card->ops->block_count(card->state));
    return POET_OK;
}

static poet_status on_card(const uint8_t *payload)
{
    const poet_card_order order = {
        .block = poet_link_get_u32(payload),
        .nbytes = poet_link_get_u32(&payload[4]),
        .offset = poet_link_get_u32(&payload[8]),
        .seed = poet_link_get_u32(&payload[12]),
        .flags = poet_link_get_u32(&payload[16]),
        .transfers = poet_link_get_u32(&payload[20]),
    };
    poet_card_result result;
    POET_TRY(poet_selftest_card(&order, &result));
    put_u64(result.write_cycles);
    put_u64(result.write_worst);
    put_u64(result.read_cycles);
    put_u64(result.read_worst);
    put_u32(result.bad_bytes);
    put_u32(result.first_bad);
    put_u32(result.guard_bytes);
    return POET_OK;
}

static void put_title(const char *text)
{
    const uint32_t length = poet_reply_length(text, TITLE_BYTES);
    poet_link_put_u8(&server.reply.link, (uint8_t)length);
    poet_link_put(&server.reply.link, text, length);
}

/* The trainer's layout, so that the host asks any firmware of ours the same question. */
static void identify(void)
{
    static const uint8_t no_model[32];
    poet_link *const link = &server.reply.link;
    poet_reply_begin(&server.reply);
    poet_link_put_u32(link, POET_LINK_VERSION);
    poet_link_put_u32(link, POET_ABI_VERSION);
    poet_link_put(link, poet_the_selftest.build_id, sizeof(poet_the_selftest.build_id));
    poet_link_put(link, no_model, sizeof(no_model));
    poet_link_put_u32(link, poet_the_selftest.arena_bytes);
    for (uint32_t i = 0u; i < 4u; i++) {
        poet_link_put_u32(link, 0u); /* no tensors, steps, card status, learning rate */
    }
    poet_link_put_u32(link, poet_the_selftest.case_count);
    poet_link_put_u32(link, 0u);
    poet_link_put_u32(link, 0u);
    poet_link_put_u32(link, poet_port_cycle_hz());
    poet_link_put_u32(link, 0u);
    put_title("self-test");
    put_title(poet_the_selftest.board);
    poet_link_end(link);
}

static void send_outcome(void)
{
    if (server.outcome != (int32_t)POET_OK) {
        const poet_fault fault = {.step = 0u,
                                  .action = POET_NO_ACTION,
                                  .block = POET_NO_BLOCK,
                                  .status = server.outcome};
        poet_reply_error(&server.reply, (poet_status)server.outcome, &fault);
        return;
    }
    poet_reply_begin(&server.reply);
    poet_link_put(&server.reply.link, server.answer, server.fill);
    poet_link_end(&server.reply.link);
}

static poet_status serve(const poet_link_request *request)
{
    if (request->version == POET_LINK_VERSION) {
        if (request->type == (uint8_t)POET_MSG_TEST_MEMORY && request->nbytes == 0u) {
            return on_memory(request->payload);
        }
        if (request->type == (uint8_t)POET_MSG_TEST_CASE && request->nbytes == CASE_ORDER_BYTES) {
            return on_case(request->payload);
        }
        if (request->type == (uint8_t)POET_MSG_TEST_CARD_OPEN && request->nbytes == 0u) {
            return on_card_open(request->payload);
        }
        if (request->type == (uint8_t)POET_MSG_TEST_CARD && request->nbytes == CARD_ORDER_BYTES) {
            return on_card(request->payload);
        }
    }
    return POET_E_PROTOCOL;
}

static void handle(const poet_link_request *request)
{
    if ((request->type & POET_MSG_ANSWER) != 0u) {
        return; /* our own bytes, echoed by the line */
    }
    const bool repeated = request->type == server.reply.type &&
                          request->sequence == server.reply.sequence;
    server.reply.sequence = request->sequence;
    server.reply.type = request->type;
    if (request->type == (uint8_t)POET_MSG_IDENTIFY) {
        identify();
    } else if (request->type == (uint8_t)POET_MSG_REBOOT) {
        poet_reply_done(&server.reply);
        poet_port_reset();
    } else {
        /* Copies of what takes long wait in the line, and get the outcome of the first. */
        if (!repeated) {
            server.fill = 0u;
            server.outcome = (int32_t)serve(request);
        }
        send_outcome();
    }
}

void poet_selftest_init(void)
{
    memset(&server, 0, sizeof(server));
    poet_link_init(&server.reply.link);
}

void poet_selftest_poll(void)
{
    for (uint32_t i = 0u; i < POLL_BYTES; i++) {
        poet_link_request request;
        const int byte = poet_port_getc();
        if (byte < 0) {
            return;
        }
        if (poet_link_receive(&server.reply.link, (uint8_t)byte, &request)) {
            handle(&request);
            return;
        }
    }
}
