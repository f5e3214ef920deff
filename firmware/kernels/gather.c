/* Rows of tables by index (embedding), and the gradient of the tables.
 * A negative index counts from the end; one outside the table reads as NaN and adds nowhere.
 */
#include <stdint.h>

#include "float_bits.h"
#include "poet/kernels.h"

#define NAN_BITS 0x7FC00000U

static int32_t row_of(const poet_gather_shape *s, int32_t index)
{
    const int32_t row = (index < 0) ? index + s->rows : index;
    return ((row >= 0) && (row < s->rows)) ? row : -1;
}

void poet_gather_fwd_f32(const poet_gather_shape *shape, const float *table,
                         const int32_t *indices, float *y)
{
    for (int32_t block = 0; block < shape->outer; block++) {
        for (int32_t i = 0; i < shape->count; i++) {
            const int32_t row = row_of(shape, indices[i]);
            for (int32_t j = 0; j < shape->width; j++) {
                *y++ = (row < 0) ? poet_float_of(NAN_BITS) : table[(row * shape->width) + j];
            }
        }
        table += shape->rows * shape->width;
    }
}

void poet_gather_bwd_f32(const poet_gather_shape *shape, const int32_t *indices, const float *dy,
                         float *dtable)
{
    for (int32_t block = 0; block < shape->outer; block++) {
        for (int32_t i = 0; i < shape->rows * shape->width; i++) {
            dtable[i] = 0.0F;
        }
        for (int32_t i = 0; i < shape->count; i++) {
            const int32_t row = row_of(shape, indices[i]);
            for (int32_t j = 0; (row >= 0) && (j < shape->width); j++) {
                const int32_t at = (row * shape->width) + j;
                dtable[at] = dtable[at] + dy[(i * shape->width) + j];
            }
        }
        dtable += shape->rows * shape->width;
        dy += shape->count * shape->width;
    }
}
