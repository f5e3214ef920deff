#include "poet/page.h"

#include <stddef.h>
#include <string.h>

#include "poet/crc.h"

enum { PENDING_NONE = 0, PENDING_WRITE = 1, PENDING_READ = 2 };

#define NO_PAGE UINT32_MAX

/* Header of the region: block 0, little-endian, the rest of the block is zero (SPEC.md). */
#define HEADER_VERSION 2u
#define AT_VERSION 16u
#define AT_BUILD_ID 20u
#define AT_REGION_BLOCKS 36u
#define AT_SLOT_BLOCK 40u
#define AT_SLOT_BLOCKS 44u
#define AT_CRC 48u
#define HEADER_BYTES 52u
#define BUILD_ID_BYTES 16u
_Static_assert(AT_BUILD_ID + BUILD_ID_BYTES == AT_REGION_BLOCKS, "header fields are adjacent");
_Static_assert(HEADER_BYTES <= POET_BLOCK_BYTES, "header fits its block");

static void put_u32(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    bytes[2] = (uint8_t)(value >> 16);
    bytes[3] = (uint8_t)(value >> 24);
}

static void make_header(const poet_page_config *config, uint8_t header[HEADER_BYTES])
{
    static const uint8_t magic[AT_VERSION] = {'P', 'O', 'E', 'T', '-', 'M', 'C', 'U',
                                              ' ', 'C', 'A', 'R', 'D', 0,   0,   0};
    memcpy(header, magic, sizeof magic);
    put_u32(&header[AT_VERSION], HEADER_VERSION);
    memcpy(&header[AT_BUILD_ID], config->build_id, BUILD_ID_BYTES);
    put_u32(&header[AT_REGION_BLOCKS], config->region_blocks);
    put_u32(&header[AT_SLOT_BLOCK], config->slot_block);
    put_u32(&header[AT_SLOT_BLOCKS], config->slot_blocks);
    put_u32(&header[AT_CRC], poet_crc32(0u, header, AT_CRC));
}

static poet_status fail(poet_page_store *store, uint32_t block, poet_status status)
{
    if (status != POET_OK) {
        store->fault_block = block;
    }
    return status;
}

static uint32_t card_block(const poet_page_store *store, uint32_t page)
{
    return store->config->region_block + store->config->pages[page].first_block;
}

static poet_status read_now(const poet_page_store *store, uint32_t block, uint8_t *bytes,
                            uint32_t nbytes)
{
    POET_TRY(store->bdev->ops->start_read(store->bdev->state, block, bytes, nbytes));
    return store->bdev->ops->wait(store->bdev->state);
}

static poet_status write_now(const poet_page_store *store, uint32_t block, const uint8_t *bytes,
                             uint32_t nbytes)
{
    POET_TRY(store->bdev->ops->start_write(store->bdev->state, block, bytes, nbytes));
    return store->bdev->ops->wait(store->bdev->state);
}

void poet_page_init(poet_page_store *store, const poet_page_config *config, const poet_bdev *bdev,
                    poet_page_state *states)
{
    memset(store, 0, sizeof *store);
    store->config = config;
    store->bdev = bdev;
    store->states = states;
    store->pending_page = NO_PAGE;
    store->fault_block = POET_NO_BLOCK;
    if (config->page_count != 0u) {
        memset(states, 0, (size_t)config->page_count * sizeof states[0]);
    }
}

/* The generator's own mistakes: a page over the header, past the region or over a checkpoint. */
static poet_status check_layout(const poet_page_config *config)
{
    uint32_t end = config->region_blocks; /* of the pages */
    if (config->slot_blocks != 0u) {
        if (config->slot_block == 0u || config->slot_block > end ||
            config->slot_blocks > (end - config->slot_block) / 2u) {
            return POET_E_ARG;
        }
        end = config->slot_block;
    }
    if (end == 0u) {
        return POET_E_ARG;
    }
    for (uint32_t i = 0u; i < config->page_count; i++) {
        const poet_page_desc *page = &config->pages[i];
        if (page->nbytes == 0u || page->first_block == 0u ||
            page->first_block >= end) {
            return POET_E_ARG;
        }
        const uint32_t blocks = (page->nbytes - 1u) / POET_BLOCK_BYTES + 1u;
        if (blocks > end - page->first_block) {
            return POET_E_ARG;
        }
    }
    return POET_OK;
}

static poet_status check_capacity(const poet_page_store *store)
{
    const poet_page_config *config = store->config;
    const uint32_t count = store->bdev->ops->block_count(store->bdev->state);
    if (count < config->region_blocks || count - config->region_blocks < config->region_block) {
        return POET_E_CARD_SMALL;
    }
    return POET_OK;
}

static poet_status check_header(const poet_page_store *store)
{
    uint8_t expected[HEADER_BYTES];
    uint8_t found[HEADER_BYTES];
    make_header(store->config, expected);
    POET_TRY(read_now(store, store->config->region_block, found, HEADER_BYTES));
    return memcmp(expected, found, HEADER_BYTES) == 0 ? POET_OK : POET_E_CARD_IMAGE;
}

poet_status poet_page_open(poet_page_store *store)
{
    const uint32_t header_block = store->config->region_block;
    if (store->pending_page != NO_PAGE) {
        return POET_E_STATE;
    }
    POET_TRY(check_layout(store->config));
    POET_TRY(fail(store, POET_NO_BLOCK, store->bdev->ops->open(store->bdev->state)));
    POET_TRY(fail(store, header_block, check_capacity(store)));
    return fail(store, header_block, check_header(store));
}

/* A card that claims more than it has stores some blocks over others, and a worn one forgets: every
 * block of the region gets bytes of its own, then all are read. */
static poet_status probe_region(poet_page_store *store, const uint8_t *header)
{
    const uint32_t first = store->config->region_block;
    uint8_t probe[HEADER_BYTES];
    uint8_t found[HEADER_BYTES];
    for (uint32_t i = 0u; i < HEADER_BYTES; i++) {
        probe[i] = (uint8_t)(header[i] ^ 0xFFu);
    }
    for (uint32_t i = 0u; i < store->config->region_blocks; i++) {
        put_u32(probe, first + i);
        POET_TRY(fail(store, first + i, write_now(store, first + i, probe, HEADER_BYTES)));
    }
    POET_TRY(fail(store, first, store->bdev->ops->sync(store->bdev->state)));
    for (uint32_t i = 0u; i < store->config->region_blocks; i++) {
        put_u32(probe, first + i);
        POET_TRY(fail(store, first + i, read_now(store, first + i, found, HEADER_BYTES)));
        if (memcmp(probe, found, HEADER_BYTES) != 0) {
            return fail(store, first + i, POET_E_CARD_SMALL);
        }
    }
    return POET_OK;
}

poet_status poet_page_format(poet_page_store *store)
{
    const uint32_t header_block = store->config->region_block;
    uint8_t header[HEADER_BYTES];
    if (store->pending_page != NO_PAGE) {
        return POET_E_STATE;
    }
    POET_TRY(check_layout(store->config));
    POET_TRY(fail(store, header_block, check_capacity(store)));
    make_header(store->config, header);
    POET_TRY(probe_region(store, header));
    POET_TRY(fail(store, header_block, write_now(store, header_block, header, HEADER_BYTES)));
    POET_TRY(fail(store, header_block, store->bdev->ops->sync(store->bdev->state)));
    return fail(store, header_block, check_header(store));
}

poet_status poet_page_begin_step(poet_page_store *store)
{
    if (store->pending_page != NO_PAGE) {
        return POET_E_STATE;
    }
    for (uint32_t i = 0u; i < store->config->page_count; i++) {
        store->states[i].pending = PENDING_NONE;
        if (i >= store->config->kept_count) {
            store->states[i].valid = 0u;
        } else if (store->states[i].valid == 0u) {
            return POET_E_STATE;
        }
    }
    return POET_OK;
}

/* Bytes of the page in its block number block; 0 behind its end. */
static uint32_t block_bytes(uint32_t nbytes, uint32_t block)
{
    const uint32_t blocks = (nbytes - 1u) / POET_BLOCK_BYTES + 1u;
    if (block >= blocks) {
        return 0u;
    }
    const uint32_t left = nbytes - block * POET_BLOCK_BYTES;
    return left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
}

poet_status poet_page_fill(poet_page_store *store, uint32_t page, const void *bytes,
                           uint32_t nbytes)
{
    static const uint8_t zeros[POET_BLOCK_BYTES];
    if (page >= store->config->page_count || nbytes > store->config->pages[page].nbytes) {
        return POET_E_ARG;
    }
    if (store->pending_page != NO_PAGE) {
        return POET_E_STATE;
    }
    const uint32_t page_bytes = store->config->pages[page].nbytes;
    const uint32_t first = card_block(store, page);
    poet_page_state *state = &store->states[page];
    uint32_t crc = page;
    state->valid = 0u;
    for (uint32_t block = 0u; block_bytes(page_bytes, block) != 0u; block++) {
        /* The device pads a short write with zeros; the checksum has to count them. */
        const uint32_t start = block * POET_BLOCK_BYTES;
        const uint32_t left = start < nbytes ? nbytes - start : 0u;
        const uint32_t whole = block_bytes(page_bytes, block);
        const uint32_t given = left < whole ? left : whole;
        const uint8_t *source = given == 0u ? zeros : (const uint8_t *)bytes + start;
        POET_TRY(fail(store, first + block,
                      write_now(store, first + block, source, given == 0u ? whole : given)));
        crc = poet_crc32(crc, source, given);
        crc = poet_crc32(crc, zeros, whole - given);
    }
    state->crc = crc;
    state->valid = 1u;
    return POET_OK;
}

poet_status poet_page_peek(poet_page_store *store, uint32_t page, uint32_t block, uint8_t *buffer,
                           uint32_t *nbytes)
{
    if (page >= store->config->page_count || buffer == NULL) {
        return POET_E_ARG;
    }
    if (store->pending_page != NO_PAGE || store->states[page].valid == 0u) {
        return POET_E_STATE;
    }
    *nbytes = block_bytes(store->config->pages[page].nbytes, block);
    if (*nbytes == 0u) {
        return POET_E_ARG;
    }
    const uint32_t at = card_block(store, page) + block;
    return fail(store, at, read_now(store, at, buffer, *nbytes));
}

poet_status poet_page_poke(poet_page_store *store, uint32_t page, uint32_t block,
                           const uint8_t *bytes)
{
    if (page >= store->config->page_count || bytes == NULL) {
        return POET_E_ARG;
    }
    if (store->pending_page != NO_PAGE) {
        return POET_E_STATE;
    }
    const uint32_t page_bytes = store->config->pages[page].nbytes;
    const uint32_t nbytes = block_bytes(page_bytes, block);
    const uint32_t at = card_block(store, page) + block;
    poet_page_state *state = &store->states[page];
    if (nbytes == 0u) {
        return POET_E_ARG;
    }
    state->crc = block == 0u ? page : state->crc;
    state->valid = 0u;
    POET_TRY(fail(store, at, write_now(store, at, bytes, nbytes)));
    state->crc = poet_crc32(state->crc, bytes, nbytes);
    state->valid = block_bytes(page_bytes, block + 1u) == 0u ? 1u : 0u;
    return POET_OK;
}

static poet_status check_start(const poet_page_store *store, uint32_t page, const void *buffer)
{
    if (page >= store->config->page_count || buffer == NULL) {
        return POET_E_ARG;
    }
    return store->pending_page == NO_PAGE ? POET_OK : POET_E_STATE;
}

poet_status poet_page_out(poet_page_store *store, uint32_t page, const void *buffer)
{
    POET_TRY(check_start(store, page, buffer));
    const uint32_t nbytes = store->config->pages[page].nbytes;
    const uint32_t block = card_block(store, page);
    poet_page_state *state = &store->states[page];
    state->valid = 0u;
    POET_TRY(fail(store, block,
                  store->bdev->ops->start_write(store->bdev->state, block, buffer, nbytes)));
    /* After the start, so that it runs beside a transfer by DMA. */
    state->crc = poet_crc32(page, buffer, nbytes);
    state->pending = PENDING_WRITE;
    store->pending_page = page;
    store->pending_buffer = NULL;
    store->counters.writes++;
    store->counters.write_bytes += nbytes;
    return POET_OK;
}

poet_status poet_page_in(poet_page_store *store, uint32_t page, void *buffer)
{
    POET_TRY(check_start(store, page, buffer));
    const uint32_t nbytes = store->config->pages[page].nbytes;
    const uint32_t block = card_block(store, page);
    poet_page_state *state = &store->states[page];
    if (state->valid == 0u) {
        return POET_E_STATE;
    }
    POET_TRY(fail(store, block,
                  store->bdev->ops->start_read(store->bdev->state, block, buffer, nbytes)));
    state->pending = PENDING_READ;
    store->pending_page = page;
    store->pending_buffer = buffer;
    store->counters.reads++;
    store->counters.read_bytes += nbytes;
    return POET_OK;
}

poet_status poet_page_wait(poet_page_store *store, uint32_t page)
{
    if (page >= store->config->page_count) {
        return POET_E_ARG;
    }
    poet_page_state *state = &store->states[page];
    if (store->pending_page != page || state->pending == PENDING_NONE) {
        return POET_E_STATE;
    }
    const uint32_t block = card_block(store, page);
    const uint8_t pending = state->pending;
    const poet_status status = store->bdev->ops->wait(store->bdev->state);
    state->pending = PENDING_NONE;
    store->pending_page = NO_PAGE;
    POET_TRY(fail(store, block, status));
    if (pending == PENDING_WRITE) {
        state->valid = 1u;
        return POET_OK;
    }
    const uint32_t nbytes = store->config->pages[page].nbytes;
    const bool same = poet_crc32(page, store->pending_buffer, nbytes) == state->crc;
    return fail(store, block, same ? POET_OK : POET_E_PAGE_CRC);
}
