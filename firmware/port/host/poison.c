/* Dead bytes become NaNs and absurd integers, so that a kernel that reads them is seen. */
#include "poet/model.h"

#if defined(POET_POISON)
#include <string.h>

void poet_poison(void *bytes, uint32_t nbytes)
{
    memset(bytes, 0xFF, nbytes);
}
#else
typedef int poet_poison_is_off; /* ISO C wants a declaration in every file */
#endif
