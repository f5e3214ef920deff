/* Check sums of the SD bus and of our own records. Tables are const and small (flash).
 *
 * Each function continues a running value, so a message may come in pieces:
 * f(f(start, a), b) equals f(start, a then b).
 */
#ifndef POET_CRC_H
#define POET_CRC_H

#include <stdint.h>

/* CRC-7 of SD command frames: x^7 + x^3 + 1, start 0, the value in bits 6..0 (SD Physical Layer
 * Simplified Specification 4.5). The frame's last byte is (crc << 1) | 1. */
uint8_t poet_crc7(uint8_t crc, const uint8_t *data, uint32_t nbytes);

/* CRC-16-CCITT of SD data blocks: 0x1021, start 0, most significant bit first (same section). */
uint16_t poet_crc16(uint16_t crc, const uint8_t *data, uint32_t nbytes);

/* CRC-32 of IEEE 802.3, as zlib's crc32(): start with 0 or with a seed of one's own. */
uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t nbytes);

#endif
