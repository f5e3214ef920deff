/* Requests about single tensors. */
#include "session.h"
#include "tensors.h"

#define NAME_BYTES 400u /* longest name in an answer; longer ones are cut */

_Static_assert(NAME_BYTES + 8u <= POET_LINK_PAYLOAD_BYTES, "TENSOR_INFO fits");

/* The tensor whose index leads the payload, or NULL. */
static const poet_tensor *tensor_of(const poet_session *self, const poet_link_request *request)
{
    const uint32_t index = poet_link_get_u32(request->payload);
    return index < self->model->tensor_count ? &self->model->tensors[index] : NULL;
}

void poet_on_tensor_info(poet_session *self, const poet_link_request *request)
{
    const poet_tensor *tensor = tensor_of(self, request);
    if (tensor == NULL) {
        poet_session_refuse(self, POET_E_ARG);
        return;
    }
    const uint32_t length = poet_reply_length(tensor->name, NAME_BYTES);
    poet_reply_begin(&self->reply);
    poet_link_put_u32(&self->reply.link, tensor->nbytes);
    poet_link_put_u8(&self->reply.link, tensor->role);
    poet_link_put_u8(&self->reply.link, tensor->dtype);
    poet_link_put_u16(&self->reply.link, (uint16_t)length);
    poet_link_put(&self->reply.link, tensor->name, length);
    poet_link_end(&self->reply.link);
}

/* Nobody may take half a step for a whole one. */
static bool refused_as_spoiled(poet_session *self, const poet_tensor *tensor)
{
    return tensor != NULL && poet_tensor_is_kept(tensor) && poet_session_refused(self);
}

void poet_on_read(poet_session *self, const poet_link_request *request)
{
    const poet_tensor *tensor = tensor_of(self, request);
    const uint32_t offset = poet_link_get_u32(&request->payload[4]);
    const uint32_t nbytes = poet_link_get_u32(&request->payload[8]);
    const uint8_t *bytes = NULL;
    poet_status status = POET_E_ARG;
    if (refused_as_spoiled(self, tensor)) {
        return;
    }
    if (nbytes <= POET_LINK_PAYLOAD_BYTES) {
        status = poet_tensor_read(self->model, &self->card.pages, tensor, offset, nbytes,
                                  self->card.block, &bytes);
    }
    if (status != POET_OK) {
        poet_session_refuse(self, status);
        return;
    }
    poet_reply_begin(&self->reply);
    poet_link_put(&self->reply.link, bytes, nbytes);
    poet_link_end(&self->reply.link);
}

void poet_on_write(poet_session *self, const poet_link_request *request)
{
    const poet_tensor *tensor = tensor_of(self, request);
    const uint32_t offset = poet_link_get_u32(&request->payload[4]);
    self->saved = self->saved && (tensor == NULL || !poet_tensor_is_kept(tensor));
    const uint8_t *bytes = &request->payload[POET_WRITE_HEADER_BYTES];
    const uint32_t nbytes = request->nbytes - POET_WRITE_HEADER_BYTES;
    poet_session_answer(self, poet_tensor_write(tensor, offset, bytes, nbytes));
}

void poet_on_tensor_crc(poet_session *self, const poet_link_request *request)
{
    const poet_tensor *tensor = tensor_of(self, request);
    uint32_t crc = 0u;
    if (refused_as_spoiled(self, tensor)) {
        return;
    }
    const poet_status status =
        poet_tensor_crc(self->model, &self->card.pages, tensor, self->card.block, &crc);
    if (status != POET_OK) {
        poet_session_refuse(self, status);
        return;
    }
    poet_reply_begin(&self->reply);
    poet_link_put_u32(&self->reply.link, crc);
    poet_link_end(&self->reply.link);
}
