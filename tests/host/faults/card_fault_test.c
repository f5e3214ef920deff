/* The scenarios over the real SPI driver and a card model that misbehaves.
 *
 * argv: when the fault comes (open, format, step, checkpoint, restore, removal), kind of card,
 * blocks, "option=value" words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../power/host_session.h"
#include "../storage/sd_card_model.h"
#include "poet/sd_spi.h"
#include "scenario.h"

static poet_sd_spi_state card_state;
static const poet_sd_spi_config card_config = {.bus = &card_bus, .clock_hz = 12500000u};
static const poet_bdev sd_card = {.ops = &poet_sd_spi_ops, .state = &card_state};
const poet_bdev *const session_device = &sd_card;

static card_options plain, faulty;
static uint64_t faulty_since; /* bytes on the bus before that */

void scenario_card(scenario_health health, scenario_power power)
{
    const card_options *options = health == SCENARIO_FAULTY ? &faulty : &plain;
    card_change(options);
    faulty_since = health == SCENARIO_FAULTY ? card_seen.bytes : faulty_since;
    if (power != SCENARIO_POWER_KEPT) {
        card_insert(options);
    }
    if (power == SCENARIO_POWER_ON) {
        poet_sd_spi_init(&card_state, &card_config);
        session_boot();
    }
}

void scenario_say(const char *name, const char *value)
{
    printf("%s=%s\n", name, value);
    if (strcmp(name, "model") == 0) {
        printf("violations=%u\n", card_seen.violations);
    }
}

_Noreturn void scenario_fail(const char *what, const char *why)
{
    printf("FAIL %s: %s\n", what, why);
    exit(1);
}

/* Pulled out at every so manieth byte of a step with its checkpoint, and put in again. */
static void removals(uint32_t points)
{
    uint32_t spoiled = 0u;
    uint32_t told = 0u;
    scenario_steps();
    const uint64_t first = faulty_since;
    const uint64_t count = card_seen.bytes - first;
    for (uint32_t i = 0u; i < points; i++) {
        faulty.remove_at = first + count * i / points;
        spoiled += scenario_removed() ? 1u : 0u;
        told++;
    }
    printf("points=%u\ntold=%u\nspoiled=%u\n", points, told, spoiled);
}

static void set_option(card_options *options, const char *word)
{
    const char *const equals = strchr(word, '=');
    if (equals == NULL) {
        exit(2);
    }
    const uint32_t value = (uint32_t)strtoul(equals + 1, NULL, 0);
    const size_t length = (size_t)(equals - word);
    const struct {
        const char *name;
        uint32_t *target;
    } numbers[] = {
        {"garbage", &options->garbage},
        {"busy_us", &options->busy_us},
        {"damaged_blocks", &options->damaged_blocks},
        {"refused_blocks", &options->refused_blocks},
        {"write_error_at", &options->write_error_at},
        {"program_error_at", &options->program_error_at},
        {"read_error_at", &options->read_error_at},
        {"rot_at", &options->rot_at},
        {"real_blocks", &options->real_blocks},
        {"blocks", &options->blocks},
    };
    const struct {
        const char *name;
        bool *target;
    } switches[] = {
        {"absent", &options->absent},
        {"write_protected", &options->write_protected},
        {"stuck", &options->stuck},
    };
    for (uint32_t i = 0u; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strlen(numbers[i].name) == length && strncmp(numbers[i].name, word, length) == 0) {
            *numbers[i].target = value;
            return;
        }
    }
    for (uint32_t i = 0u; i < sizeof switches / sizeof switches[0]; i++) {
        if (strlen(switches[i].name) == length && strncmp(switches[i].name, word, length) == 0) {
            *switches[i].target = value != 0u;
            return;
        }
    }
    if (strncmp(word, "start=", 6u) == 0) {
        options->start = (card_start)value;
        return;
    }
    if (strncmp(word, "removed=", 8u) == 0) { /* the bus floats high, or is held low */
        options->floating = value != 0u ? 0xFFu : 0x00u;
        options->remove_at = 0u;
        return;
    }
    exit(2);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"sdsc1", "sdsc", "sdhc", "sdxc"};
    if (argc < 4) {
        return 2;
    }
    card_time_limit_ns = 1000000000000ull; /* sweeps add up */
    for (uint32_t i = 0u; i < 4u; i++) {
        if (strcmp(argv[2], kinds[i]) == 0) {
            plain = card_plain((card_kind)i, (uint32_t)strtoul(argv[3], NULL, 0));
        }
    }
    scenario_reference();
    faulty = plain;
    for (int i = 4; i < argc; i++) {
        set_option(&faulty, argv[i]);
    }
    if (strcmp(argv[1], "open") == 0) {
        scenario_at_start();
    } else if (strcmp(argv[1], "format") == 0) {
        card_wipe();
        scenario_while_prepared();
    } else if (strcmp(argv[1], "removal") == 0) {
        removals(200u);
    } else {
        scenario_in_use(strcmp(argv[1], "checkpoint") == 0 ? SCENARIO_CHECKPOINT
                        : strcmp(argv[1], "restore") == 0  ? SCENARIO_RESTORE
                                                           : SCENARIO_STEP);
    }
    return 0;
}
