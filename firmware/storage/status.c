#include "poet/status.h"

const char *poet_status_text(poet_status status)
{
    switch (status) {
#define POET_STATUS_CASE(name, value, text) \
    case name:                              \
        return text;
        POET_STATUS_LIST(POET_STATUS_CASE)
#undef POET_STATUS_CASE
    default:
        /* A number from the wire need not be one of ours. */
        return "unknown status";
    }
}
