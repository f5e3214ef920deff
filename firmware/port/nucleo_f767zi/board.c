/* NUCLEO-F767ZI with an SD card on the SPI of its Arduino connector (D10..D13). UM1974 (Nucleo-144
 * manual) 6.9 and table 19; alternate functions: DS11532 table 13; interrupt positions: RM0410 table
 * 46. PA7 is shared with Ethernet (JP6), which must not be in use.
 */
#include "../stm32f7/board.h"
#include "../stm32f7/spi.h"
#include "poet/sd_spi.h"

enum { PORT_A, PORT_D = 3 };

static const poet_stm32f7_spi spi = {
    .base = 0x40013000u, /* SPI1 */
    .clock_hz = 54000000u,
    .enable_bit = 12u,
    .clock = {PORT_A, 5u, 5u},
    .miso = {PORT_A, 6u, 5u},
    .mosi = {PORT_A, 7u, 5u},
    .select = {PORT_D, 14u, 0u},
};

static const poet_spi_bus bus = {
    .set_clock = poet_stm32f7_spi_set_clock,
    .select = poet_stm32f7_spi_select,
    .exchange = poet_stm32f7_spi_exchange,
    .transfer = poet_stm32f7_spi_transfer,
    .micros = poet_stm32f7_spi_micros,
    .context = (void *)(uintptr_t)&spi,
};

static const poet_sd_spi_config config = {.bus = &bus, .clock_hz = 13500000u};
static poet_sd_spi_state state;

static void bind_card(void)
{
    poet_stm32f7_spi_init(&spi);
    poet_sd_spi_init(&state, &config);
}

const poet_stm32f7_board poet_stm32f7 = {
    /* 8 MHz from the debugger / 4 * 216: the VCO runs at 432 MHz. */
    .clock = {.hse_bypass = true, .slow_apb2 = true, .pll_m = 4u, .pll_n = 216u, .pll_q = 9u},
    /* USART3, wired to the debugger's virtual COM port. */
    .console = {.base = 0x40004800u,
                .clock_hz = 54000000u,
                .apb1 = true,
                .enable_bit = 18u,
                .irq = 39u,
                .transmit = {PORT_D, 8u, 7u},
                .receive = {PORT_D, 9u, 7u}},
    .card = {.ops = &poet_sd_spi_ops, .state = &state},
    .bind_card = bind_card,
    .card_irq = POET_STM32F7_NO_IRQ,
};
