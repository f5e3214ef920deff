/* The cheapest way to run a small training step, by search over everything a machine could do.
 *
 * The truth for the planner, which it shares neither code nor rules with. The machine has values
 * with contents: a value that an operator overwrites gets a newer version, in RAM or on the card.
 * An operator that would read another version than it reads when everything runs once, in order,
 * is not run, whatever the reason. So what may be run again, and which page is stale, is not told
 * but follows. A* over (operators done, what is resident, what is on the card, versions, transfer
 * under way, bytes written): the estimate is what no run can save. Time and energy are integers,
 * so equal means equal.
 *
 * stdin: header, one line per value, one per operator, see ``read_problem`` and exhaustive.py.
 * stdout: "optimum <energy>", "none", or "limit" when it has seen too many states.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 24, MAX_OPS = 8, MAX_PAIRS = 4, NOTHING = 255 };
enum { PAGEABLE = 1, AT_START = 2, AT_END = 4, PAGED_AT_START = 8, PAGED_AT_END = 16 };
enum { AGAIN = 1 };
static const int64_t NEVER = INT64_MAX;

struct value {
    int64_t bytes, in_ticks, out_ticks, in_energy, out_energy;
    int flags;
};

struct op {
    int64_t ticks, energy, workspace;
    uint32_t reads, writes, changes, newer; /* newer: the inputs read in their newer version */
    int flags, pairs;
    int out[MAX_PAIRS], over[MAX_PAIRS];
};

/* Negative limits are absent. ``wait`` is energy a tick of waiting beside a transfer. */
static struct {
    int values, ops, overlap, paging, remat;
    int64_t memory, deadline, most_written, wait, most_states;
    struct value value[MAX_VALUES];
    struct op op[MAX_OPS];
    int64_t energy_left[MAX_OPS + 1], ticks_left[MAX_OPS + 1];
    uint32_t changed;
} problem;

/* Compared and hashed as bytes: no padding. */
struct state {
    uint32_t resident, paged, newer, newer_page; /* bits of values */
    uint32_t left, written;                      /* ticks of the transfer, bytes */
    uint8_t done, moving, outward, pad;
};

struct node {
    int64_t bound, ticks, energy;
    struct state state;
};

static struct node *heap;
static size_t heap_count, heap_room;

static struct seen {
    struct state state;
    int64_t ticks; /* least of those that were taken from the heap */
    int64_t energy; /* least of those that were put on it */
    bool used;
} *table;
static size_t table_count, table_room;

static uint64_t hash_of(const struct state *state)
{
    uint64_t words[4];
    memset(words, 0, sizeof(words));
    memcpy(words, state, sizeof(*state));
    uint64_t hash = 0x9E3779B97F4A7C15u;
    for (int k = 0; k < 4; ++k) {
        hash = (hash ^ words[k]) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    return hash;
}

static struct seen *slot_of(struct seen *slots, size_t room, const struct state *state)
{
    size_t k = (size_t)hash_of(state) & (room - 1);
    while (slots[k].used && memcmp(&slots[k].state, state, sizeof(*state)) != 0) {
        k = (k + 1) & (room - 1);
    }
    return &slots[k];
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

static struct seen *find(const struct state *state)
{
    if (2 * (table_count + 1) > table_room) {
        const size_t room = table_room == 0 ? 1u << 16 : 2 * table_room;
        struct seen *grown = must(calloc(room, sizeof(*grown)));
        for (size_t k = 0; k < table_room; ++k) {
            if (table[k].used) {
                *slot_of(grown, room, &table[k].state) = table[k];
            }
        }
        free(table);
        table = grown;
        table_room = room;
    }
    struct seen *slot = slot_of(table, table_room, state);
    if (!slot->used) {
        *slot = (struct seen){*state, NEVER, NEVER, true};
        ++table_count;
    }
    return slot;
}

static bool before(const struct node *a, const struct node *b)
{
    return a->bound < b->bound || (a->bound == b->bound && a->ticks < b->ticks);
}

static void push(const struct node *node)
{
    if (heap_count == heap_room) {
        heap_room = heap_room == 0 ? 1024 : 2 * heap_room;
        heap = must(realloc(heap, heap_room * sizeof(*heap)));
    }
    size_t k = heap_count++;
    while (k > 0 && before(node, &heap[(k - 1) / 2])) {
        heap[k] = heap[(k - 1) / 2];
        k = (k - 1) / 2;
    }
    heap[k] = *node;
}

static struct node pop(void)
{
    const struct node top = heap[0], last = heap[--heap_count];
    size_t k = 0;
    for (size_t child = 1; child < heap_count; child = 2 * k + 1) {
        if (child + 1 < heap_count && before(&heap[child + 1], &heap[child])) {
            ++child;
        }
        if (!before(&heap[child], &last)) {
            break;
        }
        heap[k] = heap[child];
        k = child;
    }
    heap[k] = last;
    return top;
}

static uint32_t bit(int value)
{
    return 1u << value;
}

static int64_t bytes_of(uint32_t values)
{
    int64_t sum = 0;
    for (int i = 0; i < problem.values; ++i) {
        sum += (values & bit(i)) != 0 ? problem.value[i].bytes : 0;
    }
    return sum;
}

/* Energy that every way to the end still costs: first runs, and pages of what was changed. */
static int64_t left_of(const struct state *state)
{
    int64_t sum = problem.energy_left[state->done];
    for (int i = 0; i < problem.values; ++i) {
        const bool due = (problem.changed & bit(i)) != 0
                         && (problem.value[i].flags & PAGED_AT_END) != 0;
        const bool going = state->moving == i && state->outward && (state->newer & bit(i)) != 0;
        if (due && !going && (state->newer_page & bit(i)) == 0) {
            sum += problem.value[i].out_energy;
        }
    }
    return sum;
}

/* The transfer has ended: its page, or its bytes in RAM, are whole. */
static void land(struct state *state)
{
    if (state->outward) {
        const uint32_t page = bit(state->moving);
        state->paged |= page;
        state->newer_page = (state->newer_page & ~page) | (state->newer & page);
    }
    state->moving = NOTHING;
    state->outward = 0;
    state->left = 0;
}

/* Puts ``after`` on the heap unless it breaks a limit or is known to be no better. */
static void reach(const struct node *from, struct state after, int64_t peak, int64_t ticks,
                  int64_t energy)
{
    if (after.moving != NOTHING && after.left == 0) {
        land(&after);
    }
    struct node next = {0, from->ticks + ticks, from->energy + energy, after};
    const bool timed = problem.deadline >= 0;
    const bool late = timed && next.ticks + problem.ticks_left[after.done] > problem.deadline;
    const bool worn = problem.most_written >= 0 && after.written > problem.most_written;
    if (peak > problem.memory || late || worn) {
        return;
    }
    struct seen *known = find(&next.state);
    if (known->ticks <= next.ticks || (!timed && known->energy <= next.energy)) {
        return;
    }
    known->energy = next.energy < known->energy ? next.energy : known->energy;
    next.bound = next.energy + left_of(&next.state);
    push(&next);
}

static void start(const struct node *from, int i, bool outward)
{
    const struct value *value = &problem.value[i];
    const int64_t ticks = outward ? value->out_ticks : value->in_ticks;
    const int64_t energy = outward ? value->out_energy : value->in_energy;
    struct state after = from->state;
    if (outward) {
        after.paged &= ~bit(i); /* what was there is being written over */
        after.written += problem.most_written >= 0 ? (uint32_t)value->bytes : 0u;
    } else {
        after.resident |= bit(i);
        after.newer = (after.newer & ~bit(i)) | (after.newer_page & bit(i));
    }
    after.moving = (uint8_t)i;
    after.outward = outward;
    after.left = problem.overlap ? (uint32_t)ticks : 0u;
    reach(from, after, bytes_of(after.resident), problem.overlap ? 0 : ticks, energy);
}

static void use_value(const struct node *from, int i)
{
    const struct state *now = &from->state;
    const struct value *value = &problem.value[i];
    const bool resident = (now->resident & bit(i)) != 0, paged = (now->paged & bit(i)) != 0;
    const bool home = (value->flags & (PAGED_AT_START | PAGED_AT_END)) != 0;
    if (resident && now->moving != i) {
        struct state after = *now;
        after.resident &= ~bit(i);
        after.newer &= ~bit(i);
        reach(from, after, bytes_of(now->resident), 0, 0);
    }
    if (now->moving != NOTHING || (value->flags & PAGEABLE) == 0 || !(problem.paging || home)) {
        return;
    }
    const bool same = ((now->newer ^ now->newer_page) & bit(i)) == 0;
    if (resident && !(paged && same)) {
        start(from, i, true);
    }
    if (!resident && paged) {
        start(from, i, false);
    }
}

/* Runs operator ``k`` with the pairs of ``chosen`` in place, if that is possible. */
static void run_with(const struct node *from, int k, unsigned chosen)
{
    const struct op *op = &problem.op[k];
    uint32_t taken = 0, given = 0;
    int64_t saved = 0;
    for (int n = 0; n < op->pairs; ++n) {
        if ((chosen >> n & 1u) == 0) {
            continue;
        }
        const uint32_t in = bit(op->over[n]), out = bit(op->out[n]);
        if ((taken & in) != 0 || (given & out) != 0 || from->state.moving == op->over[n]) {
            return;
        }
        taken |= in;
        given |= out;
        const int64_t a = problem.value[op->over[n]].bytes, b = problem.value[op->out[n]].bytes;
        saved += a < b ? a : b;
    }
    struct state after = from->state;
    const int64_t peak = bytes_of(after.resident | op->writes) - saved + op->workspace;
    after.resident = (after.resident & ~taken) | op->writes;
    after.newer = (after.newer & ~taken) | op->changes;
    after.done = (uint8_t)(after.done + (after.done == k));
    if (after.moving != NOTHING) {
        after.left = after.left > op->ticks ? after.left - (uint32_t)op->ticks : 0u;
    }
    reach(from, after, peak, op->ticks, op->energy);
}

static void run(const struct node *from, int k)
{
    const struct state *now = &from->state;
    const struct op *op = &problem.op[k];
    const bool first = k == now->done;
    const uint32_t moving = now->moving == NOTHING ? 0 : bit(now->moving);
    const bool readable = (op->reads & ~now->resident) == 0
                          && ((op->reads & moving) == 0 || now->outward);
    const bool right = ((now->newer ^ op->newer) & op->reads) == 0;
    const bool again = problem.remat && (op->flags & AGAIN) != 0;
    if (!readable || !right || (op->writes & now->resident) != 0
        || (op->changes & moving) != 0 || !(first || again)) {
        return;
    }
    for (unsigned chosen = 0; chosen < 1u << op->pairs; ++chosen) {
        run_with(from, k, chosen);
    }
}

static bool ended(const struct state *state)
{
    if (state->done < problem.ops || state->moving != NOTHING) {
        return false;
    }
    for (int i = 0; i < problem.values; ++i) {
        const int flags = problem.value[i].flags;
        const bool newest = ((state->newer_page ^ problem.changed) & bit(i)) == 0;
        const bool page = (state->paged & bit(i)) != 0 && newest;
        if (((flags & AT_END) != 0) != ((state->resident & bit(i)) != 0)
            || ((flags & PAGED_AT_END) != 0 && !page)) {
            return false;
        }
    }
    return true;
}

static uint32_t read_set(void)
{
    int count = 0, i = 0;
    uint32_t set = 0;
    for (scanf("%d", &count); count > 0 && scanf("%d", &i) == 1; --count) {
        set |= bit(i);
    }
    return set;
}

/* values ops overlap paging remat memory deadline most_written wait most_states; then per value
 * bytes in_ticks out_ticks in_energy out_energy flags; then per operator ticks energy workspace
 * flags, three sets (count, members): reads, writes, changes; pairs: count, (output, input). */
static bool read_problem(void)
{
    bool whole = scanf("%d %d %d %d %d", &problem.values, &problem.ops, &problem.overlap,
                       &problem.paging, &problem.remat) == 5;
    whole = whole && scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64,
                           &problem.memory, &problem.deadline, &problem.most_written,
                           &problem.wait, &problem.most_states) == 5;
    whole = whole && problem.values <= MAX_VALUES && problem.ops <= MAX_OPS;
    for (int i = 0; whole && i < problem.values; ++i) {
        struct value *v = &problem.value[i];
        whole = scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%d", &v->bytes,
                      &v->in_ticks, &v->out_ticks, &v->in_energy, &v->out_energy, &v->flags) == 6;
    }
    for (int k = 0; whole && k < problem.ops; ++k) {
        struct op *op = &problem.op[k];
        whole = scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%d", &op->ticks, &op->energy,
                      &op->workspace, &op->flags) == 4;
        op->reads = read_set();
        op->writes = read_set();
        op->changes = read_set();
        op->newer = problem.changed & op->reads;
        problem.changed |= op->changes;
        whole = whole && scanf("%d", &op->pairs) == 1 && op->pairs <= MAX_PAIRS;
        for (int n = 0; whole && n < op->pairs; ++n) {
            whole = scanf("%d %d", &op->out[n], &op->over[n]) == 2;
        }
    }
    for (int k = problem.ops - 1; k >= 0; --k) {
        problem.energy_left[k] = problem.energy_left[k + 1] + problem.op[k].energy;
        problem.ticks_left[k] = problem.ticks_left[k + 1] + problem.op[k].ticks;
    }
    return whole;
}

static void step_from(const struct node *node)
{
    if (node->state.moving != NOTHING) {
        struct state after = node->state;
        const int64_t ticks = after.left;
        after.left = 0;
        reach(node, after, 0, ticks, ticks * problem.wait);
    }
    for (int i = 0; i < problem.values; ++i) {
        use_value(node, i);
    }
    for (int k = 0; k <= node->state.done && k < problem.ops; ++k) {
        run(node, k);
    }
}

int main(void)
{
    if (!read_problem()) {
        fputs("expected a problem of at most 24 values and 8 operators\n", stderr);
        return 2;
    }
    struct node from = {0, 0, 0, {0, 0, 0, 0, 0, 0, 0, NOTHING, 0, 0}};
    struct state first = from.state;
    for (int i = 0; i < problem.values; ++i) {
        first.resident |= (problem.value[i].flags & AT_START) != 0 ? bit(i) : 0u;
        first.paged |= (problem.value[i].flags & PAGED_AT_START) != 0 ? bit(i) : 0u;
    }
    reach(&from, first, bytes_of(first.resident), 0, 0);
    while (heap_count > 0) {
        const struct node node = pop();
        struct seen *known = find(&node.state);
        if (known->ticks <= node.ticks) {
            continue;
        }
        known->ticks = problem.deadline >= 0 ? node.ticks : INT64_MIN;
        if (ended(&node.state)) {
            printf("optimum %" PRId64 "\n", node.energy);
            return 0;
        }
        if ((int64_t)table_count > problem.most_states) {
            puts("limit");
            return 0;
        }
        step_from(&node);
    }
    puts("none");
    return 0;
}
