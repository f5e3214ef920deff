/* Fuzz target: a card full of anything under the page store and the checkpoints.
 *
 * The input is a layout (often the usual one), bytes of the card (with right checksums where asked),
 * and a list of operations with faults among them. What must hold, beside memory: no transfer
 * outside of the region; what was written and acknowledged comes back, or an error does; a
 * checkpoint that was found is read whole; after a commit the newest checkpoint is that one.
 */

#include "input.h"
#include "memory_card.h"
#include "must.h"
#include "poet/checkpoint.h"
#include "poet/crc.h"
#include "poet/page.h"

#define MOST_PAGES 3u
#define MOST_PAGE_BYTES 2048u
#define MOST_OPERATIONS 64u
#define NO_STATUS 1 /* of nothing that has run */

static const uint8_t build_id[16] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6};
static const uint8_t model_hash[POET_MODEL_HASH_BYTES] = {0xAB, 0x00, 0xCD};

static struct {
    fuzz_card card;
    poet_bdev device;
    poet_page_desc pages[MOST_PAGES];
    poet_page_config config;
    poet_page_state states[MOST_PAGES];
    poet_page_store store;
    poet_checkpoint slots;
    uint8_t block[POET_BLOCK_BYTES];
    uint8_t written[MOST_PAGES][MOST_PAGE_BYTES]; /* what each valid page holds */
    bool known[MOST_PAGES];
    uint32_t struck[MOST_PAGES]; /* faults of the card before it was written */
    bool usual;
    bool open;
    bool scanned;
} self;

static uint32_t get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8) | ((uint32_t)bytes[2] << 16) |
           ((uint32_t)bytes[3] << 24);
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (uint32_t i = 0u; i < 4u; i++) {
        bytes[i] = (uint8_t)(value >> (8u * i));
    }
}

/// The card's content

static void usual_layout(void)
{
    self.pages[0] = (poet_page_desc){.first_block = 1u, .nbytes = 1300u};
    self.pages[1] = (poet_page_desc){.first_block = 4u, .nbytes = 512u};
    self.pages[2] = (poet_page_desc){.first_block = 5u, .nbytes = 7u};
    self.config.region_block = 8u;
    self.config.region_blocks = 24u;
    self.config.page_count = MOST_PAGES;
    self.config.kept_count = 1u;
    self.config.slot_block = 8u;
    self.config.slot_blocks = 8u;
    self.usual = true;
}

/* Any numbers, extremes among them: the store must refuse what does not fit. */
static uint32_t odd_number(fuzz_input *input)
{
    const uint8_t kind = fuzz_u8(input);
    const uint32_t value = fuzz_u8(input);
    return (kind & 3u) == 0u ? UINT32_MAX - value : ((kind & 4u) != 0u ? value * 512u : value);
}

static void odd_layout(fuzz_input *input)
{
    for (uint32_t i = 0u; i < MOST_PAGES; i++) {
        self.pages[i].first_block = odd_number(input);
        self.pages[i].nbytes = odd_number(input);
    }
    self.config.region_block = odd_number(input);
    self.config.region_blocks = odd_number(input);
    self.config.page_count = fuzz_u8(input) % (MOST_PAGES + 1u);
    self.config.kept_count = fuzz_u8(input) % (self.config.page_count + 1u);
    self.config.slot_block = odd_number(input);
    self.config.slot_blocks = odd_number(input);
}

static void lay_out(fuzz_input *input)
{
    const uint8_t kind = fuzz_u8(input);
    if ((kind & 3u) == 3u) {
        odd_layout(input);
    } else {
        usual_layout();
    }
    self.config.pages = self.pages;
    self.config.build_id = build_id;
    self.device.ops = &fuzz_card_ops;
    self.device.state = &self.card;
    self.card.block_count = (kind & 4u) != 0u ? fuzz_u8(input) % (FUZZ_CARD_BLOCKS + 1u)
                                              : FUZZ_CARD_BLOCKS;
    /* Not more than the card has: an access beyond would be the firmware's fault, too. */
    self.card.first_block = self.config.region_block;
    self.card.end_block = self.config.region_block;
    if (self.config.region_block <= self.card.block_count &&
        self.config.region_blocks <= self.card.block_count - self.config.region_block) {
        self.card.end_block = self.config.region_block + self.config.region_blocks;
    }
}

static uint8_t *region(uint32_t block)
{
    return self.card.memory[(self.config.region_block + block) % FUZZ_CARD_BLOCKS];
}

/* Bytes of the input onto the card; seal: into a field of a slot's header, with right checksums. */
static void change_card(fuzz_input *input)
{
    const uint32_t block = fuzz_u8(input);
    const uint32_t at = fuzz_u16(input) % POET_BLOCK_BYTES;
    const uint32_t room = POET_BLOCK_BYTES - at;
    const uint32_t asked = fuzz_u8(input) % 65u;
    (void)fuzz_take(input, &region(block)[at], asked < room ? asked : room);
}

static void seal_header(void)
{
    uint8_t *header = region(0u);
    memcpy(header, "POET-MCU CARD\0\0", 16u);
    memcpy(&header[20], build_id, sizeof(build_id));
    put_u32(&header[16], 2u);
    put_u32(&header[36], self.config.region_blocks);
    put_u32(&header[40], self.config.slot_block);
    put_u32(&header[44], self.config.slot_blocks);
    put_u32(&header[48], poet_crc32(0u, header, 48u));
}

/* As if the slot were a checkpoint of ours, whatever its numbers; kind leaves out one repair each. */
static void seal_slot(uint32_t slot, uint8_t kind)
{
    const uint32_t first = self.config.slot_block + slot * self.config.slot_blocks;
    uint8_t *header = region(first);
    memcpy(header, "POET-MCU CHECKPT", 16u);
    if ((kind & 1u) == 0u) {
        put_u32(&header[16], 1u);
        memcpy(&header[20], build_id, sizeof(build_id));
        memcpy(&header[36], model_hash, sizeof(model_hash));
        put_u32(&header[68], slot);
        put_u32(&header[72], self.config.slot_blocks);
    }
    if ((kind & 2u) == 0u) {
        const uint32_t count = get_u32(&header[80]) % 8u;
        uint32_t crc = get_u32(&header[76]);
        put_u32(&header[80], count);
        for (uint32_t block = 1u; block <= count; block++) {
            crc = poet_crc32(crc, region(first + block), POET_BLOCK_BYTES);
        }
        put_u32(&header[108], crc);
    }
    put_u32(&header[112], poet_crc32(0u, header, 112u));
}

/// Operations

/* Opening leaves the pages as they are, formatting writes over them; one that fails, over some. */
static void open_store(bool format)
{
    poet_status status = poet_page_open(&self.store);
    if (format && (status == POET_OK || status == POET_E_CARD_IMAGE)) {
        status = poet_page_format(&self.store);
        if (status == POET_OK) {
            memset(self.known, 0, sizeof(self.known));
            memset(self.states, 0, sizeof(self.states)); /* as the next step would */
        }
    }
    self.scanned = false;
    self.open = status == POET_OK;
}

static void fill_page(fuzz_input *input, uint32_t page)
{
    uint8_t *bytes = self.written[page];
    const uint32_t whole = self.pages[page].nbytes;
    const uint32_t given = fuzz_u16(input) % (whole + 1u);
    (void)fuzz_take(input, bytes, 16u);
    memset(&bytes[given], 0, MOST_PAGE_BYTES - given);
    self.struck[page] = self.card.struck;
    self.known[page] = poet_page_fill(&self.store, page, bytes, given) == POET_OK;
}

static void write_page(fuzz_input *input, uint32_t page)
{
    uint8_t *bytes = self.written[page];
    (void)fuzz_take(input, bytes, 32u);
    self.struck[page] = self.card.struck;
    self.known[page] = poet_page_out(&self.store, page, bytes) == POET_OK;
    /* A transfer that has begun is waited for, or the store stays busy with it. */
    self.known[page] = self.known[page] && poet_page_wait(&self.store, page) == POET_OK;
}

static void read_page(uint32_t page)
{
    static uint8_t found[MOST_PAGE_BYTES];
    const bool good = poet_page_in(&self.store, page, found) == POET_OK &&
                      poet_page_wait(&self.store, page) == POET_OK;
    if (good) {
        must(self.known[page]);
        must(memcmp(found, self.written[page], self.pages[page].nbytes) == 0);
    } else if (self.known[page] && self.usual) { /* odd layouts may lay pages over each other */
        must(self.card.struck != self.struck[page]);
    }
}

/* Block by block, as requests and checkpoints do. */
static void visit_page(uint32_t page)
{
    uint32_t count = 0u;
    const uint32_t before = self.card.struck;
    for (uint32_t block = 0u; self.states[page].valid != 0u && block < 5u; block++) {
        const poet_status status =
            poet_page_peek(&self.store, page, block, self.block, &count);
        if (status == POET_OK && self.usual && self.known[page] &&
            self.card.struck == self.struck[page]) {
            must(memcmp(self.block, &self.written[page][block * POET_BLOCK_BYTES], count) == 0);
        }
    }
    self.struck[page] = self.card.struck;
    self.known[page] = false;
    for (uint32_t at = 0u; at < self.pages[page].nbytes; at += POET_BLOCK_BYTES) {
        const uint8_t *bytes = &self.written[page][at];
        if (poet_page_poke(&self.store, page, at / POET_BLOCK_BYTES, bytes) != POET_OK) {
            must(!self.usual || self.card.struck != before);
            return;
        }
        must((self.states[page].valid != 0u) ==
             (at + POET_BLOCK_BYTES >= self.pages[page].nbytes));
    }
    self.known[page] = true;
}

/* With no fault armed none can strike: whatever was found must be there as a whole. */
static void find_checkpoint(void)
{
    poet_checkpoint_info info;
    uint8_t block[POET_BLOCK_BYTES];
    poet_checkpoint_init(&self.slots, &self.config, &self.device, model_hash, self.block);
    const poet_status found = poet_checkpoint_find(&self.slots, &info);
    self.scanned = found == POET_OK || found == POET_E_CHECKPOINT ||
                   found == POET_E_CHECKPOINT_BUILD;
    if (found != POET_OK) {
        return;
    }
    must(self.slots.newest < POET_CHECKPOINT_SLOTS);
    const bool quiet = self.card.fault == FUZZ_CARD_WELL;
    bool whole = poet_checkpoint_rewind(&self.slots) == POET_OK;
    while (whole && self.slots.at < self.slots.end) {
        whole = poet_checkpoint_get(&self.slots, block, POET_BLOCK_BYTES) == POET_OK;
    }
    whole = whole && poet_checkpoint_end(&self.slots) == POET_OK;
    must(whole || !quiet);
}

static void save_checkpoint(fuzz_input *input)
{
    poet_checkpoint_info info = {.step = fuzz_u8(input), .loss_bits = 7u};
    poet_checkpoint_info found;
    uint8_t bytes[1100];
    if (!self.scanned) {
        return;
    }
    memset(bytes, 0x3C, sizeof(bytes));
    (void)fuzz_take(input, bytes, 16u);
    poet_status status = poet_checkpoint_begin(&self.slots);
    const uint32_t puts = fuzz_u8(input) % 6u;
    for (uint32_t i = 0u; status == POET_OK && i < puts; i++) {
        status = poet_checkpoint_put(&self.slots, bytes, fuzz_u16(input) % sizeof(bytes));
    }
    if (status != POET_OK || poet_checkpoint_commit(&self.slots, &info) != POET_OK) {
        self.scanned = false;
        return;
    }
    const bool quiet = self.card.fault == FUZZ_CARD_WELL;
    status = poet_checkpoint_find(&self.slots, &found);
    self.scanned = status == POET_OK;
    if (quiet) {
        must(status == POET_OK && found.damaged == 0u);
        must(found.sequence == info.sequence && found.step == info.step);
    }
}

static void operate(fuzz_input *input)
{
    const uint8_t kind = fuzz_u8(input);
    const uint32_t page = (uint32_t)(kind >> 4) % MOST_PAGES;
    const bool usable = self.open && page < self.config.page_count &&
                        self.pages[page].nbytes <= MOST_PAGE_BYTES; /* as our copy has */
    switch (kind % 12u) {
    case 0u:
        open_store(false);
        break;
    case 1u:
        open_store(true);
        break;
    case 2u:
        if (self.open) {
            self.scanned = false;
            change_card(input);
            memset(self.known, 0, sizeof(self.known));
            memset(self.states, 0, sizeof(self.states)); /* or a page would be rotten, rightly */
        }
        break;
    case 3u:
        self.card.fault = (fuzz_card_fault)(fuzz_u8(input) % FUZZ_CARD_FAULTS);
        self.card.countdown = fuzz_u8(input) % 32u;
        break;
    case 4u:
        if (usable) {
            fill_page(input, page);
        }
        break;
    case 5u:
    case 6u:
        if (usable) {
            write_page(input, page);
        }
        break;
    case 7u:
    case 8u:
        if (usable) {
            read_page(page);
        }
        break;
    case 9u:
        if (usable) {
            visit_page(page);
        }
        break;
    case 10u:
        if (self.open) {
            find_checkpoint();
        }
        break;
    default:
        if (self.open) {
            save_checkpoint(input);
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {.bytes = data, .left = size};
    memset(&self, 0, sizeof(self));
    lay_out(&input);
    poet_page_init(&self.store, &self.config, &self.device, self.states);
    const uint32_t changes = fuzz_u8(&input) % 8u;
    for (uint32_t i = 0u; i < changes; i++) {
        change_card(&input);
    }
    const uint8_t seals = fuzz_u8(&input);
    if ((seals & 1u) != 0u) {
        seal_header();
    }
    for (uint32_t slot = 0u; slot < POET_CHECKPOINT_SLOTS; slot++) {
        if ((seals & (2u << slot)) != 0u) {
            seal_slot(slot, (uint8_t)(seals >> (3u + 2u * slot)));
        }
    }
    for (uint32_t i = 0u; i < MOST_OPERATIONS && fuzz_more(&input); i++) {
        operate(&input);
    }
    return 0;
}
