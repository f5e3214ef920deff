/* The trainer's card: pages of steps, homes of tensors, checkpoints.
 *
 * A plan that pages opens it at the start; any other with its first checkpoint.
 */
#ifndef POET_TRAIN_CARD_H
#define POET_TRAIN_CARD_H

#include <stdbool.h>

#include "poet/checkpoint.h"
#include "poet/model.h"

typedef struct {
    const poet_model *model;
    poet_page_store pages;
    uint8_t *block;     /* POET_BLOCK_BYTES that are free while a request is served */
    poet_status status; /* of the card; POET_OK while nothing needs it */
    uint32_t spare;     /* what poet_checkpoint_find told, while scanned */
    uint32_t sequence;
    bool opened;
    bool scanned;
} poet_card;

/* Bind; no input or output. */
void poet_card_init(poet_card *card, const poet_model *model, uint8_t *block);
/* Whether the plan pages. */
bool poet_card_pages(const poet_card *card);
/* Open the card, where the plan pages, and give what lives there its start values. */
void poet_card_start(poet_card *card);
/* May a straight line start? All pages but the homes are free then. */
POET_MUST_CHECK poet_status poet_card_begin_step(poet_card *card);
/* Take the card for this build: what is in the region is lost. Start values as in start. */
POET_MUST_CHECK poet_status poet_card_format(poet_card *card);
/* Write a checkpoint of every parameter and state; fills in info->sequence. The model must be that
 * of a whole step. Afterwards it still is, whatever the status. */
POET_MUST_CHECK poet_status poet_card_save(poet_card *card, poet_checkpoint_info *info);
/* Read the newest whole checkpoint back; the card is opened again first. *changed tells whether
 * parameters were touched: with an error they are then neither old nor new. */
POET_MUST_CHECK poet_status poet_card_load(poet_card *card, poet_checkpoint_info *info,
                                           bool *changed);

#endif
