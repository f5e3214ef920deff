/* The streams of DMA2 that serve the SDMMC; private to its driver. */
#ifndef POET_STM32F7_SDMMC_DMA_H
#define POET_STM32F7_SDMMC_DMA_H

#include "sdmmc.h"

/* The stream of the transfer's direction. */
uint32_t poet_dma_stream_of(const poet_sdmmc_state *card);
/* Ready for a chunk between the SDMMC's FIFO and memory, which begins on a word. */
void poet_dma_start(const poet_sdmmc_state *card, const void *memory);
/* Whatever it was doing; its flags are clear afterwards. */
void poet_dma_stop(uint32_t stream);
bool poet_dma_failed(uint32_t stream);
/* The SDMMC ends the stream, which then writes what is left in its FIFO and clears EN. */
bool poet_dma_ended(uint32_t stream);

#endif
