/* Port of the STM32F7 family; the board's constants stand in the folder named after it. */
#include "poet/port.h"

#include "clock.h"
#include "console.h"
#include "registers.h"

/* STM32F76x and F77x have the most: positions 0..109 (RM0410 10.1). */
#define INTERRUPTS 110u

typedef void (*handler)(void);

void poet_stm32f7_interrupt(void);

#define TEN_HANDLERS                                                                       \
    poet_stm32f7_interrupt, poet_stm32f7_interrupt, poet_stm32f7_interrupt,               \
        poet_stm32f7_interrupt, poet_stm32f7_interrupt, poet_stm32f7_interrupt,           \
        poet_stm32f7_interrupt, poet_stm32f7_interrupt, poet_stm32f7_interrupt,           \
        poet_stm32f7_interrupt

/* The linker script places it right behind the sixteen vectors of the core. */
extern const handler poet_stm32f7_vectors[INTERRUPTS];
__attribute__((section(".vectors.interrupts"), used)) const handler
    poet_stm32f7_vectors[INTERRUPTS] = {
        TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS,
        TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS, TEN_HANDLERS,
};

extern const uint32_t poet_cortex_m_vectors[];

void poet_stm32f7_interrupt(void)
{
    uint32_t exception;
    __asm volatile("mrs %0, ipsr" : "=r"(exception));
    if (exception == poet_stm32f7.console.irq + 16u) {
        poet_stm32f7_console_interrupt();
    } else if (exception == poet_stm32f7.card_irq + 16u) {
        poet_stm32f7.card_interrupt();
    } else {
        /* Nobody enabled it: it cannot come, but must not come again and again. */
        NVIC_ICER(exception - 16u) = 1u << (exception - 16u) % 32u;
    }
}

static void complain(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        poet_port_putc((uint8_t)*c);
    }
    poet_port_flush();
}

void poet_port_init(void)
{
    SCB_VTOR = (uint32_t)(uintptr_t)poet_cortex_m_vectors;
    poet_stm32f7_protect();
    if (!poet_stm32f7_start_clock(&poet_stm32f7.clock)) {
        poet_stm32f7_start_console(POET_STM32F7_RESET_HZ);
        complain("\r\npoet: the clock tree did not start: crystal or supply?\r\n");
        poet_port_stop();
    }
    poet_stm32f7_start_caches();
    poet_stm32f7_start_cycles();
    poet_stm32f7_start_console(poet_stm32f7.console.clock_hz);
    poet_stm32f7.bind_card();
}

const poet_bdev *poet_port_bdev(void)
{
    return &poet_stm32f7.card;
}

_Noreturn void poet_port_stop(void)
{
    __asm volatile("cpsid i" ::: "memory");
    for (;;) {
        __asm volatile("wfi");
    }
}
