/* Tensors between steps: start values, reads, writes, checksums. */
#include "tensors.h"

#include <string.h>

#include "poet/crc.h"

bool poet_tensor_is_kept(const poet_tensor *tensor)
{
    return tensor->role == POET_ROLE_PARAMETER || tensor->role == POET_ROLE_STATE;
}

static bool on_card(const poet_tensor *tensor)
{
    return tensor->data == NULL && poet_tensor_is_kept(tensor);
}

uint32_t poet_tensor_page(const poet_model *model, const poet_tensor *tensor)
{
    uint32_t page = 0u;
    for (const poet_tensor *other = model->tensors; other != tensor; other++) {
        page += on_card(other) ? 1u : 0u;
    }
    return page;
}

static const uint8_t *bytes_of(const poet_tensor *tensor)
{
    return tensor->data != NULL ? tensor->data : (const uint8_t *)tensor->initial;
}

static bool inside(const poet_tensor *tensor, uint32_t offset, uint32_t nbytes)
{
    return offset <= tensor->nbytes && nbytes <= tensor->nbytes - offset;
}

void poet_tensors_reset(const poet_model *model)
{
    for (uint32_t i = 0u; i < model->tensor_count; i++) {
        const poet_tensor *tensor = &model->tensors[i];
        if (!poet_tensor_is_kept(tensor) || on_card(tensor)) {
            continue;
        }
        if (tensor->initial != NULL) {
            memcpy(tensor->data, tensor->initial, tensor->nbytes);
        } else {
            memset(tensor->data, 0, tensor->nbytes);
        }
    }
}

poet_status poet_tensors_fill(const poet_model *model, poet_page_store *pages)
{
    for (uint32_t i = 0u; i < model->tensor_count; i++) {
        const poet_tensor *tensor = &model->tensors[i];
        if (on_card(tensor)) {
            const uint32_t nbytes = tensor->initial == NULL ? 0u : tensor->nbytes;
            POET_TRY(
                poet_page_fill(pages, poet_tensor_page(model, tensor), tensor->initial, nbytes));
        }
    }
    return POET_OK;
}

poet_status poet_tensor_read(const poet_model *model, poet_page_store *pages,
                             const poet_tensor *tensor, uint32_t offset, uint32_t nbytes,
                             uint8_t *block, const uint8_t **bytes)
{
    if (tensor == NULL || !inside(tensor, offset, nbytes)) {
        return POET_E_ARG;
    }
    if (on_card(tensor)) {
        uint32_t found = 0u;
        const uint32_t start = offset % POET_BLOCK_BYTES;
        if (nbytes == 0u || nbytes > POET_BLOCK_BYTES - start) {
            return POET_E_ARG;
        }
        *bytes = &block[start];
        return poet_page_peek(pages, poet_tensor_page(model, tensor), offset / POET_BLOCK_BYTES,
                              block, &found);
    }
    if (bytes_of(tensor) == NULL) {
        return POET_E_ARG;
    }
    *bytes = &bytes_of(tensor)[offset];
    return POET_OK;
}

poet_status poet_tensor_write(const poet_tensor *tensor, uint32_t offset, const uint8_t *bytes,
                              uint32_t nbytes)
{
    if (tensor == NULL || tensor->data == NULL || !inside(tensor, offset, nbytes)) {
        return POET_E_ARG;
    }
    if (!poet_tensor_is_kept(tensor) && tensor->role != POET_ROLE_INPUT &&
        tensor->role != POET_ROLE_LABEL && tensor->role != POET_ROLE_EVAL_INPUT) {
        return POET_E_ARG;
    }
    memcpy(&tensor->data[offset], bytes, nbytes);
    return POET_OK;
}

poet_status poet_tensor_crc(const poet_model *model, poet_page_store *pages,
                            const poet_tensor *tensor, uint8_t *block, uint32_t *crc)
{
    *crc = 0u;
    if (tensor == NULL || (bytes_of(tensor) == NULL && !on_card(tensor))) {
        return POET_E_ARG;
    }
    if (!on_card(tensor)) {
        *crc = poet_crc32(0u, bytes_of(tensor), tensor->nbytes);
        return POET_OK;
    }
    const uint32_t page = poet_tensor_page(model, tensor);
    const uint32_t page_bytes = model->pages->pages[page].nbytes;
    uint32_t stored = page; /* the page's own checksum covers its padding too */
    uint32_t done = 0u;
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
