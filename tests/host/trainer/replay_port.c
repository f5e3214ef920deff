/* A port for replay: the console is standard input and output, the card is a piece of memory,
 * time stands still, and the end of the input ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "poet/port.h"

#define BLOCKS 16u

static uint8_t card[BLOCKS * POET_BLOCK_BYTES];

static poet_status card_open(void *state)
{
    (void)state;
    return POET_OK;
}

static poet_status card_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    (void)state;
    memcpy(buffer, &card[block * POET_BLOCK_BYTES], nbytes);
    return POET_OK;
}

static poet_status card_write(void *state, uint32_t block, const void *buffer, uint32_t nbytes)
{
    (void)state;
    memcpy(&card[block * POET_BLOCK_BYTES], buffer, nbytes);
    return POET_OK;
}

static bool card_busy(void *state)
{
    (void)state;
    return false;
}

static poet_status card_idle(void *state)
{
    (void)state;
    return POET_OK;
}

static uint32_t card_blocks(void *state)
{
    (void)state;
    return BLOCKS;
}

static const poet_bdev_ops card_ops = {
    .open = card_open,
    .start_read = card_read,
    .start_write = card_write,
    .busy = card_busy,
    .wait = card_idle,
    .sync = card_idle,
    .block_count = card_blocks,
};
static const poet_bdev card_device = {.ops = &card_ops, .state = NULL};

void poet_port_init(void)
{
}

/* Runs on by a second per call, so that a busy wait ends and every action reports progress. */
uint32_t poet_port_micros(void)
{
    static uint32_t now;
    now += 1000000u;
    return now;
}

uint64_t poet_port_cycles(void)
{
    static uint64_t now = 0xFFFFFFF0u;
    return now++;
}

uint32_t poet_port_cycle_hz(void)
{
    return 1u;
}

int poet_port_getc(void)
{
    const int byte = getchar();
    if (byte == EOF) {
        (void)fflush(stdout);
        exit(0);
    }
    return byte;
}

void poet_port_putc(uint8_t byte)
{
    (void)putchar(byte);
}

void poet_port_flush(void)
{
}

const poet_bdev *poet_port_bdev(void)
{
    return &card_device;
}

uint32_t poet_port_stack_free_bytes(void)
{
    return 1000u;
}

uint32_t poet_port_stack_bytes(void)
{
    return 2000u;
}

_Noreturn void poet_port_reset(void)
{
    (void)fflush(stdout);
    exit(0);
}
