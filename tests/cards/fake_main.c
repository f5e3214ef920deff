/* The bridge to the card model of tests/host/storage. argv: kind, blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host/storage/sd_card_model.h"
#include "bridge.h"

uint8_t bridge_get(void)
{
    const int byte = getchar();
    if (byte == EOF) {
        exit(card_seen.violations != 0u ? 3 : 0);
    }
    return (uint8_t)byte;
}

void bridge_put(uint8_t byte)
{
    (void)putchar(byte);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"sdsc1", "sdsc", "sdhc", "sdxc"};
    for (uint32_t i = 0u; argc == 3 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i]) == 0) {
            const card_options options =
                card_plain((card_kind)i, (uint32_t)strtoul(argv[2], NULL, 0));
            card_insert(&options);
            bridge(&card_bus);
        }
    }
    return 2;
}
