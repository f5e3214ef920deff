/* Firmware of test_sd_card.py: the real start-up, port, SD driver and page store, checked from the
 * inside. One line per check, "name=value"; the last line is "done".
 */
#include <stdbool.h>
#include <string.h>

#include "poet/crc.h"
#include "poet/page.h"
#include "poet/port.h"

#define MOST_BYTES 2100u
#define GUARD 0x5Au
#define ECHO_BYTES 4096u

int main(void);

static uint8_t out_bytes[MOST_BYTES];
static uint8_t in_bytes[MOST_BYTES + 8u];
static uint32_t in_data[4] = {1u, 20u, 300u, 4000u};
__attribute__((section(".arena"))) static uint8_t arena[4096];

static void text(const char *line)
{
    for (const char *c = line; *c != '\0'; c++) {
        poet_port_putc((uint8_t)*c);
    }
}

static void number(const char *name, uint32_t value)
{
    char digits[11];
    uint32_t at = sizeof digits - 1u;
    digits[at] = '\0';
    do {
        at--;
        digits[at] = (char)('0' + (int)(value % 10u));
        value /= 10u;
    } while (value != 0u);
    text(name);
    text("=");
    text(&digits[at]);
    text("\n");
}

static void status(const char *name, poet_status value)
{
    text(name);
    text("=");
    text(poet_status_text(value));
    text("\n");
}

static poet_status write_blocks(const poet_bdev *bdev, uint32_t block, const void *bytes,
                                uint32_t nbytes)
{
    POET_TRY(bdev->ops->start_write(bdev->state, block, bytes, nbytes));
    return bdev->ops->wait(bdev->state);
}

static poet_status read_blocks(const poet_bdev *bdev, uint32_t block, void *bytes, uint32_t nbytes)
{
    POET_TRY(bdev->ops->start_read(bdev->state, block, bytes, nbytes));
    return bdev->ops->wait(bdev->state);
}

static void fill(uint8_t *bytes, uint32_t nbytes, uint32_t seed)
{
    for (uint32_t i = 0u; i < nbytes; i++) {
        bytes[i] = (uint8_t)((i * 251u + seed * 31u) >> (i & 3u));
    }
}

static poet_status size_round_trip(const poet_bdev *bdev, uint32_t block, uint32_t nbytes)
{
    static uint32_t seed = 0u;
    seed++;
    fill(out_bytes, nbytes, seed);
    memset(in_bytes, (int)GUARD, sizeof in_bytes);
    POET_TRY(write_blocks(bdev, block, out_bytes, nbytes));
    POET_TRY(read_blocks(bdev, block, in_bytes, nbytes));
    if (memcmp(out_bytes, in_bytes, nbytes) != 0) {
        return POET_E_PAGE_CRC;
    }
    for (uint32_t i = nbytes; i < sizeof in_bytes; i++) {
        if (in_bytes[i] != GUARD) {
            return POET_E_IO;
        }
    }
    /* The rest of the last block was padded with zeros. */
    const uint32_t padded = (nbytes + 511u) / 512u * 512u;
    if (padded <= MOST_BYTES) {
        POET_TRY(read_blocks(bdev, block, in_bytes, padded));
        for (uint32_t i = nbytes; i < padded; i++) {
            if (in_bytes[i] != 0u) {
                return POET_E_IO;
            }
        }
    }
    return POET_OK;
}

static poet_status sizes(const poet_bdev *bdev, uint32_t count)
{
    static const uint32_t edges[] = {1u,    2u,    3u,    511u,  512u,  513u,
                                     1023u, 1024u, 1025u, 2047u, 2048u, 2100u};
    for (uint32_t i = 0u; i < sizeof edges / sizeof edges[0]; i++) {
        const uint32_t blocks = (edges[i] + 511u) / 512u;
        POET_TRY(size_round_trip(bdev, 0u, edges[i]));
        POET_TRY(size_round_trip(bdev, count / 2u + 1u, edges[i]));
        POET_TRY(size_round_trip(bdev, count - blocks, edges[i]));
        if (bdev->ops->start_write(bdev->state, count - blocks + 1u, out_bytes, edges[i]) !=
                POET_E_ARG ||
            bdev->ops->start_read(bdev->state, count - blocks + 1u, in_bytes, edges[i]) !=
                POET_E_ARG) {
            return POET_E_STATE;
        }
    }
    for (uint32_t nbytes = 1u; nbytes <= MOST_BYTES; nbytes += 97u) {
        POET_TRY(size_round_trip(bdev, 1000u, nbytes));
    }
    return POET_OK;
}

static void pages(const poet_bdev *bdev)
{
    static const poet_page_desc descs[2] = {{1u, 2000u}, {5u, 513u}};
    static const uint8_t build_id[16] = {1u, 2u, 3u};
    static const poet_page_config config = {
        .region_block = 4096u,
        .region_blocks = 7u,
        .page_count = 2u,
        .pages = descs,
        .build_id = build_id,
    };
    static poet_page_state states[2];
    static poet_page_store store;
    poet_page_init(&store, &config, bdev, states);
    status("page_open_foreign", poet_page_open(&store));
    status("page_format", poet_page_format(&store));
    status("page_open", poet_page_open(&store));
    status("page_begin", poet_page_begin_step(&store));
    status("page_in_early", poet_page_in(&store, 0u, in_bytes));
    fill(out_bytes, 2000u, 77u);
    status("page_out", poet_page_out(&store, 0u, out_bytes));
    status("page_out_second", poet_page_out(&store, 1u, out_bytes));
    status("page_out_wait", poet_page_wait(&store, 0u));
    status("page_in", poet_page_in(&store, 0u, in_bytes));
    status("page_in_wait", poet_page_wait(&store, 0u));
    number("page_same", memcmp(out_bytes, in_bytes, 2000u) == 0 ? 1u : 0u);
    /* Somebody else's bytes at the page's place. */
    status("page_overwrite", write_blocks(bdev, 4096u + 1u + 3u, in_bytes, 512u));
    status("page_in_stale", poet_page_in(&store, 0u, in_bytes));
    status("page_in_stale_wait", poet_page_wait(&store, 0u));
    number("page_fault_block", store.fault_block);
}

/* The sender does not pause; we do. Nothing may be lost. */
static void echo(void)
{
    uint32_t crc = 0u;
    uint32_t count = 0u;
    text("echo?\n");
    const uint32_t start = poet_port_micros();
    while (count < ECHO_BYTES && poet_port_micros() - start < 20000000u) {
        const int next = poet_port_getc();
        if (next >= 0) {
            const uint8_t byte = (uint8_t)next;
            crc = poet_crc32(crc, &byte, 1u);
            count++;
            if (count % 512u == 0u) {
                const uint32_t pause = poet_port_micros();
                while (poet_port_micros() - pause < 20000u) {
                }
            }
        }
    }
    number("echo_count", count);
    number("echo_crc", crc);
}

/* Never backwards, over more than two wraps of the 24-bit counter. */
static bool time_is_monotonic(void)
{
    const uint64_t start = poet_port_cycles();
    uint64_t last = start;
    do {
        const uint64_t now = poet_port_cycles();
        if (now < last) {
            return false;
        }
        last = now;
    } while (last - start < 40000000u);
    return true;
}

/* Microseconds and cycles are one clock. */
static bool clocks_agree(void)
{
    const uint32_t rate = poet_port_cycle_hz() / 1000000u;
    const uint32_t low = (uint32_t)(poet_port_cycles() / rate);
    const uint32_t micros = poet_port_micros();
    const uint32_t high = (uint32_t)(poet_port_cycles() / rate);
    return micros >= low && micros <= high;
}

int main(void)
{
    poet_port_init();
    text("\nstart\n");
    number("stack_bytes", poet_port_stack_bytes());
    number("stack_free", poet_port_stack_free_bytes());
    number("data_sum", in_data[0] + in_data[1] + in_data[2] + in_data[3]);
    number("bss_sum", out_bytes[0] + out_bytes[MOST_BYTES - 1u]);
    number("arena_aligned", ((uintptr_t)arena & 7u) == 0u ? 1u : 0u);
    in_data[0]++; /* a reset has to restore it */
#if defined(RESET)
    poet_port_reset();
#endif
    number("time_is_monotonic", time_is_monotonic() ? 1u : 0u);
    number("clocks_agree", clocks_agree() ? 1u : 0u);
    const poet_bdev *bdev = poet_port_bdev();
    const uint32_t before = poet_port_micros();
    const poet_status opened = bdev->ops->open(bdev->state);
    number("open_us", poet_port_micros() - before);
    status("open", opened);
    const uint32_t count = bdev->ops->block_count(bdev->state);
    number("blocks", count);
    if (opened == POET_OK) {
        status("sizes", sizes(bdev, count));
        pages(bdev);
        fill(out_bytes, 512u, 4242u);
        status("mark", write_blocks(bdev, count - 1u, out_bytes, 512u));
        status("reopen", bdev->ops->open(bdev->state));
        status("reread", read_blocks(bdev, count - 1u, in_bytes, 512u));
        number("reread_same", memcmp(out_bytes, in_bytes, 512u) == 0 ? 1u : 0u);
    }
    echo();
    number("stack_free_end", poet_port_stack_free_bytes());
    text("done\n");
    return 0;
}
