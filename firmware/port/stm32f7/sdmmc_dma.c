/* RM0385 8.3.15 (peripheral flow controller), 8.5. */
#include "sdmmc_dma.h"

#include <stddef.h>

#include "poet/port.h"
#include "registers.h"
#include "sdmmc_command.h"

#define STOP_US 1000u
#define DMA_CR_COMMON                                                                      \
    (DMA_CR_PFCTRL | DMA_CR_MINC | DMA_CR_PSIZE_WORD | DMA_CR_MSIZE_WORD |                 \
     DMA_CR_PRIORITY_VERY_HIGH | DMA_CR_PBURST_4 | DMA_CR_MBURST_4)

uint32_t poet_dma_stream_of(const poet_sdmmc_state *card)
{
    return card->destination != NULL ? card->config->receive_stream
                                     : card->config->transmit_stream;
}

/* Where the flags of a stream stand in its half of the status registers. */
static uint32_t flag_shift(uint32_t stream)
{
    static const uint8_t shifts[4] = {0u, 6u, 16u, 22u};
    return shifts[stream % 4u];
}

void poet_dma_stop(uint32_t stream)
{
    poet_dma_stream_registers *regs = DMA2_STREAM(stream);
    regs->cr &= ~DMA_CR_EN;
    const uint32_t start = poet_port_micros();
    while ((regs->cr & DMA_CR_EN) != 0u && poet_port_micros() - start < STOP_US) {
    }
    DMA2_CLEAR(stream / 4u) = DMA_FLAG_ALL << flag_shift(stream);
}

void poet_dma_start(const poet_sdmmc_state *card, const void *memory)
{
    const uint32_t stream = poet_dma_stream_of(card);
    poet_dma_stream_registers *regs = DMA2_STREAM(stream);
    const uint32_t direction = card->destination != NULL ? 0u : DMA_CR_TO_PERIPHERAL;
    poet_dma_stop(stream);
    regs->par = (uint32_t)(uintptr_t)&poet_sdmmc_at(card)->fifo;
    regs->m0ar = (uint32_t)(uintptr_t)memory;
    regs->ndtr = card->chunk_bytes / 4u;
    regs->fcr = DMA_FCR_FIFO_FULL;
    regs->cr = DMA_CR_COMMON | direction |
               (uint32_t)card->config->dma_channel << DMA_CR_CHSEL_SHIFT;
    regs->cr |= DMA_CR_EN;
}

bool poet_dma_failed(uint32_t stream)
{
    return (DMA2_STATUS(stream / 4u) >> flag_shift(stream) & (DMA_FLAG_TE | DMA_FLAG_DME)) != 0u;
}

bool poet_dma_ended(uint32_t stream)
{
    return (DMA2_STREAM(stream)->cr & DMA_CR_EN) == 0u;
}
