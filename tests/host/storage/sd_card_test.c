/* Drives the SD driver against the card model. argv[1] names the scenario; "name=value" lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "poet/sd_spi.h"
#include "sd_card_model.h"

#define BLOCK 512u
#define MOST 2100u

static poet_sd_spi_state card;
static const poet_sd_spi_config config = {.bus = &card_bus, .clock_hz = 12500000u};
static const poet_bdev_ops *const ops = &poet_sd_spi_ops;

static poet_status do_open(void)
{
    return ops->open(&card);
}

static poet_status do_read(uint32_t block, void *bytes, uint32_t nbytes)
{
    POET_TRY(ops->start_read(&card, block, bytes, nbytes));
    if (ops->busy(&card)) {
        return POET_E_STATE;
    }
    return ops->wait(&card);
}

static poet_status do_write(uint32_t block, const void *bytes, uint32_t nbytes)
{
    POET_TRY(ops->start_write(&card, block, bytes, nbytes));
    POET_TRY(ops->wait(&card));
    return ops->sync(&card);
}

static void insert(const card_options *options)
{
    card_insert(options);
    poet_sd_spi_init(&card, &config);
}

static void fill(uint8_t *bytes, uint32_t nbytes, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1u;
    for (uint32_t i = 0u; i < nbytes; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(x >> 24);
    }
}

static void fail(const char *what, uint32_t a, uint32_t b)
{
    printf("fail=%s %u %u\n", what, a, b);
    exit(1);
}

static const char *name(poet_status status)
{
    return poet_status_text(status);
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 0);
}

static card_kind kind_of(const char *text)
{
    static const char *const names[] = {"sdsc1", "sdsc", "sdhc", "sdxc", "mmc", "sduc"};
    for (uint32_t i = 0u; i < 6u; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (card_kind)i;
        }
    }
    abort();
}

/* "option=value" words after the kind and the blocks. */
static void set_option(card_options *options, const char *word)
{
    const struct {
        const char *name;
        uint32_t *target;
    } table[] = {
        {"power_up_us", &options->power_up_us},
        {"init_us", &options->init_us},
        {"response_delay", &options->response_delay},
        {"garbage", &options->garbage},
        {"data_delay", &options->data_delay},
        {"busy_us", &options->busy_us},
        {"damaged_blocks", &options->damaged_blocks},
        {"damage_after", &options->damage_after},
        {"refused_blocks", &options->refused_blocks},
        {"refuse_after", &options->refuse_after},
        {"misheard", &options->misheard},
        {"misheard_command", &options->misheard_command},
        {"misheard_echoes", &options->misheard_echoes},
        {"write_error_at", &options->write_error_at},
        {"program_error_at", &options->program_error_at},
        {"read_error_at", &options->read_error_at},
    };
    const char *value = strchr(word, '=') + 1;
    const size_t length = (size_t)(value - word) - 1u;
    for (uint32_t i = 0u; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].name) == length && strncmp(table[i].name, word, length) == 0) {
            *table[i].target = number(value);
            return;
        }
    }
    if (strncmp(word, "start", length) == 0) {
        options->start = (card_start)number(value);
    } else if (strncmp(word, "absent", length) == 0) {
        options->absent = true;
    } else if (strncmp(word, "floating", length) == 0) {
        options->floating = (uint8_t)number(value);
    } else if (strncmp(word, "low_voltage", length) == 0) {
        options->low_voltage = true;
    } else if (strncmp(word, "refuses_voltage", length) == 0) {
        options->refuses_voltage = true;
    } else if (strncmp(word, "remove_at", length) == 0) {
        options->remove_at = number(value);
    } else {
        abort();
    }
}

static card_options options_of(int argc, char **argv)
{
    card_options options = card_plain(kind_of(argv[2]), number(argv[3]));
    for (int i = 4; i < argc; i++) {
        set_option(&options, argv[i]);
    }
    return options;
}

static void report(void)
{
    printf("retries=%u\n", card.retries);
    printf("violations=%u %s\n", card_seen.violations,
           card_seen.violation == NULL ? "" : card_seen.violation);
    printf("us=%u\n", (uint32_t)(card_seen.now_ns / 1000u));
    printf("bytes=%u\n", (uint32_t)card_seen.bytes);
}

/* Open, write four blocks, read them back, read one, and again after an error. */
static void scenario_session(const card_options *options)
{
    static uint8_t out[4u * BLOCK];
    static uint8_t in[4u * BLOCK];
    fill(out, sizeof out, 5u);
    insert(options);
    printf("open=%s\n", name(do_open()));
    printf("blocks=%u\n", ops->block_count(&card));
    const poet_status written = do_write(20u, out, sizeof out);
    printf("write=%s\n", name(written));
    const poet_status read = do_read(20u, in, sizeof in);
    printf("read=%s\n", name(read));
    if (written == POET_OK && read == POET_OK) {
        printf("same=%d\n", memcmp(out, in, sizeof in) == 0);
    }
    const poet_status single = do_write(30u, out, BLOCK);
    printf("write_one=%s\n", name(single));
    const poet_status single_read = do_read(30u, in, BLOCK);
    printf("read_one=%s\n", name(single_read));
    if (single == POET_OK && single_read == POET_OK) {
        printf("same_one=%d\n", memcmp(out, in, BLOCK) == 0);
    }
    printf("pre_erase=%u\n", card_seen.pre_erase);
    report();
}

static void check_size(uint32_t block, uint32_t nbytes, uint32_t seed)
{
    static uint8_t out[MOST];
    static uint8_t in[MOST + 16u];
    fill(out, nbytes, seed);
    memset(in, 0x5A, sizeof in);
    if (do_write(block, out, nbytes) != POET_OK || do_read(block, &in[8], nbytes) != POET_OK) {
        fail("status", block, nbytes);
    }
    for (uint32_t i = 0u; i < sizeof in; i++) {
        const bool inside = i >= 8u && i < 8u + nbytes;
        if (in[i] != (inside ? out[i - 8u] : 0x5Au)) {
            fail("byte", block, nbytes);
        }
    }
    for (uint32_t i = 0u; i < (nbytes + 511u) / 512u * 512u; i++) {
        const uint8_t *medium = card_medium(block + i / BLOCK);
        if (medium == NULL || medium[i % BLOCK] != (i < nbytes ? out[i] : 0u)) {
            fail("medium", block, nbytes);
        }
    }
}

/* Every size at the first, a middle and the last block; one block further is refused. */
static void scenario_sizes(const card_options *options)
{
    uint8_t bytes[MOST];
    uint32_t done = 0u;
    insert(options);
    if (do_open() != POET_OK || ops->block_count(&card) != options->blocks) {
        fail("open", ops->block_count(&card), 0u);
    }
    memset(bytes, 1, sizeof bytes);
    for (uint32_t nbytes = 1u; nbytes <= MOST; nbytes++) {
        const uint32_t last = options->blocks - (nbytes + 511u) / 512u;
        check_size(0u, nbytes, nbytes);
        check_size(options->blocks / 2u - 1u, nbytes, nbytes + 1u);
        check_size(last, nbytes, nbytes + 2u);
        if (do_write(last + 1u, bytes, nbytes) != POET_E_ARG ||
            do_read(last + 1u, bytes, nbytes) != POET_E_ARG ||
            do_read(UINT32_MAX, bytes, nbytes) != POET_E_ARG) {
            fail("past the end", last, nbytes);
        }
        done += 3u;
    }
    if (do_read(0u, bytes, 0u) != POET_E_ARG || do_write(0u, bytes, 0u) != POET_E_ARG ||
        do_read(0u, NULL, 1u) != POET_E_ARG || do_write(0u, NULL, 1u) != POET_E_ARG) {
        fail("arguments", 0u, 0u);
    }
    printf("sizes=%u\n", done);
    report();
}

typedef struct {
    uint32_t runs, clean, errors, stuck;
    uint64_t session_bytes;
} sweep_result;

#define SWEEP_BYTES (3u * BLOCK - 100u)

static uint8_t sweep_out[SWEEP_BYTES];
static uint8_t sweep_in[SWEEP_BYTES];

/* Write at block and at block + 4; what is reported as written is on the medium. */
static poet_status sweep_write(uint32_t block, const disturbance *disturb)
{
    const uint32_t at = (uint32_t)disturb->at;
    POET_TRY(do_write(block, sweep_out, sizeof sweep_out));
    for (uint32_t i = 0u; i < sizeof sweep_out; i++) {
        if (card_medium(block + i / BLOCK)[i % BLOCK] != sweep_out[i]) {
            fail("silent write", at, (uint32_t)disturb->kind);
        }
    }
    POET_TRY(do_write(block + 4u, sweep_out, BLOCK));
    if (memcmp(card_medium(block + 4u), sweep_out, BLOCK) != 0) {
        fail("silent single write", at, (uint32_t)disturb->kind);
    }
    return POET_OK;
}

static poet_status sweep_read(uint32_t block, const disturbance *disturb)
{
    const uint32_t at = (uint32_t)disturb->at;
    memset(sweep_in, 0, sizeof sweep_in);
    POET_TRY(do_read(block, sweep_in, sizeof sweep_in));
    if (memcmp(sweep_in, sweep_out, sizeof sweep_in) != 0) {
        fail("silent read", at, (uint32_t)disturb->kind);
    }
    memset(sweep_in, 0, sizeof sweep_in);
    POET_TRY(do_read(block + 4u, sweep_in, BLOCK));
    if (memcmp(sweep_in, sweep_out, BLOCK) != 0) {
        fail("silent single read", at, (uint32_t)disturb->kind);
    }
    return POET_OK;
}

static poet_status sweep_session(const card_options *options, const disturbance *disturb)
{
    POET_TRY(do_open());
    if (ops->block_count(&card) != options->blocks) {
        fail("capacity", (uint32_t)disturb->at, (uint32_t)disturb->kind);
    }
    POET_TRY(sweep_write(8u, disturb));
    return sweep_read(8u, disturb);
}

/* One session under one disturbance. Everything that reports success must be true. */
static void sweep_one(const card_options *options, const disturbance *disturb, sweep_result *sum)
{
    static const disturbance none = {.kind = DISTURB_NONE};
    static uint8_t before[BLOCK];
    card_wipe();
    fill(before, BLOCK, 99u);
    for (uint32_t i = 0u; i < 16u; i++) {
        card_set_medium(i, before);
    }
    fill(sweep_out, sizeof sweep_out, (uint32_t)disturb->at + 3u);
    insert(options);
    card_disturb(disturb);
    const poet_status status = sweep_session(options, disturb);
    /* Blocks that were never addressed are as they were. */
    for (uint32_t i = 0u; i < 16u; i++) {
        if ((i < 8u || i > 12u || i == 11u) && memcmp(card_medium(i), before, BLOCK) != 0) {
            fail("stray write", (uint32_t)disturb->at, i);
        }
    }
    sum->session_bytes = card_seen.bytes;
    sum->runs++;
    sum->clean += status == POET_OK ? 1u : 0u;
    sum->errors += status == POET_OK ? 0u : 1u;
    if (status != POET_OK) {
        printf("at %u kind %u: %s\n", (uint32_t)disturb->at, (uint32_t)disturb->kind, name(status));
    }
    /* The disturbance is over: open and a transfer must work whatever happened. */
    card_disturb(&none);
    if (do_open() != POET_OK || do_write(9u, sweep_out, BLOCK) != POET_OK ||
        do_read(9u, sweep_in, BLOCK) != POET_OK || memcmp(sweep_in, sweep_out, BLOCK) != 0) {
        sum->stuck++;
        printf("stuck at %u kind %u\n", (uint32_t)disturb->at, (uint32_t)disturb->kind);
    }
}

static void scenario_sweep(const card_options *options, uint32_t stride)
{
    sweep_result sum = {0u, 0u, 0u, 0u, 0u};
    disturbance disturb = {.kind = DISTURB_NONE, .length = 1u};
    sweep_one(options, &disturb, &sum);
    if (sum.clean != 1u) {
        fail("undisturbed", 0u, 0u);
    }
    const uint64_t total = sum.session_bytes;
    for (uint32_t kind = DISTURB_RX_ONES; kind < DISTURB_KINDS; kind++) {
        for (uint64_t at = 0u; at < total; at += stride) {
            disturb.kind = (disturb_kind)kind;
            disturb.at = at;
            disturb.bit = (uint8_t)((at * 5u + kind) % 8u);
            sweep_one(options, &disturb, &sum);
        }
    }
    printf("session_bytes=%u\n", (uint32_t)total);
    printf("runs=%u\nclean=%u\nerrors=%u\nstuck=%u\n", sum.runs, sum.clean, sum.errors, sum.stuck);
}

/* The card is pulled out at byte n, for all n. */
static void scenario_removal(const card_options *options, uint32_t stride)
{
    static uint8_t out[SWEEP_BYTES];
    static uint8_t in[SWEEP_BYTES];
    uint32_t runs = 0u;
    uint32_t finished = 0u;
    uint64_t longest_ns = 0u;
    fill(out, sizeof out, 77u);
    for (uint32_t at = 0u; at < 4200u; at += stride) {
        card_options pulled = *options;
        pulled.remove_at = at;
        card_wipe();
        insert(&pulled);
        poet_status status = do_open();
        if (status == POET_OK) {
            status = do_write(8u, out, sizeof out);
        }
        if (status == POET_OK) {
            status = do_read(8u, in, sizeof in);
        }
        if (status == POET_OK && memcmp(in, out, sizeof in) != 0) {
            fail("silent", at, 0u);
        }
        if (status == POET_OK) {
            finished++;
        } else if (options->floating == 0xFFu && status != POET_E_NO_CARD) {
            fail("status", at, (uint32_t)-status);
        } else if (ops->block_count(&card) != 0u && status == POET_E_NO_CARD) {
            fail("still open", at, 0u);
        }
        if (card_seen.now_ns > longest_ns) {
            longest_ns = card_seen.now_ns;
        }
        runs++;
    }
    printf("runs=%u\nfinished=%u\nlongest_us=%u\n", runs, finished,
           (uint32_t)(longest_ns / 1000u));
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        return 2;
    }
    const card_options options = options_of(argc, argv);
    if (strcmp(argv[1], "session") == 0) {
        scenario_session(&options);
    } else if (strcmp(argv[1], "sizes") == 0) {
        scenario_sizes(&options);
    } else if (strncmp(argv[1], "sweep/", 6u) == 0) {
        scenario_sweep(&options, number(argv[1] + 6));
    } else if (strncmp(argv[1], "removal/", 8u) == 0) {
        scenario_removal(&options, number(argv[1] + 8));
    } else {
        return 2;
    }
    return 0;
}
