/* What must hold; what does not ends the process and says where. */
#ifndef POET_FUZZ_MUST_H
#define POET_FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must(holds)                                                        \
    do {                                                                   \
        if (!(holds)) {                                                    \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
            abort();                                                       \
        }                                                                  \
    } while (0)

#endif
