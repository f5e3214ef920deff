#include "poet/crc.h"

uint8_t poet_crc7(uint8_t crc, const uint8_t *data, uint32_t nbytes)
{
    /* Kept shifted left by one, so that the byte's top bit meets the polynomial's. */
    uint32_t shifted = (uint32_t)crc << 1;
    for (uint32_t i = 0u; i < nbytes; i++) {
        shifted ^= data[i];
        for (uint32_t bit = 0u; bit < 8u; bit++) {
            const uint32_t top = shifted & 0x80u;
            shifted = (shifted << 1) & 0xFFu;
            if (top != 0u) {
                shifted ^= 0x12u; /* 0x09 << 1 */
            }
        }
    }
    return (uint8_t)(shifted >> 1);
}

uint16_t poet_crc16(uint16_t crc, const uint8_t *data, uint32_t nbytes)
{
    /* One byte at a time without a table: 0x1021 has three bits, so the eight steps fold into
     * shifts of the top byte t ^ t >> 4 by 0, 5 and 12. */
    uint32_t value = crc;
    for (uint32_t i = 0u; i < nbytes; i++) {
        uint32_t top = (value >> 8) ^ data[i];
        top ^= top >> 4;
        value = ((value << 8) ^ (top << 12) ^ (top << 5) ^ top) & 0xFFFFu;
    }
    return (uint16_t)value;
}

uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t nbytes)
{
    /* Remainders of the 16 values of a nibble, polynomial 0xEDB88320 (0x04C11DB7 reflected). */
    static const uint32_t nibble[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
        0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
        0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    const uint8_t *bytes = (const uint8_t *)data;
    uint32_t value = ~crc;
    for (uint32_t i = 0u; i < nbytes; i++) {
        value ^= bytes[i];
        value = (value >> 4) ^ nibble[value & 15u];
        value = (value >> 4) ^ nibble[value & 15u];
    }
    return ~value;
}
