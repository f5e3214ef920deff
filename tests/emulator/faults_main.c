/* Firmware of the card faults: one transfer each way, timed, then the same over a healthy card.
 * One line per fact, "name=value"; behind "heal" it waits for a byte; the last line is "done".
 */
#include <string.h>

#include "poet/bdev.h"
#include "poet/port.h"
#include "say.h"

#define BLOCKS 3u
#define FIRST 9000u
/* Blocks and a tail: by CMD25 and CMD18, then by CMD24 and CMD17 through the staging block. */
#define NBYTES (BLOCKS * POET_BLOCK_BYTES + 100u)

int main(void);

__attribute__((section(".arena"), aligned(32))) static uint8_t out_bytes[NBYTES];
__attribute__((section(".arena"), aligned(32))) static uint8_t in_bytes[NBYTES];

static void report(const char *name, poet_status status, uint32_t start_us)
{
    const uint32_t took_us = poet_port_micros() - start_us;
    say(name, poet_status_text(status));
    say_number("us", took_us);
}

static poet_status finished(const poet_bdev *bdev, poet_status started)
{
    POET_TRY(started);
    while (bdev->ops->busy(bdev->state)) {
    }
    return bdev->ops->wait(bdev->state);
}

static void session(const poet_bdev *bdev, uint32_t seed)
{
    uint32_t start_us = poet_port_micros();
    report("open", bdev->ops->open(bdev->state), start_us);
    for (uint32_t i = 0u; i < NBYTES; i++) {
        out_bytes[i] = (uint8_t)((i * 251u + seed * 31u) >> (i & 3u));
    }
    memset(in_bytes, (int)seed, NBYTES);
    start_us = poet_port_micros();
    report("write",
           finished(bdev, bdev->ops->start_write(bdev->state, FIRST, out_bytes, NBYTES)),
           start_us);
    start_us = poet_port_micros();
    report("read", finished(bdev, bdev->ops->start_read(bdev->state, FIRST, in_bytes, NBYTES)),
           start_us);
    say("same", memcmp(out_bytes, in_bytes, NBYTES) == 0 ? "1" : "0");
    say("opened", bdev->ops->block_count(bdev->state) != 0u ? "1" : "0");
}

int main(void)
{
    poet_port_init();
    const poet_bdev *bdev = poet_port_bdev();
    session(bdev, 1u);
    say_line("heal");
    while (poet_port_getc() < 0) {
    }
    session(bdev, 2u);
    say_line("done");
    for (;;) {
        (void)poet_port_getc();
    }
}
