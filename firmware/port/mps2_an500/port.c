/* Port for QEMU's machine mps2-an500 (Cortex-M7); the AN385 and AN386 differ only in their RAM.
 * Register facts: Arm Cortex-M System Design Kit, APB UART.
 */
#include "poet/port.h"

#include "../common/cortex_m.h"
#include "semihost.h"

#define UART_DATA POET_REGISTER(0x40004000u)
#define UART_STATE POET_REGISTER(0x40004004u)
#define UART_STATE_TX_FULL 1u
#define UART_STATE_RX_FULL 2u
#define UART_CTRL POET_REGISTER(0x40004008u)
#define UART_CTRL_TX_RX 3u
#define UART_CTRL_RX_INTERRUPT 8u
#define UART_INTCLEAR POET_REGISTER(0x4000400Cu)
#define UART_INTCLEAR_RX 2u
#define UART0_RX_IRQ 0u
#define UART_BAUDDIV POET_REGISTER(0x40004010u)
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
