/* The model that the link target trains, small enough for thousands of steps a second: one
 * parameter in the arena and one at home on the card, a state of each, a page within the step,
 * checkpoints. The page's bytes are compared with a copy, so a silent fault of the card shows.
 */
#ifndef POET_FUZZ_LINK_MODEL_H
#define POET_FUZZ_LINK_MODEL_H

#include "memory_card.h"
#include "poet/model.h"

#define FUZZ_REGION_BLOCK 8u
#define FUZZ_REGION_BLOCKS 26u
#define FUZZ_TENSORS 10u

extern const poet_model fuzz_model;

/* Garbage into the arena, as power-on leaves it. */
void fuzz_model_power_on(void);

#endif
