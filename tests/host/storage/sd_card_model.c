#include "sd_card_model.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 512u
#define QUEUE_BYTES 2048u

typedef enum { STATE_IDLE, STATE_READY, STATE_READING, STATE_AWAIT_TOKEN, STATE_DATA } card_state;

static card_options opt;
static card_state state;
static bool crc_on, app, multiple, seen_if_cond, initialising;
static uint8_t queue[QUEUE_BYTES];
static uint32_t queue_head, queue_count;
static uint8_t frame[6];
static uint32_t frame_bytes;
static uint8_t data[BLOCK + 2u];
static uint32_t data_bytes, block, dummy_clocks, status_bits;
static uint64_t busy_until_ns, init_done_ns;
static bool past_end;

/* Bit by bit, from the polynomials. */
static uint32_t crc_bits(const uint8_t *bytes, uint32_t count, uint32_t width, uint32_t polynomial)
{
    uint32_t crc = 0u;
    for (uint32_t i = 0u; i < count * 8u; i++) {
        const uint32_t in = (uint32_t)(bytes[i / 8u] >> (7u - i % 8u)) & 1u;
        const uint32_t top = (crc >> (width - 1u)) & 1u;
        crc = (crc << 1) & ((1u << width) - 1u);
        if (top != in) {
            crc ^= polynomial;
        }
    }
    return crc;
}

static bool block_addressed(void)
{
    return opt.kind == CARD_SDHC || opt.kind == CARD_SDXC || opt.kind == CARD_SDUC;
}

static void push(uint8_t byte)
{
    if (queue_count == QUEUE_BYTES) {
        abort();
    }
    queue[(queue_head + queue_count) % QUEUE_BYTES] = byte;
    queue_count++;
}

static void start_interrupted(void)
{
    state = STATE_READY;
    crc_on = true;
    seen_if_cond = true;
    block = 7u;
    multiple = opt.start == CARD_IN_MULTI_READ || opt.start == CARD_IN_MULTI_WRITE ||
               opt.start == CARD_AWAITS_TOKEN;
    if (opt.start == CARD_IN_READ || opt.start == CARD_IN_MULTI_READ) {
        state = STATE_READING;
        for (uint32_t i = 0u; i < 300u; i++) {
            push((uint8_t)(i & 1u)); /* data that looks like responses */
        }
        if (!multiple) {
            state = STATE_READY;
        }
    } else if (opt.start == CARD_BUSY_WRITING) {
        busy_until_ns = card_seen.now_ns + 200000000u;
    } else if (opt.start == CARD_AWAITS_TOKEN) {
        state = STATE_AWAIT_TOKEN;
    } else {
        state = STATE_DATA;
        data_bytes = 100u;
    }
}

void card_insert(const card_options *options)
{
    opt = *options;
    state = STATE_IDLE;
    crc_on = app = multiple = seen_if_cond = initialising = past_end = false;
    queue_head = queue_count = frame_bytes = data_bytes = dummy_clocks = status_bits = 0u;
    busy_until_ns = init_done_ns = 0u;
    card_bus_reset(opt.remove_at);
    if (opt.start != CARD_OFF) {
        start_interrupted();
    }
}

void card_change(const card_options *options)
{
    opt = *options;
    card_bus_remove(opt.remove_at);
}

static void push_delay(void)
{
    for (uint32_t i = 0u; i < opt.response_delay; i++) {
        push(0xFFu);
    }
    for (uint32_t i = 0u; i < opt.garbage; i++) {
        push((uint8_t)(0x80u | (i * 37u + 0x41u)));
    }
}

static void push_r1(uint32_t bits)
{
    push_delay();
    push((uint8_t)(bits | (state == STATE_IDLE ? 1u : 0u)));
}

static void push_word(uint32_t word)
{
    for (uint32_t i = 0u; i < 4u; i++) {
        push((uint8_t)(word >> (24u - 8u * i)));
    }
}

static void push_data(const uint8_t *bytes, uint32_t count)
{
    uint32_t crc = crc_bits(bytes, count, 16u, 0x1021u);
    for (uint32_t i = 0u; i < opt.data_delay; i++) {
        push(0xFFu);
    }
    push(0xFEu);
    if (opt.damage_after != 0u) {
        opt.damage_after--;
    } else if (opt.damaged_blocks != 0u) {
        opt.damaged_blocks--;
        crc ^= 0x0100u;
    }
    for (uint32_t i = 0u; i < count; i++) {
        push(bytes[i]);
    }
    push((uint8_t)(crc >> 8));
    push((uint8_t)crc);
}

/* CSD fields by bit number, as 5.3 draws them. */
static void csd_field(uint8_t *csd, uint32_t high, uint32_t low, uint32_t value)
{
    for (uint32_t bit = low; bit <= high; bit++) {
        if (((value >> (bit - low)) & 1u) != 0u) {
            csd[15u - bit / 8u] |= (uint8_t)(1u << (bit % 8u));
        }
    }
}

static void push_csd(void)
{
    uint8_t csd[16] = {0u};
    csd_field(csd, 103u, 96u, 0x32u); /* TRAN_SPEED 25 MHz */
    if (opt.kind == CARD_SDUC) {
        csd_field(csd, 127u, 126u, 2u);
    } else if (block_addressed()) {
        csd_field(csd, 127u, 126u, 1u);
        csd_field(csd, 83u, 80u, 9u);
        csd_field(csd, 69u, 48u, opt.blocks / 1024u - 1u);
    } else {
        /* Sizes of these tests are a multiple of 2048 blocks: BLOCKNR = blocks / MULT. Above
         * 1 GiB READ_BL_LEN is 10, as 2 GB cards have it. */
        const uint32_t length = opt.blocks > 2097152u ? 10u : 9u;
        csd_field(csd, 83u, 80u, length);
        csd_field(csd, 73u, 62u, (opt.blocks >> (9u + length - 9u)) - 1u);
        csd_field(csd, 49u, 47u, 7u); /* MULT = 512 */
    }
    csd[15] = (uint8_t)((crc_bits(csd, 15u, 7u, 0x09u) << 1) | 1u);
    push_data(csd, sizeof csd);
}

static uint32_t address_bits(uint32_t argument, uint32_t *number)
{
    if (block_addressed()) {
        *number = argument;
    } else {
        if (argument % BLOCK != 0u) {
            return 0x20u;
        }
        *number = argument / BLOCK;
    }
    return *number < opt.blocks ? 0u : 0x40u;
}

static void go_ready_if_due(void)
{
    if (initialising && card_seen.now_ns >= init_done_ns) {
        state = STATE_READY;
        initialising = false;
    }
}

static void op_cond(uint32_t argument)
{
    const bool high_capacity_host = (argument & 0x40000000u) != 0u;
    const bool may_start = !block_addressed() || (high_capacity_host && seen_if_cond);
    if (may_start && !initialising && state == STATE_IDLE) {
        initialising = true;
        init_done_ns = card_seen.now_ns + (uint64_t)opt.init_us * 1000u;
        /* Even a quick card says "idle" once. */
        push_r1(0u);
        return;
    }
    go_ready_if_due();
    push_r1(0u);
}

static uint32_t ocr(void)
{
    uint32_t word = opt.low_voltage ? 0x00000080u : 0x00FF8000u;
    if (state != STATE_IDLE) {
        word |= 0x80000000u | (block_addressed() ? 0x40000000u : 0u);
    }
    return word;
}

static void app_command(uint32_t number, uint32_t argument)
{
    if (number == 41u) {
        op_cond(argument);
    } else if (number == 23u && state == STATE_READY) {
        card_seen.pre_erase = argument;
        push_r1(0u);
    } else {
        push_r1(4u);
    }
}

/* Counts down what is to happen so many times. */
static bool strikes(uint32_t *left)
{
    if (*left == 0u) {
        return false;
    }
    (*left)--;
    return true;
}

static void if_cond(uint32_t argument)
{
    const uint32_t echo = opt.refuses_voltage ? argument & 0xFFu : argument & 0xFFFu;
    seen_if_cond = true;
    push_r1(0u);
    push_word(strikes(&opt.misheard_echoes) ? echo ^ 0x10u : echo);
}

static void idle_command(uint32_t number, uint32_t argument)
{
    if (number == 8u && opt.kind != CARD_SDSC_V1 && opt.kind != CARD_MMC) {
        if_cond(argument);
    } else if (number == 58u) {
        push_r1(0u);
        push_word(ocr());
    } else if (number == 59u) {
        crc_on = (argument & 1u) != 0u;
        push_r1(0u);
    } else if (number == 55u && opt.kind != CARD_MMC) {
        app = true;
        push_r1(0u);
    } else {
        push_r1(4u);
    }
}

static void transfer_command(uint32_t number, uint32_t argument)
{
    const uint32_t bits = address_bits(argument, &block);
    push_r1(bits);
    if (bits != 0u) {
        return;
    }
    multiple = number == 18u || number == 25u;
    past_end = false;
    state = number < 20u ? STATE_READING : STATE_AWAIT_TOKEN;
}

static void ready_command(uint32_t number, uint32_t argument)
{
    switch (number) {
    case 9u:
        push_r1(0u);
        push_csd();
        break;
    case 13u:
        push_r1(0u);
        push((uint8_t)status_bits);
        status_bits = 0u;
        break;
    case 16u:
        push_r1(argument == BLOCK ? 0u : 0x40u);
        break;
    case 17u:
    case 18u:
    case 24u:
    case 25u:
        transfer_command(number, argument);
        break;
    default:
        idle_command(number, argument);
        break;
    }
}

static void stop_transmission(void)
{
    const bool was_active = state != STATE_READY && state != STATE_IDLE;
    queue_count = 0u;
    push(0x2Au); /* stuff byte: looks like a response, is none */
    if (was_active) {
        state = STATE_READY;
        push_r1(past_end ? 0x40u : 0u);
        busy_until_ns = card_seen.now_ns + 10u * card_byte_ns;
    } else {
        push_r1(4u);
    }
}

static void command(void)
{
    const uint32_t number = frame[0] & 0x3Fu;
    const uint32_t argument = ((uint32_t)frame[1] << 24) | ((uint32_t)frame[2] << 16) |
                              ((uint32_t)frame[3] << 8) | frame[4];
    const bool crc_good = frame[5] == ((crc_bits(frame, 5u, 7u, 0x09u) << 1) | 1u);
    const bool was_app = app;
    const bool transferring = state == STATE_READING || state == STATE_AWAIT_TOKEN;
    app = false;
    if (transferring && number != 0u && number != 12u) {
        return; /* not understood while data flows */
    }
    card_seen.commands[number]++;
    if (number == opt.misheard_command && strikes(&opt.misheard)) {
        push_r1(8u);
        return;
    }
    if ((crc_on || number == 0u || number == 8u) && !crc_good) {
        push_r1(8u);
        return;
    }
    if (number == 0u) {
        if (dummy_clocks < 74u) {
            card_violation("less than 74 clocks before the first command");
            return;
        }
        queue_count = 0u;
        state = STATE_IDLE;
        crc_on = initialising = seen_if_cond = false;
        push_r1(0u);
    } else if (number == 12u) {
        stop_transmission();
    } else if (was_app) {
        app_command(number, argument);
    } else if (state == STATE_IDLE) {
        idle_command(number, argument);
    } else {
        ready_command(number, argument);
    }
}

static uint32_t place_of(uint32_t number)
{
    return opt.real_blocks != 0u ? number % opt.real_blocks : number;
}

static void store_block(void)
{
    state = multiple ? STATE_AWAIT_TOKEN : STATE_READY;
    const uint32_t crc = ((uint32_t)data[BLOCK] << 8) | data[BLOCK + 1u];
    busy_until_ns = card_seen.now_ns + (uint64_t)opt.busy_us * 1000u + 2u * card_byte_ns;
    if (crc != crc_bits(data, BLOCK, 16u, 0x1021u)) {
        push(0xEBu);
        return;
    }
    if (opt.refuse_after != 0u) {
        opt.refuse_after--;
    } else if (opt.refused_blocks != 0u) {
        opt.refused_blocks--;
        push(0xEBu);
        return;
    }
    if (block >= opt.blocks || block == opt.write_error_at || opt.write_protected) {
        push(0xEDu);
        return;
    }
    push(0xE5u);
    if (block == opt.program_error_at) {
        status_bits |= 0x04u;
    } else {
        data[BLOCK / 2u] ^= block == opt.rot_at ? 0x10u : 0u;
        card_set_medium(place_of(block), data);
        card_seen.blocks_written++;
    }
    block++;
}

static void await_token(uint8_t out)
{
    if (out == (multiple ? 0xFCu : 0xFEu)) {
        state = STATE_DATA;
        data_bytes = 0u;
    } else if (multiple && out == 0xFDu) {
        state = STATE_READY;
        push(0xFFu); /* busy begins a byte later */
        busy_until_ns = card_seen.now_ns + (uint64_t)opt.busy_us * 1000u + 2u * card_byte_ns;
    }
}

static void take(uint8_t out)
{
    if (state == STATE_DATA) {
        data[data_bytes] = out;
        data_bytes++;
        if (data_bytes == BLOCK + 2u) {
            store_block();
        }
        return;
    }
    if (frame_bytes == 0u && state == STATE_AWAIT_TOKEN && (out & 0xC0u) != 0x40u) {
        await_token(out);
        return;
    }
    if (frame_bytes == 0u && (out & 0xC0u) != 0x40u) {
        return;
    }
    frame[frame_bytes] = out;
    frame_bytes++;
    if (frame_bytes == 6u) {
        frame_bytes = 0u;
        command();
    }
}

static void next_read_block(void)
{
    static const uint8_t erased[BLOCK] = {0u};
    if (opt.stuck) {
        return;
    }
    if (block >= opt.blocks) {
        past_end = true;
        push(0x08u); /* data error token: out of range */
        state = STATE_READY;
        return;
    }
    if (block == opt.read_error_at) {
        push(0x04u); /* card ECC failed */
        state = STATE_READY;
        return;
    }
    const uint8_t *bytes = card_medium(place_of(block));
    push_data(bytes == NULL ? erased : bytes, BLOCK);
    card_seen.blocks_read++;
    block++;
    if (!multiple) {
        state = STATE_READY;
    }
}

static uint8_t give(void)
{
    if (queue_count == 0u && state == STATE_READING && card_seen.now_ns >= busy_until_ns) {
        next_read_block();
    }
    if (queue_count != 0u) {
        const uint8_t byte = queue[queue_head];
        queue_head = (queue_head + 1u) % QUEUE_BYTES;
        queue_count--;
        return byte;
    }
    return card_seen.now_ns < busy_until_ns ? 0x00u : 0xFFu;
}

bool card_is_idle(void)
{
    return state == STATE_IDLE;
}

uint8_t card_byte(uint8_t out, bool selected, bool removed)
{
    if (opt.absent || removed || card_seen.now_ns < (uint64_t)opt.power_up_us * 1000u) {
        return opt.floating;
    }
    if (!selected) {
        dummy_clocks += 8u;
        frame_bytes = 0u;
        return 0xFFu;
    }
    const bool busy = queue_count == 0u && card_seen.now_ns < busy_until_ns;
    const uint8_t in = give();
    if (busy) {
        if (out != 0xFFu) {
            card_violation("the host sent something to a busy card");
        }
        return in;
    }
    take(out);
    return in;
}
