/* The model's tensors between steps, wherever they live.
 *
 * A parameter or state without a place in the arena lives on the card: its page is one of the
 * first of the page table, in the order of the tensor table. ``block`` is a buffer of
 * POET_BLOCK_BYTES for blocks of the card.
 */
#ifndef POET_TENSORS_H
#define POET_TENSORS_H

#include <stdbool.h>

#include "poet/model.h"

/* Parameter or state: what a checkpoint holds. */
bool poet_tensor_is_kept(const poet_tensor *tensor);
/* The page of one that lives on the card. */
uint32_t poet_tensor_page(const poet_model *model, const poet_tensor *tensor);
/* Start values into what lives in the arena: from flash, or zeros. */
void poet_tensors_reset(const poet_model *model);
/* The same on the card, which must be open. */
POET_MUST_CHECK poet_status poet_tensors_fill(const poet_model *model, poet_page_store *pages);
/* *bytes gets where [offset, offset + nbytes) of the tensor can be read until the next call. On
 * the card a range must lie within one block. POET_E_ARG for no such bytes. */
POET_MUST_CHECK poet_status poet_tensor_read(const poet_model *model, poet_page_store *pages,
                                             const poet_tensor *tensor, uint32_t offset,
                                             uint32_t nbytes, uint8_t *block,
                                             const uint8_t **bytes);
/* Bytes of the host into a tensor of the arena that it may write; else POET_E_ARG. */
POET_MUST_CHECK poet_status poet_tensor_write(const poet_tensor *tensor, uint32_t offset,
                                              const uint8_t *bytes, uint32_t nbytes);
/* CRC-32 of the tensor's bytes; POET_E_PAGE_CRC when the card does not hold what was written. */
POET_MUST_CHECK poet_status poet_tensor_crc(const poet_model *model, poet_page_store *pages,
                                            const poet_tensor *tensor, uint8_t *block,
                                            uint32_t *crc);

#endif
