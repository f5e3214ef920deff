/* Port for the LM3S6965EVB as QEMU's machine lm3s6965evb has it, with whatever core it is given.
 * Register facts: LM3S6965 data sheet, chapters system control, GPIO and UART.
 */
#include "poet/port.h"

#include "../common/cortex_m.h"
#include "../primecell/primecell.h"

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
#define GPIO_A_SSI_PINS 0x34u /* PA2 clock, PA4 receive, PA5 transmit */
#define GPIO_D_PD0 POET_REGISTER(0x40007004u) /* the address masks all other pins */
#define GPIO_D_DIR POET_REGISTER(0x40007400u)
#define GPIO_D_DEN POET_REGISTER(0x4000751Cu)

/* Bound of the wait for the PLL, in polls: no clock runs yet. */
#define LOCK_POLLS 100000u

#define PLL_HZ 200000000u
#define SYSTEM_DIVIDER (PLL_HZ / POET_CORE_HZ)
_Static_assert(PLL_HZ % POET_CORE_HZ == 0u && SYSTEM_DIVIDER >= 1u && SYSTEM_DIVIDER <= 16u,
               "POET_CORE_HZ is 200 MHz divided by 1..16");

static void select_card(bool selected)
{
    GPIO_D_PD0 = selected ? 0u : 1u;
}

const poet_pl011 poet_primecell_console = {
    .base = 0x4000C000u, .clock_hz = POET_CORE_HZ, .irq = 5u};
const poet_pl022 poet_primecell_spi = {
    .base = 0x40008000u, .clock_hz = POET_CORE_HZ, .select = select_card};

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

static void route_pins(void)
{
    GPIO_D_PD0 = 1u;
    GPIO_D_DIR |= 1u;
    GPIO_D_DEN |= 1u;
    GPIO_D_PD0 = 1u;
    GPIO_A_AFSEL |= GPIO_A_UART_PINS | GPIO_A_SSI_PINS;
    GPIO_A_DEN |= GPIO_A_UART_PINS | GPIO_A_SSI_PINS;
}

void poet_port_init(void)
{
    start_pll();
    SYSCTL_RCGC1 |= RCGC1_UART0_SSI0;
    SYSCTL_RCGC2 |= RCGC2_GPIO_A_D;
    /* The gates open three clocks later; a read of the register takes as long. */
    (void)SYSCTL_RCGC2;
    poet_cortex_m_start_clock();
    route_pins();
    poet_primecell_start();
}
