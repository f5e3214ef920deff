/* Arithmetic near the smallest normal number, for test_flush.py: the same file as firmware of the
 * board, with its real start-up, and as a program of this computer. Each line is a name and the
 * bits of results, in hexadecimal.
 */
#include <stdint.h>

#include "poet/fma.h"
#include "poet/kernels.h"
#if defined(__arm__)
#include "poet/port.h"
#define PUT(byte) poet_port_putc((uint8_t)(byte))
#else
#include <stdio.h>
#define PUT(byte) (void)putchar(byte)
#endif

#define COUNT 24
#define TRIPLES 4000u

typedef union {
    uint32_t bits;
    float value;
} number;

int main(void);

/* Around 0, 2^-149, 2^-126 and 2^-63, where products meet 2^-126. */
static const uint32_t crafted[COUNT] = {
    0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u, 0x007FFFFFu, 0x807FFFFFu,
    0x00800000u, 0x80800000u, 0x00800001u, 0x80800001u, 0x00FFFFFFu, 0x01000000u,
    0x20000000u, 0xA0000000u, 0x1FFFFFFFu, 0x20000001u, 0x20000400u, 0x1FFFF800u,
    0x20000200u, 0x1FFFFC00u, 0x3F800000u, 0xBF800000u, 0x3F7FFFFFu, 0x34000000u,
};
static uint32_t seed = 12345u;

static uint32_t random_bits(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed;
}

/* A number of size 2^(low - 127) to 2^(low + span - 127). */
static float near_exponent(uint32_t low, uint32_t span)
{
    const uint32_t high = random_bits();
    const uint32_t mantissa = ((random_bits() >> 28) < 8u) ? (high >> 9) & 0x7FF000u : high >> 9;
    const number n = {.bits = (high & 0x80000000u)
                              | ((low + (random_bits() >> 8) % span) << 23) | mantissa};
    return n.value;
}

static void put_bits(float value)
{
    static const char digits[] = "0123456789abcdef";
    const number n = {.value = value};
    PUT(' ');
    for (uint32_t shift = 32u; shift != 0u; shift -= 4u) {
        PUT(digits[(n.bits >> (shift - 4u)) & 15u]);
    }
}

static void put_line(const char *name, const float *values, uint32_t count)
{
    for (const char *c = name; *c != '\0'; c++) {
        PUT(*c);
    }
    for (uint32_t i = 0u; i < count; i++) {
        put_bits(values[i]);
    }
    PUT('\n');
}

/* Volatile: the compiler must compute nothing by itself. */
static float at(uint32_t i)
{
    const volatile number n = {.bits = crafted[i % COUNT]};
    return n.value;
}

static void scalars(void)
{
    static float fused[COUNT], sums[COUNT], products[COUNT], quotients[COUNT];
    for (uint32_t i = 0u; i < COUNT; i++) {
        for (uint32_t j = 0u; j < COUNT; j++) {
            const float a = at(i);
            const float b = at(j);
            fused[j] = POET_FMA(a, b, at(i + j));
            sums[j] = a - b;
            products[j] = a * b;
            quotients[j] = a / at(12u + j % 12u);
        }
        put_line("fma", fused, COUNT);
        put_line("sum", sums, COUNT);
        put_line("product", products, COUNT);
        put_line("quotient", quotients, COUNT);
    }
}

static void many(void)
{
    static float fused[8], products[8];
    for (uint32_t i = 0u; i < TRIPLES / 8u; i++) {
        for (uint32_t j = 0u; j < 8u; j++) {
            const volatile float a = near_exponent(62u, 4u);
            const volatile float b = near_exponent(62u, 4u);
            const volatile float c = near_exponent(0u, 5u);
            fused[j] = POET_FMA(a, b, c);
            products[j] = a * b;
        }
        put_line("fma", fused, 8u);
        put_line("product", products, 8u);
    }
}

static void fill(float *to, uint32_t count, uint32_t low)
{
    for (uint32_t i = 0u; i < count; i++) {
        to[i] = ((random_bits() >> 24) < 32u) ? at(random_bits() >> 8) : near_exponent(low, 4u);
    }
}

/* Kernels with vectors and scalar rests: products, a convolution of every direction, updates. */
static void kernels(void)
{
    static float x[512], w[512], y[512];
    for (int32_t turn = 0; turn < 2; turn++) {
        const poet_dense_shape dense = {7, 9, 11, turn};
        const poet_conv2d_shape conv = {1, 5, 6, 5, 6, 6, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1};
        const poet_vector_shape vector = {131};
        fill(x, 512u, 62u);
        fill(w, 512u, 62u);
        poet_dense_fwd_f32(&dense, x, w, w + 200, y);
        put_line("kernel", y, 77u);
        poet_dense_bwd_x_f32(&dense, x, w, y);
        put_line("kernel", y, 63u);
        poet_dense_bwd_w_f32(&dense, x, w, y);
        put_line("kernel", y, 99u);
        poet_conv2d_fwd_f32(&conv, x, w, w + 300, y);
        put_line("kernel", y, 180u);
        poet_conv2d_bwd_x_f32(&conv, x, w, y);
        put_line("kernel", y, 150u);
        poet_conv2d_bwd_w_f32(&conv, x, w, y);
        put_line("kernel", y, 270u);
        fill(y, 131u, 0u);
        poet_sgd_f32(&vector, x, 0x1p-63F, y);
        put_line("kernel", y, 131u);
        fill(x, 131u, 0u);
        fill(w, 131u, 0u);
        poet_add_fwd_f32(&vector, x, w, y);
        put_line("kernel", y, 131u);
        poet_relu_fwd_f32(&vector, x, y);
        put_line("kernel", y, 131u);
        poet_relu_bwd_f32(&vector, x, w, y);
        put_line("kernel", y, 131u);
    }
}

#if defined(__arm__)
static void state(void)
{
    uint32_t fpscr;
    __asm volatile("vmrs %0, fpscr" : "=r"(fpscr));
    const number now = {.bits = fpscr & 0x03000000u};
    const volatile uint32_t *fpdscr = (const volatile uint32_t *)(uintptr_t)0xE000EF3Cu;
    const number later = {.bits = *fpdscr & 0x03000000u};
    put_line("state", (const float[2]){now.value, later.value}, 2u);
}
#endif

int main(void)
{
#if defined(__arm__)
    poet_port_init();
    state();
#else
    poet_flush_subnormals();
#endif
    scalars();
    many();
    kernels();
    put_line("done", 0, 0u);
#if defined(__arm__)
    poet_port_flush();
#endif
    return 0;
}
