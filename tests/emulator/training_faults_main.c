/* Firmware of the card faults in training: the scenarios of tests/host/faults on the emulated board.
 *
 * The host speaks within the firmware; trainer and link get its line, the driver the real port.
 * Whenever the card shall be another, "insert=<health> <power>" is said and a byte waited for. Behind
 * "next" a letter is: what is tried.
 */
#include <stdlib.h>
#include <string.h>

#include "../host/faults/scenario.h"
#include "../host/power/host_session.h"
#include "poet/port.h"
#include "say.h"

const poet_bdev *const session_device = NULL; /* the port has it */

static uint32_t since_us; /* the card became another */

int main(void);

static int heard(void)
{
    int byte = -1;
    while (byte < 0) {
        byte = poet_port_getc();
    }
    return byte;
}

void scenario_card(scenario_health health, scenario_power power)
{
    static const char *const powers[] = {"on", "card", "kept"};
    say_text(health == SCENARIO_FAULTY ? "insert=faulty " : "insert=healthy ");
    say_line(powers[power]);
    (void)heard();
    if (power == SCENARIO_POWER_ON) {
        session_boot();
    }
    since_us = poet_port_micros();
}

void scenario_say(const char *name, const char *value)
{
    if (strcmp(name, "told") == 0) {
        say_number("us", poet_port_micros() - since_us);
    }
    say(name, value);
}

_Noreturn void scenario_fail(const char *what, const char *why)
{
    say(what, why);
    abort();
}

_Noreturn void abort(void)
{
    say_line("FAIL");
    for (;;) {
        (void)poet_port_getc();
    }
}

static void try(int what)
{
    if (what == 'o') {
        scenario_at_start();
    } else if (what == 'f') {
        scenario_while_prepared();
    } else {
        scenario_in_use(what == 'c'   ? SCENARIO_CHECKPOINT
                        : what == 'r' ? SCENARIO_RESTORE
                                      : SCENARIO_STEP);
    }
}

int main(void)
{
    poet_port_init();
    scenario_reference();
    for (;;) {
        say_line("next");
        try(heard());
    }
}
