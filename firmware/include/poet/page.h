/* Page store: values of the arena parked on the card within one step.
 *
 * A page is a run of blocks in a raw region. Its checksum (CRC-32 over the bytes, seeded with the
 * page's number) is kept in RAM while the page is valid, so a lost, stale, torn or misdirected
 * write is caught on the way in, before any kernel uses the bytes. Pages do not outlive a step,
 * except the first kept_count: the homes of values that live on the card, valid from their first
 * write on. Order of use: out, wait, in, wait. Everything returns the first error.
 *
 * Block 0 of the region is a header that names the build which the card was prepared for, so that
 * a card full of somebody's photographs is never overwritten. See SPEC.md for the bytes.
 */
#ifndef POET_PAGE_H
#define POET_PAGE_H

#include "poet/bdev.h"

typedef struct {
    uint32_t first_block; /* relative to the region, header excluded from use */
    uint32_t nbytes;
} poet_page_desc;

typedef struct {
    uint32_t crc;
    uint8_t valid;   /* the page was written in this step and waited for */
    uint8_t pending; /* 0 none, 1 write under way, 2 read under way */
    uint16_t reserved;
} poet_page_state;

typedef struct {
    uint32_t region_block;  /* first block of the region on the card: its header */
    uint32_t region_blocks; /* header, pages and checkpoints */
    uint32_t page_count;
    uint32_t kept_count; /* the first pages stay valid from step to step */
    const poet_page_desc *pages;
    const uint8_t *build_id; /* 16 bytes */
    uint32_t slot_block;     /* first of the two slots of checkpoints, relative to the region */
    uint32_t slot_blocks;    /* of one slot; 0: there are none */
} poet_page_config;

typedef struct {
    uint64_t read_bytes;  /* payload bytes asked for, not rounded to blocks */
    uint64_t write_bytes;
    uint32_t reads;       /* transfers */
    uint32_t writes;
} poet_page_counters;

typedef struct {
    const poet_page_config *config;
    const poet_bdev *bdev;
    poet_page_state *states; /* page_count entries, the caller's */
    void *pending_buffer;
    uint32_t pending_page; /* UINT32_MAX: none */
    uint32_t fault_block;  /* block of the last error, POET_NO_BLOCK when none */
    poet_page_counters counters;
} poet_page_store;

/* Bind; no input or output. */
void poet_page_init(poet_page_store *store, const poet_page_config *config, const poet_bdev *bdev,
                    poet_page_state *states);
/* Open the device and check capacity and header: POET_E_CARD_SMALL, POET_E_CARD_IMAGE. */
POET_MUST_CHECK poet_status poet_page_open(poet_page_store *store);
/* Write every block of the region and read it back (POET_E_CARD_SMALL: the card has not as many as
 * it claims, or loses writes), then the header: from here on the region is ours, and without
 * pages or checkpoints. The device must be open. */
POET_MUST_CHECK poet_status poet_page_format(poet_page_store *store);
/* All pages but the kept ones become invalid: the beginning of a step. POET_E_STATE with a transfer
 * under way, or when a kept page has no valid content. */
POET_MUST_CHECK poet_status poet_page_begin_step(poet_page_store *store);
/* Start to write / read page number page from / to buffer (its nbytes). */
POET_MUST_CHECK poet_status poet_page_out(poet_page_store *store, uint32_t page, const void *buffer);
POET_MUST_CHECK poet_status poet_page_in(poet_page_store *store, uint32_t page, void *buffer);
/* End the transfer of the page; verifies the checksum after a read (POET_E_PAGE_CRC). */
POET_MUST_CHECK poet_status poet_page_wait(poet_page_store *store, uint32_t page);
/* Outside of steps: give a page its start content: nbytes of bytes (at most the page's), zeros
 * behind them. Not counted. */
POET_MUST_CHECK poet_status poet_page_fill(poet_page_store *store, uint32_t page,
                                           const void *bytes, uint32_t nbytes);
/* Outside of steps: read block number block (of the page) of a valid page into buffer, at most
 * POET_BLOCK_BYTES; nbytes gets how many are the page's. Not counted, not checked: see verify. */
POET_MUST_CHECK poet_status poet_page_peek(poet_page_store *store, uint32_t page, uint32_t block,
                                           uint8_t *buffer, uint32_t *nbytes);
/* Outside of steps: write block number block (of the page) from bytes; from 0 on, in order. With the
 * last one the page is valid. Not counted. */
POET_MUST_CHECK poet_status poet_page_poke(poet_page_store *store, uint32_t page, uint32_t block,
                                           const uint8_t *bytes);

#endif
