/* The functions of poet/math.h over a sample of their arguments, for test_math_bits.py: the same
 * file as firmware of each core and as a program of this computer. One line per function and part
 * of the sample, with a checksum of the results' bits; and the bits themselves at the edges.
 */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/math.h"
#if defined(__arm__)
#include "poet/port.h"
#define PUT(byte) poet_port_putc((uint8_t)(byte))
#else
#include <stdio.h>
#define PUT(byte) (void)putchar(byte)
#endif

/* Parts of the sample, of so many arguments each: 32 parts of 2^27 bit patterns. */
#define PARTS 32u
#define SAMPLES 61u

typedef union {
    uint32_t bits;
    float value;
} number;

int main(void);

typedef struct {
    const char *name;
    float (*of)(float);
} function;

static const function functions[] = {
    {"exp", poet_expf},   {"log", poet_logf}, {"expm1", poet_expm1f},     {"log1p", poet_log1pf},
    {"tanh", poet_tanhf}, {"erf", poet_erff}, {"sigmoid", poet_sigmoidf}, {"sqrt", poet_sqrtf},
};
#define COUNT (sizeof(functions) / sizeof(functions[0]))

/* Zeros, subnormals, the seams of the functions, where they overflow and vanish, infinities, NaN. */
static const uint32_t edges[] = {
    0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u, 0x007FFFFFu, 0x00800000u, 0x80800000u,
    0x33800000u, 0xB3800000u, 0x3F200000u, 0xBF200000u, 0x3F700000u, 0x3F7FFFFFu, 0x3F800000u,
    0x3F800001u, 0xBF800000u, 0x407C28F6u, 0x41180000u, 0x42B17217u, 0x42B17218u, 0x42B17219u,
    0xC2AEAC4Fu, 0xC2CFF1B4u, 0xC2CFF1B5u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x7F800000u, 0xFF800000u,
    0x7FC00000u,
};
#define EDGES (sizeof(edges) / sizeof(edges[0]))

static void put_text(const char *text)
{
    for (; *text != '\0'; text++) {
        PUT(*text);
    }
}

static void put_word(uint32_t word)
{
    static const char digits[] = "0123456789abcdef";
    PUT(' ');
    for (uint32_t shift = 32u; shift != 0u; shift -= 4u) {
        PUT(digits[(word >> (shift - 4u)) & 15u]);
    }
}

/* The bits of f(x); all NaN are one. */
static uint32_t result(const function *f, uint32_t argument)
{
    const volatile number x = {.bits = argument};
    const number y = {.value = f->of(x.value)};
    return (y.value == y.value) ? y.bits : 0x7FC00000u;
}

static void put_samples(const function *f)
{
    put_text(f->name);
    for (uint32_t part = 0u; part < PARTS; part++) {
        uint32_t seed = 2654435761u * (part + 1u);
        uint32_t sum = 2166136261u;
        for (uint32_t i = 0u; i < SAMPLES; i++) {
            seed = seed * 1664525u + 1013904223u;
            sum = (sum ^ result(f, (part << 27) | (seed >> 5))) * 16777619u;
        }
        put_word(sum);
    }
    PUT('\n');
}

static void put_edges(const function *f)
{
    put_text(f->name);
    for (uint32_t i = 0u; i < EDGES; i++) {
        put_word(result(f, edges[i]));
    }
    PUT('\n');
}

int main(void)
{
#if defined(__arm__)
    poet_port_init();
#elif defined(POET_FLUSH_SUBNORMALS) && POET_FLUSH_SUBNORMALS
    poet_flush_subnormals();
#endif
    for (uint32_t f = 0u; f < COUNT; f++) {
        put_samples(&functions[f]);
        put_edges(&functions[f]);
    }
    put_text("done\n");
#if defined(__arm__)
    poet_port_flush();
#endif
    return 0;
}
