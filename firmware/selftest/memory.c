/* March C- (van de Goor, Testing Semiconductor Memories, 1991): up w0; up r0 w1; up r1 w0;
 * down r0 w1; down r1 w0; r0, with a word's address for 0 and its complement for 1.
 */
#include <stdbool.h>

#include "selftest.h"

static uint32_t data_of(const volatile uint32_t *word, bool complement)
{
    const uint32_t address = (uint32_t)(uintptr_t)word;
    return complement ? ~address : address;
}

static void expect(const volatile uint32_t *word, bool complement, poet_memory_result *result)
{
    const uint32_t wanted = data_of(word, complement);
    const uint32_t got = *word;
    if (got != wanted) {
        if (result->bad_words == 0u) {
            result->first_bad = (uint32_t)(uintptr_t)word;
            result->expected = wanted;
            result->got = got;
        }
        result->bad_words++;
    }
}

/* One element of the march: read and compare, then write the other value. */
static void march(volatile uint32_t *words, uint32_t count, bool down, bool complement,
                  poet_memory_result *result)
{
    for (uint32_t i = 0u; i < count; i++) {
        volatile uint32_t *word = &words[down ? count - 1u - i : i];
        expect(word, complement, result);
        *word = data_of(word, !complement);
    }
}

void poet_selftest_memory(uint32_t *words, uint32_t count, poet_memory_result *result)
{
    volatile uint32_t *memory = words;
    result->bad_words = 0u;
    result->first_bad = 0u;
    result->expected = 0u;
    result->got = 0u;
    for (uint32_t i = 0u; i < count; i++) {
        memory[i] = data_of(&memory[i], false);
    }
    march(memory, count, false, false, result);
    march(memory, count, false, true, result);
    march(memory, count, true, false, result);
    march(memory, count, true, true, result);
    for (uint32_t i = 0u; i < count; i++) {
        expect(&memory[i], false, result);
    }
}
