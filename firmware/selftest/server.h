/* Inside the self-test firmware: its requests. */
#ifndef POET_SELFTEST_SERVER_H
#define POET_SELFTEST_SERVER_H

void poet_selftest_init(void);
/* Take what the console has and answer at most one request. Call it for ever. */
void poet_selftest_poll(void);

#endif
