/* Requests in, answers out. SPEC.md has the bytes of every message. */
#include "poet/trainer.h"

#include <stdbool.h>
#include <string.h>

#include "poet/link.h"
#include "poet/port.h"
#include "step.h"
#include "tensors.h"

#define NAME_BYTES 400u  /* longest name in an answer; longer ones are cut */
#define TITLE_BYTES 160u /* the same for the names of model and board */
#define WRITE_HEADER_BYTES 8u
#define BUILD_ID_BYTES 16u
/* Bytes taken per poll, so that endless noise cannot hold the caller. */
#define POLL_BYTES (2u * POET_LINK_FRAME_BYTES)

_Static_assert(sizeof(float) == 4u, "a float is sent as its 32 bits");
_Static_assert(POET_LINK_FRAME_BYTES >= POET_BLOCK_BYTES, "a frame holds a block of the card");
_Static_assert(NAME_BYTES + 8u <= POET_LINK_PAYLOAD_BYTES, "TENSOR_INFO fits");
_Static_assert(100u + 2u * (1u + TITLE_BYTES) <= POET_LINK_PAYLOAD_BYTES, "IDENTIFY fits");

static struct {
    const poet_model *model;
    const poet_tensor *loss; /* NULL: the model has none */
    poet_link link;
    poet_page_store pages;
    uint64_t step_cycles; /* of the last step */
    uint64_t eval_cycles;
    uint32_t state; /* POET_STATE_* */
    uint32_t steps_done;
    uint32_t loss_bits;    /* answer to the last step */
    uint32_t eval_token;   /* of the last evaluation, when eval_known */
    poet_fault fault;      /* first failure of a step */
    poet_fault eval_fault; /* of the last evaluation; its status may be POET_OK */
    poet_status card_status;
    uint16_t sequence; /* of the request under way */
    uint8_t request_type;
    bool eval_known;
} self;

/* ---- model and card ---- */

static bool uses_card(void)
{
    return self.model->pages != NULL && self.model->pages->page_count != 0u;
}

/* Open the card and give the values that live there their start values. */
static poet_status open_card(void)
{
    POET_TRY(poet_page_open(&self.pages));
    return poet_tensors_fill(self.model, &self.pages);
}

static void reset_model(void)
{
    poet_tensors_reset(self.model);
    self.steps_done = 0u;
    self.state &= ~POET_STATE_FAILED;
    self.eval_known = false;
    if (uses_card()) {
        self.card_status = open_card(); /* clears what a failed step left */
    }
}

void poet_trainer_init(const poet_model *model)
{
    memset(&self, 0, sizeof(self));
    self.model = model;
    poet_link_init(&self.link);
    self.pages.fault_block = POET_NO_BLOCK;
    if (model->abi_version != POET_ABI_VERSION) {
        self.state = POET_STATE_WRONG_ABI;
        return;
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (model->tensors[i].role == POET_ROLE_LOSS) {
            self.loss = &model->tensors[i];
        }
    }
    if (uses_card()) {
        poet_page_init(&self.pages, model->pages, poet_port_bdev(), model->page_states);
    }
    reset_model();
}

/* ---- answers ---- */

static void begin_answer(void)
{
    poet_link_begin(&self.link, (uint8_t)(self.request_type | POET_MSG_ANSWER), self.sequence);
}

static void acknowledge(void)
{
    begin_answer();
    poet_link_end(&self.link);
}

static void send_error(poet_status status, const poet_fault *fault)
{
    poet_link_begin(&self.link, (uint8_t)POET_MSG_ERROR, self.sequence);
    poet_link_put_u32(&self.link, (uint32_t)status);
    poet_link_put_u32(&self.link, fault->step);
    poet_link_put_u32(&self.link, fault->action);
    poet_link_put_u32(&self.link, fault->block);
    poet_link_put_u32(&self.link, (uint32_t)fault->status);
    poet_link_end(&self.link);
}

static poet_fault fault_outside(poet_status status)
{
    const poet_fault fault = {.step = self.steps_done,
                              .action = POET_NO_ACTION,
                              .block = POET_NO_BLOCK,
                              .status = (int32_t)status};
    return fault;
}

/* The request was refused or failed outside of an action. */
static void refuse(poet_status status)
{
    const poet_fault fault = fault_outside(status);
    send_error(status, &fault);
}

static uint32_t text_length(const char *text, uint32_t limit)
{
    uint32_t length = 0;
    while (length < limit && text[length] != '\0') {
        length++;
    }
    return length;
}

static void put_title(const char *text)
{
    const uint32_t length = text_length(text, TITLE_BYTES);
    poet_link_put_u8(&self.link, (uint8_t)length);
    poet_link_put(&self.link, text, length);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* ---- steps ---- */

/* The card answers and all pages are free: may a straight line start? */
static poet_status prepare_card(void)
{
    if (!uses_card()) {
        return POET_OK;
    }
    POET_TRY(self.card_status);
    return poet_page_begin_step(&self.pages);
}

static poet_step_order order_of(poet_step_function function, float lr, bool trace)
{
    const poet_step_order order = {
        .function = function,
        .pages = &self.pages,
        .link = &self.link,
        .sequence = self.sequence,
        .trace = trace,
        .lr = lr,
        .step = self.steps_done,
    };
    return order;
}

static void send_step_answer(void)
{
    begin_answer();
    poet_link_put_u32(&self.link, self.loss_bits);
    poet_link_put_u64(&self.link, self.step_cycles);
    poet_link_end(&self.link);
}

static void on_train_step(const poet_link_request *request)
{
    const uint32_t step = poet_link_get_u32(request->payload);
    const uint32_t lr_bits = poet_link_get_u32(&request->payload[4]);
    const uint32_t flags = poet_link_get_u32(&request->payload[8]);
    float lr;
    memcpy(&lr, &lr_bits, sizeof(lr));
    if ((self.state & POET_STATE_FAILED) != 0u) {
        send_error(POET_E_STATE, &self.fault);
        return;
    }
    if ((flags & ~POET_TRAIN_TRACE) != 0u) {
        refuse(POET_E_ARG);
        return;
    }
    if (self.steps_done != 0u && step == self.steps_done - 1u) {
        send_step_answer(); /* asked again: the answer was lost, the step must not be repeated */
        return;
    }
    if (step != self.steps_done) {
        refuse(POET_E_STATE);
        return;
    }
    poet_status status = prepare_card();
    if (status != POET_OK) {
        refuse(status); /* nothing ran: the model is as it was */
        return;
    }
    const bool trace = (flags & POET_TRAIN_TRACE) != 0u;
    const poet_step_order order = order_of(self.model->train_step, lr, trace);
    uint64_t cycles = 0u;
    self.eval_known = false;
    status = poet_step_run(&order, &cycles, &self.fault);
    if (status != POET_OK) {
        self.state |= POET_STATE_FAILED;
        send_error(status, &self.fault);
        return;
    }
    self.loss_bits = 0x7FC00000u; /* not a number, when the model has no loss */
    if (self.loss != NULL) {
        memcpy(&self.loss_bits, self.loss->data, sizeof(self.loss_bits));
    }
    self.step_cycles = cycles;
    self.steps_done++;
    send_step_answer();
}

static void evaluate(void)
{
    const poet_status status = prepare_card();
    if (status != POET_OK) {
        self.eval_fault = fault_outside(status);
        return;
    }
    const poet_step_order order = order_of(self.model->eval_step, 0.0f, false);
    const poet_status ended = poet_step_run(&order, &self.eval_cycles, &self.eval_fault);
    (void)ended; /* eval_fault holds it */
}

static void on_evaluate(const poet_link_request *request)
{
    if ((self.state & POET_STATE_FAILED) != 0u) {
        send_error(POET_E_STATE, &self.fault);
        return;
    }
    const uint32_t token = poet_link_get_u32(request->payload);
    if (!self.eval_known || token != self.eval_token) {
        /* The evaluation may write over its own input, so a repeated request gets the answer
         * that was lost, not a second evaluation. */
        evaluate();
        self.eval_token = token;
        self.eval_known = true;
    }
    if (self.eval_fault.status != (int32_t)POET_OK) {
        send_error((poet_status)self.eval_fault.status, &self.eval_fault);
        return;
    }
    begin_answer();
    poet_link_put_u64(&self.link, self.eval_cycles);
    poet_link_end(&self.link);
}

/* ---- tensors ---- */

/* The tensor whose index leads the payload, or NULL. */
static const poet_tensor *tensor_of(const poet_link_request *request)
{
    const uint32_t index = poet_link_get_u32(request->payload);
    return index < self.model->tensor_count ? &self.model->tensors[index] : NULL;
}

static void on_tensor_info(const poet_link_request *request)
{
    const poet_tensor *tensor = tensor_of(request);
    if (tensor == NULL) {
        refuse(POET_E_ARG);
        return;
    }
    const uint32_t length = text_length(tensor->name, NAME_BYTES);
    begin_answer();
    poet_link_put_u32(&self.link, tensor->nbytes);
    poet_link_put_u8(&self.link, tensor->role);
    poet_link_put_u8(&self.link, tensor->dtype);
    poet_link_put_u16(&self.link, (uint16_t)length);
    poet_link_put(&self.link, tensor->name, length);
    poet_link_end(&self.link);
}

static void on_read(const poet_link_request *request)
{
    const poet_tensor *tensor = tensor_of(request);
    const uint32_t offset = poet_link_get_u32(&request->payload[4]);
    const uint32_t nbytes = poet_link_get_u32(&request->payload[8]);
    const uint8_t *bytes = NULL;
    poet_status status = POET_E_ARG;
    if (nbytes <= POET_LINK_PAYLOAD_BYTES) {
        /* The request has been read, so its frame is free to hold a block of the card. */
        status = poet_tensor_read(self.model, &self.pages, tensor, offset, nbytes, self.link.frame,
                                  &bytes);
    }
    if (status != POET_OK) {
        refuse(status);
        return;
    }
    begin_answer();
    poet_link_put(&self.link, bytes, nbytes);
    poet_link_end(&self.link);
}

static void on_write(const poet_link_request *request)
{
    const uint32_t offset = poet_link_get_u32(&request->payload[4]);
    const poet_status status =
        poet_tensor_write(tensor_of(request), offset, &request->payload[WRITE_HEADER_BYTES],
                          request->nbytes - WRITE_HEADER_BYTES);
    if (status != POET_OK) {
        refuse(status);
        return;
    }
    acknowledge();
}

static void on_tensor_crc(const poet_link_request *request)
{
    uint32_t crc = 0u;
    const poet_status status =
        poet_tensor_crc(self.model, &self.pages, tensor_of(request), self.link.frame, &crc);
    if (status != POET_OK) {
        refuse(status);
        return;
    }
    begin_answer();
    poet_link_put_u32(&self.link, crc);
    poet_link_end(&self.link);
}

/* ---- board ---- */

static void on_identify(const poet_link_request *request)
{
    (void)request;
    const bool known = (self.state & POET_STATE_WRONG_ABI) == 0u;
    const poet_model *model = self.model;
    begin_answer();
    poet_link_put_u32(&self.link, POET_LINK_VERSION);
    poet_link_put_u32(&self.link, model->abi_version);
    poet_link_put(&self.link, model->build_id, sizeof(model->build_id));
    poet_link_put(&self.link, model->model_hash, sizeof(model->model_hash));
    poet_link_put_u32(&self.link, known ? model->arena_bytes : 0u);
    poet_link_put_u32(&self.link, known ? model->tensor_count : 0u);
    poet_link_put_u32(&self.link, self.steps_done);
    poet_link_put_u32(&self.link, (uint32_t)self.card_status);
    poet_link_put_u32(&self.link, float_bits(known ? model->default_lr : 0.0f));
    poet_link_put_u32(&self.link, known ? model->train_action_count : 0u);
    poet_link_put_u32(&self.link, known ? model->eval_action_count : 0u);
    poet_link_put_u32(&self.link, known && uses_card() ? model->pages->page_count : 0u);
    poet_link_put_u32(&self.link, poet_port_cycle_hz());
    poet_link_put_u32(&self.link, self.state);
    put_title(known ? model->name : "");
    put_title(known ? model->board : "");
    poet_link_end(&self.link);
}

static void on_counters(const poet_link_request *request)
{
    const poet_page_counters *pages = &self.pages.counters;
    (void)request;
    begin_answer();
    poet_link_put_u64(&self.link, pages->read_bytes);
    poet_link_put_u64(&self.link, pages->write_bytes);
    poet_link_put_u32(&self.link, pages->reads);
    poet_link_put_u32(&self.link, pages->writes);
    poet_link_put_u32(&self.link, self.steps_done);
    poet_link_put_u32(&self.link, self.link.frames);
    poet_link_put_u32(&self.link, self.link.damaged_frames);
    poet_link_put_u32(&self.link, poet_port_stack_bytes());
    poet_link_put_u32(&self.link, poet_port_stack_free_bytes());
    poet_link_put_u64(&self.link, self.step_cycles);
    poet_link_put_u32(&self.link, poet_port_cycle_hz());
    poet_link_end(&self.link);
}

static void on_reset_model(const poet_link_request *request)
{
    (void)request;
    reset_model();
    acknowledge();
}

/* Open first: the card may have come after the start, and only an open device takes a header. */
static poet_status format_card(void)
{
    const poet_status opened = poet_page_open(&self.pages);
    if (opened != POET_OK && opened != POET_E_CARD_IMAGE) {
        return opened;
    }
    POET_TRY(poet_page_format(&self.pages));
    return open_card();
}

static void on_format_card(const poet_link_request *request)
{
    if (memcmp(request->payload, self.model->build_id, BUILD_ID_BYTES) != 0) {
        refuse(POET_E_BUILD); /* meant for another build: leave the card alone */
        return;
    }
    if (uses_card()) {
        self.card_status = format_card();
        if (self.card_status != POET_OK) {
            refuse(self.card_status);
            return;
        }
    }
    acknowledge();
}

static void on_reboot(const poet_link_request *request)
{
    (void)request;
    acknowledge();
    poet_port_reset();
}

/* ---- dispatch ---- */

typedef struct {
    void (*handle)(const poet_link_request *request);
    uint16_t least_bytes; /* of the payload */
    uint16_t most_bytes;
} command;

static const command commands[] = {
    [POET_MSG_IDENTIFY] = {on_identify, 0u, 0u},
    [POET_MSG_TENSOR_INFO] = {on_tensor_info, 4u, 4u},
    [POET_MSG_READ] = {on_read, 12u, 12u},
    [POET_MSG_WRITE] = {on_write, WRITE_HEADER_BYTES, POET_LINK_PAYLOAD_BYTES},
    [POET_MSG_TENSOR_CRC] = {on_tensor_crc, 4u, 4u},
    [POET_MSG_TRAIN_STEP] = {on_train_step, 12u, 12u},
    [POET_MSG_EVALUATE] = {on_evaluate, 4u, 4u},
    [POET_MSG_COUNTERS] = {on_counters, 0u, 0u},
    [POET_MSG_RESET_MODEL] = {on_reset_model, 0u, 0u},
    [POET_MSG_FORMAT_CARD] = {on_format_card, BUILD_ID_BYTES, BUILD_ID_BYTES},
    [POET_MSG_REBOOT] = {on_reboot, 0u, 0u},
};

static void handle(const poet_link_request *request)
{
    if ((request->type & POET_MSG_ANSWER) != 0u) {
        return; /* our own bytes, echoed by the line */
    }
    self.sequence = request->sequence;
    self.request_type = request->type;
    if (request->version != POET_LINK_VERSION ||
        request->type >= sizeof(commands) / sizeof(commands[0]) ||
        commands[request->type].handle == NULL ||
        request->nbytes < commands[request->type].least_bytes ||
        request->nbytes > commands[request->type].most_bytes) {
        refuse(POET_E_PROTOCOL);
        return;
    }
    if ((self.state & POET_STATE_WRONG_ABI) != 0u && request->type != POET_MSG_IDENTIFY &&
        request->type != POET_MSG_REBOOT) {
        refuse(POET_E_BUILD);
        return;
    }
    commands[request->type].handle(request);
}

void poet_trainer_poll(void)
{
    for (uint32_t i = 0; i < POLL_BYTES; i++) {
        poet_link_request request;
        const int byte = poet_port_getc();
        if (byte < 0) {
            return;
        }
        if (poet_link_receive(&self.link, (uint8_t)byte, &request)) {
            handle(&request);
            return;
        }
    }
}
