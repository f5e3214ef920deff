/* What the drivers for SPI and for the four-bit bus share: the card-specific data register.
 * SD Physical Layer Simplified Specification 5.3.2 (version 1) and 5.3.3 (version 2).
 */
#ifndef POET_SD_CSD_H
#define POET_SD_CSD_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/status.h"

/* Blocks of the card from its CSD, most significant byte first. POET_E_CARD_TYPE: SDUC and what
 * comes after it, or nonsense; POET_E_CARD_CRC: it disagrees with block_addressed, the OCR's word,
 * so one of the two was read wrong. */
POET_MUST_CHECK poet_status poet_sd_capacity(const uint8_t csd[16], bool block_addressed,
                                             uint32_t *blocks);

#endif
