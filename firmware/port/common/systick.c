/* Time of a Cortex-M: SysTick at the core clock, 24 bits, extended to 64 by its interrupt.
 *
 * A whole period (2^24 cycles) must not pass with interrupts masked. If an emulator's host stalls
 * for longer, time is lost but never runs backwards.
 */
#include <stdbool.h>

#include "cortex_m.h"
#include "poet/port.h"

#define PERIOD_MASK 0xFFFFFFu
/* Zero lasts one cycle; the bound is for a clock that was never started. */
#define ZERO_POLLS 100000u
#define HALF_MICROS_PER_SECOND 500000u

_Static_assert(POET_CORE_HZ % HALF_MICROS_PER_SECOND == 0u,
               "the core clock is a multiple of 500 kHz, so microseconds come out exact");

static volatile uint32_t wraps;
/* The latest time given. An emulator may show a counter that has wrapped before it says that the
 * interrupt is pending: then the clock stands still for a moment, but never runs backwards, which
 * would end every wait by its timeout. */
static uint64_t latest;

void poet_cortex_m_start_clock(void)
{
    wraps = 0u;
    latest = 0u;
    SYST_RVR = PERIOD_MASK;
    SYST_CVR = 0u;
    SYST_CSR = SYST_CSR_RUN;
}

void poet_cortex_m_systick(void)
{
    wraps = wraps + 1u;
}

/* The counter, but never 0: that value belongs to the old period on one side of the interrupt and
 * to the new one on the other (QEMU stays at it on both sides), so it is waited out. */
static uint32_t count_now(void)
{
    uint32_t count = SYST_CVR;
    for (uint32_t i = 0u; i < ZERO_POLLS && count == 0u; i++) {
        count = SYST_CVR;
    }
    return count;
}

uint64_t poet_cortex_m_cycles(void)
{
    uint32_t masked;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(masked)::"memory");
    uint32_t count = count_now();
    uint64_t periods = wraps;
    if ((SCB_ICSR & SCB_ICSR_PENDSTSET) != 0u) {
        /* It wrapped and the interrupt could not come: the count may be from before or after. */
        count = count_now();
        periods++;
    }
    const uint64_t now = (periods << 24) + (PERIOD_MASK - count);
    latest = (now > latest) ? now : latest;
    const uint64_t given = latest;
    __asm volatile("msr primask, %0" ::"r"(masked) : "memory");
    return given;
}

uint32_t poet_port_cycle_hz(void)
{
    return POET_CORE_HZ;
}

uint32_t poet_port_micros(void)
{
    return (uint32_t)(poet_port_cycles() * 2u / (POET_CORE_HZ / HALF_MICROS_PER_SECOND));
}

void poet_cortex_m_begin_wait(uint32_t irq)
{
    __asm volatile("cpsid i" ::: "memory");
    NVIC_ISER(irq) = 1u << irq % 32u;
}

void poet_cortex_m_end_wait(uint32_t irq)
{
    NVIC_ICER(irq) = 1u << irq % 32u;
    NVIC_ICPR(irq) = 1u << irq % 32u;
    __asm volatile("cpsie i" ::: "memory");
}
