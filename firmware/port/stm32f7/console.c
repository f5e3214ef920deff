/* The serial console: received bytes go through a ring by interrupt, sent ones are polled. */
#include "console.h"

#include "clock.h"
#include "registers.h"

#define BAUD 115200u
#define RING_BYTES 256u /* a power of two; three milliseconds hold 35 bytes */
/* Bound of a wait for room, in polls: also used when a fault has stopped the clock. */
#define SEND_POLLS 10000000u

static volatile uint8_t ring[RING_BYTES];
static volatile uint32_t received; /* written by the interrupt only */
static uint32_t taken;

static poet_usart_registers *usart(void)
{
    return (poet_usart_registers *)(uintptr_t)poet_stm32f7.console.base;
}

void poet_stm32f7_start_console(uint32_t clock_hz)
{
    const poet_stm32f7_console *console = &poet_stm32f7.console;
    poet_stm32f7_route(&console->transmit);
    poet_stm32f7_route(&console->receive);
    if (console->apb1) {
        RCC_APB1ENR |= 1u << console->enable_bit;
        (void)RCC_APB1ENR;
    } else {
        RCC_APB2ENR |= 1u << console->enable_bit;
        (void)RCC_APB2ENR;
    }
    usart()->cr1 = 0u;
    usart()->brr = (clock_hz + BAUD / 2u) / BAUD;
    usart()->cr1 = USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE | USART_CR1_UE;
    NVIC_ISER(console->irq) = 1u << console->irq % 32u;
}

/* A byte for which the ring has no room is dropped: the frame's checksum tells. */
void poet_stm32f7_console_interrupt(void)
{
    const uint32_t status = usart()->isr;
    if ((status & USART_ISR_RXNE) != 0u) {
        const uint8_t byte = (uint8_t)usart()->rdr;
        if (received - taken < RING_BYTES) {
            ring[received % RING_BYTES] = byte;
            received = received + 1u;
        }
    }
    usart()->icr = USART_ICR_ERRORS;
}

int poet_port_getc(void)
{
    if (taken == received) {
        /* Interrupts masked: a byte between the look and the sleep still ends WFI. */
        __asm volatile("cpsid i" ::: "memory");
        if (taken == received) {
            __asm volatile("wfi");
        }
        __asm volatile("cpsie i" ::: "memory");
        return -1;
    }
    const uint8_t byte = ring[taken % RING_BYTES];
    taken++;
    return byte;
}

static void await(uint32_t flag)
{
    for (uint32_t i = 0u; i < SEND_POLLS && (usart()->isr & flag) == 0u; i++) {
    }
}

void poet_port_putc(uint8_t byte)
{
    await(USART_ISR_TXE);
    usart()->tdr = byte;
}

void poet_port_flush(void)
{
    await(USART_ISR_TC);
}
