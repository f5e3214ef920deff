/* A model small enough to check by eye: z = x w', mean squared error against one-hot labels,
 * momentum. z takes a trip to the card (TEST_PAGES=1). The tensor "control" lets a test make a
 * step slow or fail. The evaluation destroys its input, as a real plan may.
 */
#include <string.h>

#include "poet/model.h"
#include "poet/port.h"

#ifndef TEST_PAGES
#define TEST_PAGES 1
#endif
#ifndef TEST_ABI
#define TEST_ABI POET_ABI_VERSION
#endif

#define N 2
#define K 512
#define M 3

/* Boards keep the arena out of what the start-up code zeroes. */
#if defined(__arm__)
#define ARENA __attribute__((section(".arena")))
#else
#define ARENA
#endif

static ARENA struct {
    float x[N * K];
    int32_t labels[N];
    float w[M * K];
    float momentum[M * K];
    float z[N * M];
    float dz[N * M];
    float loss;
    float eval_x[K];
    float eval_y[M];
    int32_t control[3]; /* milliseconds to spin, status to fail with, number of spins */
} arena;

static const float scale[M] = {1.0f, 0.5f, 0.25f};
/* First values that differ; the rest are zero. */
static const float initial_w[M * K] = {0.5f, -0.25f, 0.125f, 1e-3f, -0.0f, 3.0f};

static void forward(const float *x, int rows, float *z)
{
    for (int n = 0; n < rows; n++) {
        for (int m = 0; m < M; m++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++) {
                sum += x[n * K + k] * arena.w[m * K + k];
            }
            z[n * M + m] = sum * scale[m];
        }
    }
}

static void loss_and_gradient(void)
{
    float sum = 0.0f;
    for (int n = 0; n < N; n++) {
        for (int m = 0; m < M; m++) {
            const float target = arena.labels[n] == m ? 1.0f : 0.0f;
            const float difference = arena.z[n * M + m] - target;
            sum += difference * difference;
            arena.dz[n * M + m] = difference * scale[m];
        }
    }
    arena.loss = sum;
}

static void update(float lr)
{
    for (int m = 0; m < M; m++) {
        for (int k = 0; k < K; k++) {
            float gradient = 0.0f;
            for (int n = 0; n < N; n++) {
                gradient += arena.dz[n * M + m] * arena.x[n * K + k];
            }
            const int i = m * K + k;
            arena.momentum[i] = arena.momentum[i] * 0.5f + gradient;
            arena.w[i] = arena.w[i] - lr * arena.momentum[i];
        }
    }
}

static void spin(void)
{
    const uint32_t start = poet_port_micros();
    while (poet_port_micros() - start < (uint32_t)arena.control[0] * 1000u) {
    }
}

static poet_status injected(const poet_run *run)
{
    (void)run;
    return (poet_status)arena.control[1];
}

static poet_status train_step(poet_run *run)
{
    POET_KERNEL(run, 0, forward(arena.x, N, arena.z));
#if TEST_PAGES
    POET_TRANSFER(run, 1, poet_page_out(run->pages, 0, arena.z));
    POET_TRANSFER(run, 2, poet_page_wait(run->pages, 0));
    memset(arena.z, 0xA5, sizeof(arena.z));
    POET_TRANSFER(run, 3, poet_page_in(run->pages, 0, arena.z));
    POET_TRANSFER(run, 4, poet_page_wait(run->pages, 0));
#endif
    POET_KERNEL(run, 5, loss_and_gradient());
    for (int i = 0; i < arena.control[2]; i++) {
        POET_KERNEL(run, 6, spin());
    }
    POET_TRANSFER(run, 7, injected(run));
    POET_KERNEL(run, 8, update(run->lr));
    return POET_OK;
}

static poet_status eval_step(poet_run *run)
{
    POET_KERNEL(run, 0, forward(arena.eval_x, 1, arena.eval_y));
    POET_TRANSFER(run, 1, injected(run));
    POET_DROP(arena.eval_x, sizeof(arena.eval_x));
    memset(arena.eval_x, 0, sizeof(arena.eval_x));
    return POET_OK;
}

#define TENSOR(name_, field, initial_, role_, dtype_)                                       \
    {                                                                                       \
        .name = (name_), .data = (uint8_t *)&arena.field, .initial = (initial_),            \
        .nbytes = sizeof(arena.field), .role = (role_), .dtype = (dtype_)                   \
    }

static const poet_tensor tensors[] = {
    TENSOR("x", x, NULL, POET_ROLE_INPUT, POET_F32),
    TENSOR("labels", labels, NULL, POET_ROLE_LABEL, POET_I32),
    TENSOR("fc/\303\251.weight", w, initial_w, POET_ROLE_PARAMETER, POET_F32),
    TENSOR("fc/\303\251.weight:momentum", momentum, NULL, POET_ROLE_STATE, POET_F32),
    TENSOR("loss", loss, NULL, POET_ROLE_LOSS, POET_F32),
    TENSOR("x:eval", eval_x, NULL, POET_ROLE_EVAL_INPUT, POET_F32),
    TENSOR("y:eval", eval_y, NULL, POET_ROLE_EVAL_OUTPUT, POET_F32),
    TENSOR("control", control, NULL, POET_ROLE_INPUT, POET_I32),
    {.name = "scale",
     .data = NULL,
     .initial = scale,
     .nbytes = sizeof(scale),
     .role = POET_ROLE_CONSTANT,
     .dtype = POET_F32},
};

static const uint8_t build_id[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static const poet_page_desc pages[1] = {{.first_block = 1, .nbytes = N * M * sizeof(float)}};
static const poet_page_config page_config = {
    .region_block = 8,
    .region_blocks = 2,
    .page_count = TEST_PAGES,
    .pages = pages,
    .build_id = build_id,
};
static poet_page_state page_states[1];

const poet_model poet_the_model = {
    .abi_version = TEST_ABI,
    .build_id = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    .model_hash = {0xAB, 0x00, 0xCD},
    .name = "tiny",
    .board = "host",
    .arena = (uint8_t *)&arena,
    .arena_bytes = sizeof(arena),
    .tensors = tensors,
    .tensor_count = sizeof(tensors) / sizeof(tensors[0]),
    .pages = &page_config,
    .page_states = page_states,
    .train_step = train_step,
    .eval_step = eval_step,
    .train_action_count = 9,
    .eval_action_count = 2,
    .default_lr = 0.05f,
};
