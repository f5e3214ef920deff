/* The port of the emulated boards with a card that fails aloud: FAULTS_PER_MILLE of the transfers, by
 * a generator that every start of the board begins anew from FAULT_SEED. Between the page store and
 * the SD driver, which would repeat what a bad bus does.
 *
 * What struck is told in place of the stack's two numbers (the soak does not ask for those): failed
 * writes << 16 | failed reads, and timeouts << 16 | refusals.
 */
#define poet_port_bdev real_port_bdev
#include "primecell.c" /* of the board's family: on the include path */
#undef poet_port_bdev

const poet_bdev *poet_port_bdev(void);

typedef enum { WELL, REFUSED, TIMED_OUT, FAILED } outcome;

static struct {
    uint32_t random;
    uint32_t refusals, timeouts, failed_reads, failed_writes;
    poet_status result; /* of the transfer that has failed, until wait tells */
} faults = {.random = FAULT_SEED};

/* xorshift32 (G. Marsaglia, "Xorshift RNGs", 2003). */
static uint32_t next_random(void)
{
    faults.random ^= faults.random << 13;
    faults.random ^= faults.random >> 17;
    faults.random ^= faults.random << 5;
    return faults.random;
}

static outcome strike(void)
{
    const uint32_t drawn = next_random() % 1000u;
    if (drawn + 1u > FAULTS_PER_MILLE) { /* of 0, no comparison is always true */
        return WELL;
    }
    const uint32_t kind = (next_random() >> 8) % 4u;
    return kind == 0u ? REFUSED : (kind == 1u ? TIMED_OUT : FAILED);
}

static poet_status bad_open(void *state)
{
    faults.result = POET_OK;
    return card.ops->open(state);
}

/* A failed read has brought half of its bytes, and the rest is garbage. */
static poet_status bad_read(void *state, uint32_t block, void *buffer, uint32_t nbytes)
{
    const outcome ends = strike();
    if (ends == REFUSED) {
        faults.refusals++;
        return POET_E_CARD_BUSY;
    }
    POET_TRY(card.ops->start_read(state, block, buffer, nbytes));
    if (ends != WELL) {
        uint8_t *bytes = buffer;
        POET_TRY(card.ops->wait(state));
        for (uint32_t i = nbytes / 2u; i < nbytes; i++) {
            bytes[i] = 0xA5u;
        }
        faults.timeouts += ends == TIMED_OUT ? 1u : 0u;
        faults.failed_reads += ends == FAILED ? 1u : 0u;
        faults.result = ends == FAILED ? POET_E_CARD_READ : POET_E_TIMEOUT;
    }
    return POET_OK;
}

/* A failed write has not come to the card; one that timed out has. */
static poet_status bad_write(void *state, uint32_t block, const void *buffer, uint32_t nbytes)
{
    const outcome ends = strike();
    if (ends == REFUSED) {
        faults.refusals++;
        return POET_E_CARD_BUSY;
    }
    if (ends == FAILED) {
        faults.failed_writes++;
        faults.result = POET_E_CARD_WRITE;
        return POET_OK;
    }
    POET_TRY(card.ops->start_write(state, block, buffer, nbytes));
    if (ends == TIMED_OUT) {
        faults.timeouts++;
        POET_TRY(card.ops->wait(state));
        faults.result = POET_E_TIMEOUT;
    }
    return POET_OK;
}

static bool bad_busy(void *state)
{
    return faults.result == POET_OK && card.ops->busy(state);
}

static poet_status bad_wait(void *state)
{
    const poet_status result = faults.result;
    faults.result = POET_OK;
    return result != POET_OK ? result : card.ops->wait(state);
}

static poet_status bad_sync(void *state)
{
    return card.ops->sync(state);
}

static uint32_t bad_count(void *state)
{
    return card.ops->block_count(state);
}

static const poet_bdev_ops bad_ops = {
    .open = bad_open,
    .start_read = bad_read,
    .start_write = bad_write,
    .busy = bad_busy,
    .wait = bad_wait,
    .sync = bad_sync,
    .block_count = bad_count,
};
static const poet_bdev bad_card = {.ops = &bad_ops, .state = &card_state};

const poet_bdev *poet_port_bdev(void)
{
    return &bad_card;
}

uint32_t poet_port_stack_bytes(void)
{
    return (faults.failed_writes << 16) | faults.failed_reads;
}

uint32_t poet_port_stack_free_bytes(void)
{
    return (faults.timeouts << 16) | faults.refusals;
}
