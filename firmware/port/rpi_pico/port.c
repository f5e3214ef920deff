/* Port of the Raspberry Pi Pico (RP2040): 125 MHz from the crystal, console on UART0 (GP0, GP1), SD
 * card on SPI0 (GP2 clock, GP3 to the card, GP4 from it, GP5 select). Both controllers are Arm's.
 * Registers: RP2040 datasheet, sections named below. The second core stays asleep in its ROM.
 */
#include "poet/port.h"

#include "../common/cortex_m.h"
#include "../primecell/primecell.h"

/* Aliases of a peripheral's registers that set or clear single bits: 2.1.2. */
#define SET 0x2000u
#define CLEAR 0x3000u

/* 2.14, subsystem resets. */
#define RESETS 0x4000C000u
#define RESETS_DONE (RESETS + 0x08u)
#define RESET_IO_BANK0 (1u << 5)
#define RESET_PADS_BANK0 (1u << 8)
#define RESET_PLL_SYS (1u << 12)
#define RESET_SPI0 (1u << 16)
#define RESET_UART0 (1u << 22)

/* 2.16, crystal oscillator. */
#define XOSC 0x40024000u
#define XOSC_CTRL POET_REGISTER(XOSC + 0x00u)
#define XOSC_ON 0x00FABAA0u /* enable, 1 to 15 MHz */
#define XOSC_STATUS (XOSC + 0x04u)
#define XOSC_STABLE (1u << 31)
#define XOSC_STARTUP POET_REGISTER(XOSC + 0x0Cu)
#define XOSC_STARTUP_1_MS 47u /* in 256 periods of 12 MHz */

/* 2.15, clocks. */
#define CLOCKS 0x40008000u
#define CLK_REF_CTRL POET_REGISTER(CLOCKS + 0x30u)
#define CLK_REF_XOSC 2u
#define CLK_REF_SELECTED (CLOCKS + 0x38u) /* one bit a source */
#define CLK_SYS (CLOCKS + 0x3Cu)
#define CLK_SYS_CTRL POET_REGISTER(CLK_SYS)
#define CLK_SYS_AUX 1u /* whose source 0 is the system PLL */
#define CLK_SYS_SELECTED (CLOCKS + 0x44u)
#define CLK_PERI_CTRL POET_REGISTER(CLOCKS + 0x48u)
#define CLK_PERI_ON (1u << 11) /* from the system clock */

/* 2.18, PLL: 12 MHz * 125 / 6 / 2. */
#define PLL 0x40028000u
#define PLL_CS POET_REGISTER(PLL + 0x00u)
#define PLL_LOCKED (1u << 31)
#define PLL_PWR (PLL + 0x04u)
#define PLL_PWR_DOWN 1u
#define PLL_PWR_DIVIDERS (1u << 3)
#define PLL_PWR_VCO (1u << 5)
#define PLL_FBDIV POET_REGISTER(PLL + 0x08u)
#define PLL_PRIM POET_REGISTER(PLL + 0x0Cu)
#define PLL_TIMES 125u
#define PLL_DIVIDE_1 6u
#define PLL_DIVIDE_2 2u
#define CRYSTAL_HZ 12000000u
_Static_assert(CRYSTAL_HZ / PLL_DIVIDE_1 / PLL_DIVIDE_2 * PLL_TIMES == POET_CORE_HZ,
               "the board file's clock is what the PLL is set to");

/* 2.19, GPIO: function select, pads, and the single-cycle outputs of 2.3.1. */
#define PIN_FUNCTION(pin) POET_REGISTER(0x40014004u + 8u * (pin))
#define FUNCTION_SPI 1u
#define FUNCTION_UART 2u
#define FUNCTION_SIO 5u
#define PIN_PAD(pin) POET_REGISTER(0x4001C004u + 4u * (pin))
#define PAD_PULLED_UP 0x5Au /* input on, 4 mA, pull-up, Schmitt trigger */
#define SIO_OUT_SET POET_REGISTER(0xD0000014u)
#define SIO_OUT_CLEAR POET_REGISTER(0xD0000018u)
#define SIO_ENABLE_SET POET_REGISTER(0xD0000024u)

enum { CONSOLE_OUT, CONSOLE_IN, CARD_CLOCK, CARD_IN, CARD_OUT, CARD_SELECT };

/* Bound of waits for oscillator and PLL, in polls: no clock runs yet. */
#define POLLS 1000000u

static void select_card(bool selected)
{
    if (selected) {
        SIO_OUT_CLEAR = 1u << CARD_SELECT;
    } else {
        SIO_OUT_SET = 1u << CARD_SELECT;
    }
}

const poet_pl011 poet_primecell_console = {
    .base = 0x40034000u, .clock_hz = POET_CORE_HZ, .irq = 20u};
const poet_pl022 poet_primecell_spi = {
    .base = 0x4003C000u, .clock_hz = POET_CORE_HZ, .select = select_card};

static bool wait_for(uintptr_t address, uint32_t bits)
{
    for (uint32_t i = 0u; i < POLLS; i++) {
        if ((POET_REGISTER(address) & bits) == bits) {
            return true;
        }
    }
    return false;
}

/* A reset of the core alone leaves peripherals as they were: reset them, then let them go. */
static bool release(uint32_t bits)
{
    POET_REGISTER(RESETS + SET) = bits;
    POET_REGISTER(RESETS + CLEAR) = bits;
    return wait_for(RESETS_DONE, bits);
}

static bool start_clocks(void)
{
    XOSC_STARTUP = XOSC_STARTUP_1_MS;
    XOSC_CTRL = XOSC_ON;
    if (!wait_for(XOSC_STATUS, XOSC_STABLE)) {
        return false;
    }
    /* Away from the PLL before it is reset: the system clock from the reference, that from XOSC. */
    CLK_REF_CTRL = CLK_REF_XOSC;
    POET_REGISTER(CLK_SYS + CLEAR) = CLK_SYS_AUX;
    if (!wait_for(CLK_REF_SELECTED, 1u << CLK_REF_XOSC) || !wait_for(CLK_SYS_SELECTED, 1u) ||
        !release(RESET_PLL_SYS)) {
        return false;
    }
    PLL_CS = 1u; /* the crystal, not divided */
    PLL_FBDIV = PLL_TIMES;
    POET_REGISTER(PLL_PWR + CLEAR) = PLL_PWR_DOWN | PLL_PWR_VCO;
    if (!wait_for(PLL, PLL_LOCKED)) {
        return false;
    }
    PLL_PRIM = (PLL_DIVIDE_1 << 16) | (PLL_DIVIDE_2 << 12);
    POET_REGISTER(PLL_PWR + CLEAR) = PLL_PWR_DIVIDERS;
    CLK_SYS_CTRL = 0u;          /* the other input: system PLL */
    CLK_SYS_CTRL = CLK_SYS_AUX; /* and over to it */
    CLK_PERI_CTRL = CLK_PERI_ON;
    return wait_for(CLK_SYS_SELECTED, 1u << CLK_SYS_AUX);
}

static void route_pins(void)
{
    PIN_FUNCTION(CONSOLE_OUT) = FUNCTION_UART;
    PIN_FUNCTION(CONSOLE_IN) = FUNCTION_UART;
    PIN_PAD(CONSOLE_IN) = PAD_PULLED_UP;
    PIN_FUNCTION(CARD_CLOCK) = FUNCTION_SPI;
    PIN_FUNCTION(CARD_IN) = FUNCTION_SPI;
    PIN_FUNCTION(CARD_OUT) = FUNCTION_SPI;
    PIN_PAD(CARD_OUT) = PAD_PULLED_UP;
    SIO_OUT_SET = 1u << CARD_SELECT;
    SIO_ENABLE_SET = 1u << CARD_SELECT;
    PIN_FUNCTION(CARD_SELECT) = FUNCTION_SIO;
}

void poet_port_init(void)
{
    /* Without its clock there is no baud rate to complain at. */
    if (!start_clocks() ||
        !release(RESET_IO_BANK0 | RESET_PADS_BANK0 | RESET_UART0 | RESET_SPI0)) {
        poet_port_stop();
    }
    route_pins();
    poet_cortex_m_start_clock();
    poet_primecell_start();
}
