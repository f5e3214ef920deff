/* Counts the instructions of each kernel call of bench_cases.h, which bench_kernels.py writes, or,
 * when a case names the plain kernel too, compares the results of both bit for bit.
 *
 * A complete firmware of its own: vectors, FPU on, SysTick, output by semihosting. Under QEMU's
 * "-icount shift=0" one instruction takes 1 ns, so SysTick's clock gives instructions exactly.
 */
#include <stdint.h>

#include "poet/kernels.h"
#include "poet/math.h"

#define SYST_CSR (*(volatile uint32_t *)0xE000E010U)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014U)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018U)
#define CPACR (*(volatile uint32_t *)0xE000ED88U)
#define SYST_MASK 0x00FFFFFFU

#define SYS_WRITE0 0x04U
#define SYS_EXIT 0x18U
#define EXIT_OK 0x20026U
#define EXIT_FAULT 0x20023U

#define FLOATS (160 * 1024)

typedef void any_kernel(void);

typedef struct {
    const char *name;
    any_kernel *kernel;
    any_kernel *plain; /* the same kernel of tests/host/reference_kernels.c; NULL: only count */
    int32_t args; /* which call below */
    int32_t repeats;
    int32_t floats; /* how much of each buffer is filled and compared */
    int32_t shape[17];
} bench_case;

void plain_conv2d_fwd_f32(const poet_conv2d_shape *s, const float *x, const float *w,
                          const float *b, float *y);
void plain_conv2d_bwd_x_f32(const poet_conv2d_shape *s, const float *dy, const float *w, float *dx);
void plain_conv2d_fwd_packed_f32(const poet_conv2d_packed_shape *s, const float *x, const float *w,
                                 const float *b, float *work, float *y);
void plain_conv2d_bwd_x_packed_f32(const poet_conv2d_packed_shape *s, const float *dy,
                                   const float *w, float *work, float *dx);
void plain_conv2d_bwd_w_f32(const poet_conv2d_shape *s, const float *x, const float *dy, float *dw);
void plain_channel_sum_f32(const poet_channel_sum_shape *s, const float *dy, float *db);
void plain_dense_fwd_f32(const poet_dense_shape *s, const float *x, const float *w, const float *b,
                         float *y);
void plain_dense_bwd_x_f32(const poet_dense_shape *s, const float *dy, const float *w, float *dx);
void plain_dense_bwd_w_f32(const poet_dense_shape *s, const float *x, const float *dy, float *dw);
void plain_maxpool2d_fwd_f32(const poet_maxpool2d_shape *s, const float *x, float *y, uint8_t *arg);
void plain_maxpool2d_bwd_f32(const poet_maxpool2d_shape *s, const float *dy, const uint8_t *arg,
                             float *dx);
void plain_relu_fwd_f32(const poet_vector_shape *s, const float *x, float *y);
void plain_relu_bwd_f32(const poet_vector_shape *s, const float *y, const float *dy, float *dx);
void plain_add_fwd_f32(const poet_vector_shape *s, const float *a, const float *b, float *y);
void plain_softmax_xent_f32(const poet_rows_shape *s, const float *z, const int32_t *labels,
                            float *loss, float *dz);
void plain_mse_f32(const poet_vector_shape *s, const float *y, const float *t, float *loss,
                   float *dy);
void plain_sgd_f32(const poet_vector_shape *s, const float *g, float lr, float *w);

enum { ARGS_TWO, ARGS_THREE, ARGS_BIAS, ARGS_POOL, ARGS_POOL_BACK, ARGS_LOSS, ARGS_SGD,
       ARGS_PACKED, ARGS_PACKED_BIAS };

#include "bench_cases.h"

static float buffer_a[FLOATS];
static float buffer_b[FLOATS];
static float buffer_c[FLOATS];
static float bias[512];
static int32_t labels[512];
static uint8_t winners[FLOATS] __attribute__((aligned(4)));

/* Calls through the prototype the kernel really has; no float is passed except by sgd. */
typedef void two_pointers(const void *, const void *, void *);
typedef void three_pointers(const void *, const void *, const void *, void *);
typedef void four_pointers(const void *, const void *, const void *, const void *, void *);
typedef void five_pointers(const void *, const void *, const void *, const void *, const void *,
                           void *);
typedef void update_call(const void *, const void *, float, void *);

static void run(const bench_case *c, any_kernel *kernel)
{
    switch (c->args) {
    case ARGS_TWO:
        ((two_pointers *)kernel)(c->shape, buffer_a, buffer_c);
        break;
    case ARGS_THREE:
        ((three_pointers *)kernel)(c->shape, buffer_a, buffer_b, buffer_c);
        break;
    case ARGS_BIAS:
        ((four_pointers *)kernel)(c->shape, buffer_a, buffer_b, bias, buffer_c);
        break;
    case ARGS_POOL:
        ((three_pointers *)kernel)(c->shape, buffer_a, buffer_c, winners);
        break;
    case ARGS_POOL_BACK:
        ((three_pointers *)kernel)(c->shape, buffer_a, winners, buffer_c);
        break;
    case ARGS_LOSS:
        ((four_pointers *)kernel)(c->shape, buffer_a, labels, bias, buffer_c);
        break;
    case ARGS_PACKED:
        ((four_pointers *)kernel)(c->shape, buffer_a, buffer_b, winners, buffer_c);
        break;
    case ARGS_PACKED_BIAS:
        ((five_pointers *)kernel)(c->shape, buffer_a, buffer_b, bias, winners, buffer_c);
        break;
    default:
        ((update_call *)kernel)(c->shape, buffer_a, 1e-3F, buffer_c);
        break;
    }
}

static uint32_t semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void put_number(uint32_t value)
{
    char text[12];
    char *at = &text[11];
    *at = '\0';
    do {
        at--;
        *at = (char)('0' + (char)(value % 10U));
        value /= 10U;
    } while (value != 0U);
    (void)semihosting(SYS_WRITE0, at);
}

static void stop(uint32_t reason)
{
    (void)semihosting(SYS_EXIT, (const void *)(uintptr_t)reason);
    for (;;) {
    }
}

static uint32_t ticks_of(const bench_case *c, int32_t repeats)
{
    SYST_CVR = 0U;
    const uint32_t before = SYST_CVR;
    for (int32_t i = 0; i < repeats; i++) {
        run(c, c->kernel);
    }
    return (before - SYST_CVR) & SYST_MASK;
}

static void fill(float *to, int32_t count, uint32_t seed)
{
    for (int32_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        to[i] = (float)(int32_t)seed * 0x1p-31F;
    }
}

static void fill_bias(void)
{
    for (int32_t j = 0; j < 512; j++) {
        bias[j] = (float)(j - 256) * 0x1p-9F;
    }
}

static void prepare(int32_t floats, uint32_t i)
{
    fill(buffer_a, floats, 1U + i);
    fill(buffer_b, floats, 2U + i);
    fill(buffer_c, floats, 3U + i);
    fill_bias();
    for (int32_t j = 0; j < 512; j++) {
        labels[j] = j % 10;
    }
    for (int32_t j = 0; j < floats; j++) {
        winners[j] = (uint8_t)(j % 4);
    }
}

/* FNV-1a over everything a kernel may write, word by word. */
static uint32_t hash_of(const void *from, uint32_t words, uint32_t hash)
{
    const uint32_t *word = from;
    for (uint32_t i = 0U; i < words; i++) {
        hash = (hash ^ word[i]) * 16777619U;
    }
    return hash;
}

static uint32_t hash_of_results(uint32_t floats)
{
    uint32_t hash = hash_of(buffer_c, floats, 2166136261U);
    hash = hash_of(bias, 512U, hash);
    return hash_of(winners, floats / 4U, hash);
}

/* 1 when the kernel and the plain kernel leave the same bits everywhere. */
static uint32_t agrees(const bench_case *c, uint32_t i)
{
    run(c, c->kernel);
    const uint32_t hash = hash_of_results((uint32_t)c->floats);
    prepare(c->floats, i);
    run(c, c->plain);
    return (hash == hash_of_results((uint32_t)c->floats)) ? 1U : 0U;
}

static __attribute__((noinline)) void run_all(void)
{
    SYST_RVR = SYST_MASK;
    SYST_CSR = 5U;
    for (uint32_t i = 0U; i < sizeof(bench_cases) / sizeof(bench_cases[0]); i++) {
        const bench_case *c = &bench_cases[i];
        prepare(c->floats, i);
        const uint32_t answer = (c->plain != 0) ? agrees(c, i) : ticks_of(c, c->repeats);
        (void)semihosting(SYS_WRITE0, c->name);
        (void)semihosting(SYS_WRITE0, " ");
        put_number(answer);
        (void)semihosting(SYS_WRITE0, "\n");
    }
    stop(EXIT_OK);
}

/* Touches no FPU register before the FPU is on. */
void reset(void);
void reset(void)
{
#ifdef __ARM_FP
    CPACR |= 0xFU << 20;
    __asm__ volatile("dsb\n isb");
#endif
#if defined(__ARM_FEATURE_MVE)
    /* MVE flushes subnormals whatever FPSCR says; FZ (bit 24) makes scalar instructions agree. */
    uint32_t fpscr = 0U;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(fpscr | (1U << 24)));
#endif
    run_all();
}

static void fault(void)
{
    (void)semihosting(SYS_WRITE0, "fault\n");
    stop(EXIT_FAULT);
}

extern uint32_t stack_top[];

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top,           (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
};
