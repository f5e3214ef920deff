/* What becomes of checkpoints that are on a card. The first two arguments are the sequence of a whole
 * checkpoint in slot 0, and that of slot 1; "!" behind one damages its data, "?" tears its header,
 * "~" makes it another build's; or "-" for zeros, "x" for garbage.
 *
 * With two arguments three more are written; after each the newest must be that one. Two others say
 * how the card is read while the board looks for its checkpoint ("data" or "headers": in each such
 * block of a whole checkpoint a bit turns, another one each time; "told": no data can be read), and how
 * many writes it takes after that. Then a healthy card is looked at.
 */
#include <stdbool.h>
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
static const char *misread = "";
static bool whole[2]; /* what is in the slots */
static uint32_t reads;
static uint32_t writes_left = UINT32_MAX;

static bool is_data(uint32_t at)
{
    return (at - config.slot_block) % SLOT_BLOCKS != 0u;
}

static bool is_whole(uint32_t at)
{
    return at < config.region_blocks && whole[(at - config.slot_block) / SLOT_BLOCKS];
}

static poet_status read_badly(void *state, uint32_t at, void *bytes, uint32_t nbytes)
{
    POET_TRY(poet_bdev_ram_ops.start_read(state, at, bytes, nbytes));
    if (strcmp(misread, "told") == 0 && is_data(at)) {
        return POET_E_CARD_READ;
    }
    if (is_whole(at) && strcmp(misread, is_data(at) ? "data" : "headers") == 0) {
        ((uint8_t *)bytes)[84u + reads % 28u] ^= 0x10u; /* in a header's fields */
    }
    reads++;
    return POET_OK;
}

static poet_status write_few(void *state, uint32_t at, const void *bytes, uint32_t nbytes)
{
    if (writes_left == 0u) {
        return POET_E_CARD_WRITE;
    }
    writes_left--;
    return poet_bdev_ram_ops.start_write(state, at, bytes, nbytes);
}

static poet_bdev_ops ops;
static const poet_bdev device = {.ops = &ops, .state = &ram};

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
    if (word[0] == 'x') {
        memset(header, 0x5A, POET_BLOCK_BYTES);
        return;
    }
    const uint32_t sequence = (uint32_t)strtoul(word, &end, 0);
    memcpy(header, "POET-MCU CHECKPT", 16u);
    put_u32(&header[16], 1u);
    memcpy(&header[20], build_id, sizeof(build_id));
    memcpy(&header[36], model_hash, sizeof(model_hash));
    header[20] ^= *end == '~' ? 1u : 0u;
    put_u32(&header[68], slot);
    put_u32(&header[72], SLOT_BLOCKS);
    put_u32(&header[76], sequence);
    put_u32(&header[80], 1u);
    put_u32(&header[108], poet_crc32(sequence, &header[POET_BLOCK_BYTES], POET_BLOCK_BYTES));
    put_u32(&header[112], poet_crc32(0u, header, 112u));
    header[POET_BLOCK_BYTES] = *end == '!' ? 1u : 0u;
    header[84] = *end == '?' ? 1u : 0u; /* the steps done */
    whole[slot] = *end == '\0';
}

static poet_status look(poet_checkpoint *slots, const char *when)
{
    poet_checkpoint_info found = {.sequence = 0u};
    poet_checkpoint_init(slots, &config, &device, model_hash, block); /* as after a restart */
    const poet_status status = poet_checkpoint_find(slots, &found);
    printf("%s=%s sequence=%u step=%u\n", when, poet_status_text(status),
           (unsigned)found.sequence, (unsigned)found.step);
    return status;
}

static poet_status save(poet_checkpoint *slots, uint32_t step, uint32_t *sequence)
{
    poet_checkpoint_info info = {.step = step};
    POET_TRY(poet_checkpoint_begin(slots));
    POET_TRY(poet_checkpoint_put(slots, &info, sizeof(info)));
    POET_TRY(poet_checkpoint_commit(slots, &info));
    *sequence = info.sequence;
    return POET_OK;
}

static void write_three(poet_checkpoint *slots)
{
    for (uint32_t step = 1u; step <= 3u; step++) {
        uint32_t sequence = 0u;
        must(save(slots, step, &sequence), "save");
        printf("written=%u ", (unsigned)sequence);
        must(look(slots, "found"), "find");
    }
}

int main(int argc, char **argv)
{
    poet_checkpoint slots;
    if (argc != 3 && argc != 5) {
        return 2;
    }
    forge(0u, argv[1]);
    forge(1u, argv[2]);
    ops = poet_bdev_ram_ops;
    ops.start_read = read_badly;
    ops.start_write = write_few;
    poet_bdev_ram_init(&ram, &ram_config);
    must(poet_bdev_ram_ops.open(&ram), "open");
    misread = argc == 5 ? argv[3] : "";
    const poet_status first = look(&slots, "first");
    misread = "";
    if (argc == 3) {
        write_three(&slots);
        return 0;
    }
    uint32_t sequence = 0u;
    writes_left = (uint32_t)strtoul(argv[4], NULL, 0);
    /* What the trainer does: it saves unless the card could not be read. */
    if (first == POET_OK || first == POET_E_CHECKPOINT || first == POET_E_CHECKPOINT_BUILD) {
        printf("saved=%s\n", poet_status_text(save(&slots, 7u, &sequence)));
    }
    (void)look(&slots, "then");
    return 0;
}
