/* Registers of the STM32F74x/F75x/F76x/F77x that the ports use, and nothing else.
 * Sections are those of RM0385 (STM32F75xxx and STM32F74xxx reference manual, rev. 8) and of
 * PM0253 (Cortex-M7 programming manual). Addresses: RM0385 2.2.2, memory map.
 */
#ifndef POET_STM32F7_REGISTERS_H
#define POET_STM32F7_REGISTERS_H

#include <stdint.h>

#include "../common/cortex_m.h"

/* RCC, 5.3 */
#define RCC_CR POET_REGISTER(0x40023800u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_HSEBYP (1u << 18)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_PLLCFGR POET_REGISTER(0x40023804u)
#define RCC_PLLCFGR_N_SHIFT 6u
#define RCC_PLLCFGR_P_2 (0u << 16)
#define RCC_PLLCFGR_SRC_HSE (1u << 22)
#define RCC_PLLCFGR_Q_SHIFT 24u
#define RCC_PLLCFGR_RESERVED 0x20000000u /* reset value of bits 31:28 on F74x; R = 2 on F76x */
#define RCC_CFGR POET_REGISTER(0x40023808u)
#define RCC_CFGR_SW_PLL 2u
#define RCC_CFGR_SWS (3u << 2)
#define RCC_CFGR_SWS_PLL (2u << 2)
#define RCC_CFGR_PPRE1_4 (5u << 10)
#define RCC_CFGR_PPRE2_2 (4u << 13)
#define RCC_CFGR_PPRE2_4 (5u << 13)
#define RCC_APB2RSTR POET_REGISTER(0x40023824u)
#define RCC_AHB1ENR POET_REGISTER(0x40023830u)
#define RCC_AHB1ENR_DMA2 (1u << 22)
#define RCC_APB1ENR POET_REGISTER(0x40023840u)
#define RCC_APB1ENR_PWR (1u << 28)
#define RCC_APB2ENR POET_REGISTER(0x40023844u)
#define RCC_DCKCFGR2 POET_REGISTER(0x40023890u) /* 0: 48 MHz from the PLL's Q, USARTs from PCLK */

/* PWR, 4.4 */
#define PWR_CR1 POET_REGISTER(0x40007000u)
#define PWR_CR1_VOS_1 (3u << 14)
#define PWR_CR1_ODEN (1u << 16)
#define PWR_CR1_ODSWEN (1u << 17)
#define PWR_CSR1 POET_REGISTER(0x40007004u)
#define PWR_CSR1_ODRDY (1u << 16)
#define PWR_CSR1_ODSWRDY (1u << 17)

/* Embedded flash, 3.7 */
#define FLASH_ACR POET_REGISTER(0x40023C00u)
#define FLASH_ACR_7_WAIT_STATES 7u
#define FLASH_ACR_PREFETCH (1u << 8)
#define FLASH_ACR_ART (1u << 9)

/* GPIO, 6.4: port A, B, C... at 0x400 of each other */
typedef volatile struct {
    uint32_t moder;
    uint32_t otyper;
    uint32_t ospeedr;
    uint32_t pupdr;
    uint32_t idr;
    uint32_t odr;
    uint32_t bsrr;
    uint32_t lckr;
    uint32_t afr[2];
} poet_gpio_registers;
#define GPIO_PORT(index) ((poet_gpio_registers *)(uintptr_t)(0x40020000u + 0x400u * (index)))
#define GPIO_MODE_INPUT 0u
#define GPIO_MODE_OUTPUT 1u
#define GPIO_MODE_ALTERNATE 2u
#define GPIO_SPEED_VERY_HIGH 3u
#define GPIO_PULL_UP 1u

/* USART, 31.8 */
typedef volatile struct {
    uint32_t cr1;
    uint32_t cr2;
    uint32_t cr3;
    uint32_t brr;
    uint32_t gtpr;
    uint32_t rtor;
    uint32_t rqr;
    uint32_t isr;
    uint32_t icr;
    uint32_t rdr;
    uint32_t tdr;
} poet_usart_registers;
#define USART_CR1_UE (1u << 0)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)
#define USART_ISR_RXNE (1u << 5)
#define USART_ISR_TC (1u << 6)
#define USART_ISR_TXE (1u << 7)
#define USART_ICR_ERRORS 0xFu /* overrun, noise, framing, parity */

/* SPI, 32.9 */
typedef volatile struct {
    uint32_t cr1;
    uint32_t cr2;
    uint32_t sr;
    uint32_t dr;
} poet_spi_registers;
#define SPI_CR1_MASTER (1u << 2)
#define SPI_CR1_DIVISION_SHIFT 3u
#define SPI_CR1_ENABLE (1u << 6)
#define SPI_CR1_SOFTWARE_SELECT (3u << 8) /* SSM and SSI: the select pin is ours */
#define SPI_CR2_8_BITS (7u << 8)
#define SPI_CR2_BYTE_THRESHOLD (1u << 12)
#define SPI_SR_RXNE (1u << 0)
#define SPI_SR_TXE (1u << 1)

/* SDMMC, 35.8 */
typedef volatile struct {
    uint32_t power;
    uint32_t clkcr;
    uint32_t arg;
    uint32_t cmd;
    uint32_t respcmd;
    uint32_t resp[4];
    uint32_t dtimer;
    uint32_t dlen;
    uint32_t dctrl;
    uint32_t dcount;
    uint32_t sta;
    uint32_t icr;
    uint32_t mask;
    uint32_t reserved_40[2];
    uint32_t fifocnt;
    uint32_t reserved_4c[13];
    uint32_t fifo;
} poet_sdmmc_registers;
_Static_assert(sizeof(poet_sdmmc_registers) == 0x84u, "the FIFO is at offset 0x80");
#define SDMMC_POWER_ON 3u
#define SDMMC_CLKCR_CLKEN (1u << 8)
#define SDMMC_CLKCR_BYPASS (1u << 10)
#define SDMMC_CLKCR_4_BIT (1u << 11)
#define SDMMC_CMD_SHORT (1u << 6)
#define SDMMC_CMD_LONG (3u << 6)
#define SDMMC_CMD_CPSMEN (1u << 10)
#define SDMMC_DCTRL_DTEN (1u << 0)
#define SDMMC_DCTRL_FROM_CARD (1u << 1)
#define SDMMC_DCTRL_DMAEN (1u << 3)
#define SDMMC_DCTRL_SIZE_SHIFT 4u /* block size as a power of two */
#define SDMMC_STA_CCRCFAIL (1u << 0)
#define SDMMC_STA_DCRCFAIL (1u << 1)
#define SDMMC_STA_CTIMEOUT (1u << 2)
#define SDMMC_STA_DTIMEOUT (1u << 3)
#define SDMMC_STA_TXUNDERR (1u << 4)
#define SDMMC_STA_RXOVERR (1u << 5)
#define SDMMC_STA_CMDREND (1u << 6)
#define SDMMC_STA_CMDSENT (1u << 7)
#define SDMMC_STA_DATAEND (1u << 8)
#define SDMMC_STA_RXDAVL (1u << 21)
#define SDMMC_ICR_ALL 0x004005FFu

/* DMA2, 8.5 */
typedef volatile struct {
    uint32_t cr;
    uint32_t ndtr;
    uint32_t par;
    uint32_t m0ar;
    uint32_t m1ar;
    uint32_t fcr;
} poet_dma_stream_registers;
#define DMA2_STATUS(high) POET_REGISTER(0x40026400u + 4u * (high))
#define DMA2_CLEAR(high) POET_REGISTER(0x40026408u + 4u * (high))
#define DMA2_STREAM(index) \
    ((poet_dma_stream_registers *)(uintptr_t)(0x40026410u + 0x18u * (index)))
#define DMA_CR_EN (1u << 0)
#define DMA_CR_PFCTRL (1u << 5)
#define DMA_CR_TO_PERIPHERAL (1u << 6)
#define DMA_CR_MINC (1u << 10)
#define DMA_CR_PSIZE_WORD (2u << 11)
#define DMA_CR_MSIZE_WORD (2u << 13)
#define DMA_CR_PRIORITY_VERY_HIGH (3u << 16)
#define DMA_CR_PBURST_4 (1u << 21)
#define DMA_CR_MBURST_4 (1u << 23)
#define DMA_CR_CHSEL_SHIFT 25u
#define DMA_FCR_FIFO_FULL 7u /* FIFO on, threshold full */
#define DMA_FLAG_ALL 0x3Du   /* of one stream, before its shift */
#define DMA_FLAG_TE (1u << 3)
#define DMA_FLAG_DME (1u << 2)

/* Core: caches (4.7), MPU (4.6), DWT (Armv7-M ARM C1.8) */
#define SCB_VTOR POET_REGISTER(0xE000ED08u)
#define SCB_CCR POET_REGISTER(0xE000ED14u)
#define SCB_CCR_DC (1u << 16)
#define SCB_CCR_IC (1u << 17)
#define SCB_CCSIDR POET_REGISTER(0xE000ED80u)
#define SCB_CSSELR POET_REGISTER(0xE000ED84u)
#define SCB_ICIALLU POET_REGISTER(0xE000EF50u)
#define SCB_DCIMVAC POET_REGISTER(0xE000EF5Cu)
#define SCB_DCISW POET_REGISTER(0xE000EF60u)
#define SCB_DCCMVAC POET_REGISTER(0xE000EF68u)
#define MPU_CTRL POET_REGISTER(0xE000ED94u)
#define MPU_CTRL_ENABLE_WITH_DEFAULT_MAP 5u
#define MPU_RNR POET_REGISTER(0xE000ED98u)
#define MPU_RBAR POET_REGISTER(0xE000ED9Cu)
#define MPU_RASR POET_REGISTER(0xE000EDA0u)
#define DEMCR POET_REGISTER(0xE000EDFCu)
#define DEMCR_TRCENA (1u << 24)
#define DWT_CTRL POET_REGISTER(0xE0001000u)
#define DWT_CTRL_CYCCNTENA 1u
#define DWT_CYCCNT POET_REGISTER(0xE0001004u)
#define DWT_LAR POET_REGISTER(0xE0001FB0u)
#define DWT_LAR_KEY 0xC5ACCE55u

#endif
