/* Matrix products by blocks of 4 x 4 outputs. A core with an FPU and no vectors has blocks that
 * load two operands at once, one for each way the operands may lie in memory.
 */
#include "product.h"

#include "blocks.h"
#include "pair.h"

POET_INLINE float start_at(const poet_product *p, int32_t i, int32_t j)
{
    return (p->start != 0) ? p->start[i * p->start_row + j * p->start_column] : 0.0F;
}

POET_INLINE poet_quad start_of_four(const poet_product *p, int32_t i, int32_t j)
{
    if (p->start == 0) {
        return poet_quad_of(0.0F);
    }
    return poet_quad_read(p->start + i * p->start_row + j * p->start_column, p->start_column);
}

POET_INLINE poet_block block_start(const poet_product *p, int32_t i, int32_t j, int rows)
{
    poet_block acc;
    acc.r0 = start_of_four(p, i, j);
    acc.r1 = (rows > 1) ? start_of_four(p, i + 1, j) : acc.r0;
    acc.r2 = (rows > 2) ? start_of_four(p, i + 2, j) : acc.r0;
    acc.r3 = (rows > 2) ? start_of_four(p, i + 3, j) : acc.r0;
    return acc;
}

POET_INLINE void store_row(poet_quad v, float *out, int32_t c)
{
    if (c == 1) {
        poet_quad_store_adjacent(v, out);
    } else {
        poet_quad_store(v, out, out + c, out + 2 * c, out + 3 * c);
    }
}

POET_INLINE void block_finish(const poet_product *p, const poet_block *acc, int32_t i, int32_t j,
                              int rows)
{
    const int32_t c = p->out_column;
    float *out = p->out + i * p->out_row + j * c;
    store_row(acc->r0, out, c);
    if (rows >= 2) {
        store_row(acc->r1, out + p->out_row, c);
    }
    if (rows == 4) {
        store_row(acc->r2, out + 2 * p->out_row, c);
        store_row(acc->r3, out + 3 * p->out_row, c);
    }
}

/* The pointers of a block's rows of left; rows past the block read the first again. */
POET_INLINE poet_rows left_rows(const poet_product *p, int32_t i, int rows)
{
    const float *left = p->left + i * p->left_row;
    const int32_t next = p->left_row;
    const poet_rows from = {left, left + ((rows > 1) ? next : 0),
                            left + ((rows > 2) ? 2 * next : 0),
                            left + ((rows > 2) ? 3 * next : 0)};
    return from;
}

/* Any steps: rows (1, 2, 4) of left by four of right; the four are the lanes. */
POET_INLINE void block_any(const poet_product *p, int32_t i, int32_t j, int rows,
                           int lanes_adjacent, int unit)
{
    const poet_block_kind kind = {.lane_operand = POET_W,
                                  .rows = rows,
                                  .lanes_adjacent = lanes_adjacent,
                                  .rows_adjacent = 0,
                                  .x_tap = unit,
                                  .taps = 0};
    poet_sum sum = {.channels = (p->terms > 0) ? 1 : 0, .rows = 1, .taps = p->terms};
    sum.of[POET_X].tap = p->left_term;
    sum.of[POET_W].tap = p->right_term;
    poet_sum_finish(&sum, 0, 0);
    const int32_t step = p->right_row;
    const poet_lanes lanes = poet_lanes_at(p->right + j * step, 0, step, 2 * step, 3 * step);
    poet_block acc = block_start(p, i, j, rows);
    poet_block_run(&acc, &sum, lanes, left_rows(p, i, rows), kind);
    block_finish(p, &acc, i, j, rows);
}

typedef void product_function(const poet_product *p, int32_t i, int32_t j);
/* Blocks of one, two and four rows. */
typedef product_function *const product_set[3];

#define PRODUCT_FUNCTION(name, call)                                                             \
    static void name(const poet_product *p, int32_t i, int32_t j)                                \
    {                                                                                            \
        call;                                                                                    \
    }

#if POET_SOFT_FLOAT
PRODUCT_FUNCTION(any_one, block_any(p, i, j, 1, 0, 0))
static product_set any = {any_one, 0, 0};
#else
#define PRODUCT_SET(name, call_one, call_two, call_four)                                         \
    PRODUCT_FUNCTION(name##_one, call_one)                                                       \
    PRODUCT_FUNCTION(name##_two, call_two)                                                       \
    PRODUCT_FUNCTION(name##_four, call_four)                                                     \
    static product_set name = {name##_one, name##_two, name##_four};
#define ANY_SET(name, adjacent, unit)                                                            \
    PRODUCT_SET(name, block_any(p, i, j, 1, (adjacent), (unit)),                                 \
                block_any(p, i, j, 2, (adjacent), (unit)),                                       \
                block_any(p, i, j, 4, (adjacent), (unit)))
ANY_SET(any, 0, 0) /* any steps */
#endif

/* The columns from first on, as the rows of the transposed product. */
static poet_product transposed_from(const poet_product *p, int32_t first)
{
    const poet_product t = {.rows = p->columns - first,
                            .columns = p->rows,
                            .terms = p->terms,
                            .left_row = p->right_row,
                            .left_term = p->right_term,
                            .right_row = p->left_row,
                            .right_term = p->left_term,
                            .out_row = p->out_column,
                            .out_column = p->out_row,
                            .start_row = p->start_column,
                            .start_column = p->start_row,
                            .left = p->right + first * p->right_row,
                            .right = p->left,
                            .start = (p->start != 0) ? p->start + first * p->start_column : 0,
                            .out = p->out + first * p->out_column};
    return t;
}

#if POET_QUAD_IS_VECTOR
#include "product_vectors.h"
#elif !POET_SOFT_FLOAT
#include "product_pairs.h"
#endif

/* The blocks for these steps. */
static product_function *const *blocks_for(const poet_product *p)
{
#if POET_SOFT_FLOAT
    (void)p;
#elif POET_QUAD_IS_VECTOR
    if ((p->left_term == 1) && (p->right_row == 1)) {
        return terms_rows;
    }
#else
    if ((p->left_term == 1) && (p->right_term == 1)) {
        return terms_terms;
    }
    if (p->right_row == 1) {
        return (p->left_term == 1) ? terms_rows : (p->left_row == 1) ? rows_rows : any;
    }
#endif
    return any;
}

/* All rows of the columns that make whole fours; the number of those columns. */
static int32_t multiply_fours(const poet_product *p)
{
    product_function *const *blocks = blocks_for(p);
    int32_t j = 0;
#if !POET_SOFT_FLOAT && !POET_QUAD_IS_VECTOR
    if ((p->rows == 1) && (blocks == terms_rows)) {
        for (; j + 8 <= p->columns; j += 8) {
            eight_of_one_row(p, j);
        }
    }
#endif
    for (; j + 4 <= p->columns; j += 4) {
        for (int32_t i = 0; i < p->rows;) {
            const int32_t left = p->rows - i;
            const int32_t done = (POET_SOFT_FLOAT || (left < 2)) ? 1 : (left < 4) ? 2 : 4;
            blocks[done / 2](p, i, j);
            i += done;
        }
    }
    return j;
}

static float single(const poet_product *p, int32_t i, int32_t j)
{
    const float *left = p->left + i * p->left_row;
    const float *right = p->right + j * p->right_row;
    float acc = start_at(p, i, j);
    int32_t terms = p->terms;
#if !POET_SOFT_FLOAT
    if ((p->left_term == 1) && (p->right_term == 1)) {
        for (; terms >= 4; terms -= 4) {
            const poet_pair l01 = poet_pair_next(&left);
            const poet_pair r01 = poet_pair_next(&right);
            const poet_pair l23 = poet_pair_next(&left);
            const poet_pair r23 = poet_pair_next(&right);
            acc = poet_pair_fma(l01, 0, r01, 0, acc);
            acc = poet_pair_fma(l01, 1, r01, 1, acc);
            acc = poet_pair_fma(l23, 0, r23, 0, acc);
            acc = poet_pair_fma(l23, 1, r23, 1, acc);
        }
    }
#endif
    for (; terms > 0; terms--) {
        acc = POET_FMA(*left, *right, acc);
        left += p->left_term;
        right += p->right_term;
    }
    return acc;
}

static void multiply_blocks(const poet_product *p)
{
    const int32_t done = multiply_fours(p);
    if (done == p->columns) {
        return;
    }
    const poet_product rest = transposed_from(p, done);
    for (int32_t j = multiply_fours(&rest); j < rest.columns; j++) {
        for (int32_t i = 0; i < rest.rows; i++) {
            rest.out[i * rest.out_row + j * rest.out_column] = single(&rest, i, j);
        }
    }
}

void poet_multiply(const poet_product *p)
{
#if POET_QUAD_IS_VECTOR
    if (multiply_vectors(p) != 0) {
        return;
    }
#elif !POET_SOFT_FLOAT
    /* Both operands turned: there are blocks for the transposed product only. */
    if ((p->left_term != 1) && (p->left_row == 1) && (p->right_term == 1)) {
        const poet_product turned = transposed_from(p, 0);
        multiply_blocks(&turned);
        return;
    }
#endif
    multiply_blocks(p);
}
