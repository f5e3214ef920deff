/* Checkpoints of the model's tensors, and the one place that opens the card. */
#include "card.h"

#include <string.h>

#include "poet/crc.h"
#include "poet/port.h"
#include "tensors.h"

void poet_card_init(poet_card *card, const poet_model *model, uint8_t *block)
{
    memset(card, 0, sizeof *card);
    card->model = model;
    card->block = block;
    card->pages.fault_block = POET_NO_BLOCK;
    if (model->pages != NULL) {
        poet_page_init(&card->pages, model->pages, poet_port_bdev(), model->page_states);
    }
}

bool poet_card_pages(const poet_card *card)
{
    return card->model->pages != NULL && card->model->pages->page_count != 0u;
}

/* Device and header; what the pages hold stays as it is. */
static poet_status open_region(poet_card *card)
{
    card->opened = false;
    card->scanned = false;
    POET_TRY(poet_page_open(&card->pages));
    card->opened = true;
    return POET_OK;
}

static poet_status start(poet_card *card)
{
    POET_TRY(open_region(card));
    return poet_tensors_fill(card->model, &card->pages);
}

void poet_card_start(poet_card *card)
{
    if (poet_card_pages(card)) {
        card->status = start(card); /* clears what a failed step left */
    }
}

poet_status poet_card_begin_step(poet_card *card)
{
    if (!poet_card_pages(card)) {
        return POET_OK;
    }
    POET_TRY(card->status);
    return poet_page_begin_step(&card->pages);
}

/* Open first: the card may have come after the start, and only an open device takes a header. */
static poet_status format(poet_card *card)
{
    const poet_status opened = open_region(card);
    if (opened != POET_OK && opened != POET_E_CARD_IMAGE) {
        return opened;
    }
    POET_TRY(poet_page_format(&card->pages));
    return start(card);
}

poet_status poet_card_format(poet_card *card)
{
    const poet_page_config *config = card->model->pages;
    if (config == NULL || (config->page_count == 0u && config->slot_blocks == 0u)) {
        return POET_OK; /* nothing of this model goes to a card */
    }
    const poet_status status = format(card);
    if (poet_card_pages(card)) {
        card->status = status;
    }
    return status;
}

/* ---- checkpoints ---- */

static poet_checkpoint slots_of(poet_card *card)
{
    poet_checkpoint slots;
    poet_checkpoint_init(&slots, card->model->pages, card->pages.bdev, card->model->model_hash,
                         card->block);
    slots.spare = card->spare;
    slots.sequence = card->sequence;
    return slots;
}

/* The first error of a checkpoint tells its block as one of a page does. */
static poet_status noted(poet_card *card, const poet_checkpoint *slots, poet_status status)
{
    if (status != POET_OK && slots->fault_block != POET_NO_BLOCK) {
        card->pages.fault_block = slots->fault_block;
    }
    return status;
}

/* Which slot may be written over? Asked of the card once after it was opened. */
static poet_status scan(poet_card *card, poet_checkpoint *slots, poet_checkpoint_info *info)
{
    const poet_status found = poet_checkpoint_find(slots, info);
    card->spare = slots->spare;
    card->sequence = slots->sequence;
    card->scanned = found == POET_OK || found == POET_E_CHECKPOINT ||
                    found == POET_E_CHECKPOINT_BUILD;
    return found;
}

/* Bytes of something nbytes long in its block number block. */
static uint32_t bytes_in(uint32_t nbytes, uint32_t block)
{
    const uint32_t start = block * POET_BLOCK_BYTES;
    const uint32_t left = start < nbytes ? nbytes - start : 0u;
    return left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
}

/* One whose home is the card goes from its page to the slot block by block; a page that has rotted
 * does not become a checkpoint. */
static poet_status save_page(poet_card *card, poet_checkpoint *slots, const poet_tensor *tensor)
{
    const uint32_t page = poet_tensor_page(card->model, tensor);
    const uint32_t page_bytes = card->model->pages->pages[page].nbytes;
    uint32_t crc = page;
    for (uint32_t block = 0u; bytes_in(page_bytes, block) != 0u; block++) {
        uint32_t count = 0u;
        POET_TRY(poet_page_peek(&card->pages, page, block, card->block, &count));
        crc = poet_crc32(crc, card->block, count);
        const uint32_t part = bytes_in(tensor->nbytes, block);
        if (part != 0u) {
            POET_TRY(noted(card, slots, poet_checkpoint_put(slots, card->block, part)));
        }
    }
    return crc == card->pages.states[page].crc ? POET_OK : POET_E_PAGE_CRC;
}

static poet_status save_tensors(poet_card *card, poet_checkpoint *slots)
{
    const poet_model *model = card->model;
    for (uint32_t i = 0u; i < model->tensor_count; i++) {
        const poet_tensor *tensor = &model->tensors[i];
        if (!poet_tensor_is_kept(tensor)) {
            continue;
        }
        if (tensor->data == NULL) {
            POET_TRY(save_page(card, slots, tensor));
        } else {
            POET_TRY(noted(card, slots, poet_checkpoint_put(slots, tensor->data, tensor->nbytes)));
        }
    }
    return POET_OK;
}

static poet_status save(poet_card *card, poet_checkpoint_info *info)
{
    if (!card->opened) {
        POET_TRY(open_region(card));
    }
    poet_checkpoint slots = slots_of(card);
    if (!card->scanned) {
        poet_checkpoint_info found;
        const poet_status status = noted(card, &slots, scan(card, &slots, &found));
        if (!card->scanned) {
            return status;
        }
    }
    POET_TRY(noted(card, &slots, poet_checkpoint_begin(&slots)));
    POET_TRY(save_tensors(card, &slots));
    POET_TRY(noted(card, &slots, poet_checkpoint_commit(&slots, info)));
    card->spare = slots.spare;
    card->sequence = slots.sequence;
    return POET_OK;
}

poet_status poet_card_save(poet_card *card, poet_checkpoint_info *info)
{
    POET_TRY(card->model->pages == NULL ? POET_E_ARG : card->status);
    card->pages.fault_block = POET_NO_BLOCK;
    const poet_status status = save(card, info);
    if (status != POET_OK) {
        /* An error may have closed the device; the pages in it are still those of the last step,
         * which their checksums will tell if somebody changed the card. */
        const uint32_t block = card->pages.fault_block;
        const poet_status again = open_region(card);
        card->status = poet_card_pages(card) ? again : POET_OK;
        card->pages.fault_block = block;
    }
    return status;
}

static poet_status load_page(poet_card *card, poet_checkpoint *slots, const poet_tensor *tensor)
{
    const uint32_t page = poet_tensor_page(card->model, tensor);
    const uint32_t page_bytes = card->model->pages->pages[page].nbytes;
    for (uint32_t block = 0u; bytes_in(page_bytes, block) != 0u; block++) {
        const uint32_t part = bytes_in(tensor->nbytes, block);
        memset(card->block, 0, POET_BLOCK_BYTES); /* a page may be longer than its tensor */
        if (part != 0u) {
            POET_TRY(noted(card, slots, poet_checkpoint_get(slots, card->block, part)));
        }
        POET_TRY(poet_page_poke(&card->pages, page, block, card->block));
    }
    return POET_OK;
}

static poet_status load_tensors(poet_card *card, poet_checkpoint *slots)
{
    const poet_model *model = card->model;
    for (uint32_t i = 0u; i < model->tensor_count; i++) {
        const poet_tensor *tensor = &model->tensors[i];
        if (!poet_tensor_is_kept(tensor)) {
            continue;
        }
        if (tensor->data == NULL) {
            POET_TRY(load_page(card, slots, tensor));
        } else {
            POET_TRY(noted(card, slots, poet_checkpoint_get(slots, tensor->data, tensor->nbytes)));
        }
    }
    return noted(card, slots, poet_checkpoint_end(slots));
}

static poet_status load(poet_card *card, poet_checkpoint_info *info, bool *changed)
{
    POET_TRY(open_region(card));
    poet_checkpoint slots = slots_of(card);
    POET_TRY(noted(card, &slots, scan(card, &slots, info)));
    POET_TRY(noted(card, &slots, poet_checkpoint_rewind(&slots)));
    *changed = true;
    return load_tensors(card, &slots);
}

poet_status poet_card_load(poet_card *card, poet_checkpoint_info *info, bool *changed)
{
    *changed = false;
    card->pages.fault_block = POET_NO_BLOCK;
    if (card->model->pages == NULL) {
        return POET_E_ARG;
    }
    const poet_status status = load(card, info, changed);
    if (poet_card_pages(card) && (!card->opened || *changed)) {
        card->status = card->opened ? POET_OK : status;
    }
    return status;
}
