/* STM32F769I-DISCO. Pins, instances and streams: UM2033 (Discovery kit manual) and the board's BSP;
 * interrupt positions: RM0410 table 46; DMA2 requests: table 28 (channel 11: four bits of CHSEL).
 */
#include "../stm32f7/board.h"
#include "../stm32f7/sdmmc.h"

enum { PORT_A, PORT_B, PORT_D = 3, PORT_G = 6, PORT_I = 8 };
enum { CARD_IRQ = 103 };

/* SDMMC2. */
static const poet_sdmmc_config config = {
    .base = 0x40011C00u,
    .enable_bit = 7u,
    .irq = CARD_IRQ,
    .dma_channel = 11u,
    .receive_stream = 0u,
    .transmit_stream = 5u,
    .high_speed = true,
    .pins = {{PORT_G, 9u, 11u},
             {PORT_G, 10u, 11u},
             {PORT_B, 3u, 10u},
             {PORT_B, 4u, 10u},
             {PORT_D, 6u, 11u},
             {PORT_D, 7u, 11u}},
    .detect = {PORT_I, 15u, 0u},
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
                .receive = {PORT_A, 10u, 7u}},
    .card = {.ops = &poet_sdmmc_ops, .state = &state},
    .bind_card = bind_card,
    .card_irq = CARD_IRQ,
    .card_interrupt = card_interrupt,
};
