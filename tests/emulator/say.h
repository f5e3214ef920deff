/* What a test firmware tells on the console: "name=value" lines. */
#ifndef POET_TESTS_SAY_H
#define POET_TESTS_SAY_H

#include <stdint.h>

#include "poet/port.h"

static inline void say_text(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        poet_port_putc((uint8_t)*c);
    }
}

static inline void say_line(const char *text)
{
    say_text(text);
    say_text("\n");
}

static inline void say(const char *name, const char *value)
{
    say_text(name);
    say_text("=");
    say_line(value);
}

static inline void say_number(const char *name, uint32_t value)
{
    char digits[11];
    char *next = &digits[sizeof digits - 1u];
    *next = '\0';
    do {
        next--;
        *next = (char)('0' + value % 10u);
        value /= 10u;
    } while (value != 0u);
    say(name, next);
}

#endif
