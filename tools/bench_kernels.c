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

typedef void bench_call(void);

typedef struct {
    const char *name;
    bench_call *fast;
    bench_call *plain; /* the same call of tests/host/reference_kernels.c; NULL: none */
    uint32_t repeats;
    uint32_t nbytes; /* how much of the arena is filled and compared */
    uint32_t integers_at, integers;
    uint32_t octets_at, octets;
    uint32_t below; /* integers are 0, 1, ... below this */
    uint32_t seed;
    uint32_t odd; /* zeros, infinities and NaN among the floats */
    float low; /* floats are from this to 1 */
} bench_case;

#include "bench_cases.h"

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

static uint32_t ticks_of(bench_call *call, uint32_t repeats)
{
    SYST_CVR = 0U;
    const uint32_t before = SYST_CVR;
    for (uint32_t i = 0U; i < repeats; i++) {
        call();
    }
    return (before - SYST_CVR) & SYST_MASK;
}

static void prepare(const bench_case *c)
{
    uint32_t seed = c->seed;
    float *floats = AT(0U);
    for (uint32_t i = 0U; i < c->nbytes / 4U; i++) {
        seed = seed * 1664525U + 1013904223U;
        floats[i] = c->low + (1.0F - c->low) * (float)(seed >> 8) * 0x1p-24F;
    }
    static const uint32_t specials[7] = {0x7FC00000U, 0x80000000U, 0U,         0x7F800000U,
                                         0xFF800000U, 0xFFC00001U, 0x7F800000U};
    uint32_t *words = AT(0U);
    for (uint32_t i = 0U; c->odd != 0U && i < c->nbytes / 4U; i += 1U + (i * 7U + seed % 5U) % 9U) {
        words[i] = specials[i % 7U];
    }
    int32_t *integers = AT(c->integers_at);
    for (uint32_t i = 0U; i < c->integers; i++) {
        integers[i] = (int32_t)(i % c->below);
    }
    uint8_t *octets = AT(c->octets_at);
    for (uint32_t i = 0U; i < c->octets; i++) {
        octets[i] = (uint8_t)(i % c->below);
    }
}

#if BENCH_VERIFY
/* FNV-1a over everything a kernel may write, word by word. */
static uint32_t hash_of_results(const bench_case *c)
{
    const uint32_t *word = AT(0U);
    uint32_t hash = 2166136261U;
    for (uint32_t i = 0U; i < c->nbytes / 4U; i++) {
        hash = (hash ^ word[i]) * 16777619U;
    }
    return hash;
}

/* 1 when the kernel and the plain kernel leave the same bits everywhere, or there is no plain. */
static uint32_t agrees(const bench_case *c)
{
    c->fast();
    const uint32_t hash = hash_of_results(c);
    if (c->plain == 0) {
        return 1U;
    }
    prepare(c);
    c->plain();
    return (hash == hash_of_results(c)) ? 1U : 0U;
}
#endif

static void put(const bench_case *c, uint32_t first, uint32_t second)
{
    (void)semihosting(SYS_WRITE0, c->name);
    (void)semihosting(SYS_WRITE0, " ");
    put_number(first);
    (void)semihosting(SYS_WRITE0, " ");
    put_number(second);
    (void)semihosting(SYS_WRITE0, "\n");
}

static __attribute__((noinline)) void run_all(void)
{
    SYST_RVR = SYST_MASK;
    SYST_CSR = 5U;
    for (uint32_t i = 0U; i < sizeof(bench_cases) / sizeof(bench_cases[0]); i++) {
        const bench_case *c = &bench_cases[i];
        prepare(c);
#if BENCH_VERIFY
        put(c, 0U, agrees(c));
#else
        const uint32_t fast = ticks_of(c->fast, c->repeats);
        prepare(c);
        put(c, fast, (c->plain != 0) ? ticks_of(c->plain, 1U) : 0U);
#endif
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
