/* Port for the LM3S6965EVB as QEMU's machine lm3s6965evb has it, with whatever core it is given.
 * Register facts: LM3S6965 data sheet, chapters system control, GPIO and UART.
 */
#include "poet/port.h"

#include "../common/cortex_m.h"
#include "poet/sd_spi.h"
#include "ssi.h"

#define SYSCTL_RCC POET_REGISTER(0x400FE060u)
#define RCC_SYSDIV_SHIFT 23u
#define RCC_SYSDIV (0xFu << RCC_SYSDIV_SHIFT)
#define RCC_USE_SYSDIV (1u << 22)
#define RCC_PLL_OFF (1u << 13)
#define RCC_BYPASS (1u << 11)
#define RCC_XTAL (0xFu << 6)
#define RCC_XTAL_8_MHZ (0xEu << 6)
#define RCC_SOURCE (3u << 4) /* 0: main oscillator */
#define RCC_MAIN_OFF 1u
#define SYSCTL_RIS POET_REGISTER(0x400FE050u)
#define RIS_PLL_LOCKED (1u << 6)
#define SYSCTL_RCGC1 POET_REGISTER(0x400FE104u)
#define RCGC1_UART0_SSI0 0x11u
#define SYSCTL_RCGC2 POET_REGISTER(0x400FE108u)
#define RCGC2_GPIO_A_D 0x09u

#define GPIO_A_AFSEL POET_REGISTER(0x40004420u)
#define GPIO_A_DEN POET_REGISTER(0x4000451Cu)
#define GPIO_A_UART_PINS 0x03u

#define UART_DR POET_REGISTER(0x4000C000u)
#define UART_FR POET_REGISTER(0x4000C018u)
#define UART_FR_BUSY (1u << 3)
#define UART_FR_RX_EMPTY (1u << 4)
#define UART_FR_TX_FULL (1u << 5)
#define UART_IBRD POET_REGISTER(0x4000C024u)
#define UART_FBRD POET_REGISTER(0x4000C028u)
#define UART_LCRH POET_REGISTER(0x4000C02Cu)
#define UART_LCRH_8N1_FIFO 0x70u
#define UART_IM POET_REGISTER(0x4000C038u)
#define UART_IM_RX 0x50u /* a byte in the FIFO, or one that stayed there a while */
#define UART0_IRQ 5u
#define UART_CR POET_REGISTER(0x4000C030u)
#define UART_CR_ON 0x301u
#define UART_BAUD 115200u

/* Bounds of waits for hardware, in polls, because no clock runs yet or the clock may be dead. */
#define LOCK_POLLS 100000u
#define UART_POLLS 10000000u

#define PLL_HZ 200000000u
#define SYSTEM_DIVIDER (PLL_HZ / POET_CORE_HZ)
_Static_assert(PLL_HZ % POET_CORE_HZ == 0u && SYSTEM_DIVIDER >= 1u && SYSTEM_DIVIDER <= 16u,
               "POET_CORE_HZ is 200 MHz divided by 1..16");

static const poet_sd_spi_config card_config = {
    .bus = &poet_lm3s_ssi_bus,
    .clock_hz = 12500000u,
};
static poet_sd_spi_state card_state;
static const poet_bdev card = {.ops = &poet_sd_spi_ops, .state = &card_state};

/* PLL from the 8 MHz crystal, in the order of the data sheet's "initialization and configuration".
 * QEMU takes only the divider from it. */
static void start_pll(void)
{
    uint32_t rcc = SYSCTL_RCC;
    rcc = (rcc | RCC_BYPASS) & ~RCC_USE_SYSDIV;
    SYSCTL_RCC = rcc;
    rcc = (rcc & ~(RCC_XTAL | RCC_SOURCE | RCC_PLL_OFF | RCC_MAIN_OFF)) | RCC_XTAL_8_MHZ;
    SYSCTL_RCC = rcc;
    rcc = (rcc & ~RCC_SYSDIV) | ((SYSTEM_DIVIDER - 1u) << RCC_SYSDIV_SHIFT) | RCC_USE_SYSDIV;
    SYSCTL_RCC = rcc;
    for (uint32_t i = 0u; i < LOCK_POLLS && (SYSCTL_RIS & RIS_PLL_LOCKED) == 0u; i++) {
    }
    SYSCTL_RCC = rcc & ~RCC_BYPASS;
}

static void start_uart(void)
{
    /* Divisor in 64ths, rounded: integer and fractional part of it are two registers. */
    const uint32_t divisor = (POET_CORE_HZ * 4u + UART_BAUD / 2u) / UART_BAUD;
    GPIO_A_AFSEL |= GPIO_A_UART_PINS;
    GPIO_A_DEN |= GPIO_A_UART_PINS;
    UART_CR = 0u;
    UART_IBRD = divisor >> 6;
    UART_FBRD = divisor & 63u;
    UART_LCRH = UART_LCRH_8N1_FIFO;
    UART_CR = UART_CR_ON;
}

void poet_port_init(void)
{
    start_pll();
    SYSCTL_RCGC1 |= RCGC1_UART0_SSI0;
    SYSCTL_RCGC2 |= RCGC2_GPIO_A_D;
    /* The gates open three clocks later; a read of the register takes as long. */
    (void)SYSCTL_RCGC2;
    poet_cortex_m_start_clock();
    start_uart();
    poet_lm3s_ssi_init();
    poet_sd_spi_init(&card_state, &card_config);
}

/* Sleep until a byte or an interrupt has come. Saves power on silicon; under QEMU a guest that
 * sleeps gets its next byte several times sooner than one that polls.
 */
static void sleep_for_byte(void)
{
    poet_cortex_m_begin_wait(UART0_IRQ);
    UART_IM = UART_IM_RX;
    if ((UART_FR & UART_FR_RX_EMPTY) != 0u) {
        __asm volatile("wfi");
    }
    UART_IM = 0u;
    poet_cortex_m_end_wait(UART0_IRQ);
}

uint64_t poet_port_cycles(void)
{
    return poet_cortex_m_cycles();
}

int poet_port_getc(void)
{
    if ((UART_FR & UART_FR_RX_EMPTY) != 0u) {
        sleep_for_byte();
        return -1;
    }
    return (int)(UART_DR & 0xFFu);
}

void poet_port_putc(uint8_t byte)
{
    for (uint32_t i = 0u; i < UART_POLLS && (UART_FR & UART_FR_TX_FULL) != 0u; i++) {
    }
    UART_DR = byte;
}

void poet_port_flush(void)
{
    for (uint32_t i = 0u; i < UART_POLLS && (UART_FR & UART_FR_BUSY) != 0u; i++) {
    }
}

const poet_bdev *poet_port_bdev(void)
{
    return &card;
}

_Noreturn void poet_port_stop(void)
{
    __asm volatile("cpsid i" ::: "memory");
    for (;;) {
        __asm volatile("wfi");
    }
}
