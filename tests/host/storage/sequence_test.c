/* Checkpoints counted from any number on: arguments are the sequence of a whole checkpoint in slot
 * 0, and that of slot 1, or "-" for none; "!" behind one damages its data. Three more are written;
 * after each the newest must be that one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "poet/bdev_ram.h"
#include "poet/checkpoint.h"
#include "poet/crc.h"

#define BLOCKS 16u
#define SLOT_BLOCKS 4u

static uint8_t memory[BLOCKS * POET_BLOCK_BYTES];
static uint8_t block[POET_BLOCK_BYTES];
static const uint8_t build_id[16] = {1, 2, 3};
static const uint8_t model_hash[POET_MODEL_HASH_BYTES] = {4, 5, 6};
static const poet_page_config config = {
    .region_blocks = 12u, .build_id = build_id, .slot_block = 1u, .slot_blocks = SLOT_BLOCKS};
static const poet_bdev_ram_config ram_config = {.memory = memory, .block_count = BLOCKS};
static poet_bdev_ram_state ram;
static const poet_bdev device = {.ops = &poet_bdev_ram_ops, .state = &ram};

static void must(poet_status status, const char *what)
{
    if (status != POET_OK) {
        printf("%s: %s\n", what, poet_status_text(status));
        exit(1);
    }
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (uint32_t i = 0u; i < 4u; i++) {
        bytes[i] = (uint8_t)(value >> (8u * i));
    }
}

/* A whole checkpoint by the bytes of SPEC.md, not by the code that is tested. */
static void forge(uint32_t slot, const char *word)
{
    uint8_t *header = &memory[(config.slot_block + slot * SLOT_BLOCKS) * POET_BLOCK_BYTES];
    char *end = NULL;
    if (word[0] == '-') {
        return;
    }
    const uint32_t sequence = (uint32_t)strtoul(word, &end, 0);
    memcpy(header, "POET-MCU CHECKPT", 16u);
    put_u32(&header[16], 1u);
    memcpy(&header[20], build_id, sizeof(build_id));
    memcpy(&header[36], model_hash, sizeof(model_hash));
    put_u32(&header[68], slot);
    put_u32(&header[72], SLOT_BLOCKS);
    put_u32(&header[76], sequence);
    put_u32(&header[80], 1u);
    put_u32(&header[108], poet_crc32(sequence, &header[POET_BLOCK_BYTES], POET_BLOCK_BYTES));
    put_u32(&header[112], poet_crc32(0u, header, 112u));
    header[POET_BLOCK_BYTES] = *end == '!' ? 1u : 0u;
}

int main(int argc, char **argv)
{
    poet_checkpoint slots;
    poet_checkpoint_info info = {.step = 0u};
    poet_checkpoint_info found;
    if (argc != 3) {
        return 2;
    }
    forge(0u, argv[1]);
    forge(1u, argv[2]);
    poet_bdev_ram_init(&ram, &ram_config);
    must(poet_bdev_ram_ops.open(&ram), "open");
    poet_checkpoint_init(&slots, &config, &device, model_hash, block);
    const poet_status first = poet_checkpoint_find(&slots, &found);
    printf("first=%s sequence=%u\n", poet_status_text(first),
           first == POET_OK ? (unsigned)found.sequence : 0u);
    for (uint32_t step = 1u; step <= 3u; step++) {
        info.step = step;
        must(poet_checkpoint_begin(&slots), "begin");
        must(poet_checkpoint_put(&slots, &info, sizeof(info)), "put");
        must(poet_checkpoint_commit(&slots, &info), "commit");
        poet_checkpoint_init(&slots, &config, &device, model_hash, block); /* as after a restart */
        must(poet_checkpoint_find(&slots, &found), "find");
        printf("written=%u found=%u step=%u\n", (unsigned)info.sequence,
               (unsigned)found.sequence, (unsigned)found.step);
    }
    return 0;
}
