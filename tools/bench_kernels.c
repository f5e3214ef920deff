/* Counts the instructions of each kernel call of bench_cases.h, which bench_kernels.py writes, or,
 * when verifying, looks behind its buffers and, where a case names the plain kernel too, compares
 * the results of both bit for bit.
 *
 * A complete firmware of its own: vectors, FPU on, SysTick, output by semihosting. Under QEMU's
 * "-icount shift=0" one instruction takes 1 ns, so SysTick's clock gives instructions exactly.
 */
#include <stdint.h>

#if BENCH_ONCE
#define POET_CASE_BITS /* every instruction is logged */
#endif
#include "poet/case.h"
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

static uint32_t ticks_of(poet_case_call *call, uint32_t repeats)
{
    SYST_CVR = 0U;
    const uint32_t before = SYST_CVR;
    for (uint32_t i = 0U; i < repeats; i++) {
        call();
    }
    return (before - SYST_CVR) & SYST_MASK;
}

/* Never inlined: tools/estimate_costs.py knows by it where a case ends. */
static __attribute__((noinline)) void prepare(const poet_case *c)
{
    poet_case_fill(c, AT(0U));
}

#if BENCH_VERIFY
/* FNV-1a over the words [first, last) of the arena. */
static uint32_t hash_of(uint32_t first, uint32_t last)
{
    const uint32_t *word = AT(0U);
    uint32_t hash = 2166136261U;
    for (uint32_t i = first; i < last; i++) {
        hash = (hash ^ word[i]) * 16777619U;
    }
    return hash;
}

/* 1 when the kernel leaves the guard behind its workspace alone, and the bits of the plain kernel
 * everywhere, if there is one. */
static uint32_t agrees(const poet_case *c)
{
    const uint32_t end = c->nbytes / 4U, behind = end - BENCH_GUARD / 4U;
    const uint32_t guard = hash_of(behind, end);
    c->fast();
    if (hash_of(behind, end) != guard) {
        return 0U;
    }
    const uint32_t hash = hash_of(0U, end);
    if (c->plain == 0) {
        return 1U;
    }
    prepare(c);
    c->plain();
    return (hash == hash_of(0U, end)) ? 1U : 0U;
}
#endif

static void put(const poet_case *c, uint32_t first, uint32_t second)
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
        const poet_case *c = &bench_cases[i];
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
    /* MVE flushes subnormals and gives the default NaN whatever FPSCR says; FZ (bit 24) and DN
     * (bit 25) make scalar instructions agree. */
    uint32_t fpscr = 0U;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(fpscr | (3U << 24)));
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
