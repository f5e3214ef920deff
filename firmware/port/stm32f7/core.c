/* What the Cortex-M7 itself brings: caches, MPU, cycle counter. PM0253 4.6, 4.7. */
#include "clock.h"
#include "poet/port.h"
#include "registers.h"

#define LINE_BYTES 32u

/* MPU_RASR: XN, no access, shareable, sub-regions, size as 2^(field + 1), enable. */
#define RASR_NO_ACCESS (1u << 28 | 1u << 18)
#define RASR_SIZE(log2) (((log2) - 1u) << 1)
#define RASR_ENABLE 1u
/* Of the 4 GiB in eighths, only the four from 0x60000000 to 0xDFFFFFFF: external memories and
 * devices that this port never opens. A speculative read there can hang the bus. */
#define RASR_EXTERNAL (RASR_NO_ACCESS | 0x87u << 8 | RASR_SIZE(32u) | RASR_ENABLE)
/* The 128 KiB below RAM: where the stack goes when it overflows. */
#define BELOW_RAM 0x1FFE0000u
#define RASR_BELOW_RAM (RASR_NO_ACCESS | RASR_SIZE(17u) | RASR_ENABLE)

static void barrier(void)
{
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void poet_stm32f7_protect(void)
{
    MPU_CTRL = 0u;
    MPU_RNR = 0u;
    MPU_RBAR = 0u;
    MPU_RASR = RASR_EXTERNAL;
    MPU_RNR = 1u;
    MPU_RBAR = BELOW_RAM;
    MPU_RASR = RASR_BELOW_RAM;
    MPU_CTRL = MPU_CTRL_ENABLE_WITH_DEFAULT_MAP;
    barrier();
}

/* What stands in the data cache after reset is undefined: every line of it is dropped by set and
 * way. CCSIDR has sets - 1 from bit 13 and ways - 1 from bit 3. */
static void drop_data_cache(void)
{
    SCB_CSSELR = 0u;
    __asm volatile("dsb" ::: "memory");
    const uint32_t size = SCB_CCSIDR;
    const uint32_t sets = ((size >> 13) & 0x7FFFu) + 1u;
    const uint32_t ways = ((size >> 3) & 0x3FFu) + 1u;
    for (uint32_t set = 0u; set < sets; set++) {
        for (uint32_t way = 0u; way < ways; way++) {
            SCB_DCISW = way << 30 | set << 5;
        }
    }
}

void poet_stm32f7_start_caches(void)
{
    barrier();
    SCB_ICIALLU = 0u;
    barrier();
    SCB_CCR |= SCB_CCR_IC;
    drop_data_cache();
    __asm volatile("dsb" ::: "memory");
    SCB_CCR |= SCB_CCR_DC;
    barrier();
}

static void by_line(volatile uint32_t *operation, uintptr_t address, uint32_t nbytes)
{
    const uintptr_t end = address + nbytes;
    __asm volatile("dsb" ::: "memory");
    for (uintptr_t line = address & ~(uintptr_t)(LINE_BYTES - 1u); line < end;
         line += LINE_BYTES) {
        *operation = (uint32_t)line;
    }
    barrier();
}

void poet_stm32f7_clean(const void *address, uint32_t nbytes)
{
    by_line(&SCB_DCCMVAC, (uintptr_t)address, nbytes);
}

void poet_stm32f7_invalidate(void *address, uint32_t nbytes)
{
    by_line(&SCB_DCIMVAC, (uintptr_t)address, nbytes);
}

/* Set when CYCCNT was seen to move: not without the unlock on this core, and in no emulator. */
static bool counter_lives;

void poet_stm32f7_start_cycles(void)
{
    DEMCR |= DEMCR_TRCENA;
    DWT_LAR = DWT_LAR_KEY;
    DWT_CYCCNT = 0u;
    poet_cortex_m_start_clock();
    DWT_CTRL |= DWT_CTRL_CYCCNTENA;
    barrier();
    counter_lives = DWT_CYCCNT != 0u;
}

/* SysTick has the upper bits, the cycle counter the lower: both count the core's clock and were
 * started together, so they never drift apart. */
uint64_t poet_port_cycles(void)
{
    const uint64_t coarse = poet_cortex_m_cycles();
    if (!counter_lives) {
        return coarse;
    }
    const int32_t off = (int32_t)(DWT_CYCCNT - (uint32_t)coarse);
    return coarse + (uint64_t)(int64_t)off;
}
