/* Port for QEMU's machines mps2-an500 (Cortex-M7) and mps2-an386 (Cortex-M4F), which differ only in
 * their RAM, and mps3-an547 (Cortex-M55), which has the same UART elsewhere.
 * Register facts: Arm Cortex-M System Design Kit, APB UART; QEMU 7.2 hw/arm/mps2.c, mps2-tz.c.
 */
#include "poet/port.h"

#include "../common/cortex_m.h"
#include "semihost.h"

#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define UART0 0x49303000u
#define UART0_RX_IRQ 33u
#else
#define UART0 0x40004000u
#define UART0_RX_IRQ 0u
#endif
#define UART_DATA POET_REGISTER(UART0)
#define UART_STATE POET_REGISTER(UART0 + 0x4u)
#define UART_STATE_TX_FULL 1u
#define UART_STATE_RX_FULL 2u
#define UART_CTRL POET_REGISTER(UART0 + 0x8u)
#define UART_CTRL_TX_RX 3u
#define UART_CTRL_RX_INTERRUPT 8u
#define UART_INTCLEAR POET_REGISTER(UART0 + 0xCu)
#define UART_INTCLEAR_RX 2u
#define UART_BAUDDIV POET_REGISTER(UART0 + 0x10u)
#define UART_BAUD 115200u
/* Bound of a wait for room, in polls: also used when a fault has stopped the clock. */
#define UART_POLLS 10000000u

#define EXIT_STOPPED 70u

static poet_semihost_state file_state = {.handle = -1};
static const poet_bdev file = {.ops = &poet_semihost_ops, .state = &file_state};

void poet_port_init(void)
{
    poet_cortex_m_start_clock();
    UART_BAUDDIV = POET_CORE_HZ / UART_BAUD;
    UART_CTRL = UART_CTRL_TX_RX;
}

/* Sleep until a byte or an interrupt has come; see the lm3s6965evb port. */
static void sleep_for_byte(void)
{
    poet_cortex_m_begin_wait(UART0_RX_IRQ);
    UART_CTRL = UART_CTRL_TX_RX | UART_CTRL_RX_INTERRUPT;
    if ((UART_STATE & UART_STATE_RX_FULL) == 0u) {
        __asm volatile("wfi");
    }
    UART_CTRL = UART_CTRL_TX_RX;
    UART_INTCLEAR = UART_INTCLEAR_RX;
    poet_cortex_m_end_wait(UART0_RX_IRQ);
}

uint64_t poet_port_cycles(void)
{
    return poet_cortex_m_cycles();
}

int poet_port_getc(void)
{
    if ((UART_STATE & UART_STATE_RX_FULL) == 0u) {
        sleep_for_byte();
        return -1;
    }
    return (int)(UART_DATA & 0xFFu);
}

void poet_port_flush(void)
{
    for (uint32_t i = 0u; i < UART_POLLS && (UART_STATE & UART_STATE_TX_FULL) != 0u; i++) {
    }
}

void poet_port_putc(uint8_t byte)
{
    poet_port_flush();
    UART_DATA = byte;
}

const poet_bdev *poet_port_bdev(void)
{
    return &file;
}

/* Semihosting is on whenever this port runs, so the emulator can end and its caller notices. */
_Noreturn void poet_port_stop(void)
{
    poet_semihost_exit(EXIT_STOPPED);
}
