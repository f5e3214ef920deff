/* Requests in, answers out. SPEC.md has the bytes of every message. */
#include "poet/trainer.h"

#include <stdbool.h>
#include <string.h>

#include "poet/port.h"
#include "session.h"
#include "step.h"
#include "tensors.h"

#define TITLE_BYTES 160u /* longest name of model or board in an answer; longer ones are cut */
#define BUILD_ID_BYTES 16u
/* Bytes taken per poll, so that endless noise cannot hold the caller. */
#define POLL_BYTES (2u * POET_LINK_FRAME_BYTES)

_Static_assert(sizeof(float) == 4u, "a float is sent as its 32 bits");
_Static_assert(POET_LINK_FRAME_BYTES >= POET_BLOCK_BYTES, "a frame holds a block of the card");
_Static_assert(100u + 2u * (1u + TITLE_BYTES) <= POET_LINK_PAYLOAD_BYTES, "IDENTIFY fits");

static poet_session session;

/* ---- model ---- */

static void reset_model(poet_session *self)
{
    poet_tensors_reset(self->model);
    self->steps_done = 0u;
    self->state &= ~POET_STATE_FAILED;
    self->fault.status = (int32_t)POET_OK;
    self->eval_known = false;
    self->saved = false;
    self->checkpoint_every = 0u;
    memset(self->position, 0, sizeof(self->position));
    poet_card_start(&self->card);
}

void poet_trainer_init(const poet_model *model)
{
    poet_session *const self = &session;
    memset(self, 0, sizeof(*self));
    self->model = model;
    poet_link_init(&self->reply.link);
    if (model->abi_version != POET_ABI_VERSION) {
        self->state = POET_STATE_WRONG_ABI;
        return;
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (model->tensors[i].role == POET_ROLE_LOSS) {
            self->loss = &model->tensors[i];
        }
    }
    /* A request has been read when it is served, so its frame is free to hold a block. */
    poet_card_init(&self->card, model, self->reply.link.frame);
    reset_model(self);
}

/* ---- answers ---- */

static poet_fault fault_outside(const poet_session *self, poet_status status)
{
    const poet_fault fault = {.step = self->steps_done,
                              .action = POET_NO_ACTION,
                              .block = POET_NO_BLOCK,
                              .status = (int32_t)status};
    return fault;
}

static void put_title(poet_session *self, const char *text)
{
    const uint32_t length = poet_reply_length(text, TITLE_BYTES);
    poet_link_put_u8(&self->reply.link, (uint8_t)length);
    poet_link_put(&self->reply.link, text, length);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* ---- steps ---- */

static poet_step_order order_of(poet_session *self, poet_step_function function, float lr,
                                bool trace)
{
    const poet_step_order order = {
        .function = function,
        .pages = &self->card.pages,
        .link = &self->reply.link,
        .sequence = self->reply.sequence,
        .trace = trace,
        .training = &self->model->training,
        .lr = lr,
        .step = self->steps_done,
    };
    return order;
}

/* Of the step just done: its loss, or what became of the checkpoint behind it. */
static void send_step_answer(poet_session *self)
{
    if (self->fault.status != (int32_t)POET_OK) {
        poet_reply_error(&self->reply, (poet_status)self->fault.status, &self->fault);
        return;
    }
    poet_reply_begin(&self->reply);
    poet_link_put_u32(&self->reply.link, self->loss_bits);
    poet_link_put_u64(&self->reply.link, self->step_cycles);
    poet_link_end(&self->reply.link);
}

static void train_step(poet_session *self, float lr, bool trace)
{
    poet_status status = poet_card_begin_step(&self->card);
    if (status != POET_OK) {
        poet_session_refuse(self, status); /* nothing ran: the model is as it was */
        return;
    }
    const poet_step_order order = order_of(self, self->model->train_step, lr, trace);
    uint64_t cycles = 0u;
    self->eval_known = false;
    self->saved = false;
    status = poet_step_run(&order, &cycles, &self->fault);
    if (status != POET_OK) {
        self->state |= POET_STATE_FAILED;
        poet_reply_error(&self->reply, status, &self->fault);
        return;
    }
    self->loss_bits = 0x7FC00000u; /* not a number, when the model has no loss */
    if (self->loss != NULL) {
        memcpy(&self->loss_bits, self->loss->data, sizeof(self->loss_bits));
    }
    self->step_cycles = cycles;
    self->steps_done++;
    if (self->checkpoint_every != 0u && self->steps_done % self->checkpoint_every == 0u) {
        self->fault = poet_session_save(self);
    }
    send_step_answer(self);
}

static void on_train_step(poet_session *self, const poet_link_request *request)
{
    const uint32_t step = poet_link_get_u32(request->payload);
    const uint32_t lr_bits = poet_link_get_u32(&request->payload[4]);
    const uint32_t flags = poet_link_get_u32(&request->payload[8]);
    float lr;
    memcpy(&lr, &lr_bits, sizeof(lr));
    if (poet_session_refused(self)) {
        return;
    }
    if ((flags & ~POET_TRAIN_TRACE) != 0u) {
        poet_session_refuse(self, POET_E_ARG);
        return;
    }
    if (self->steps_done != 0u && step == self->steps_done - 1u) {
        /* Asked again: the answer was lost, the step must not be repeated. */
        send_step_answer(self);
        return;
    }
    if (step != self->steps_done) {
        poet_session_refuse(self, POET_E_STATE);
        return;
    }
    train_step(self, lr, (flags & POET_TRAIN_TRACE) != 0u);
}

static void evaluate(poet_session *self)
{
    const poet_status status = poet_card_begin_step(&self->card);
    if (status != POET_OK) {
        self->eval_fault = fault_outside(self, status);
        return;
    }
    const poet_step_order order = order_of(self, self->model->eval_step, 0.0f, false);
    const poet_status ended = poet_step_run(&order, &self->eval_cycles, &self->eval_fault);
    (void)ended; /* eval_fault holds it */
}

static void on_evaluate(poet_session *self, const poet_link_request *request)
{
    if (poet_session_refused(self)) {
        return;
    }
    const uint32_t token = poet_link_get_u32(request->payload);
    if (!self->eval_known || token != self->eval_token) {
        /* The evaluation may write over its own input, so a repeated request gets the answer
         * that was lost, not a second evaluation. */
        evaluate(self);
        self->eval_token = token;
        self->eval_known = true;
    }
    if (self->eval_fault.status != (int32_t)POET_OK) {
        poet_reply_error(&self->reply, (poet_status)self->eval_fault.status, &self->eval_fault);
        return;
    }
    poet_reply_begin(&self->reply);
    poet_link_put_u64(&self->reply.link, self->eval_cycles);
    poet_link_end(&self->reply.link);
}

/* ---- board ---- */

static void on_identify(poet_session *self, const poet_link_request *request)
{
    (void)request;
    const bool known = (self->state & POET_STATE_WRONG_ABI) == 0u;
    const poet_model *model = self->model;
    poet_reply_begin(&self->reply);
    poet_link_put_u32(&self->reply.link, POET_LINK_VERSION);
    poet_link_put_u32(&self->reply.link, model->abi_version);
    poet_link_put(&self->reply.link, model->build_id, sizeof(model->build_id));
    poet_link_put(&self->reply.link, model->model_hash, sizeof(model->model_hash));
    poet_link_put_u32(&self->reply.link, known ? model->arena_bytes : 0u);
    poet_link_put_u32(&self->reply.link, known ? model->tensor_count : 0u);
    poet_link_put_u32(&self->reply.link, self->steps_done);
    poet_link_put_u32(&self->reply.link, (uint32_t)self->card.status);
    poet_link_put_u32(&self->reply.link, float_bits(known ? model->default_lr : 0.0f));
    poet_link_put_u32(&self->reply.link, known ? model->train_action_count : 0u);
    poet_link_put_u32(&self->reply.link, known ? model->eval_action_count : 0u);
    poet_link_put_u32(&self->reply.link,
                      known && poet_card_pages(&self->card) ? model->pages->page_count : 0u);
    poet_link_put_u32(&self->reply.link, poet_port_cycle_hz());
    poet_link_put_u32(&self->reply.link, self->state);
    put_title(self, known ? model->name : "");
    put_title(self, known ? model->board : "");
    poet_link_end(&self->reply.link);
}

static void on_counters(poet_session *self, const poet_link_request *request)
{
    const poet_page_counters *pages = &self->card.pages.counters;
    (void)request;
    poet_reply_begin(&self->reply);
    poet_link_put_u64(&self->reply.link, pages->read_bytes);
    poet_link_put_u64(&self->reply.link, pages->write_bytes);
    poet_link_put_u32(&self->reply.link, pages->reads);
    poet_link_put_u32(&self->reply.link, pages->writes);
    poet_link_put_u32(&self->reply.link, self->steps_done);
    poet_link_put_u32(&self->reply.link, self->reply.link.frames);
    poet_link_put_u32(&self->reply.link, self->reply.link.damaged_frames);
    poet_link_put_u32(&self->reply.link, poet_port_stack_bytes());
    poet_link_put_u32(&self->reply.link, poet_port_stack_free_bytes());
    poet_link_put_u64(&self->reply.link, self->step_cycles);
    poet_link_put_u32(&self->reply.link, poet_port_cycle_hz());
    poet_link_end(&self->reply.link);
}

static void on_reset_model(poet_session *self, const poet_link_request *request)
{
    (void)request;
    if (!self->repeated) {
        reset_model(self);
        self->state |= POET_STATE_BEGUN;
    }
    poet_reply_done(&self->reply);
}

static void on_format_card(poet_session *self, const poet_link_request *request)
{
    if (memcmp(request->payload, self->model->build_id, BUILD_ID_BYTES) != 0) {
        poet_session_refuse(self, POET_E_BUILD); /* meant for another build: leave the card alone */
        return;
    }
    if (!self->repeated) {
        self->saved = false;
        self->outcome = (int32_t)poet_card_format(&self->card);
    }
    poet_session_answer(self, (poet_status)self->outcome);
}

static void on_reboot(poet_session *self, const poet_link_request *request)
{
    (void)request;
    poet_reply_done(&self->reply);
    poet_port_reset();
}

/* ---- dispatch ---- */

typedef struct {
    void (*handle)(poet_session *self, const poet_link_request *request);
    uint16_t least_bytes; /* of the payload */
    uint16_t most_bytes;
} command;

static const command commands[] = {
    [POET_MSG_IDENTIFY] = {on_identify, 0u, 0u},
    [POET_MSG_TENSOR_INFO] = {poet_on_tensor_info, 4u, 4u},
    [POET_MSG_READ] = {poet_on_read, 12u, 12u},
    [POET_MSG_WRITE] = {poet_on_write, POET_WRITE_HEADER_BYTES, POET_LINK_PAYLOAD_BYTES},
    [POET_MSG_TENSOR_CRC] = {poet_on_tensor_crc, 4u, 4u},
    [POET_MSG_TRAIN_STEP] = {on_train_step, 12u, 12u},
    [POET_MSG_EVALUATE] = {on_evaluate, 4u, 4u},
    [POET_MSG_COUNTERS] = {on_counters, 0u, 0u},
    [POET_MSG_RESET_MODEL] = {on_reset_model, 0u, 0u},
    [POET_MSG_FORMAT_CARD] = {on_format_card, BUILD_ID_BYTES, BUILD_ID_BYTES},
    [POET_MSG_REBOOT] = {on_reboot, 0u, 0u},
    [POET_MSG_CHECKPOINT_PLAN] = {poet_on_checkpoint_plan, 4u + POET_POSITION_BYTES,
                                  4u + POET_POSITION_BYTES},
    [POET_MSG_CHECKPOINT] = {poet_on_checkpoint, 0u, 4u},
    [POET_MSG_RESTORE] = {poet_on_restore, 0u, 0u},
};

static void handle(poet_session *self, const poet_link_request *request)
{
    if ((request->type & POET_MSG_ANSWER) != 0u) {
        return; /* our own bytes, echoed by the line */
    }
    /* Copies of a request that takes long wait in the line: each would take as long again. */
    self->repeated =
        request->type == self->reply.type && request->sequence == self->reply.sequence;
    self->reply.sequence = request->sequence;
    self->reply.type = request->type;
    if (request->version != POET_LINK_VERSION ||
        request->type >= sizeof(commands) / sizeof(commands[0]) ||
        commands[request->type].handle == NULL ||
        request->nbytes < commands[request->type].least_bytes ||
        request->nbytes > commands[request->type].most_bytes) {
        poet_session_refuse(self, POET_E_PROTOCOL);
        return;
    }
    if ((self->state & POET_STATE_WRONG_ABI) != 0u && request->type != POET_MSG_IDENTIFY &&
        request->type != POET_MSG_REBOOT) {
        poet_session_refuse(self, POET_E_BUILD);
        return;
    }
    commands[request->type].handle(self, request);
}

void poet_trainer_poll(void)
{
    for (uint32_t i = 0; i < POLL_BYTES; i++) {
        poet_link_request request;
        const int byte = poet_port_getc();
        if (byte < 0) {
            return;
        }
        if (poet_link_receive(&session.reply.link, (uint8_t)byte, &request)) {
            handle(&session, &request);
            return;
        }
    }
}
