/* STM32F746G-DISCO. Pins, instances and streams: UM1907 (Discovery kit manual) and the board's BSP;
 * alternate functions: DS10916 table 12; interrupt positions: RM0385 table 46; DMA2 requests: table 28.
 */
#include "../stm32f7/board.h"
#include "../stm32f7/sdmmc.h"

enum { PORT_A, PORT_B, PORT_C, PORT_D };
enum { CARD_IRQ = 49 };

/* SDMMC1. */
static const poet_sdmmc_config config = {
    .base = 0x40012C00u,
    .enable_bit = 11u,
    .irq = CARD_IRQ,
    .dma_channel = 4u,
    .receive_stream = 3u,
    .transmit_stream = 6u,
    .high_speed = true,
    .pins = {{PORT_C, 8u, 12u},
             {PORT_C, 9u, 12u},
             {PORT_C, 10u, 12u},
             {PORT_C, 11u, 12u},
             {PORT_C, 12u, 12u},
             {PORT_D, 2u, 12u}},
    .detect = {PORT_C, 13u, 0u},
};

static poet_sdmmc_state state;

static void bind_card(void)
{
    poet_sdmmc_init(&state, &config);
}

static void card_interrupt(void)
{
    poet_sdmmc_interrupt(&state);
}

const poet_stm32f7_board poet_stm32f7 = {
    /* 25 MHz / 25 * 432: the VCO runs at 432 MHz, half of it is the core's, a ninth the card's. */
    .clock = {.hse_bypass = false, .pll_m = 25u, .pll_n = 432u, .pll_q = 9u},
    /* USART1, wired to the debugger's virtual COM port. */
    .console = {.base = 0x40011000u,
                .clock_hz = 108000000u,
                .apb1 = false,
                .enable_bit = 4u,
                .irq = 37u,
                .transmit = {PORT_A, 9u, 7u},
                .receive = {PORT_B, 7u, 7u}},
    .card = {.ops = &poet_sdmmc_ops, .state = &state},
    .bind_card = bind_card,
    .card_irq = CARD_IRQ,
    .card_interrupt = card_interrupt,
};
