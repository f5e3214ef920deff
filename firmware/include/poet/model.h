/* What the generated files give to the runtime: one const description of the model.
 *
 * Generated code holds tables, sizes and two straight lines of calls (a training step and an
 * evaluation); everything with a loop or a branch is in firmware/.
 */
#ifndef POET_MODEL_H
#define POET_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "poet/page.h"
#include "poet/rates.h"
#include "poet/status.h"

/* Version of the contract between generated files and this runtime. */
#define POET_ABI_VERSION 3

typedef enum {
    POET_ROLE_INPUT = 0,       /* host writes it before each training step */
    POET_ROLE_LABEL = 1,       /* the same */
    POET_ROLE_PARAMETER = 2,   /* trained or tracked; resident, or its home is the card */
    POET_ROLE_STATE = 3,       /* optimizer state, resident, starts at zero */
    POET_ROLE_CONSTANT = 4,    /* frozen, in flash, read only */
    POET_ROLE_LOSS = 5,        /* valid after a training step */
    POET_ROLE_EVAL_INPUT = 6,  /* host writes it before each evaluation */
    POET_ROLE_EVAL_OUTPUT = 7, /* valid after an evaluation */
} poet_role;

typedef enum { POET_F32 = 0, POET_I32 = 1, POET_U8 = 2 } poet_dtype;

typedef struct {
    const char *name;    /* ONNX name, escaped for C */
    uint8_t *data;       /* in the arena; NULL: POET_ROLE_CONSTANT, or its home is the card */
    const void *initial; /* in flash; NULL: starts at zero, or is not kept between steps */
    uint32_t nbytes;
    uint8_t role;  /* a poet_role */
    uint8_t dtype; /* a poet_dtype */
} poet_tensor;

/* State of one run of a schedule. The straight line sets action before each action. */
typedef struct poet_run {
    poet_page_store *pages;
    float lr;        /* learning rate of this step, by the schedule */
    float bias1;     /* 1 - beta^n of the optimizer's two means at its n-th update */
    float bias2;
    uint32_t step;   /* training steps done before: what random masks follow from */
    uint32_t update; /* 0: this step only accumulates gradients, updates are left out */
    uint32_t action; /* index of the action under way */
    /* NULL, or called after each action: for traces and for measuring. */
    void (*after_action)(struct poet_run *run);
    void *context; /* the hook's */
} poet_run;

typedef poet_status (*poet_step_function)(poet_run *run);

typedef struct {
    uint32_t abi_version; /* POET_ABI_VERSION */
    uint8_t build_id[16];
    uint8_t model_hash[32]; /* SHA-256 of the ONNX file */
    const char *name;
    const char *board;
    uint8_t *arena;
    uint32_t arena_bytes;
    const poet_tensor *tensors;
    uint32_t tensor_count;
    const poet_page_config *pages;
    poet_page_state *page_states;
    poet_step_function train_step;
    poet_step_function eval_step;
    uint32_t train_action_count;
    uint32_t eval_action_count;
    float default_lr;
    poet_training training;
} poet_model;

/* The one model of this firmware (generated). */
extern const poet_model poet_the_model;

/* In the straight line: one action, its index first. A kernel cannot fail, a transfer can. */
#define POET_KERNEL(run, index, call)          \
    do {                                       \
        (run)->action = (index);               \
        call;                                  \
        if ((run)->after_action != NULL) {     \
            (run)->after_action(run);          \
        }                                      \
    } while (0)

/* A kernel that only the last of the accumulated steps runs. */
#define POET_UPDATE(run, index, call)          \
    do {                                       \
        (run)->action = (index);               \
        if ((run)->update != 0u) {             \
            call;                              \
        }                                      \
        if ((run)->after_action != NULL) {     \
            (run)->after_action(run);          \
        }                                      \
    } while (0)

#define POET_TRANSFER(run, index, call)        \
    do {                                       \
        (run)->action = (index);               \
        POET_TRY(call);                        \
        if ((run)->after_action != NULL) {     \
            (run)->after_action(run);          \
        }                                      \
    } while (0)

/* The value's bytes are dead from here on. Nothing on a board; tests poison them. */
#if defined(POET_POISON)
void poet_poison(void *bytes, uint32_t nbytes);
#define POET_DROP(bytes, nbytes) poet_poison((bytes), (nbytes))
#else
#define POET_DROP(bytes, nbytes) ((void)0)
#endif

#endif
