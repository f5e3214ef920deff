#include "host_session.h"

#include <stdlib.h>
#include <string.h>

#include "poet/crc.h"
#include "poet/link.h"
#include "poet/port.h"
#include "poet/trainer.h"

#define LINE_BYTES 4096u

static uint8_t to_board[LINE_BYTES], to_host[LINE_BYTES];
static uint32_t board_fill, board_next, host_fill;
static bool host_speaks;
static poet_link host_link;
static uint16_t sequence;

/* ---- the port of the board ---- */

void poet_port_init(void)
{
}

uint32_t poet_port_micros(void)
{
    return 0u;
}

uint64_t poet_port_cycles(void)
{
    return 0u;
}

uint32_t poet_port_cycle_hz(void)
{
    return 1u;
}

int poet_port_getc(void)
{
    return board_next < board_fill ? to_board[board_next++] : -1;
}

void poet_port_putc(uint8_t byte)
{
    uint32_t *const fill = host_speaks ? &board_fill : &host_fill;
    if (*fill == LINE_BYTES) {
        abort();
    }
    (host_speaks ? to_board : to_host)[(*fill)++] = byte;
}

void poet_port_flush(void)
{
}

const poet_bdev *poet_port_bdev(void)
{
    return session_device;
}

uint32_t poet_port_stack_free_bytes(void)
{
    return 0u;
}

uint32_t poet_port_stack_bytes(void)
{
    return 0u;
}

_Noreturn void poet_port_reset(void)
{
    abort();
}

/* ---- the host ---- */

void session_boot(void)
{
    memset(poet_the_model.arena, 0xC3, poet_the_model.arena_bytes);
    board_fill = 0u;
    board_next = 0u;
    poet_trainer_init(&poet_the_model);
}

static int32_t word(const uint8_t *bytes)
{
    return (int32_t)poet_link_get_u32(bytes);
}

static reply take(const poet_link_request *frame)
{
    reply got = {.status = POET_OK, .nbytes = frame->nbytes};
    memcpy(got.payload, frame->payload, frame->nbytes);
    if (frame->type == POET_MSG_ERROR) {
        got.status = (poet_status)word(got.payload);
        got.fault.step = poet_link_get_u32(&got.payload[4]);
        got.fault.action = poet_link_get_u32(&got.payload[8]);
        got.fault.block = poet_link_get_u32(&got.payload[12]);
        got.fault.status = word(&got.payload[16]);
    }
    return got;
}

reply session_ask(uint8_t type, const uint8_t *payload, uint32_t nbytes)
{
    poet_link_request frame;
    board_fill = 0u;
    board_next = 0u;
    host_fill = 0u;
    host_speaks = true;
    poet_link_init(&host_link);
    poet_link_begin(&host_link, type, ++sequence);
    poet_link_put(&host_link, payload, nbytes);
    poet_link_end(&host_link);
    host_speaks = false;
    while (board_next < board_fill) {
        poet_trainer_poll();
    }
    poet_link_init(&host_link);
    for (uint32_t i = 0u; i < host_fill; i++) {
        if (poet_link_receive(&host_link, to_host[i], &frame) && frame.sequence == sequence) {
            return take(&frame);
        }
    }
    abort(); /* the board always answers */
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (uint32_t i = 0u; i < 4u; i++) {
        bytes[i] = (uint8_t)(value >> (8u * i));
    }
}

static void fill_input(uint32_t index, uint32_t step)
{
    const poet_tensor *tensor = &poet_the_model.tensors[index];
    uint32_t random = step * 7919u + index * 31u + 1u;
    for (uint32_t at = 0u; at < tensor->nbytes; at += 4u) {
        uint8_t payload[12];
        random = random * 1664525u + 1013904223u;
        const float value = (float)(random >> 8) / 16777216.0f - 0.5f;
        const uint32_t label = (random >> 8) % 3u;
        put_u32(payload, index);
        put_u32(&payload[4], at);
        memcpy(&payload[8], tensor->dtype == POET_F32 ? (const void *)&value : &label, 4u);
        if (session_ask(POET_MSG_WRITE, payload, sizeof payload).status != POET_OK) {
            abort();
        }
    }
}

reply session_train(uint32_t step)
{
    uint8_t payload[12] = {0};
    const float lr = poet_the_model.default_lr;
    for (uint32_t i = 0u; i < poet_the_model.tensor_count; i++) {
        const uint8_t role = poet_the_model.tensors[i].role;
        if (role == POET_ROLE_INPUT || role == POET_ROLE_LABEL) {
            fill_input(i, step);
        }
    }
    put_u32(payload, step);
    memcpy(&payload[4], &lr, 4u);
    return session_ask(POET_MSG_TRAIN_STEP, payload, sizeof payload);
}

reply session_plan(uint32_t every)
{
    uint8_t payload[20] = {0};
    put_u32(payload, every);
    memcpy(&payload[4], "sixteen bytes ok", 16u);
    return session_ask(POET_MSG_CHECKPOINT_PLAN, payload, sizeof payload);
}

reply session_restore(uint32_t *step)
{
    const reply got = session_ask(POET_MSG_RESTORE, NULL, 0u);
    if (got.status == POET_OK) {
        *step = poet_link_get_u32(&got.payload[4]);
        if (memcmp(&got.payload[12], "sixteen bytes ok", 16u) != 0) {
            abort();
        }
    }
    return got;
}

reply session_format(void)
{
    return session_ask(POET_MSG_FORMAT_CARD, poet_the_model.build_id, 16u);
}

uint32_t session_steps(poet_status *card, bool *failed)
{
    const reply got = session_ask(POET_MSG_IDENTIFY, NULL, 0u);
    *card = (poet_status)word(&got.payload[68]);
    *failed = (poet_link_get_u32(&got.payload[92]) & POET_STATE_FAILED) != 0u;
    return poet_link_get_u32(&got.payload[64]);
}

/* As the host tool does: a READ of what lives on the card is not checked by the board. */
static poet_status check_crc(uint32_t index, const uint8_t *bytes)
{
    uint8_t payload[4];
    put_u32(payload, index);
    const reply got = session_ask(POET_MSG_TENSOR_CRC, payload, sizeof payload);
    POET_TRY(got.status);
    const uint32_t crc = poet_crc32(0u, bytes, poet_the_model.tensors[index].nbytes);
    return poet_link_get_u32(got.payload) == crc ? POET_OK : POET_E_PAGE_CRC;
}

static poet_status read_tensor(uint32_t index, uint8_t *bytes)
{
    const uint32_t nbytes = poet_the_model.tensors[index].nbytes;
    for (uint32_t at = 0u; at < nbytes; at += 512u) {
        uint8_t payload[12];
        const uint32_t part = nbytes - at < 512u ? nbytes - at : 512u;
        put_u32(payload, index);
        put_u32(&payload[4], at);
        put_u32(&payload[8], part);
        const reply got = session_ask(POET_MSG_READ, payload, sizeof payload);
        POET_TRY(got.status);
        memcpy(&bytes[at], got.payload, part);
    }
    return check_crc(index, bytes);
}

poet_status session_weights(uint8_t *bytes, uint32_t *nbytes)
{
    *nbytes = 0u;
    for (uint32_t i = 0u; i < poet_the_model.tensor_count; i++) {
        const poet_tensor *tensor = &poet_the_model.tensors[i];
        if (tensor->role == POET_ROLE_PARAMETER || tensor->role == POET_ROLE_STATE) {
            if (*nbytes + tensor->nbytes > SESSION_BYTES) {
                abort();
            }
            POET_TRY(read_tensor(i, &bytes[*nbytes]));
            *nbytes += tensor->nbytes;
        }
    }
    return POET_OK;
}
