/* Frames on the console: COBS between zero bytes, CRC-32 over the content. SPEC.md has the bytes.
 *
 *   content = [version u8][type u8][sequence u16][payload 0..512][crc32 u32], little-endian
 *
 * Reception decodes in place as the bytes come, sending encodes on the fly, so the whole state is
 * below 1.2 KiB and a payload of any length may come from several places. A damaged frame is
 * counted and dropped: the host asks again. Noise between frames costs at most one frame.
 */
#ifndef POET_LINK_H
#define POET_LINK_H

#include <stdbool.h>
#include <stdint.h>

#define POET_LINK_VERSION 1u
#define POET_LINK_PAYLOAD_BYTES 512u
#define POET_LINK_HEADER_BYTES 4u
#define POET_LINK_CRC_BYTES 4u
#define POET_LINK_FRAME_BYTES                                                                \
    (POET_LINK_HEADER_BYTES + POET_LINK_PAYLOAD_BYTES + POET_LINK_CRC_BYTES)
/* A COBS block: one code byte and up to 254 others. */
#define POET_LINK_BLOCK_BYTES 255u

/* Requests of the host. The answer to type t is t | POET_MSG_ANSWER, or POET_MSG_ERROR. */
typedef enum {
    POET_MSG_IDENTIFY = 0x01,
    POET_MSG_TENSOR_INFO = 0x02,
    POET_MSG_READ = 0x03,
    POET_MSG_WRITE = 0x04,
    POET_MSG_TENSOR_CRC = 0x05,
    POET_MSG_TRAIN_STEP = 0x06,
    POET_MSG_EVALUATE = 0x07,
    POET_MSG_COUNTERS = 0x08,
    POET_MSG_RESET_MODEL = 0x09,
    POET_MSG_FORMAT_CARD = 0x0A,
    POET_MSG_REBOOT = 0x0B,
    POET_MSG_CHECKPOINT_PLAN = 0x0C,
    POET_MSG_CHECKPOINT = 0x0D,
    POET_MSG_RESTORE = 0x0E,
    POET_MSG_TEST_MEMORY = 0x40, /* these four: the self-test firmware only */
    POET_MSG_TEST_CASE = 0x41,
    POET_MSG_TEST_CARD_OPEN = 0x42,
    POET_MSG_TEST_CARD = 0x43,
    POET_MSG_ANSWER = 0x80,
    POET_MSG_PROGRESS = 0xFD, /* unasked: the step is under way */
    POET_MSG_TRACE = 0xFE,    /* unasked: one action has ended */
    POET_MSG_ERROR = 0xFF,
} poet_message;

typedef struct {
    uint8_t frame[POET_LINK_FRAME_BYTES]; /* decoded bytes of the frame under way */
    uint8_t block[POET_LINK_BLOCK_BYTES]; /* COBS block being sent; [0] is its code */
    uint8_t code;                         /* last COBS code received, 0 before the first */
    uint8_t left;                         /* bytes that belong to it and have not come yet */
    uint8_t block_fill;                   /* bytes in block, the code included */
    bool too_long;
    uint32_t fill;           /* bytes in frame */
    uint32_t tx_crc;         /* CRC-32 of what was sent of the frame */
    uint32_t frames;         /* good frames received */
    uint32_t damaged_frames; /* damaged ones */
} poet_link;

/* A good frame; payload points into the link and is valid until the next received byte. */
typedef struct {
    uint8_t version;
    uint8_t type;
    uint16_t sequence;
    uint32_t nbytes;
    const uint8_t *payload;
} poet_link_request;

void poet_link_init(poet_link *link);
/* Take one byte from the console; true when it ended a good frame, which *request then shows. */
bool poet_link_receive(poet_link *link, uint8_t byte, poet_link_request *request);

/* Send a frame: begin, any number of puts (512 bytes in all at most: the caller's duty), end.
 * Bytes go to poet_port_putc; end flushes. */
void poet_link_begin(poet_link *link, uint8_t type, uint16_t sequence);
void poet_link_put(poet_link *link, const void *bytes, uint32_t nbytes);
void poet_link_put_u8(poet_link *link, uint8_t value);
void poet_link_put_u16(poet_link *link, uint16_t value);
void poet_link_put_u32(poet_link *link, uint32_t value);
void poet_link_put_u64(poet_link *link, uint64_t value);
void poet_link_end(poet_link *link);

/* Little-endian values at any alignment. */
uint16_t poet_link_get_u16(const uint8_t *bytes);
uint32_t poet_link_get_u32(const uint8_t *bytes);

#endif
