/* 216 MHz, in the order of RM0385 4.1.4 (entering over-drive mode) and 3.3.2 (wait states). */
#include "clock.h"

#include "registers.h"

/* Bound of a wait for hardware, in polls at 16 MHz: HSE start-up may take milliseconds. */
#define READY_POLLS 500000u

_Static_assert(POET_CORE_HZ == 216000000u, "the one clock set up here is 216 MHz");

static bool ready(volatile uint32_t *where, uint32_t mask, uint32_t value)
{
    for (uint32_t i = 0u; i < READY_POLLS; i++) {
        if ((*where & mask) == value) {
            return true;
        }
    }
    return false;
}

static bool start_pll(const poet_stm32f7_clock *clock)
{
    if (clock->hse_bypass) {
        RCC_CR |= RCC_CR_HSEBYP;
    }
    RCC_CR |= RCC_CR_HSEON;
    if (!ready(&RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY)) {
        return false;
    }
    RCC_PLLCFGR = RCC_PLLCFGR_RESERVED | ((uint32_t)clock->pll_q << RCC_PLLCFGR_Q_SHIFT) |
                  RCC_PLLCFGR_SRC_HSE | RCC_PLLCFGR_P_2 |
                  ((uint32_t)clock->pll_n << RCC_PLLCFGR_N_SHIFT) | clock->pll_m;
    RCC_CR |= RCC_CR_PLLON;
    return ready(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY);
}

/* Above 180 MHz the regulator must be in over-drive, entered while the core runs from HSI. */
static bool start_overdrive(void)
{
    PWR_CR1 |= PWR_CR1_ODEN;
    if (!ready(&PWR_CSR1, PWR_CSR1_ODRDY, PWR_CSR1_ODRDY)) {
        return false;
    }
    PWR_CR1 |= PWR_CR1_ODSWEN;
    return ready(&PWR_CSR1, PWR_CSR1_ODSWRDY, PWR_CSR1_ODSWRDY);
}

bool poet_stm32f7_start_clock(const poet_stm32f7_clock *clock)
{
    RCC_APB1ENR |= RCC_APB1ENR_PWR;
    (void)RCC_APB1ENR; /* the gate opens two clocks later (5.2.11); the read takes as long */
    PWR_CR1 |= PWR_CR1_VOS_1;
    if (!start_pll(clock) || !start_overdrive()) {
        return false;
    }
    /* More wait states before more megahertz. The accelerator serves the ITCM alias of flash, the
     * instruction cache the one at 0x08000000. */
    const uint32_t latency = FLASH_ACR_7_WAIT_STATES | FLASH_ACR_PREFETCH | FLASH_ACR_ART;
    FLASH_ACR = latency;
    if (!ready(&FLASH_ACR, 0xFu, FLASH_ACR_7_WAIT_STATES)) {
        return false;
    }
    RCC_CFGR |= RCC_CFGR_PPRE1_4 | (clock->slow_apb2 ? RCC_CFGR_PPRE2_4 : RCC_CFGR_PPRE2_2);
    RCC_CFGR |= RCC_CFGR_SW_PLL;
    RCC_DCKCFGR2 = 0u;
    return ready(&RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SWS_PLL);
}

static void set_field(volatile uint32_t *where, uint32_t index, uint32_t bits, uint32_t value)
{
    const uint32_t shift = index * bits;
    const uint32_t mask = ((1u << bits) - 1u) << shift;
    *where = (*where & ~mask) | (value << shift);
}

static poet_gpio_registers *open_port(const poet_stm32f7_pin *pin)
{
    RCC_AHB1ENR |= 1u << pin->port;
    (void)RCC_AHB1ENR;
    return GPIO_PORT(pin->port);
}

/* The function first: switched the other way round, the pin would follow another peripheral for
 * a moment. */
void poet_stm32f7_route(const poet_stm32f7_pin *pin)
{
    poet_gpio_registers *port = open_port(pin);
    set_field(&port->afr[pin->number / 8u], pin->number % 8u, 4u, pin->function);
    set_field(&port->ospeedr, pin->number, 2u, GPIO_SPEED_VERY_HIGH);
    set_field(&port->pupdr, pin->number, 2u, GPIO_PULL_UP);
    set_field(&port->moder, pin->number, 2u, GPIO_MODE_ALTERNATE);
}

void poet_stm32f7_input(const poet_stm32f7_pin *pin)
{
    poet_gpio_registers *port = open_port(pin);
    set_field(&port->pupdr, pin->number, 2u, GPIO_PULL_UP);
    set_field(&port->moder, pin->number, 2u, GPIO_MODE_INPUT);
}

/* The level before the direction, so that the pin never drives low. */
void poet_stm32f7_output_high(const poet_stm32f7_pin *pin)
{
    poet_gpio_registers *port = open_port(pin);
    port->bsrr = 1u << pin->number;
    set_field(&port->ospeedr, pin->number, 2u, GPIO_SPEED_VERY_HIGH);
    set_field(&port->moder, pin->number, 2u, GPIO_MODE_OUTPUT);
}
