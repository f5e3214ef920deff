/* Card identification and bus set-up: SD Physical Layer Simplified Specification 4.2, 4.3;
 * RM0385 35.4 (SDMMC card functional description).
 */
#include "sdmmc_command.h"

#include "clock.h"
#include "poet/port.h"
#include "poet/sd_csd.h"

/* SDMMC_CK = 48 MHz / (divider + 2), or 48 MHz with the bypass. */
#define CLOCK_400_KHZ 118u
#define CLOCK_24_MHZ 0u

#define COMMAND_US 10000u /* the hardware gives up after 64 clocks by itself */
#define POWER_US 2000u
#define OPEN_TRIES 5u
#define VERSION_TRIES 3u
#define SWITCH_US 100000u

#define IF_COND 0x1AAu
#define OCR_3V3 0x00300000u
#define OCR_CAPACITY 0x40000000u
#define OCR_POWERED_UP 0x80000000u
#define BUS_4_BIT 2u
/* CMD6: check or set function group 1 (access mode), leave the others (4.3.10). */
#define SWITCH_CHECK_HIGH_SPEED 0x00FFFFF1u
#define SWITCH_SET_HIGH_SPEED 0x80FFFFF1u
#define SWITCH_SET_DEFAULT 0x80FFFFF0u
#define SWITCH_STATUS_BYTES 64u

poet_sdmmc_registers *poet_sdmmc_at(const poet_sdmmc_state *card)
{
    return (poet_sdmmc_registers *)(uintptr_t)card->config->base;
}

static void pause_us(uint32_t limit_us)
{
    const uint32_t start = poet_port_micros();
    while (poet_port_micros() - start < limit_us) {
    }
}

/* The flags that end a command, or 0 when none came in time. */
static uint32_t await_end(poet_sdmmc_registers *regs, uint32_t ends)
{
    const uint32_t start = poet_port_micros();
    for (;;) {
        const bool late = poet_port_micros() - start >= COMMAND_US;
        const uint32_t found = regs->sta & ends;
        if (found != 0u || late) {
            return found;
        }
    }
}

poet_status poet_sdmmc_command(const poet_sdmmc_state *card, uint32_t index, uint32_t argument,
                               poet_sd_response response)
{
    static const uint32_t kinds[] = {
        [SD_NO_RESPONSE] = 0u,
        [SD_R1] = SDMMC_CMD_SHORT,
        [SD_R2] = SDMMC_CMD_LONG,
        [SD_R3] = SDMMC_CMD_SHORT,
    };
    const uint32_t answered = SDMMC_STA_CMDREND | SDMMC_STA_CCRCFAIL | SDMMC_STA_CTIMEOUT;
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    regs->icr = answered | SDMMC_STA_CMDSENT;
    regs->arg = argument;
    regs->cmd = index | kinds[response] | SDMMC_CMD_CPSMEN;
    const uint32_t end =
        await_end(regs, response == SD_NO_RESPONSE ? SDMMC_STA_CMDSENT : answered);
    regs->icr = answered | SDMMC_STA_CMDSENT;
    if (end == 0u || (end & SDMMC_STA_CTIMEOUT) != 0u) {
        return POET_E_NO_CARD;
    }
    /* R3 has no checksum: the controller always calls it wrong. */
    if ((end & SDMMC_STA_CCRCFAIL) != 0u && response != SD_R3) {
        return POET_E_CARD_CRC;
    }
    if (response == SD_R1 && regs->respcmd != index) {
        return POET_E_CARD_CRC;
    }
    return POET_OK;
}

poet_status poet_sdmmc_ask(const poet_sdmmc_state *card, uint32_t index, uint32_t argument)
{
    POET_TRY(poet_sdmmc_command(card, index, argument, SD_R1));
    return (poet_sdmmc_at(card)->resp[0] & SD_R1_ERRORS) == 0u ? POET_OK : POET_E_CARD_CMD;
}

static poet_status ask_app(const poet_sdmmc_state *card, uint32_t index, uint32_t argument)
{
    POET_TRY(poet_sdmmc_ask(card, SD_APP_COMMAND, card->address));
    return poet_sdmmc_ask(card, index, argument);
}

/* ---- from power to the stand-by state ---- */

static void power_on(const poet_sdmmc_state *card)
{
    const poet_sdmmc_config *config = card->config;
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    for (uint32_t i = 0u; i < sizeof config->pins / sizeof config->pins[0]; i++) {
        poet_stm32f7_route(&config->pins[i]);
    }
    RCC_AHB1ENR |= RCC_AHB1ENR_DMA2;
    RCC_APB2ENR |= 1u << config->enable_bit;
    RCC_APB2RSTR |= 1u << config->enable_bit;
    RCC_APB2RSTR &= ~(1u << config->enable_bit);
    regs->clkcr = CLOCK_400_KHZ;
    regs->power = SDMMC_POWER_ON;
    regs->clkcr = CLOCK_400_KHZ | SDMMC_CLKCR_CLKEN;
    pause_us(POWER_US); /* 74 clocks and more (6.4.1) */
}

/* The pattern must come back; version 1 cards do not know the command and stay silent. So does a
 * line that was disturbed, and who takes a later card for one of these waits for it in vain. */
static poet_status find_version(const poet_sdmmc_state *card, bool *version_2)
{
    poet_status status = POET_E_NO_CARD;
    for (uint32_t i = 0u; i < VERSION_TRIES && status == POET_E_NO_CARD; i++) {
        status = poet_sdmmc_command(card, SD_SEND_IF_COND, IF_COND, SD_R1);
    }
    *version_2 = status == POET_OK;
    if (status == POET_E_CARD_CRC) {
        return status;
    }
    if (status == POET_OK && (poet_sdmmc_at(card)->resp[0] & 0xFFFu) != IF_COND) {
        return POET_E_CARD_TYPE;
    }
    return POET_OK;
}

/* Nobody knows CMD55: an MMC answers CMD1 instead. */
static poet_status nobody_of_ours(const poet_sdmmc_state *card)
{
    const bool mmc = poet_sdmmc_command(card, MMC_OP_COND, OCR_3V3, SD_R3) == POET_OK;
    return mmc ? POET_E_CARD_TYPE : POET_E_NO_CARD;
}

static poet_status power_up(poet_sdmmc_state *card, bool version_2)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    const uint32_t argument = OCR_3V3 | (version_2 ? OCR_CAPACITY : 0u);
    const uint32_t start = poet_port_micros();
    for (;;) {
        const bool late = poet_port_micros() - start >= POET_SDMMC_INIT_US;
        poet_status status = poet_sdmmc_command(card, SD_APP_COMMAND, 0u, SD_R1);
        if (status == POET_OK) {
            status = poet_sdmmc_command(card, SD_APP_OP_COND, argument, SD_R3);
        }
        if (status == POET_E_NO_CARD) {
            return version_2 ? status : nobody_of_ours(card);
        }
        const uint32_t ocr = regs->resp[0];
        if (status == POET_OK && (ocr & OCR_POWERED_UP) != 0u) {
            card->block_addressed = (ocr & OCR_CAPACITY) != 0u;
            return (ocr & OCR_3V3) != 0u ? POET_OK : POET_E_CARD_TYPE;
        }
        if (late) {
            return status == POET_OK ? POET_E_TIMEOUT : status;
        }
    }
}

static poet_status read_capacity(poet_sdmmc_state *card, uint32_t *blocks)
{
    uint8_t csd[16];
    POET_TRY(poet_sdmmc_command(card, SD_SEND_CSD, card->address, SD_R2));
    for (uint32_t i = 0u; i < 4u; i++) {
        const uint32_t word = poet_sdmmc_at(card)->resp[i];
        for (uint32_t j = 0u; j < 4u; j++) {
            csd[4u * i + j] = (uint8_t)(word >> (24u - 8u * j));
        }
    }
    return poet_sd_capacity(csd, card->block_addressed, blocks);
}

static poet_status find_card(poet_sdmmc_state *card, uint32_t *blocks)
{
    bool version_2 = false;
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    POET_TRY(poet_sdmmc_command(card, SD_GO_IDLE, 0u, SD_NO_RESPONSE));
    POET_TRY(find_version(card, &version_2));
    POET_TRY(power_up(card, version_2));
    POET_TRY(poet_sdmmc_command(card, SD_ALL_SEND_CID, 0u, SD_R2));
    POET_TRY(poet_sdmmc_command(card, SD_SEND_ADDRESS, 0u, SD_R1));
    card->address = regs->resp[0] & 0xFFFF0000u;
    POET_TRY(read_capacity(card, blocks));
    return poet_sdmmc_ask(card, SD_SELECT, card->address);
}

/* ---- bus width and clock ---- */

/* The 64 bytes that answer CMD6, by polling the FIFO: they come once, and are short. */
static poet_status read_switch_status(const poet_sdmmc_state *card, uint32_t argument,
                                      uint32_t *words)
{
    poet_sdmmc_registers *regs = poet_sdmmc_at(card);
    const uint32_t failed = SDMMC_STA_DCRCFAIL | SDMMC_STA_DTIMEOUT | SDMMC_STA_RXOVERR;
    const uint32_t start = poet_port_micros();
    uint32_t got = 0u;
    regs->icr = SDMMC_ICR_ALL;
    regs->dtimer = 0xFFFFFFFFu;
    regs->dlen = SWITCH_STATUS_BYTES;
    regs->dctrl = 6u << SDMMC_DCTRL_SIZE_SHIFT | SDMMC_DCTRL_FROM_CARD | SDMMC_DCTRL_DTEN;
    poet_status status = poet_sdmmc_ask(card, SD_SWITCH_FUNCTION, argument);
    while (status == POET_OK) {
        const uint32_t flags = regs->sta;
        if ((flags & failed) != 0u) {
            status = (flags & SDMMC_STA_DTIMEOUT) != 0u ? POET_E_TIMEOUT : POET_E_CARD_CRC;
        } else if ((flags & SDMMC_STA_RXDAVL) != 0u && got < SWITCH_STATUS_BYTES / 4u) {
            words[got] = regs->fifo;
            got++;
        } else if ((flags & SDMMC_STA_DATAEND) != 0u) {
            break;
        } else if (poet_port_micros() - start >= SWITCH_US) {
            status = POET_E_TIMEOUT;
        }
    }
    regs->dctrl = 0u;
    regs->icr = SDMMC_ICR_ALL;
    return status == POET_OK && got != SWITCH_STATUS_BYTES / 4u ? POET_E_CARD_CRC : status;
}

/* Bits 379:376 of the status are the function group 1 has now, bits 415:400 those it supports. The
 * bytes come most significant first, four to a little-endian word. */
static uint32_t switched_mode(const uint32_t *words)
{
    return words[4] & 0x0Fu;
}

static bool knows_high_speed(const uint32_t *words)
{
    return (words[3] >> 8 & 2u) != 0u;
}

static void set_bus(const poet_sdmmc_state *card, uint32_t clock)
{
    poet_sdmmc_at(card)->clkcr = clock | SDMMC_CLKCR_CLKEN | SDMMC_CLKCR_4_BIT;
}

static bool switched_to_high_speed(const poet_sdmmc_state *card)
{
    uint32_t words[SWITCH_STATUS_BYTES / 4u];
    return read_switch_status(card, SWITCH_CHECK_HIGH_SPEED, words) == POET_OK &&
           knows_high_speed(words) &&
           read_switch_status(card, SWITCH_SET_HIGH_SPEED, words) == POET_OK &&
           switched_mode(words) == 1u;
}

/* A card that has no high speed, or does not know CMD6, works on at 24 MHz. */
static void speed_up(poet_sdmmc_state *card)
{
    card->fast = switched_to_high_speed(card);
    if (card->fast) {
        set_bus(card, SDMMC_CLKCR_BYPASS);
    } else {
        /* An old card calls the command illegal, a line may have damaged it: the next answer would
         * say so, as if of a transfer. */
        (void)poet_sdmmc_command(card, SD_SEND_STATUS, card->address, SD_R1);
    }
}

poet_status poet_sdmmc_slow_down(poet_sdmmc_state *card)
{
    uint32_t words[SWITCH_STATUS_BYTES / 4u];
    card->fast = false;
    set_bus(card, CLOCK_24_MHZ);
    return read_switch_status(card, SWITCH_SET_DEFAULT, words);
}

/* From the idle state to the transfer state at 24 MHz. */
static poet_status bring_up(poet_sdmmc_state *card, uint32_t *blocks)
{
    card->address = 0u;
    poet_sdmmc_at(card)->clkcr = CLOCK_400_KHZ | SDMMC_CLKCR_CLKEN;
    POET_TRY(find_card(card, blocks));
    POET_TRY(ask_app(card, SD_SWITCH_FUNCTION, BUS_4_BIT));
    set_bus(card, CLOCK_24_MHZ);
    return poet_sdmmc_ask(card, SD_SET_BLOCKLEN, POET_BLOCK_BYTES);
}

poet_status poet_sdmmc_identify(poet_sdmmc_state *card)
{
    uint32_t blocks = 0u;
    poet_status status = POET_E_NO_CARD;
    card->fast = false;
    poet_stm32f7_input(&card->config->detect);
    if ((GPIO_PORT(card->config->detect.port)->idr >> card->config->detect.number & 1u) != 0u) {
        return POET_E_NO_CARD;
    }
    power_on(card);
    for (uint32_t tries = 0u; tries < OPEN_TRIES; tries++) {
        status = bring_up(card, &blocks);
        if (status == POET_OK || status == POET_E_TIMEOUT) {
            break; /* its wait was long */
        }
    }
    POET_TRY(status);
    if (card->config->high_speed) {
        speed_up(card);
    }
    card->block_count = blocks;
    return POET_OK;
}
