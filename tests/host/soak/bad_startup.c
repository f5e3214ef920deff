/* The start-up as it is, but for the stack's numbers, which bad_port.c has another use for. */
#define poet_port_stack_bytes real_port_stack_bytes
#define poet_port_stack_free_bytes real_port_stack_free_bytes
#include "startup.c" /* of port/common: on the include path */
