#include "line.h"

#include <string.h>

#include "must.h"
#include "poet/link.h"

#define QUEUE_BYTES 4096u
#define CONTENT_BYTES 520u

static struct {
    uint8_t to[QUEUE_BYTES]; /* the firmware */
    uint32_t to_fill, to_next;
    uint8_t encoded[2u * CONTENT_BYTES]; /* of the frame that comes */
    uint32_t encoded_fill;
    uint32_t answers, steps;
    fuzz_frame last;
} line;

void fuzz_line_clear(void)
{
    memset(&line, 0, sizeof(line));
}

void fuzz_line_push(const uint8_t *bytes, uint32_t nbytes)
{
    if (line.to_next == line.to_fill) {
        line.to_next = line.to_fill = 0u;
    }
    must(nbytes <= QUEUE_BYTES - line.to_fill);
    memcpy(&line.to[line.to_fill], bytes, nbytes);
    line.to_fill += nbytes;
}

bool fuzz_line_waiting(void)
{
    return line.to_next != line.to_fill;
}

int fuzz_line_next(void)
{
    return fuzz_line_waiting() ? line.to[line.to_next++] : -1;
}

/* CRC-32 bit by bit: not the code that is tested. */
static uint32_t checksum(const uint8_t *bytes, uint32_t nbytes)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0u; i < nbytes; i++) {
        crc ^= bytes[i];
        for (uint32_t bit = 0u; bit < 8u; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0u ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

static uint32_t get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8) | ((uint32_t)bytes[2] << 16) |
           ((uint32_t)bytes[3] << 24);
}

/* COBS: each zero becomes the distance to the next one. */
static uint32_t stuff(const uint8_t *content, uint32_t nbytes, uint8_t *target)
{
    uint32_t code_at = 0u;
    uint32_t fill = 1u;
    for (uint32_t i = 0u; i < nbytes; i++) {
        if (fill - code_at == 255u) {
            target[code_at] = 255u;
            code_at = fill++;
        }
        if (content[i] == 0u) {
            target[code_at] = (uint8_t)(fill - code_at);
            code_at = fill++;
        } else {
            target[fill++] = content[i];
        }
    }
    target[code_at] = (uint8_t)(fill - code_at);
    return fill;
}

void fuzz_line_send(const fuzz_frame *frame, uint32_t damage)
{
    static const uint8_t delimiter = 0u;
    uint8_t content[CONTENT_BYTES];
    uint8_t encoded[2u * CONTENT_BYTES];
    const uint32_t covered = 4u + frame->nbytes;
    content[0] = frame->version;
    content[1] = frame->type;
    content[2] = (uint8_t)frame->sequence;
    content[3] = (uint8_t)(frame->sequence >> 8);
    memcpy(&content[4], frame->payload, frame->nbytes);
    const uint32_t crc = checksum(content, covered);
    for (uint32_t i = 0u; i < 4u; i++) {
        content[covered + i] = (uint8_t)(crc >> (8u * i));
    }
    const uint32_t nbytes = stuff(content, covered + 4u, encoded);
    if (damage != 0u) {
        encoded[(damage - 1u) % nbytes] ^= (uint8_t)(1u << (damage % 8u));
    }
    fuzz_line_push(&delimiter, 1u);
    fuzz_line_push(encoded, nbytes);
    fuzz_line_push(&delimiter, 1u);
}

/* The content of what lies in line.encoded; its bytes. */
static uint32_t unstuff(uint8_t *content)
{
    uint32_t fill = 0u;
    uint32_t at = 0u;
    while (at < line.encoded_fill) {
        const uint32_t code = line.encoded[at++];
        must(code - 1u <= line.encoded_fill - at);
        for (uint32_t i = 1u; i < code; i++) {
            must(fill < CONTENT_BYTES);
            content[fill++] = line.encoded[at++];
        }
        if (code != 255u && at < line.encoded_fill) {
            must(fill < CONTENT_BYTES);
            content[fill++] = 0u;
        }
    }
    return fill;
}

static void count_steps(const fuzz_frame *frame)
{
    switch (frame->type & 0x7Fu) {
    case POET_MSG_TRAIN_STEP:
        line.steps++;
        break;
    case POET_MSG_IDENTIFY:
        line.steps = get_u32(&frame->payload[64]);
        break;
    case POET_MSG_RESTORE:
        line.steps = get_u32(&frame->payload[4]);
        break;
    case POET_MSG_RESET_MODEL:
    case POET_MSG_REBOOT:
        line.steps = 0u;
        break;
    default:
        break;
    }
}

static void take_frame(void)
{
    uint8_t content[CONTENT_BYTES];
    const uint32_t fill = unstuff(content);
    must(fill >= 8u);
    must(get_u32(&content[fill - 4u]) == checksum(content, fill - 4u));
    must(content[0] == POET_LINK_VERSION && content[1] >= POET_MSG_ANSWER);
    if (content[1] == POET_MSG_TRACE || content[1] == POET_MSG_PROGRESS) {
        return;
    }
    line.answers++;
    line.last.version = content[0];
    line.last.type = content[1];
    line.last.sequence = (uint16_t)(content[2] | ((uint32_t)content[3] << 8));
    line.last.nbytes = fill - 8u;
    memcpy(line.last.payload, &content[4], fill - 8u);
    if (content[1] != POET_MSG_ERROR) {
        count_steps(&line.last);
    }
}

void fuzz_line_put(uint8_t byte)
{
    if (byte != 0u) {
        must(line.encoded_fill < sizeof(line.encoded));
        line.encoded[line.encoded_fill++] = byte;
        return;
    }
    if (line.encoded_fill != 0u) {
        take_frame();
    }
    line.encoded_fill = 0u;
}

uint32_t fuzz_line_answers(fuzz_frame *last)
{
    const uint32_t answers = line.answers;
    must(line.encoded_fill == 0u); /* no frame is left half sent */
    *last = line.last;
    line.answers = 0u;
    return answers;
}

uint32_t fuzz_line_steps(void)
{
    return line.steps;
}
