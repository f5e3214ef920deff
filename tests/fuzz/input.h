/* Bytes of a fuzzer's input, taken from the front; zeros behind its end. */
#ifndef POET_FUZZ_INPUT_H
#define POET_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *bytes;
    size_t left;
} fuzz_input;

/* What libFuzzer calls for each input; replay_main.c does the same for files. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline bool fuzz_more(const fuzz_input *input)
{
    return input->left != 0u;
}

/* Up to nbytes into target, zeros for what is missing; how many there were. */
static inline uint32_t fuzz_take(fuzz_input *input, uint8_t *target, uint32_t nbytes)
{
    const uint32_t count = input->left < nbytes ? (uint32_t)input->left : nbytes;
    memset(target, 0, nbytes);
    memcpy(target, input->bytes, count);
    input->bytes += count;
    input->left -= count;
    return count;
}

static inline uint8_t fuzz_u8(fuzz_input *input)
{
    uint8_t byte = 0u;
    (void)fuzz_take(input, &byte, 1u);
    return byte;
}

static inline uint16_t fuzz_u16(fuzz_input *input)
{
    uint8_t bytes[2] = {0u, 0u};
    (void)fuzz_take(input, bytes, 2u);
    return (uint16_t)(bytes[0] | ((uint32_t)bytes[1] << 8));
}

#endif
