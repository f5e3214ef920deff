#include "poet/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "poet/crc.h"

/* Header of a slot: its first block, little-endian, the rest of the block is zero (SPEC.md). */
#define HEADER_VERSION 1u
#define AT_VERSION 16u
#define AT_BUILD_ID 20u
#define BUILD_ID_BYTES 16u
#define AT_MODEL_HASH 36u
#define AT_SLOT 68u
#define AT_SLOT_BLOCKS 72u
#define AT_SEQUENCE 76u
#define AT_DATA_BLOCKS 80u
#define AT_STEP 84u
#define AT_LOSS 88u
#define AT_POSITION 92u
#define AT_DATA_CRC 108u
#define AT_CRC 112u
#define HEADER_BYTES 116u
_Static_assert(AT_BUILD_ID + BUILD_ID_BYTES == AT_MODEL_HASH, "header fields are adjacent");
_Static_assert(AT_MODEL_HASH + POET_MODEL_HASH_BYTES == AT_SLOT, "header fields are adjacent");
_Static_assert(AT_POSITION + POET_POSITION_BYTES == AT_DATA_CRC, "header fields are adjacent");
_Static_assert(HEADER_BYTES <= POET_BLOCK_BYTES, "header fits its block");

/* How often a block is read that the device could not read, and a header or data that are not
 * whole: bits may turn on their way. Two readings in a row that agree are what is on the card. */
#define READ_TRIES 3u
#define WHOLE_TRIES 5u

static const uint8_t magic[AT_VERSION] = {'P', 'O', 'E', 'T', '-', 'M', 'C', 'U',
                                          ' ', 'C', 'H', 'E', 'C', 'K', 'P', 'T'};

/* What a slot turned out to be, in the order in which it may be given up: the likelier it holds the
 * one checkpoint that is left, the later. */
typedef enum {
    SLOT_ZEROS, /* its writing has begun */
    SLOT_ODD,   /* anything that a card may hold before its first checkpoints */
    SLOT_FOREIGN,
    SLOT_TORN,     /* looks like a header of ours; power failed on it, or it has rotted */
    SLOT_ROTTEN,   /* a header of ours before data of another checksum */
    SLOT_UNREADABLE,
    SLOT_OURS
} slot_kind;

typedef struct {
    slot_kind kind;
    poet_status status; /* of reading it */
    uint32_t data_blocks;
    uint32_t data_crc;
    poet_checkpoint_info info;
} slot_header;

static void put_u32(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    bytes[2] = (uint8_t)(value >> 16);
    bytes[3] = (uint8_t)(value >> 24);
}

static uint32_t get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8) | ((uint32_t)bytes[2] << 16) |
           ((uint32_t)bytes[3] << 24);
}

static uint32_t card_block(const poet_checkpoint *checkpoint, uint32_t slot, uint32_t block)
{
    const poet_page_config *config = checkpoint->config;
    return config->region_block + config->slot_block + slot * config->slot_blocks + block;
}

static poet_status fail(poet_checkpoint *checkpoint, uint32_t block, poet_status status)
{
    if (status != POET_OK) {
        checkpoint->fault_block = block;
    }
    return status;
}

static poet_status read_once(const poet_bdev *bdev, uint32_t block, void *bytes, uint32_t nbytes)
{
    POET_TRY(bdev->ops->start_read(bdev->state, block, bytes, nbytes));
    return bdev->ops->wait(bdev->state);
}

/* What cannot be read is asked for again, unless the error has closed the device: one disturbance
 * must not give an older checkpoint for the newest. */
static poet_status read_at(poet_checkpoint *checkpoint, uint32_t block, void *bytes,
                           uint32_t nbytes)
{
    poet_status status = read_once(checkpoint->bdev, block, bytes, nbytes);
    for (uint32_t tries = 1u; status != POET_OK && tries < READ_TRIES; tries++) {
        const poet_status again = read_once(checkpoint->bdev, block, bytes, nbytes);
        if (again == POET_E_STATE) {
            break;
        }
        status = again;
    }
    return fail(checkpoint, block, status);
}

static poet_status write_at(poet_checkpoint *checkpoint, uint32_t block, const void *bytes,
                            uint32_t nbytes)
{
    const poet_bdev *bdev = checkpoint->bdev;
    POET_TRY(fail(checkpoint, block, bdev->ops->start_write(bdev->state, block, bytes, nbytes)));
    return fail(checkpoint, block, bdev->ops->wait(bdev->state));
}

/* Everything written so far is on the medium before anything that is written after. */
static poet_status barrier(poet_checkpoint *checkpoint, uint32_t block)
{
    const poet_bdev *bdev = checkpoint->bdev;
    return fail(checkpoint, block, bdev->ops->sync(bdev->state));
}

void poet_checkpoint_init(poet_checkpoint *checkpoint, const poet_page_config *config,
                          const poet_bdev *bdev, const uint8_t *model_hash, uint8_t *block)
{
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->config = config;
    checkpoint->bdev = bdev;
    checkpoint->model_hash = model_hash;
    checkpoint->block = block;
    checkpoint->newest = POET_CHECKPOINT_SLOTS;
    checkpoint->fault_block = POET_NO_BLOCK;
}

/// Headers

static void make_header(const poet_checkpoint *checkpoint, uint32_t slot, uint32_t data_crc,
                        const poet_checkpoint_info *info, uint8_t *header)
{
    memset(header, 0, POET_BLOCK_BYTES);
    memcpy(header, magic, sizeof magic);
    put_u32(&header[AT_VERSION], HEADER_VERSION);
    memcpy(&header[AT_BUILD_ID], checkpoint->config->build_id, BUILD_ID_BYTES);
    memcpy(&header[AT_MODEL_HASH], checkpoint->model_hash, POET_MODEL_HASH_BYTES);
    put_u32(&header[AT_SLOT], slot);
    put_u32(&header[AT_SLOT_BLOCKS], checkpoint->config->slot_blocks);
    put_u32(&header[AT_SEQUENCE], info->sequence);
    put_u32(&header[AT_DATA_BLOCKS], checkpoint->at - 1u);
    put_u32(&header[AT_STEP], info->step);
    put_u32(&header[AT_LOSS], info->loss_bits);
    memcpy(&header[AT_POSITION], info->position, POET_POSITION_BYTES);
    put_u32(&header[AT_DATA_CRC], data_crc);
    put_u32(&header[AT_CRC], poet_crc32(0u, header, AT_CRC));
}

/* One of its long fields alone is enough: a header that rots loses few bits, one that is torn ends
 * or begins somewhere. */
static slot_kind kind_of_broken(const poet_checkpoint *checkpoint, const uint8_t *header)
{
    if (memcmp(header, magic, sizeof magic) == 0 ||
        memcmp(&header[AT_BUILD_ID], checkpoint->config->build_id, BUILD_ID_BYTES) == 0 ||
        memcmp(&header[AT_MODEL_HASH], checkpoint->model_hash, POET_MODEL_HASH_BYTES) == 0) {
        return SLOT_TORN;
    }
    for (uint32_t i = 0u; i < POET_BLOCK_BYTES; i++) {
        if (header[i] != 0u) {
            return SLOT_ODD;
        }
    }
    return SLOT_ZEROS;
}

static slot_kind kind_of(const poet_checkpoint *checkpoint, uint32_t slot, const uint8_t *header)
{
    if (memcmp(header, magic, sizeof magic) != 0 ||
        get_u32(&header[AT_CRC]) != poet_crc32(0u, header, AT_CRC)) {
        return kind_of_broken(checkpoint, header);
    }
    const bool ours =
        get_u32(&header[AT_VERSION]) == HEADER_VERSION &&
        memcmp(&header[AT_BUILD_ID], checkpoint->config->build_id, BUILD_ID_BYTES) == 0 &&
        memcmp(&header[AT_MODEL_HASH], checkpoint->model_hash, POET_MODEL_HASH_BYTES) == 0 &&
        get_u32(&header[AT_SLOT]) == slot &&
        get_u32(&header[AT_SLOT_BLOCKS]) == checkpoint->config->slot_blocks &&
        get_u32(&header[AT_DATA_BLOCKS]) < checkpoint->config->slot_blocks;
    return ours ? SLOT_OURS : SLOT_FOREIGN;
}

static poet_status read_header(poet_checkpoint *checkpoint, uint32_t slot, slot_header *found)
{
    const uint8_t *header = checkpoint->block;
    POET_TRY(read_at(checkpoint, card_block(checkpoint, slot, 0u), checkpoint->block,
                     POET_BLOCK_BYTES));
    found->kind = kind_of(checkpoint, slot, header);
    found->data_blocks = get_u32(&header[AT_DATA_BLOCKS]);
    found->data_crc = get_u32(&header[AT_DATA_CRC]);
    found->info.sequence = get_u32(&header[AT_SEQUENCE]);
    found->info.step = get_u32(&header[AT_STEP]);
    found->info.loss_bits = get_u32(&header[AT_LOSS]);
    memcpy(found->info.position, &header[AT_POSITION], POET_POSITION_BYTES);
    return POET_OK;
}

/* The checksum of a slot's data starts from its sequence number: a slot that still holds blocks of
 * an older checkpoint does not pass for the newer one. */
static poet_status read_data_crc(poet_checkpoint *checkpoint, uint32_t slot, uint32_t data_blocks,
                                 uint32_t sequence, uint32_t *crc)
{
    *crc = sequence;
    for (uint32_t block = 1u; block <= data_blocks; block++) {
        POET_TRY(read_at(checkpoint, card_block(checkpoint, slot, block), checkpoint->block,
                         POET_BLOCK_BYTES));
        *crc = poet_crc32(*crc, checkpoint->block, POET_BLOCK_BYTES);
    }
    return POET_OK;
}

/* Sequence numbers wrap: newer is less than half the circle ahead. */
static bool is_newer(uint32_t a, uint32_t b)
{
    return a != b && a - b < 0x80000000u;
}

/* Takes the slot when its data is whole. */
static poet_status take(poet_checkpoint *checkpoint, uint32_t slot, slot_header *header)
{
    uint32_t before = header->data_crc;
    POET_TRY(header->status);
    for (uint32_t tries = 0u; header->kind == SLOT_OURS && tries < WHOLE_TRIES; tries++) {
        uint32_t crc = 0u;
        POET_TRY(
            read_data_crc(checkpoint, slot, header->data_blocks, header->info.sequence, &crc));
        if (crc == header->data_crc) {
            checkpoint->newest = slot;
            checkpoint->spare = 1u - slot;
            if (!is_newer(checkpoint->sequence + 1u, header->info.sequence)) {
                /* A damaged one is half the circle ahead: somebody made it. What stays counts. */
                checkpoint->sequence = header->info.sequence;
            }
            return POET_OK;
        }
        if (crc == before) {
            header->kind = SLOT_ROTTEN;
        }
        before = crc;
    }
    return POET_E_CHECKPOINT;
}

/* A header that reads differently each time does not even tell its sequence number, and a save that
 * counts wrongly would be taken for an older one: it counts as not readable. */
static poet_status read_steadily(poet_checkpoint *checkpoint, uint32_t slot, slot_header *header)
{
    uint32_t before = 0u;
    for (uint32_t tries = 0u; tries < WHOLE_TRIES; tries++) {
        POET_TRY(read_header(checkpoint, slot, header));
        const uint32_t crc = poet_crc32(0u, checkpoint->block, POET_BLOCK_BYTES);
        if (header->kind == SLOT_OURS || (tries != 0u && crc == before)) {
            return POET_OK;
        }
        before = crc;
    }
    return POET_E_CARD_READ;
}

/* Which of the slots to try first: one that cannot be read might be the newest. */
static uint32_t newer_of(const slot_header headers[POET_CHECKPOINT_SLOTS])
{
    if (headers[0].kind == SLOT_OURS && headers[1].kind == SLOT_OURS) {
        return is_newer(headers[1].info.sequence, headers[0].info.sequence) ? 1u : 0u;
    }
    if (headers[0].kind == SLOT_UNREADABLE || headers[1].kind == SLOT_UNREADABLE) {
        return headers[0].kind == SLOT_UNREADABLE ? 0u : 1u;
    }
    return headers[1].kind == SLOT_OURS ? 1u : 0u;
}

/* Whether the other slot may hold a newer checkpoint than this one, which is whole. Slots are
 * written in turn, so from the second on the other one holds the checkpoint before, or a newer. */
static bool may_be_newer(const slot_header *other, uint32_t sequence)
{
    return (other->kind == SLOT_TORN && other->info.sequence + 1u != sequence) ||
           (other->kind == SLOT_ODD && sequence >= 2u);
}

/* Where to write while no slot is known to be whole. A good checkpoint that was read badly must not
 * be written over beside a slot that is worth less: the writing may fail too. */
static uint32_t spare_of(const slot_header headers[POET_CHECKPOINT_SLOTS])
{
    if (headers[0].kind == SLOT_OURS && headers[1].kind == SLOT_OURS) {
        return 1u - newer_of(headers);
    }
    return headers[0].kind <= headers[1].kind ? 0u : 1u;
}

/* The number to count on from. 0 is one like any other, so nothing is compared with it. */
static uint32_t highest_of(const slot_header headers[POET_CHECKPOINT_SLOTS], uint32_t first)
{
    const uint32_t slot = headers[first].kind == SLOT_OURS ? first : 1u - first;
    return headers[slot].kind == SLOT_OURS ? headers[slot].info.sequence : 0u;
}

poet_status poet_checkpoint_find(poet_checkpoint *checkpoint, poet_checkpoint_info *info)
{
    slot_header headers[POET_CHECKPOINT_SLOTS];
    checkpoint->newest = POET_CHECKPOINT_SLOTS;
    checkpoint->sequence = 0u;
    if (checkpoint->config->slot_blocks < 2u) {
        return POET_E_ARG;
    }
    for (uint32_t slot = 0u; slot < POET_CHECKPOINT_SLOTS; slot++) {
        headers[slot].status = read_steadily(checkpoint, slot, &headers[slot]);
        headers[slot].kind = headers[slot].status == POET_OK ? headers[slot].kind : SLOT_UNREADABLE;
    }
    const uint32_t first = newer_of(headers);
    const uint32_t second = 1u - first;
    const bool ours = headers[first].kind == SLOT_OURS;
    checkpoint->sequence = highest_of(headers, first);
    const poet_status status = take(checkpoint, first, &headers[first]);
    if (status == POET_OK) {
        *info = headers[first].info;
        info->damaged = may_be_newer(&headers[second], info->sequence) ? 1u : 0u;
        return POET_OK;
    }
    if (take(checkpoint, second, &headers[second]) == POET_OK) {
        *info = headers[second].info;
        info->damaged = 1u;
        return POET_OK;
    }
    const bool foreign = !ours && (headers[0].kind == SLOT_FOREIGN ||
                                   headers[1].kind == SLOT_FOREIGN);
    checkpoint->spare = spare_of(headers);
    return fail(checkpoint, card_block(checkpoint, first, 0u),
                status == POET_E_CHECKPOINT && foreign ? POET_E_CHECKPOINT_BUILD : status);
}

/// Writing

poet_status poet_checkpoint_begin(poet_checkpoint *checkpoint)
{
    if (checkpoint->config->slot_blocks < 2u) {
        return POET_E_ARG;
    }
    checkpoint->slot = checkpoint->spare;
    checkpoint->at = 1u;
    checkpoint->crc = checkpoint->sequence + 1u;
    const uint32_t block = card_block(checkpoint, checkpoint->slot, 0u);
    memset(checkpoint->block, 0, POET_BLOCK_BYTES);
    POET_TRY(write_at(checkpoint, block, checkpoint->block, POET_BLOCK_BYTES));
    return barrier(checkpoint, block);
}

/* The device pads the last block with zeros; the checksum has to count them. */
static uint32_t add_to_crc(uint32_t crc, const void *bytes, uint32_t nbytes)
{
    static const uint8_t zeros[32];
    uint32_t left = (POET_BLOCK_BYTES - nbytes % POET_BLOCK_BYTES) % POET_BLOCK_BYTES;
    crc = poet_crc32(crc, bytes, nbytes);
    while (left != 0u) {
        const uint32_t part = left < sizeof zeros ? left : (uint32_t)sizeof zeros;
        crc = poet_crc32(crc, zeros, part);
        left -= part;
    }
    return crc;
}

/* Blocks of the next put or get; POET_E_ARG when they are more than the slot has left. */
static poet_status advance(const poet_checkpoint *checkpoint, uint32_t nbytes, uint32_t *blocks)
{
    if (nbytes == 0u) {
        return POET_E_ARG;
    }
    *blocks = (nbytes - 1u) / POET_BLOCK_BYTES + 1u;
    return *blocks <= checkpoint->config->slot_blocks - checkpoint->at ? POET_OK : POET_E_ARG;
}

poet_status poet_checkpoint_put(poet_checkpoint *checkpoint, const void *bytes, uint32_t nbytes)
{
    uint32_t blocks = 0u;
    POET_TRY(advance(checkpoint, nbytes, &blocks));
    POET_TRY(write_at(checkpoint, card_block(checkpoint, checkpoint->slot, checkpoint->at), bytes,
                      nbytes));
    checkpoint->crc = add_to_crc(checkpoint->crc, bytes, nbytes);
    checkpoint->at += blocks;
    return POET_OK;
}

poet_status poet_checkpoint_commit(poet_checkpoint *checkpoint, poet_checkpoint_info *info)
{
    const uint32_t slot = checkpoint->slot;
    const uint32_t block = card_block(checkpoint, slot, 0u);
    uint32_t crc = 0u;
    info->sequence = checkpoint->sequence + 1u;
    POET_TRY(barrier(checkpoint, block));
    POET_TRY(read_data_crc(checkpoint, slot, checkpoint->at - 1u, info->sequence, &crc));
    if (crc != checkpoint->crc) {
        return fail(checkpoint, block, POET_E_CARD_WRITE);
    }
    make_header(checkpoint, slot, crc, info, checkpoint->block);
    const uint32_t header_crc = poet_crc32(0u, checkpoint->block, POET_BLOCK_BYTES);
    POET_TRY(write_at(checkpoint, block, checkpoint->block, POET_BLOCK_BYTES));
    POET_TRY(barrier(checkpoint, block));
    POET_TRY(read_at(checkpoint, block, checkpoint->block, POET_BLOCK_BYTES));
    if (poet_crc32(0u, checkpoint->block, POET_BLOCK_BYTES) != header_crc) {
        return fail(checkpoint, block, POET_E_CARD_WRITE);
    }
    checkpoint->newest = slot;
    checkpoint->spare = 1u - slot;
    checkpoint->sequence = info->sequence;
    return POET_OK;
}

/// Reading

poet_status poet_checkpoint_rewind(poet_checkpoint *checkpoint)
{
    if (checkpoint->newest == POET_CHECKPOINT_SLOTS) {
        return POET_E_CHECKPOINT;
    }
    slot_header header;
    POET_TRY(read_header(checkpoint, checkpoint->newest, &header));
    if (header.kind != SLOT_OURS) {
        return POET_E_CHECKPOINT;
    }
    checkpoint->slot = checkpoint->newest;
    checkpoint->at = 1u;
    checkpoint->crc = header.info.sequence;
    checkpoint->end = header.data_blocks + 1u;
    checkpoint->data_crc = header.data_crc;
    return POET_OK;
}

poet_status poet_checkpoint_get(poet_checkpoint *checkpoint, void *bytes, uint32_t nbytes)
{
    uint32_t blocks = 0u;
    POET_TRY(advance(checkpoint, nbytes, &blocks));
    POET_TRY(read_at(checkpoint, card_block(checkpoint, checkpoint->slot, checkpoint->at), bytes,
                     nbytes));
    checkpoint->crc = add_to_crc(checkpoint->crc, bytes, nbytes);
    checkpoint->at += blocks;
    return POET_OK;
}

poet_status poet_checkpoint_end(poet_checkpoint *checkpoint)
{
    const bool same = checkpoint->at == checkpoint->end &&
                      checkpoint->crc == checkpoint->data_crc;
    return fail(checkpoint, card_block(checkpoint, checkpoint->slot, 0u),
                same ? POET_OK : POET_E_CHECKPOINT);
}
