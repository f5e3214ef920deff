/* Firmware of the emulator's driver tests: the real start-up, port and card driver, a few transfers.
 * One line per check, "name=value"; the last line is "done".
 */
#include <string.h>

#include "poet/bdev.h"
#include "poet/port.h"
#include "say.h"

#define BLOCKS 5u
#define FIRST 9000u
/* Blocks and a tail, so that the driver's staging block is used too. */
#define NBYTES (BLOCKS * POET_BLOCK_BYTES + 100u)

#define GUARD 0x5Au

int main(void);

/* OFFSET moves the buffers off their lines, for a driver that must notice. */
#ifndef OFFSET
#define OFFSET 0u
#endif
__attribute__((section(".arena"), aligned(1024))) static uint8_t out_bytes[NBYTES + 32u];
__attribute__((section(".arena"), aligned(1024))) static uint8_t in_bytes[NBYTES + 32u];

static poet_status transfer(const poet_bdev *bdev, poet_status started, uint32_t *looks)
{
    POET_TRY(started);
    while (bdev->ops->busy(bdev->state)) {
        (*looks)++;
    }
    return bdev->ops->wait(bdev->state);
}

static void round_trip(const poet_bdev *bdev, uint32_t seed)
{
    uint8_t *out = &out_bytes[OFFSET];
    uint8_t *in = &in_bytes[OFFSET];
    uint32_t looks = 0u;
    for (uint32_t i = 0u; i < NBYTES; i++) {
        out[i] = (uint8_t)((i * 251u + seed * 31u) >> (i & 3u));
        in[i] = (uint8_t)seed; /* dirty lines below what DMA will write */
    }
    memset(in_bytes, (int)GUARD, OFFSET);
    say("write", poet_status_text(transfer(
                     bdev, bdev->ops->start_write(bdev->state, FIRST, out, NBYTES), &looks)));
    const poet_status read =
        transfer(bdev, bdev->ops->start_read(bdev->state, FIRST, in, NBYTES), &looks);
    say("read", poet_status_text(read));
    /* After a read that failed nobody may look: the cache was not invalidated behind it. */
    say("same", read == POET_OK && memcmp(out, in, NBYTES) == 0 ? "1" : "0");
    say("kept", OFFSET == 0u || in_bytes[OFFSET - 1u] == GUARD ? "1" : "0");
    say("looked", looks != 0u ? "1" : "0");
}

int main(void)
{
    poet_port_init();
    say_line("start");
    const poet_bdev *bdev = poet_port_bdev();
    const poet_status opened = bdev->ops->open(bdev->state);
    say("open", poet_status_text(opened));
    if (opened == POET_OK) {
        round_trip(bdev, 1u);
        round_trip(bdev, 2u);
    }
    say_line("done");
    for (;;) {
        (void)poet_port_getc();
    }
}
