/* Framing of the serial link: COBS (S. Cheshire, M. Baker, "Consistent Overhead Byte Stuffing",
 * IEEE/ACM Transactions on Networking 7(2), 1999) and CRC-32 as in zlib. Written from the paper.
 */
#include "poet/link.h"

#include <string.h>

#include "poet/crc.h"
#include "poet/port.h"

#define DELIMITER 0u
#define COBS_FULL 0xFFu /* code of a block of 254 bytes without a zero after it */

_Static_assert(POET_LINK_FRAME_BYTES == 520u, "SPEC.md says 520 bytes of content at most");
_Static_assert(sizeof(poet_link) <= 1200u, "the link's share of the RAM budget");

void poet_link_init(poet_link *link)
{
    memset(link, 0, sizeof(*link));
}

uint16_t poet_link_get_u16(const uint8_t *bytes)
{
    return (uint16_t)((uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8));
}

uint32_t poet_link_get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8) | ((uint32_t)bytes[2] << 16) |
           ((uint32_t)bytes[3] << 24);
}

/* ---- reception ---- */

static void store(poet_link *link, uint8_t byte)
{
    if (link->fill < POET_LINK_FRAME_BYTES) {
        link->frame[link->fill] = byte;
        link->fill++;
    } else {
        link->too_long = true;
    }
}

static void restart(poet_link *link)
{
    link->code = 0u;
    link->left = 0u;
    link->fill = 0u;
    link->too_long = false;
}

/* A delimiter came: is what stands in the buffer a frame? */
static bool finish(const poet_link *link, poet_link_request *request)
{
    if (link->too_long || link->left != 0u ||
        link->fill < POET_LINK_HEADER_BYTES + POET_LINK_CRC_BYTES) {
        return false;
    }
    const uint32_t covered = link->fill - POET_LINK_CRC_BYTES;
    if (poet_crc32(0u, link->frame, covered) != poet_link_get_u32(&link->frame[covered])) {
        return false;
    }
    request->version = link->frame[0];
    request->type = link->frame[1];
    request->sequence = poet_link_get_u16(&link->frame[2]);
    request->nbytes = covered - POET_LINK_HEADER_BYTES;
    request->payload = &link->frame[POET_LINK_HEADER_BYTES];
    return true;
}

bool poet_link_receive(poet_link *link, uint8_t byte, poet_link_request *request)
{
    if (byte == DELIMITER) {
        bool good = false;
        if (link->code != 0u) { /* two delimiters in a row enclose nothing: not damage */
            good = finish(link, request);
            if (good) {
                link->frames++;
            } else {
                link->damaged_frames++;
            }
        }
        restart(link);
        return good;
    }
    if (link->left == 0u) {
        /* A code byte. The zero it stands for is known only now: the last block has none. */
        if (link->code != 0u && link->code != COBS_FULL) {
            store(link, 0u);
        }
        link->code = byte;
        link->left = (uint8_t)(byte - 1u);
    } else {
        store(link, byte);
        link->left--;
    }
    return false;
}

/* ---- sending ---- */

static void send_block(poet_link *link)
{
    link->block[0] = link->block_fill;
    for (uint32_t i = 0; i < link->block_fill; i++) {
        poet_port_putc(link->block[i]);
    }
    link->block_fill = 1u;
}

static void put_raw(poet_link *link, const uint8_t *bytes, uint32_t nbytes)
{
    for (uint32_t i = 0; i < nbytes; i++) {
        if (link->block_fill == POET_LINK_BLOCK_BYTES) {
            send_block(link); /* full, and more follows: code 0xFF, no zero implied */
        }
        if (bytes[i] == 0u) {
            send_block(link);
        } else {
            link->block[link->block_fill] = bytes[i];
            link->block_fill++;
        }
    }
}

void poet_link_put(poet_link *link, const void *bytes, uint32_t nbytes)
{
    link->tx_crc = poet_crc32(link->tx_crc, bytes, nbytes);
    put_raw(link, bytes, nbytes);
}

void poet_link_put_u8(poet_link *link, uint8_t value)
{
    poet_link_put(link, &value, 1u);
}

void poet_link_put_u16(poet_link *link, uint16_t value)
{
    const uint8_t bytes[2] = {(uint8_t)(value & 0xFFu), (uint8_t)(value >> 8)};
    poet_link_put(link, bytes, sizeof(bytes));
}

static void little_endian(uint32_t value, uint8_t bytes[4])
{
    bytes[0] = (uint8_t)(value & 0xFFu);
    bytes[1] = (uint8_t)((value >> 8) & 0xFFu);
    bytes[2] = (uint8_t)((value >> 16) & 0xFFu);
    bytes[3] = (uint8_t)(value >> 24);
}

void poet_link_put_u32(poet_link *link, uint32_t value)
{
    uint8_t bytes[4];
    little_endian(value, bytes);
    poet_link_put(link, bytes, sizeof(bytes));
}

void poet_link_put_u64(poet_link *link, uint64_t value)
{
    poet_link_put_u32(link, (uint32_t)(value & 0xFFFFFFFFu));
    poet_link_put_u32(link, (uint32_t)(value >> 32));
}

void poet_link_begin(poet_link *link, uint8_t type, uint16_t sequence)
{
    link->tx_crc = 0u;
    link->block_fill = 1u;
    poet_port_putc(DELIMITER); /* ends whatever noise came before */
    poet_link_put_u8(link, POET_LINK_VERSION);
    poet_link_put_u8(link, type);
    poet_link_put_u16(link, sequence);
}

void poet_link_end(poet_link *link)
{
    uint8_t bytes[4];
    little_endian(link->tx_crc, bytes);
    put_raw(link, bytes, sizeof(bytes));
    send_block(link);
    poet_port_putc(DELIMITER);
    poet_port_flush();
}
