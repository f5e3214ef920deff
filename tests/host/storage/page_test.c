/* Page store, RAM device, fault device and check sums. argv[1] names the scenario. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "poet/bdev_fault.h"
#include "poet/bdev_ram.h"
#include "poet/crc.h"
#include "poet/page.h"

#define BLOCK 512u
#define CARD_BLOCKS 64u
#define REGION 16u
#define PAGES 3u
#define MOST 2000u

static uint8_t memory[CARD_BLOCKS * BLOCK];
static const poet_bdev_ram_config ram_config = {.memory = memory, .block_count = CARD_BLOCKS};
static poet_bdev_ram_state ram;
static const poet_bdev ram_bdev = {.ops = &poet_bdev_ram_ops, .state = &ram};
static poet_bdev_fault_config fault_config;
static poet_bdev_fault_state fault;
static const poet_bdev fault_bdev = {.ops = &poet_bdev_fault_ops, .state = &fault};

static const poet_page_desc descs[PAGES] = {{1u, MOST}, {5u, 1u}, {6u, 1025u}};
static const uint8_t build_id[16] = "0123456789abcdef";
static poet_page_config config = {
    .region_block = REGION,
    .region_blocks = 9u,
    .page_count = PAGES,
    .pages = descs,
    .build_id = build_id,
};
static poet_page_state states[PAGES];
static poet_page_store store;

static uint8_t source[PAGES][MOST];
static uint8_t target[MOST];

static void say(const char *what, poet_status status)
{
    printf("%s=%s\n", what, poet_status_text(status));
}

static void must(poet_status status)
{
    if (status != POET_OK) {
        printf("fail=%s\n", poet_status_text(status));
        exit(1);
    }
}

static void fill(uint8_t *bytes, uint32_t nbytes, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1u;
    for (uint32_t i = 0u; i < nbytes; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(x >> 24);
    }
}

static poet_bdev_fault_config plain_fault(void)
{
    const poet_bdev_fault_config plain = {.inner = &ram_bdev, .status = POET_E_IO};
    return plain;
}

/* A formatted card behind the fault device, counting from operation 0. */
static void prepare(const poet_bdev_fault_config *wanted)
{
    const poet_bdev_fault_config plain = plain_fault();
    memset(memory, 0xEE, sizeof memory);
    for (uint32_t i = 0u; i < PAGES; i++) {
        fill(source[i], MOST, i + 1u);
    }
    poet_bdev_ram_init(&ram, &ram_config);
    fault_config = plain;
    poet_bdev_fault_init(&fault, &fault_config);
    poet_page_init(&store, &config, &fault_bdev, states);
    must(fault_bdev.ops->open(fault_bdev.state));
    must(poet_page_format(&store));
    must(poet_page_open(&store));
    must(poet_page_begin_step(&store));
    fault_config = *wanted;
    poet_bdev_fault_init(&fault, &fault_config);
    store.fault_block = POET_NO_BLOCK;
}

static poet_status out_now(uint32_t page)
{
    POET_TRY(poet_page_out(&store, page, source[page]));
    return poet_page_wait(&store, page);
}

static poet_status in_now(uint32_t page)
{
    POET_TRY(poet_page_in(&store, page, target));
    return poet_page_wait(&store, page);
}

static void scenario_crc(void)
{
    uint8_t bytes[1000];
    fill(bytes, sizeof bytes, 9u);
    FILE *file = fopen("bytes.bin", "wb");
    if (file == NULL || fwrite(bytes, 1u, sizeof bytes, file) != sizeof bytes) {
        exit(1);
    }
    (void)fclose(file);
    for (uint32_t n = 0u; n <= 1000u; n += n < 20u ? 1u : 97u) {
        const uint32_t half = n / 3u;
        const uint32_t crc32 = poet_crc32(poet_crc32(0u, bytes, half), &bytes[half], n - half);
        const uint16_t crc16 = poet_crc16(poet_crc16(0u, bytes, half), &bytes[half], n - half);
        const uint8_t crc7 = poet_crc7(poet_crc7(0u, bytes, half), &bytes[half], n - half);
        printf("%u %u %u %u %u\n", n, crc32, poet_crc32(77u, bytes, n), crc16, crc7);
    }
}

static void scenario_status(void)
{
    for (int i = 1; i > -32; i--) {
        printf("%d=%s\n", i, poet_status_text((poet_status)i));
    }
}

static void scenario_header(void)
{
    const poet_bdev_fault_config plain = plain_fault();
    prepare(&plain);
    const uint8_t *header = &memory[REGION * BLOCK];
    for (uint32_t i = 0u; i < BLOCK; i++) {
        printf("%02x", header[i]);
    }
    printf("\n");
    uint32_t refused = 0u;
    for (uint32_t bit = 0u; bit < 52u * 8u; bit++) {
        memory[REGION * BLOCK + bit / 8u] ^= (uint8_t)(1u << (bit % 8u));
        refused += poet_page_open(&store) == POET_E_CARD_IMAGE ? 1u : 0u;
        memory[REGION * BLOCK + bit / 8u] ^= (uint8_t)(1u << (bit % 8u));
    }
    printf("refused=%u\n", refused);
    printf("fault_block=%u\n", store.fault_block);
    say("open", poet_page_open(&store));
    /* The region was touched, and nothing else. */
    uint32_t touched = 0u;
    for (uint32_t i = 0u; i < CARD_BLOCKS; i++) {
        touched += memory[i * BLOCK + 300u] != 0xEEu ? 1u : 0u;
    }
    printf("touched=%u\n", touched);
}

static void scenario_capacity(void)
{
    const poet_bdev_fault_config plain = plain_fault();
    const poet_page_config good = config;
    static const poet_page_desc over_header[1] = {{0u, 10u}};
    static const poet_page_desc past_region[1] = {{8u, 513u}};
    static const poet_page_desc empty[1] = {{1u, 0u}};
    prepare(&plain);
    config.region_block = CARD_BLOCKS - 8u;
    say("one_too_far", poet_page_open(&store));
    config.region_block = UINT32_MAX - 4u;
    say("wraps", poet_page_open(&store));
    config.region_block = CARD_BLOCKS - 9u;
    say("exact_format", poet_page_format(&store));
    say("exact", poet_page_open(&store));
    config = good;
    config.page_count = 1u;
    config.pages = over_header;
    say("over_header", poet_page_open(&store));
    config.pages = past_region;
    say("past_region", poet_page_open(&store));
    config.pages = empty;
    say("empty", poet_page_open(&store));
    config = good;
    config.slot_block = 7u; /* page 2 ends at 9 */
    config.slot_blocks = 1u;
    say("over_slot", poet_page_open(&store));
    config.slot_block = 9u;
    say("slot_past_region", poet_page_open(&store));
    config.region_blocks = 11u;
    config.slot_block = 0u;
    say("slot_over_header", poet_page_open(&store));
    config = good;
    /* A card that says it has all the blocks, and stores the last one over the first. */
    memset(memory, 0xEE, sizeof memory);
    fault_config.kind = POET_FAULT_MISDIRECT;
    fault_config.operation = 0u;
    fault_config.shift_blocks = (uint32_t)-8;
    poet_bdev_fault_init(&fault, &fault_config);
    say("fake_capacity", poet_page_format(&store));
}

static void scenario_order(void)
{
    const poet_bdev_fault_config plain = plain_fault();
    prepare(&plain);
    say("in_never_written", poet_page_in(&store, 0u, target));
    say("wait_nothing", poet_page_wait(&store, 0u));
    say("out_unknown", poet_page_out(&store, PAGES, source[0]));
    say("in_unknown", poet_page_in(&store, PAGES, target));
    say("wait_unknown", poet_page_wait(&store, UINT32_MAX));
    say("out_null", poet_page_out(&store, 0u, NULL));
    say("out", poet_page_out(&store, 0u, source[0]));
    say("in_before_wait", poet_page_in(&store, 0u, target));
    say("out_twice", poet_page_out(&store, 0u, source[0]));
    say("out_other", poet_page_out(&store, 1u, source[1]));
    say("wait_other", poet_page_wait(&store, 1u));
    say("begin_pending", poet_page_begin_step(&store));
    say("format_pending", poet_page_format(&store));
    say("open_pending", poet_page_open(&store));
    say("wait", poet_page_wait(&store, 0u));
    say("wait_twice", poet_page_wait(&store, 0u));
    say("in", poet_page_in(&store, 0u, target));
    say("in_twice", poet_page_in(&store, 0u, target));
    say("in_wait", poet_page_wait(&store, 0u));
    printf("same=%d\n", memcmp(target, source[0], MOST) == 0);
    say("in_again", in_now(0u));
    printf("reads=%u writes=%u read_bytes=%u write_bytes=%u\n", store.counters.reads,
           store.counters.writes, (uint32_t)store.counters.read_bytes,
           (uint32_t)store.counters.write_bytes);
    say("begin", poet_page_begin_step(&store));
    say("in_of_last_step", poet_page_in(&store, 0u, target));
    printf("fault_block=%u\n", store.fault_block);
}

/* Every bit of the page on the medium, one at a time; then other ways to be wrong. */
static void scenario_corruption(void)
{
    const poet_bdev_fault_config plain = plain_fault();
    prepare(&plain);
    must(out_now(0u));
    must(out_now(2u));
    uint8_t *page = &memory[(REGION + 1u) * BLOCK];
    uint32_t caught = 0u;
    for (uint32_t bit = 0u; bit < MOST * 8u; bit++) {
        page[bit / 8u] ^= (uint8_t)(1u << (bit % 8u));
        caught += in_now(0u) == POET_E_PAGE_CRC ? 1u : 0u;
        page[bit / 8u] ^= (uint8_t)(1u << (bit % 8u));
    }
    printf("bits=%u caught=%u\n", MOST * 8u, caught);
    printf("fault_block=%u\n", store.fault_block);
    say("intact", in_now(0u));
    memset(page, 0, MOST);
    say("zeros", in_now(0u));
    memset(page, 0xFF, MOST);
    say("ones", in_now(0u));
    /* The padding is not part of the page. */
    memcpy(page, source[0], MOST);
    page[MOST] ^= 0xFFu;
    say("padding", in_now(0u));
}

/* Two pages of the same length and bytes: only the seed tells them apart. */
static void scenario_twins(void)
{
    static const poet_page_desc twins[2] = {{1u, 512u}, {2u, 512u}};
    const poet_bdev_fault_config plain = plain_fault();
    const poet_page_config good = config;
    config.pages = twins;
    config.page_count = 2u;
    prepare(&plain);
    memcpy(source[1], source[0], MOST);
    must(out_now(0u));
    must(out_now(1u));
    printf("different=%d\n", states[0].crc != states[1].crc);
    config = good;
}

/* Kept pages: start content, valid over steps, blocks read one by one; the others are not kept. */
static void scenario_kept(void)
{
    const poet_bdev_fault_config plain = plain_fault();
    uint8_t block[BLOCK];
    uint32_t count = 0u;
    prepare(&plain);
    config.kept_count = 1u;
    say("empty", poet_page_begin_step(&store));
    must(poet_page_fill(&store, 0u, source[0], 1300u));
    must(poet_page_begin_step(&store));
    must(in_now(0u));
    memset(&source[0][1300], 0, MOST - 1300u);
    printf("start=%d\n", memcmp(target, source[0], MOST) == 0);
    fill(source[0], MOST, 77u);
    must(out_now(0u));
    must(out_now(2u));
    must(poet_page_begin_step(&store));
    must(in_now(0u));
    printf("kept=%d\n", memcmp(target, source[0], MOST) == 0);
    say("other", in_now(2u));
    must(poet_page_peek(&store, 0u, 3u, block, &count));
    printf("count=%u\nsame=%d\n", count, memcmp(block, &source[0][3u * BLOCK], count) == 0);
    say("behind", poet_page_peek(&store, 0u, 4u, block, &count));
    say("no_page", poet_page_peek(&store, PAGES, 0u, block, &count));
    say("invalid", poet_page_peek(&store, 2u, 0u, block, &count));
    say("too_long", poet_page_fill(&store, 1u, source[1], 2u));
    must(poet_page_fill(&store, 2u, NULL, 0u));
    must(in_now(2u));
    printf("zeros=%d\n", target[0] == 0u && target[1024] == 0u);
    printf("counted=%u\n", store.counters.writes);
    must(poet_page_out(&store, 1u, source[1]));
    say("under_way", poet_page_fill(&store, 0u, source[0], MOST));
    must(poet_page_wait(&store, 1u));
    config.kept_count = 0u;
}

/* argv: kind keep keep_last shift. The fault hits the write (op 0), then the read (op 1). */
static void scenario_fault(char **argv)
{
    for (uint32_t operation = 0u; operation < 2u; operation++) {
        poet_bdev_fault_config wanted = plain_fault();
        wanted.kind = (poet_bdev_fault_kind)atoi(argv[2]);
        wanted.operation = operation;
        wanted.keep_blocks = (uint32_t)atoi(argv[3]);
        wanted.keep_last = atoi(argv[4]) != 0;
        wanted.shift_blocks = (uint32_t)atoi(argv[5]);
        wanted.flip_byte = 777u;
        prepare(&wanted);
        const poet_status written = out_now(0u);
        say(operation == 0u ? "hit_out" : "clean_out", written);
        const poet_status read = written == POET_OK ? in_now(0u) : POET_E_STATE;
        say(operation == 0u ? "after_in" : "hit_in", read);
        if (read == POET_OK && memcmp(target, source[0], MOST) != 0) {
            printf("fail=silent\n");
            exit(1);
        }
        printf("faults=%u block=%u\n", fault.faults, store.fault_block);
        if (fault.power_off) {
            say("dead", fault_bdev.ops->open(fault_bdev.state));
            printf("dead_blocks=%u\n", fault_bdev.ops->block_count(fault_bdev.state));
            poet_bdev_fault_power_on(&fault);
            must(poet_page_open(&store));
            must(poet_page_begin_step(&store));
        }
        /* The next step is well, whatever this one was. */
        must(poet_page_begin_step(&store));
        fault_config.kind = POET_FAULT_NONE;
        must(out_now(0u));
        must(in_now(0u));
        printf("recovered=%d\n", memcmp(target, source[0], MOST) == 0);
    }
}

static void scenario_late(bool late)
{
    poet_bdev_fault_config wanted = plain_fault();
    wanted.late_copy = late;
    wanted.delay_polls = 5u;
    prepare(&wanted);
    must(poet_page_out(&store, 0u, source[0]));
    uint32_t polls = 0u;
    while (fault_bdev.ops->busy(fault_bdev.state)) {
        polls++;
    }
    printf("polls=%u\n", polls);
    must(poet_page_wait(&store, 0u));
    /* C5: read while the write is under way; the device itself refuses too. */
    must(poet_page_out(&store, 0u, source[0]));
    say("in_during_out", poet_page_in(&store, 0u, target));
    say("device_during_out",
        fault_bdev.ops->start_read(fault_bdev.state, REGION + 1u, target, MOST));
    must(poet_page_wait(&store, 0u));
    /* A destination used too early. */
    memset(target, 0x11, MOST);
    must(poet_page_in(&store, 0u, target));
    printf("early_same=%d\n", memcmp(target, source[0], MOST) == 0);
    must(poet_page_wait(&store, 0u));
    printf("late_same=%d\n", memcmp(target, source[0], MOST) == 0);
    /* C6: the source is reused while the transfer runs. */
    must(poet_page_out(&store, 2u, source[2]));
    source[2][1000] ^= 0x40u;
    must(poet_page_wait(&store, 2u));
    say("reused_source", in_now(2u));
}

/* A RAM device by itself: not a byte outside, padding, refusals. */
static void scenario_ram(void)
{
    poet_bdev_ram_init(&ram, &ram_config);
    say("closed_read", ram_bdev.ops->start_read(ram_bdev.state, 0u, target, 1u));
    printf("closed_blocks=%u\n", ram_bdev.ops->block_count(ram_bdev.state));
    must(ram_bdev.ops->open(ram_bdev.state));
    uint32_t good = 0u;
    for (uint32_t n = 1u; n <= MOST; n++) {
        const uint32_t block = CARD_BLOCKS - (n + 511u) / 512u;
        memset(memory, 0xEE, sizeof memory);
        memset(target, 0x5A, sizeof target);
        fill(source[0], n, n);
        must(ram_bdev.ops->start_write(ram_bdev.state, block, source[0], n));
        must(ram_bdev.ops->start_read(ram_bdev.state, block, target, n));
        bool same = memcmp(source[0], target, n) == 0 && memory[block * BLOCK - 1u] == 0xEEu;
        for (uint32_t i = n; i < (n + 511u) / 512u * 512u; i++) {
            same = same && memory[block * BLOCK + i] == 0u;
        }
        same = same && (n == MOST || target[n] == 0x5Au);
        same = same && ram_bdev.ops->start_write(ram_bdev.state, block + 1u, source[0], n) ==
                           POET_E_ARG;
        good += same ? 1u : 0u;
    }
    printf("good=%u\n", good);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        return 2;
    }
    const struct {
        const char *name;
        void (*run)(void);
    } table[] = {
        {"crc", scenario_crc},           {"status", scenario_status},
        {"header", scenario_header},     {"capacity", scenario_capacity},
        {"order", scenario_order},       {"corruption", scenario_corruption},
        {"twins", scenario_twins},       {"ram", scenario_ram},
        {"kept", scenario_kept},
    };
    for (uint32_t i = 0u; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(argv[1], table[i].name) == 0) {
            table[i].run();
            return 0;
        }
    }
    if (strcmp(argv[1], "fault") == 0 && argc == 6) {
        scenario_fault(argv);
    } else if (strcmp(argv[1], "late") == 0 && argc == 3) {
        scenario_late(argv[2][0] == '1');
    } else {
        return 2;
    }
    return 0;
}
