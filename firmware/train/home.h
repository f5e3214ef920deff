/* Parameters and states that live on the card: their pages are the first of the page table, in the
 * order of the tensor table. Everything here is for the time between steps.
 */
#ifndef POET_HOME_H
#define POET_HOME_H

#include <stdbool.h>

#include "poet/model.h"

/* A parameter or state without a place in the arena. */
bool poet_home_on_card(const poet_tensor *tensor);
/* Write the start values of all homes: from flash, or zeros. */
POET_MUST_CHECK poet_status poet_home_fill(const poet_model *model, poet_page_store *pages);
/* Read the block that holds [offset, offset + nbytes) of the tensor into block (POET_BLOCK_BYTES);
 * POET_E_ARG when the range crosses a block. */
POET_MUST_CHECK poet_status poet_home_read(const poet_model *model, poet_page_store *pages,
                                           const poet_tensor *tensor, uint32_t offset,
                                           uint32_t nbytes, uint8_t *block);
/* CRC-32 of the tensor's bytes; POET_E_PAGE_CRC when the page is not what was written. */
POET_MUST_CHECK poet_status poet_home_crc(const poet_model *model, poet_page_store *pages,
                                          const poet_tensor *tensor, uint8_t *block, uint32_t *crc);

#endif
