/* Dropout: masks that are a function of seed, stream, step and element alone. */
#include <stdint.h>

#include "poet/kernels.h"

#define PARITY 0x1BD11BDAU

typedef struct {
    uint32_t word[2];
} poet_words;

static inline uint32_t turned(uint32_t x, uint32_t by)
{
    return (x << by) | (x >> (32U - by));
}

/* Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011):
 * additions, rotations and exclusive ors, which every core has. */
static poet_words threefry(const uint32_t key[2], uint32_t c0, uint32_t c1)
{
    static const uint8_t turns[2][4] = {{13U, 15U, 26U, 6U}, {17U, 29U, 16U, 24U}};
    const uint32_t keys[3] = {key[0], key[1], PARITY ^ key[0] ^ key[1]};
    uint32_t x0 = c0 + keys[0];
    uint32_t x1 = c1 + keys[1];
    uint32_t next = 1U;
    for (uint32_t round = 0U; round < 5U; round++) {
        const uint8_t *const by = turns[round & 1U];
        for (uint32_t i = 0U; i < 4U; i++) {
            x0 = x0 + x1;
            x1 = turned(x1, by[i]) ^ x0;
        }
        const uint32_t after = (next == 2U) ? 0U : next + 1U;
        x0 = x0 + keys[next];
        x1 = x1 + keys[after] + round + 1U;
        next = after;
    }
    const poet_words words = {{x0, x1}};
    return words;
}

void poet_dropout_f32(const poet_dropout_shape *shape, const float *x, uint32_t step, float *y)
{
    const poet_dropout_shape *s = shape;
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)s->stream};
    const uint32_t threshold = (uint32_t)s->threshold;
    uint32_t block = 0U;
    for (int32_t first = 0; first < s->count; first += 4) {
        const poet_words words = threefry(key, block, step);
        const int32_t left = s->count - first;
        block = block + 1U;
        for (int32_t i = 0; (i < 4) && (i < left); i++) {
            const uint32_t draw = (words.word[i >> 1] >> ((i & 1) * 16)) & 0xFFFFU;
            y[first + i] = (draw < threshold) ? 0.0F : x[first + i] * s->scale;
        }
    }
}
