/* Commands and identification of a card in SD mode; private to the SDMMC driver. */
#ifndef POET_STM32F7_SDMMC_COMMAND_H
#define POET_STM32F7_SDMMC_COMMAND_H

#include "registers.h"
#include "sdmmc.h"

enum {
    SD_GO_IDLE = 0,
    MMC_OP_COND = 1,
    SD_ALL_SEND_CID = 2,
    SD_SEND_ADDRESS = 3,
    SD_SWITCH_FUNCTION = 6, /* after CMD55: bus width */
    SD_SELECT = 7,
    SD_SEND_IF_COND = 8,
    SD_SEND_CSD = 9,
    SD_STOP_TRANSMISSION = 12,
    SD_SEND_STATUS = 13,
    SD_SET_BLOCKLEN = 16,
    SD_READ_SINGLE = 17,
    SD_READ_MULTIPLE = 18,
    SD_WRITE_SINGLE = 24,
    SD_WRITE_MULTIPLE = 25,
    SD_APP_OP_COND = 41, /* after CMD55 */
    SD_APP_COMMAND = 55,
};

typedef enum {
    SD_NO_RESPONSE,
    SD_R1, /* short, with CRC and index */
    SD_R2, /* long */
    SD_R3, /* short, without CRC */
} poet_sd_response;

/* Card status, R1 (SD Physical Layer Simplified Specification 4.10.1): the bits of type E. */
#define SD_R1_ERRORS 0xFDF9A008u
#define SD_R1_UNREADABLE 0x00380000u /* CARD_ECC_FAILED, CC_ERROR, ERROR */
#define SD_R1_STATE(r1) (((r1) >> 9) & 15u)
#define SD_STATE_TRANSFER 4u
#define SD_STATE_DATA 5u
#define SD_STATE_RECEIVE 6u
#define SD_STATE_PROGRAMMING 7u

poet_sdmmc_registers *poet_sdmmc_at(const poet_sdmmc_state *card);
/* Send and take the response; nothing is judged but the line. Clean-up may ignore it. */
poet_status poet_sdmmc_command(const poet_sdmmc_state *card, uint32_t index, uint32_t argument,
                               poet_sd_response response);
/* The same with R1, whose error bits must be clear. */
POET_MUST_CHECK poet_status poet_sdmmc_ask(const poet_sdmmc_state *card, uint32_t index,
                                           uint32_t argument);
/* From power to the transfer state, four bits, as fast as the card and the configuration go. */
POET_MUST_CHECK poet_status poet_sdmmc_identify(poet_sdmmc_state *card);
/* Back to 24 MHz, when the fast clock gave errors. */
POET_MUST_CHECK poet_status poet_sdmmc_slow_down(poet_sdmmc_state *card);

#endif
