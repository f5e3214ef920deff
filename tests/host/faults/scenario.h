/* What is tried with a card that misbehaves; the board and its card are the test's. */
#ifndef POET_TESTS_SCENARIO_H
#define POET_TESTS_SCENARIO_H

#include <stdbool.h>

typedef enum { SCENARIO_HEALTHY, SCENARIO_FAULTY } scenario_health;
/* ... of board and card, of the card alone, or nobody was without power. */
typedef enum { SCENARIO_POWER_ON, SCENARIO_CARD_ALONE, SCENARIO_POWER_KEPT } scenario_power;
typedef enum { SCENARIO_STEP, SCENARIO_CHECKPOINT, SCENARIO_RESTORE } scenario_moment;

/* ---- the test's ---- */

/* The card, with the content that it has, is like this from here on. */
void scenario_card(scenario_health health, scenario_power power);
void scenario_say(const char *name, const char *value);
_Noreturn void scenario_fail(const char *what, const char *why);

/* ---- the scenarios; the first one comes before all others ---- */

/* Prepares the card, and learns the weights of each step. */
void scenario_reference(void);
/* A fault at one of these moments: what is told of it, what the model is, and the way back. */
void scenario_in_use(scenario_moment moment);
void scenario_at_start(void);
void scenario_while_prepared(void);
/* Two steps with their checkpoint that must go well, and then, without a card from some moment on,
 * must not. True: the model was spoiled. */
void scenario_steps(void);
bool scenario_removed(void);

#endif
