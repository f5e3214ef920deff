/* Vector table, start-up and fault report of a Cortex-M.
 *
 * The stack stands at the very bottom of RAM (see the linker script): when it overflows it leaves
 * RAM instead of running into data.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortex_m.h"
#include "poet/port.h"

/* From the linker script; only their addresses mean something. */
extern uint32_t poet_ld_stack_start[];
extern uint32_t poet_ld_stack_end[];
extern uint32_t poet_ld_data_start[];
extern uint32_t poet_ld_data_end[];
extern const uint32_t poet_ld_data_load[];
extern uint32_t poet_ld_bss_start[];
extern uint32_t poet_ld_bss_end[];

/* UFSR.STKOF: the stack pointer met its limit (Armv8-M only; reserved before). */
#define CFSR_STACK_LIMIT (1u << 20)
/* Default NaN and flush-to-zero: the arithmetic that MVE vectors have whatever FPSCR says
 * (Armv8-M ARM, StandardFPSCRValue), so that scalar instructions agree with them. */
#define FPSCR_AS_VECTORS ((1u << 25) | (1u << 24))
#define STACK_PAINT 0xC5C5C5C5u
/* Left unpainted below the stack pointer, where an interrupt or a spill may be. */
#define PAINT_GAP_WORDS 32u

int main(void);
_Noreturn void poet_cortex_m_reset(void);
void poet_cortex_m_fault(void);
_Noreturn void poet_cortex_m_report(const uint32_t *frame);

typedef void (*handler)(void);

typedef struct {
    const void *stack_end;
    handler reset;
    handler nmi;
    handler hard_fault;
    handler faults_and_reserved[11]; /* disabled: they escalate to the hard fault */
    handler systick;
} vector_table;

_Static_assert(sizeof(vector_table) == 16u * sizeof(void *), "exceptions 0..15, none missing");

extern const vector_table poet_cortex_m_vectors;

__attribute__((section(".vectors"), used)) const vector_table poet_cortex_m_vectors = {
    .stack_end = poet_ld_stack_end,
    .reset = poet_cortex_m_reset,
    .nmi = poet_cortex_m_fault,
    .hard_fault = poet_cortex_m_fault,
    .faults_and_reserved = {poet_cortex_m_fault, poet_cortex_m_fault, poet_cortex_m_fault,
                            poet_cortex_m_fault, poet_cortex_m_fault, poet_cortex_m_fault,
                            poet_cortex_m_fault, poet_cortex_m_fault, poet_cortex_m_fault,
                            poet_cortex_m_fault, poet_cortex_m_fault},
    .systick = poet_cortex_m_systick,
};

static inline void prepare_core(void)
{
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    /* This core can check the stack by itself: an overflow becomes a fault at once. */
    __asm volatile("msr msplim, %0" ::"r"(poet_ld_stack_start) : "memory");
#endif
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    SCB_CPACR |= SCB_CPACR_FPU;
    __asm volatile("dsb\n\tisb" ::: "memory");
#endif
#if POET_FLUSH_SUBNORMALS
    /* FPDSCR is what FPSCR starts from in every new context, here and in handlers. */
    SCB_FPDSCR |= FPSCR_AS_VECTORS;
    uint32_t fpscr;
    __asm volatile("vmrs %0, fpscr" : "=r"(fpscr));
    __asm volatile("vmsr fpscr, %0" ::"r"(fpscr | FPSCR_AS_VECTORS));
#elif defined(__ARM_FEATURE_MVE)
#if (__ARM_FEATURE_MVE & 2) != 0
#error "MVE flushes subnormals: the board file needs core.flush_subnormals = true"
#endif
#endif
}

_Noreturn void poet_cortex_m_reset(void)
{
    prepare_core();
    const uint32_t *stack_pointer;
    __asm volatile("mov %0, sp" : "=r"(stack_pointer));
    /* Volatile: as a call of memset the loop would paint over its own frame. */
    for (volatile uint32_t *word = poet_ld_stack_start; word < stack_pointer - PAINT_GAP_WORDS;
         word++) {
        *word = STACK_PAINT;
    }
    /* These two may become calls of memcpy and memset: code in flash, no data of their own. */
    const uint32_t *load = poet_ld_data_load;
    for (uint32_t *word = poet_ld_data_start; word < poet_ld_data_end; word++) {
        *word = *load;
        load++;
    }
    for (uint32_t *word = poet_ld_bss_start; word < poet_ld_bss_end; word++) {
        *word = 0u;
    }
    (void)main();
    poet_port_stop();
}

uint32_t poet_port_stack_bytes(void)
{
    return (uint32_t)((uintptr_t)poet_ld_stack_end - (uintptr_t)poet_ld_stack_start);
}

uint32_t poet_port_stack_free_bytes(void)
{
    uint32_t free_bytes = 0u;
    for (const volatile uint32_t *word = poet_ld_stack_start;
         word < poet_ld_stack_end && *word == STACK_PAINT; word++) {
        free_bytes += (uint32_t)sizeof *word;
    }
    return free_bytes;
}

_Noreturn void poet_port_reset(void)
{
    poet_port_flush();
    __asm volatile("dsb" ::: "memory");
    SCB_AIRCR = SCB_AIRCR_RESET;
    poet_port_stop();
}

/* The stack pointer may be what is broken: take a fresh stack, pass the old one on. */
__attribute__((naked)) void poet_cortex_m_fault(void)
{
    __asm volatile("mrs r0, msp\n\t"
                   "ldr r1, =poet_ld_stack_end\n\t"
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
                   "movs r2, #0\n\t"
                   "msr msplim, r2\n\t"
#endif
                   "mov sp, r1\n\t"
                   "ldr r1, =poet_cortex_m_report\n\t"
                   "bx r1\n\t"
                   ".ltorg");
}

static void put_text(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        poet_port_putc((uint8_t)*c);
    }
}

static void put_field(const char *name, uint32_t value)
{
    static const char digits[] = "0123456789abcdef";
    put_text(name);
    for (uint32_t shift = 32u; shift != 0u; shift -= 4u) {
        poet_port_putc((uint8_t)digits[(value >> (shift - 4u)) & 15u]);
    }
}

/* frame: r0-r3, r12, lr, pc, xpsr as the exception entry stored them, if it could. */
_Noreturn void poet_cortex_m_report(const uint32_t *frame)
{
    const uintptr_t at = (uintptr_t)frame;
    const uint32_t cfsr = SCB_CFSR;
    const bool inside =
        at >= (uintptr_t)poet_ld_stack_start && at + 32u <= (uintptr_t)poet_ld_stack_end;
    const bool overflow = !inside || (cfsr & CFSR_STACK_LIMIT) != 0u;
    /* Copied first: this function's own calls run on the same memory. */
    const uint32_t lr = inside ? frame[5] : 0u;
    const uint32_t pc = inside ? frame[6] : 0u;
    put_text(overflow ? "\r\npoet: stack overflow" : "\r\npoet: hard fault");
    put_field(" sp=", (uint32_t)at);
    put_field(" pc=", pc);
    put_field(" lr=", lr);
    put_field(" cfsr=", cfsr);
    put_text("\r\n");
    poet_port_flush();
    poet_port_stop();
}
