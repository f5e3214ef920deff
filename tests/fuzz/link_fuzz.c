/* Fuzz target: bytes from the line into the whole trainer, over a card that fails and rots.
 *
 * The input is a list of records: raw bytes, frames with a right checksum (or with one byte turned
 * afterwards), faults of the card, bytes that change on the card, power cycles. What must hold,
 * beside memory: every frame sent is well-formed; a good request gets exactly one answer, with its
 * own sequence number; a spoiled model gives away neither parameters nor states.
 */
#include <setjmp.h>

#include "input.h"
#include "line.h"
#include "link_model.h"
#include "must.h"
#include "poet/link.h"
#include "poet/port.h"
#include "poet/trainer.h"

#define MOST_RECORDS 64u

static fuzz_card card;
static const poet_bdev device = {.ops = &fuzz_card_ops, .state = &card};
static jmp_buf power_cycle;
static uint32_t now_us;
static bool spoiled; /* a step has failed, and nothing has made it good */

/// The port

void poet_port_init(void)
{
}

uint32_t poet_port_micros(void)
{
    now_us += 300000u; /* progress reports come now and then */
    return now_us;
}

uint64_t poet_port_cycles(void)
{
    return now_us;
}

uint32_t poet_port_cycle_hz(void)
{
    return 1u;
}

int poet_port_getc(void)
{
    return fuzz_line_next();
}

void poet_port_putc(uint8_t byte)
{
    fuzz_line_put(byte);
}

void poet_port_flush(void)
{
}

const poet_bdev *poet_port_bdev(void)
{
    return &device;
}

uint32_t poet_port_stack_free_bytes(void)
{
    return 1000u;
}

uint32_t poet_port_stack_bytes(void)
{
    return 2000u;
}

_Noreturn void poet_port_reset(void)
{
    longjmp(power_cycle, 1);
}

/// Driving it

static void boot(void)
{
    spoiled = false;
    card.under_way = false;
    card.open = false;
    fuzz_model_power_on();
    poet_trainer_init(&fuzz_model);
}

/* Everything on the line is taken. A REBOOT among it ends in a power cycle. */
static void serve(void)
{
    if (setjmp(power_cycle) != 0) {
        boot();
    }
    while (fuzz_line_waiting()) {
        poet_trainer_poll();
    }
}

static bool keeps(uint32_t tensor)
{
    return tensor < FUZZ_TENSORS && (fuzz_model.tensors[tensor].role == POET_ROLE_PARAMETER ||
                                     fuzz_model.tensors[tensor].role == POET_ROLE_STATE);
}

/* What the answer to a request says of the model's state, and whether it may say it. */
static void follow(const fuzz_frame *request, const fuzz_frame *answer)
{
    const bool refused = answer->type == POET_MSG_ERROR;
    const uint8_t type = request->type;
    if (type == POET_MSG_TRAIN_STEP && refused) {
        const uint32_t action = poet_link_get_u32(&answer->payload[8]);
        spoiled = spoiled || action < fuzz_model.train_action_count;
    }
    if (!refused && (type == POET_MSG_RESTORE || type == POET_MSG_RESET_MODEL)) {
        spoiled = false;
    }
    if (spoiled && (type == POET_MSG_READ || type == POET_MSG_TENSOR_CRC) &&
        keeps(poet_link_get_u32(request->payload))) {
        must(refused);
    }
    if (spoiled && (type == POET_MSG_TRAIN_STEP || type == POET_MSG_EVALUATE ||
                    type == POET_MSG_CHECKPOINT)) {
        must(refused);
    }
}

/* A good request: exactly one answer, which is its own; none to an echo of our own bytes. */
static void ask(const fuzz_frame *request)
{
    fuzz_frame answer;
    fuzz_line_send(request, 0u);
    serve();
    const uint32_t answers = fuzz_line_answers(&answer);
    if ((request->type & POET_MSG_ANSWER) != 0u) {
        must(answers == 0u);
        return;
    }
    must(answers == 1u && answer.sequence == request->sequence);
    must(answer.type == POET_MSG_ERROR || answer.type == (request->type | POET_MSG_ANSWER));
    must(answer.type != POET_MSG_ERROR || answer.nbytes == 20u);
    follow(request, &answer);
}

/// Records

static void raw_bytes(fuzz_input *input)
{
    uint8_t bytes[255];
    const uint32_t count = fuzz_u8(input);
    fuzz_line_push(bytes, fuzz_take(input, bytes, count));
    serve();
    fuzz_frame answer;
    (void)fuzz_line_answers(&answer);
    spoiled = false; /* a frame among them may have made it good: nothing is known any more */
}

static void any_frame(fuzz_input *input, bool damaged)
{
    fuzz_frame frame;
    frame.version = (fuzz_u8(input) & 7u) == 7u ? 2u : POET_LINK_VERSION;
    frame.type = fuzz_u8(input);
    frame.sequence = fuzz_u8(input);
    frame.nbytes = fuzz_u16(input) % (POET_LINK_PAYLOAD_BYTES + 1u);
    frame.nbytes = fuzz_take(input, frame.payload, frame.nbytes);
    if (!damaged) {
        ask(&frame);
        return;
    }
    fuzz_line_send(&frame, 1u + fuzz_u16(input));
    serve();
    fuzz_frame answer;
    (void)fuzz_line_answers(&answer);
    spoiled = false;
}

/* Payload bytes of each request, by its type. */
static const uint8_t sizes[] = {0u, 0u, 4u, 12u, 8u, 4u, 12u, 4u, 0u, 0u, 16u, 0u, 20u, 0u, 0u};

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (uint32_t i = 0u; i < 4u; i++) {
        bytes[i] = (uint8_t)(value >> (8u * i));
    }
}

/* A request of the right size with likely numbers; a step is the next one. */
static void likely_frame(fuzz_input *input)
{
    fuzz_frame frame = {.version = POET_LINK_VERSION};
    frame.type = (uint8_t)(fuzz_u8(input) % sizeof(sizes));
    frame.sequence = fuzz_u8(input);
    frame.nbytes = sizes[frame.type];
    for (uint32_t at = 0u; at + 4u <= frame.nbytes; at += 4u) {
        put_u32(&frame.payload[at], fuzz_u16(input));
    }
    if (frame.type == POET_MSG_FORMAT_CARD) {
        memcpy(frame.payload, fuzz_model.build_id, sizeof(fuzz_model.build_id));
    } else if (frame.type == POET_MSG_TRAIN_STEP) {
        put_u32(frame.payload, fuzz_line_steps() + poet_link_get_u32(frame.payload) % 3u);
        put_u32(&frame.payload[8], poet_link_get_u32(&frame.payload[8]) & 1u);
    } else if (frame.type == POET_MSG_CHECKPOINT_PLAN) {
        put_u32(frame.payload, poet_link_get_u32(frame.payload) % 5u);
    } else if (frame.type != POET_MSG_EVALUATE && frame.nbytes != 0u) {
        put_u32(frame.payload, poet_link_get_u32(frame.payload) % (FUZZ_TENSORS + 1u));
    }
    if (frame.type == POET_MSG_WRITE) {
        frame.nbytes += fuzz_take(input, &frame.payload[8], fuzz_u8(input));
    }
    ask(&frame);
}

static void change_card(fuzz_input *input)
{
    const uint32_t block = FUZZ_REGION_BLOCK + fuzz_u8(input) % FUZZ_REGION_BLOCKS;
    const uint32_t at = fuzz_u16(input) % POET_BLOCK_BYTES;
    uint8_t *bytes = &card.memory[block][at];
    uint32_t count = fuzz_u8(input) % 16u;
    count = count < POET_BLOCK_BYTES - at ? count : POET_BLOCK_BYTES - at;
    (void)fuzz_take(input, bytes, count);
}

static void arm_fault(fuzz_input *input)
{
    card.fault = (fuzz_card_fault)(fuzz_u8(input) % FUZZ_CARD_FAULTS);
    card.countdown = fuzz_u8(input);
}

static void power(void)
{
    fuzz_line_clear();
    boot();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {.bytes = data, .left = size};
    memset(&card, 0, sizeof(card));
    card.block_count = FUZZ_CARD_BLOCKS;
    card.first_block = FUZZ_REGION_BLOCK;
    card.end_block = FUZZ_REGION_BLOCK + FUZZ_REGION_BLOCKS;
    now_us = 0u;
    power();
    for (uint32_t i = 0u; i < MOST_RECORDS && fuzz_more(&input); i++) {
        switch (fuzz_u8(&input) % 8u) {
        case 0u:
            raw_bytes(&input);
            break;
        case 1u:
            any_frame(&input, false);
            break;
        case 2u:
            any_frame(&input, true);
            break;
        case 3u:
            change_card(&input);
            break;
        case 4u:
            arm_fault(&input);
            break;
        case 5u:
            power();
            break;
        default:
            likely_frame(&input);
            break;
        }
    }
    return 0;
}
