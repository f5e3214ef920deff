/* Plays files through a fuzz target, one process for all: regression tests without a fuzzer. */
#include <stdio.h>
#include <stdlib.h>

#include "input.h"

#define MOST_BYTES 65536u

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        uint8_t *data = malloc(MOST_BYTES);
        if (file == NULL || data == NULL) {
            return 2;
        }
        const size_t size = fread(data, 1u, MOST_BYTES, file);
        (void)fclose(file);
        uint8_t *exact = malloc(size == 0u ? 1u : size); /* so that one byte too far is seen */
        if (exact == NULL) {
            return 2;
        }
        memcpy(exact, data, size);
        free(data);
        (void)fprintf(stderr, "%s\n", argv[i]);
        (void)LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    (void)printf("%d inputs\n", argc - 1);
    return 0;
}
