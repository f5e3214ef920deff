/* The self-test's memory and card tests on good and on faulty memories and cards. argv[1] names the
 * scenario; every outcome is printed as name=value. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "poet/bdev_fault.h"
#include "poet/bdev_ram.h"
#include "poet/port.h"
#include "selftest/selftest.h"

#define BLOCKS 64u
#define WORDS 1024u /* a page of memory */

static uint8_t medium[BLOCKS * POET_BLOCK_BYTES];
static const poet_bdev_ram_config ram_config = {.memory = medium, .block_count = BLOCKS};
static poet_bdev_ram_state ram;
static const poet_bdev ram_bdev = {.ops = &poet_bdev_ram_ops, .state = &ram};
static poet_bdev_fault_config fault_config = {.inner = &ram_bdev};
static poet_bdev_fault_state fault;
static poet_bdev_ops operations;
static poet_bdev card;

static uint8_t arena[8192] __attribute__((aligned(64)));
static const poet_case no_cases[1];
const poet_selftest poet_the_selftest = {
    .board = "host", .arena = arena, .arena_bytes = sizeof(arena), .cases = no_cases};

const poet_bdev *poet_port_bdev(void)
{
    return &card;
}

uint64_t poet_port_cycles(void)
{
    static uint64_t now;
    now += 100u;
    return now;
}

static void test_memory(const char *kind)
{
    const int file = memfd_create("memory", 0u);
    const size_t bytes = WORDS * 4u;
    if (file < 0 || ftruncate(file, (off_t)(2u * bytes)) != 0) {
        exit(1);
    }
    char *words = mmap(NULL, 2u * bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (strcmp(kind, "aliased") == 0) { /* an address line that does nothing */
        words = mmap(words, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                     (off_t)bytes);
    }
    poet_memory_result result;
    poet_selftest_memory((void *)words, 2u * WORDS, &result);
    printf("bad=%u\noffset=%u\n", result.bad_words,
           result.first_bad - (uint32_t)(uintptr_t)words);
    printf("wrong=%d\n", result.expected != result.got);
}

/* A driver that rounds up to whole blocks in the caller's memory. */
static poet_status careless_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    uint8_t *const bytes = buffer;
    const poet_status status = ram_bdev.ops->start_read(&ram, block, buffer, nbytes);
    bytes[nbytes] ^= 1u;
    (void)state;
    return status;
}

static void test_card(int argc, char **argv)
{
    const poet_card_order order = {
        .block = (uint32_t)atoi(argv[2]),
        .nbytes = (uint32_t)atoi(argv[3]),
        .offset = (uint32_t)atoi(argv[4]),
        .seed = 9u,
        .flags = (uint32_t)atoi(argv[5]),
        .transfers = (uint32_t)atoi(argv[6]),
    };
    fault_config.kind = argc > 7 ? (poet_bdev_fault_kind)atoi(argv[7]) : POET_FAULT_NONE;
    fault_config.operation = argc > 8 ? (uint32_t)atoi(argv[8]) : 0u;
    fault_config.status = POET_E_CARD_CRC;
    fault_config.flip_byte = 5u;
    fault_config.late_copy = true;
    poet_bdev_fault_init(&fault, &fault_config);
    poet_bdev_ram_init(&ram, &ram_config);
    operations = poet_bdev_fault_ops;
    card = (poet_bdev){.ops = &operations, .state = &fault};
    if (argc > 9) {
        operations.start_read = careless_read;
    }
    for (uint32_t i = 0u; i < sizeof(medium); i++) {
        medium[i] = (uint8_t)(i * 7u + i / 512u);
    }
    static uint8_t before[sizeof(medium)];
    memcpy(before, medium, sizeof(medium));
    if (card.ops->open(card.state) != POET_OK) {
        exit(1);
    }
    poet_card_result result;
    const poet_status status = poet_selftest_card(&order, &result);
    printf("status=%s\nbad=%u\nfirst=%u\nguards=%u\n", poet_status_text(status), result.bad_bytes,
           result.first_bad, result.guard_bytes);
    printf("timed=%d%d\nsum=%d\n", result.write_cycles >= result.write_worst && result.write_worst,
           result.read_cycles >= result.read_worst && result.read_worst, result.checksum != 0u);
    printf("kept=%d\n", memcmp(before, medium, sizeof(medium)) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "memory") == 0) {
        test_memory(argv[2]);
    } else if (argc > 6 && strcmp(argv[1], "card") == 0) {
        test_card(argc, argv);
    } else {
        return 2;
    }
    return 0;
}
