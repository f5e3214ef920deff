/* What every Cortex-M port shares: system registers, start-up, time, stack measurement.
 * Private to firmware/port. Addresses: Armv7-M Architecture Reference Manual, B3.2 and B3.3.
 */
#ifndef POET_PORT_CORTEX_M_H
#define POET_PORT_CORTEX_M_H

#include <stdint.h>

#ifndef POET_CORE_HZ
#error "define POET_CORE_HZ: the core clock in Hz (the build file does, from the board file)"
#endif

/* As poet/fma.h has it, for ports built without kernels. */
#ifndef POET_FLUSH_SUBNORMALS
#define POET_FLUSH_SUBNORMALS 0
#endif

#define POET_REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define SCB_ICSR POET_REGISTER(0xE000ED04u)
#define SCB_ICSR_PENDSTSET (1u << 26)
#define SCB_AIRCR POET_REGISTER(0xE000ED0Cu)
#define SCB_AIRCR_RESET 0x05FA0004u /* VECTKEY | SYSRESETREQ */
#define SCB_CFSR POET_REGISTER(0xE000ED28u)
#define SCB_CPACR POET_REGISTER(0xE000ED88u)
#define SCB_CPACR_FPU (0xFu << 20) /* CP10 and CP11, full access */
#define SCB_FPDSCR POET_REGISTER(0xE000EF3Cu)
#define SYST_CSR POET_REGISTER(0xE000E010u)
#define SYST_CSR_RUN 7u /* core clock, interrupt, enable */
#define SYST_RVR POET_REGISTER(0xE000E014u)
#define SYST_CVR POET_REGISTER(0xE000E018u)

/* The interrupt controller's registers with the bit of interrupt irq (irq % 32). */
#define NVIC_ISER(irq) POET_REGISTER(0xE000E100u + (irq) / 32u * 4u)
#define NVIC_ICER(irq) POET_REGISTER(0xE000E180u + (irq) / 32u * 4u)
#define NVIC_ICPR(irq) POET_REGISTER(0xE000E280u + (irq) / 32u * 4u)

/* Start SysTick: from here on poet_cortex_m_cycles and poet_port_micros run. */
void poet_cortex_m_start_clock(void);
/* Core cycles since then: what poet_port_cycles is where no better counter lives. */
uint64_t poet_cortex_m_cycles(void);
/* Begin and end of a wait for interrupt number irq without a handler: between the two the
 * core masks interrupts, so that a pending one ends WFI (Armv7-M ARM B1.5.19) and nothing is lost
 * between a last look at the device and the sleep.
 */
void poet_cortex_m_begin_wait(uint32_t irq);
void poet_cortex_m_end_wait(uint32_t irq);
/* SysTick's interrupt. */
void poet_cortex_m_systick(void);
/* The port's way to stop for good after a fault was reported. */
_Noreturn void poet_port_stop(void);

#endif
