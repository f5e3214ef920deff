#include "link_model.h"

#include <stdlib.h>
#include <string.h>

#define K 40
#define HOME 300 /* floats: three blocks, the last of them not full */

static struct {
    float x[K];
    int32_t labels[2];
    float w[K];
    float momentum[K];
    float z[K];
    float loss;
    float eval_x[K];
    float eval_y;
    float home[HOME]; /* where the card's parameter is while a step uses it */
} arena;

static uint8_t card_copy[HOME * sizeof(float)];
static const float scale[3] = {1.0f, 0.5f, 0.25f};
static const float initial_w[K] = {0.5f, -0.25f, 0.125f, 1e-3f, -0.0f, 3.0f};
static const float initial_home[HOME] = {1.0f, 2.0f, 3.0f};

/* A page that was waited for holds what was written, or the wait has failed. */
static poet_status round_trip(poet_run *run, uint32_t page, float *bytes, uint32_t nbytes)
{
    POET_TRANSFER(run, 1, poet_page_out(run->pages, page, bytes));
    POET_TRANSFER(run, 2, poet_page_wait(run->pages, page));
    memcpy(card_copy, bytes, nbytes);
    memset(bytes, 0xA5, nbytes);
    POET_TRANSFER(run, 3, poet_page_in(run->pages, page, bytes));
    POET_TRANSFER(run, 4, poet_page_wait(run->pages, page));
    if (memcmp(card_copy, bytes, nbytes) != 0) {
        abort();
    }
    return POET_OK;
}

static void forward(void)
{
    arena.loss = 0.0f;
    for (int k = 0; k < K; k++) {
        arena.z[k] = arena.w[k] + arena.home[k] * (float)(arena.labels[k % 2] % 3);
        arena.loss += arena.z[k];
    }
}

static void update(float lr)
{
    for (int k = 0; k < K; k++) {
        arena.momentum[k] = arena.momentum[k] * 0.5f + arena.z[k];
        arena.w[k] -= lr * arena.momentum[k];
        arena.home[k] -= lr * arena.x[k];
    }
}

static poet_status train_step(poet_run *run)
{
    POET_TRANSFER(run, 5, poet_page_in(run->pages, 0, arena.home));
    POET_TRANSFER(run, 6, poet_page_wait(run->pages, 0));
    POET_KERNEL(run, 0, forward());
    POET_TRY(round_trip(run, 2, arena.z, (uint32_t)sizeof(arena.z)));
    POET_UPDATE(run, 7, update(run->lr));
    return round_trip(run, 0, arena.home, (uint32_t)sizeof(arena.home));
}

static poet_status eval_step(poet_run *run)
{
    POET_TRANSFER(run, 0, poet_page_in(run->pages, 0, arena.home));
    POET_TRANSFER(run, 1, poet_page_wait(run->pages, 0));
    POET_KERNEL(run, 2, arena.eval_y = arena.eval_x[0] + arena.home[0]);
    memset(arena.eval_x, 0, sizeof(arena.eval_x));
    return POET_OK;
}

#define IN_ARENA(name_, field, initial_, role_, dtype_)                                     \
    {                                                                                       \
        .name = (name_), .data = (uint8_t *)&arena.field, .initial = (initial_),            \
        .nbytes = sizeof(arena.field), .role = (role_), .dtype = (dtype_)                   \
    }
#define ON_CARD(name_, initial_, role_)                                                     \
    {                                                                                       \
        .name = (name_), .data = NULL, .initial = (initial_),                               \
        .nbytes = sizeof(arena.home), .role = (role_), .dtype = POET_F32                    \
    }

static const poet_tensor tensors[FUZZ_TENSORS] = {
    IN_ARENA("x", x, NULL, POET_ROLE_INPUT, POET_F32),
    IN_ARENA("labels", labels, NULL, POET_ROLE_LABEL, POET_I32),
    IN_ARENA("w", w, initial_w, POET_ROLE_PARAMETER, POET_F32),
    ON_CARD("home", initial_home, POET_ROLE_PARAMETER),
    IN_ARENA("w:momentum", momentum, NULL, POET_ROLE_STATE, POET_F32),
    ON_CARD("home:momentum", NULL, POET_ROLE_STATE),
    IN_ARENA("loss", loss, NULL, POET_ROLE_LOSS, POET_F32),
    IN_ARENA("x:eval", eval_x, NULL, POET_ROLE_EVAL_INPUT, POET_F32),
    IN_ARENA("y:eval", eval_y, NULL, POET_ROLE_EVAL_OUTPUT, POET_F32),
    {.name = "scale", .data = NULL, .initial = scale, .nbytes = sizeof(scale),
     .role = POET_ROLE_CONSTANT, .dtype = POET_F32},
};

static const uint8_t build_id[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const poet_page_desc pages[] = {
    {.first_block = 1, .nbytes = sizeof(arena.home)},
    {.first_block = 4, .nbytes = sizeof(arena.home) + 40u}, /* a page may be longer */
    {.first_block = 7, .nbytes = sizeof(arena.z)},
};
static const poet_page_config page_config = {
    .region_block = FUZZ_REGION_BLOCK,
    .region_blocks = FUZZ_REGION_BLOCKS,
    .page_count = 3,
    .kept_count = 2,
    .pages = pages,
    .build_id = build_id,
    .slot_block = 8,
    .slot_blocks = 9, /* header, 1 + 3 + 1 + 3 */
};
static poet_page_state page_states[3];

const poet_model fuzz_model = {
    .abi_version = POET_ABI_VERSION,
    .build_id = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    .model_hash = {0xAB, 0x00, 0xCD},
    .name = "fuzzed",
    .board = "host",
    .arena = (uint8_t *)&arena,
    .arena_bytes = sizeof(arena),
    .tensors = tensors,
    .tensor_count = FUZZ_TENSORS,
    .pages = &page_config,
    .page_states = page_states,
    .train_step = train_step,
    .eval_step = eval_step,
    .train_action_count = 8,
    .eval_action_count = 3,
    .default_lr = 0.05f,
    .training = {.accumulate = 2u},
};

void fuzz_model_power_on(void)
{
    memset(&arena, 0x5A, sizeof(arena));
}
