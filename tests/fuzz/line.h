/* The host's end of the serial line, written anew from SPEC.md: encodes requests, decodes answers.
 *
 * Whatever the firmware sends must decode; anything else ends the process.
 */
#ifndef POET_FUZZ_LINE_H
#define POET_FUZZ_LINE_H

#include <stdbool.h>
#include <stdint.h>

#define FUZZ_PAYLOAD_BYTES 512u

typedef struct {
    uint8_t version;
    uint8_t type;
    uint16_t sequence;
    uint32_t nbytes;
    uint8_t payload[FUZZ_PAYLOAD_BYTES];
} fuzz_frame;

/* Forget everything under way. */
void fuzz_line_clear(void);

/* To the firmware: bytes as they are, or a frame between delimiters. damage 0: as it is; n: its
 * encoded byte number n - 1 (modulo) is turned. */
void fuzz_line_push(const uint8_t *bytes, uint32_t nbytes);
void fuzz_line_send(const fuzz_frame *frame, uint32_t damage);
bool fuzz_line_waiting(void);
/* The port's getc: -1 when nothing is there. */
int fuzz_line_next(void);

/* From the firmware: the port's putc. */
void fuzz_line_put(uint8_t byte);
/* Answers since the last call, TRACE and PROGRESS not counted; the last of them. */
uint32_t fuzz_line_answers(fuzz_frame *last);
/* Steps that were answered well, from the last IDENTIFY, RESTORE or RESET_MODEL on. */
uint32_t fuzz_line_steps(void);

#endif
