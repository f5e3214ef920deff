#include "poet/sd_csd.h"

/* Bit n of the register is bit n % 8 of byte 15 - n / 8. */
poet_status poet_sd_capacity(const uint8_t csd[16], bool block_addressed, uint32_t *blocks)
{
    const uint32_t structure = (uint32_t)csd[0] >> 6;
    if (structure > 1u) {
        return POET_E_CARD_TYPE;
    }
    if ((structure == 1u) != block_addressed) {
        return POET_E_CARD_CRC;
    }
    if (structure == 1u) {
        const uint32_t size =
            (((uint32_t)csd[7] & 0x3Fu) << 16) | ((uint32_t)csd[8] << 8) | csd[9];
        /* 2 TiB are 2^32 blocks; the last one is given up to keep the count in 32 bits. */
        *blocks = size == 0x3FFFFFu ? UINT32_MAX : (size + 1u) * 1024u;
        return POET_OK;
    }
    const uint32_t length = csd[5] & 0x0Fu; /* READ_BL_LEN, 9..11 */
    const uint32_t size =
        (((uint32_t)csd[6] & 3u) << 10) | ((uint32_t)csd[7] << 2) | ((uint32_t)csd[8] >> 6);
    const uint32_t multiplier = (((uint32_t)csd[9] & 3u) << 1) | ((uint32_t)csd[10] >> 7);
    if (length < 9u || length > 11u) {
        return POET_E_CARD_TYPE;
    }
    *blocks = (size + 1u) << (multiplier + 2u + length - 9u);
    return POET_OK;
}
