/* Checkpoints: two slots behind the pages, written in turn, so that one whole checkpoint is on the
 * card at any moment from the first one on.
 *
 * Order of writing: the slot's old header is erased, then the data, each waited for until it is on
 * the medium; the data is read back; the header, which holds the data's checksum, comes last and is
 * read back too. A power cut at any block, also with writes torn or reordered between two waits,
 * leaves the other slot, or this one whole. SPEC.md has the bytes.
 *
 * This file knows slots and streams; which values a checkpoint holds is the trainer's business.
 */
#ifndef POET_CHECKPOINT_H
#define POET_CHECKPOINT_H

#include "poet/page.h"

#define POET_CHECKPOINT_SLOTS 2u
#define POET_MODEL_HASH_BYTES 32u
#define POET_POSITION_BYTES 16u

/* What the header tells of its checkpoint. */
typedef struct {
    uint32_t sequence;  /* counts checkpoints on this card */
    uint32_t step;      /* training steps done */
    uint32_t loss_bits; /* of the last of them, the bits of a float */
    uint32_t damaged;   /* 1: a newer one may be there, in a slot that cannot be read or is not whole */
    uint8_t position[POET_POSITION_BYTES]; /* the host's: where in which data */
} poet_checkpoint_info;

typedef struct {
    const poet_page_config *config;
    const poet_bdev *bdev;
    const uint8_t *model_hash; /* POET_MODEL_HASH_BYTES */
    uint8_t *block;            /* POET_BLOCK_BYTES, changed by find and commit only */
    uint32_t newest;           /* slot of the newest whole checkpoint, POET_CHECKPOINT_SLOTS: none */
    uint32_t spare;            /* slot that begin writes: never the only one that may be whole */
    uint32_t sequence;         /* highest on the card */
    uint32_t slot;             /* being written or read */
    uint32_t at;               /* next block of it */
    uint32_t crc;              /* of the blocks before */
    uint32_t end;              /* of what is read, and its checksum */
    uint32_t data_crc;
    uint32_t fault_block;      /* block of the last error, POET_NO_BLOCK when none */
} poet_checkpoint;

/* Bind; no input or output. */
void poet_checkpoint_init(poet_checkpoint *checkpoint, const poet_page_config *config,
                          const poet_bdev *bdev, const uint8_t *model_hash, uint8_t *block);

/* The newest checkpoint whose data can be read and is whole; the device must be open. POET_E_CHECKPOINT: there is
 * none; POET_E_CHECKPOINT_BUILD: none, but one of another build or model. */
POET_MUST_CHECK poet_status poet_checkpoint_find(poet_checkpoint *checkpoint,
                                                 poet_checkpoint_info *info);

/* Write one into the other slot, after find (whatever it said): begin, any number of puts,
 * commit. Each put begins at a block. Until commit has ended well, the checkpoint
 * before is the newest. commit fills in info->sequence. */
POET_MUST_CHECK poet_status poet_checkpoint_begin(poet_checkpoint *checkpoint);
POET_MUST_CHECK poet_status poet_checkpoint_put(poet_checkpoint *checkpoint, const void *bytes,
                                                uint32_t nbytes);
POET_MUST_CHECK poet_status poet_checkpoint_commit(poet_checkpoint *checkpoint,
                                                   poet_checkpoint_info *info);

/* Read the one that find found: rewind, gets of the same sizes as the puts, end.
 * POET_E_CHECKPOINT from end: what was read is not what find had checked. */
POET_MUST_CHECK poet_status poet_checkpoint_rewind(poet_checkpoint *checkpoint);
POET_MUST_CHECK poet_status poet_checkpoint_get(poet_checkpoint *checkpoint, void *bytes,
                                                uint32_t nbytes);
POET_MUST_CHECK poet_status poet_checkpoint_end(poet_checkpoint *checkpoint);

#endif
