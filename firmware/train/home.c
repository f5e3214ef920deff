/* Parameters and states on the card, seen from between the steps. */
#include "home.h"

#include "poet/crc.h"

bool poet_home_on_card(const poet_tensor *tensor)
{
    return tensor->data == NULL &&
           (tensor->role == POET_ROLE_PARAMETER || tensor->role == POET_ROLE_STATE);
}

static uint32_t page_of(const poet_model *model, const poet_tensor *tensor)
{
    uint32_t page = 0u;
    for (const poet_tensor *other = model->tensors; other != tensor; other++) {
        page += poet_home_on_card(other) ? 1u : 0u;
    }
    return page;
}


poet_status poet_home_fill(const poet_model *model, poet_page_store *pages)
{
    for (uint32_t i = 0u; i < model->tensor_count; i++) {
        const poet_tensor *tensor = &model->tensors[i];
        if (poet_home_on_card(tensor)) {
            POET_TRY(poet_page_fill(pages, page_of(model, tensor), tensor->initial,
                                    tensor->initial == NULL ? 0u : tensor->nbytes));
        }
    }
    return POET_OK;
}

poet_status poet_home_read(const poet_model *model, poet_page_store *pages,
                           const poet_tensor *tensor, uint32_t offset, uint32_t nbytes,
                           uint8_t *block)
{
    uint32_t found = 0u;
    if (nbytes == 0u || offset % POET_BLOCK_BYTES + nbytes > POET_BLOCK_BYTES) {
        return POET_E_ARG;
    }
    return poet_page_peek(pages, page_of(model, tensor), offset / POET_BLOCK_BYTES, block, &found);
}

poet_status poet_home_crc(const poet_model *model, poet_page_store *pages,
                          const poet_tensor *tensor, uint8_t *block, uint32_t *crc)
{
    const uint32_t page = page_of(model, tensor);
    const uint32_t page_bytes = model->pages->pages[page].nbytes;
    uint32_t stored = page; /* the page's own checksum covers the padding too */
    uint32_t done = 0u;
    *crc = 0u;
    for (uint32_t number = 0u; done < page_bytes; number++) {
        uint32_t count = 0u;
        POET_TRY(poet_page_peek(pages, page, number, block, &count));
        stored = poet_crc32(stored, block, count);
        const uint32_t left = done < tensor->nbytes ? tensor->nbytes - done : 0u;
        *crc = poet_crc32(*crc, block, left < count ? left : count);
        done += count;
    }
    return stored == pages->states[page].crc ? POET_OK : POET_E_PAGE_CRC;
}
