/* Status codes of everything that can fail, and the record of the first failure.
 *
 * One X-macro, so that the enum and the texts cannot disagree. 0 is success, errors are negative.
 */
#ifndef POET_STATUS_H
#define POET_STATUS_H

#include <stdint.h>

/* name, value, text for people; the host tool reads this list too (poet_mcu/link/status.py). */
#define POET_STATUS_LIST(X)                                                              \
    X(POET_OK, 0, "ok")                                                                  \
    X(POET_E_ARG, -1, "argument out of range")                                           \
    X(POET_E_STATE, -2, "not allowed in this state")                                     \
    X(POET_E_TIMEOUT, -3, "timed out")                                                   \
    X(POET_E_NO_CARD, -4, "no SD card answers")                                          \
    X(POET_E_CARD_TYPE, -5, "card type or voltage not supported")                        \
    X(POET_E_CARD_CMD, -6, "card rejected a command")                                    \
    X(POET_E_CARD_CRC, -7, "CRC error on the card bus")                                  \
    X(POET_E_CARD_READ, -8, "card could not read a block")                               \
    X(POET_E_CARD_WRITE, -9, "card could not write a block")                             \
    X(POET_E_CARD_BUSY, -10, "card stayed busy too long")                                \
    X(POET_E_CARD_SMALL, -11, "card is smaller than the plan needs")                     \
    X(POET_E_CARD_IMAGE, -12, "card was not prepared for this build")                    \
    X(POET_E_PAGE_CRC, -13, "a page's checksum does not match")                          \
    X(POET_E_IO, -14, "input or output error")                                           \
    X(POET_E_FRAME, -15, "damaged frame")                                                \
    X(POET_E_PROTOCOL, -16, "message not understood")                                    \
    X(POET_E_BUILD, -17, "message is for another build")                                 \
    X(POET_E_NONFINITE, -18, "loss is not finite")                                       \
    X(POET_E_CHECKPOINT, -19, "no whole checkpoint on the card")                         \
    X(POET_E_CHECKPOINT_BUILD, -20, "checkpoint of another model or build")

typedef enum {
#define POET_STATUS_ENUM(name, value, text) name = (value),
    POET_STATUS_LIST(POET_STATUS_ENUM)
#undef POET_STATUS_ENUM
} poet_status;

#if defined(__GNUC__)
#define POET_MUST_CHECK __attribute__((warn_unused_result))
#else
#define POET_MUST_CHECK
#endif

/* Where and why a step stopped; the first failure wins. */
typedef struct {
    uint32_t step;   /* training step, counted from 0 */
    uint32_t action; /* index of the action in the schedule, UINT32_MAX outside of one */
    uint32_t block;  /* card block, UINT32_MAX where none is involved */
    int32_t status;  /* a poet_status */
} poet_fault;

#define POET_NO_ACTION UINT32_MAX
#define POET_ACTION_CHECKPOINT 0xFFFFFFFEu /* writing or reading a checkpoint */
#define POET_NO_BLOCK UINT32_MAX

/* Text of a status; never NULL. */
const char *poet_status_text(poet_status status);

#define POET_TRY(expression)                    \
    do {                                        \
        const poet_status try_ = (expression);  \
        if (try_ != POET_OK) {                  \
            return try_;                        \
        }                                       \
    } while (0)

#endif
