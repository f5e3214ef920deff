/* Products on a core with MVE: up to four columns are the lanes, the rows' factors come from core
 * registers. One function does all rows of its columns. Part of product.c.
 */
#ifndef POET_PRODUCT_VECTORS_H
#define POET_PRODUCT_VECTORS_H

#include "channel_lanes.h"
#include "product.h"
#include "terms_vectors.h"

typedef struct {
    poet_quad r0, r1, r2, r3, r4, r5;
} poet_six_quads;

/* Some columns of a product: what all of their blocks share. The offsets of the lanes stay in
 * memory, as a block needs all eight vectors for itself. */
typedef struct {
    const poet_product *p;
    int32_t j;
    int32_t groups, rest; /* of terms */
    uint32x4_t right, start, out;
} columns;

#define COLUMNS_STAY_IN_MEMORY(at) __asm__ volatile("" : "+m"(at))

POET_INLINE columns columns_at(const poet_product *p, int32_t j, int32_t lanes, int32_t group)
{
    const columns at = {.p = p,
                        .j = j,
                        .groups = p->terms / group,
                        .rest = p->terms % group,
                        .right = poet_lane_offsets(p->right_row, lanes),
                        .start = poet_lane_offsets(p->start_column, lanes),
                        .out = poet_lane_offsets(p->out_column, lanes)};
    return at;
}

/* Where the chains of rows (1 to 6) from i on start. */
POET_INLINE poet_six_quads columns_start(const columns *at, int32_t i, int rows)
{
    const poet_product *p = at->p;
    poet_six_quads acc;
    acc.r0 = poet_quad_of(0.0F);
    if (p->start == 0) {
        acc.r1 = acc.r2 = acc.r3 = acc.r4 = acc.r5 = acc.r0;
        return acc;
    }
    const int32_t step = p->start_row;
    poet_spread from
        = poet_spread_from(p->start + i * step + at->j * p->start_column, at->start);
    POET_SPREAD_LOAD(acc.r0, from, 0);
    acc.r1 = acc.r2 = acc.r3 = acc.r4 = acc.r5 = acc.r0;
#define COLUMNS_START(number, row)                                                               \
    if (rows > (number)) {                                                                       \
        from = poet_spread_on(from, step);                                                       \
        POET_SPREAD_LOAD(acc.row, from, 0);                                                      \
    }
    COLUMNS_START(1, r1)
    COLUMNS_START(2, r2)
    COLUMNS_START(3, r3)
    COLUMNS_START(4, r4)
    COLUMNS_START(5, r5)
    return acc;
}

/* Lanes past the last repeat it: what they store is the same. */
POET_INLINE void columns_finish(const columns *at, const poet_six_quads *acc, int32_t i, int rows)
{
    const poet_product *p = at->p;
    const int32_t step = p->out_row;
    poet_spread to = poet_spread_from(p->out + i * step + at->j * p->out_column, at->out);
    poet_spread_store(acc->r0, to);
#define COLUMNS_FINISH(number, row)                                                              \
    if (rows > (number)) {                                                                       \
        to = poet_spread_on(to, step);                                                           \
        poet_spread_store(acc->row, to);                                                         \
    }
    COLUMNS_FINISH(1, r1)
    COLUMNS_FINISH(2, r2)
    COLUMNS_FINISH(3, r3)
    COLUMNS_FINISH(4, r4)
    COLUMNS_FINISH(5, r5)
}

/* One term of 1, 2, 4 or 6 rows, which are neighbours at left. */
POET_INLINE void rows_term(poet_six_quads *acc, poet_quad v, const float *left, int rows)
{
    if (rows == 1) {
        acc->r0 = poet_quad_fma(v, *left, acc->r0);
        return;
    }
    if (rows == 2) {
        const poet_scalars f = poet_scalars_at(left);
        acc->r0 = poet_quad_fma_bits(v, f.a, acc->r0);
        acc->r1 = poet_quad_fma_bits(v, f.b, acc->r1);
        return;
    }
    if (rows == 4) {
        const poet_six f = poet_six_at(left, 1, 1);
        acc->r0 = poet_quad_fma_bits(v, f.f1, acc->r0);
        acc->r1 = poet_quad_fma_bits(v, f.f2, acc->r1);
        acc->r2 = poet_quad_fma_bits(v, f.f3, acc->r2);
        acc->r3 = poet_quad_fma_bits(v, f.f4, acc->r3);
        return;
    }
    const poet_six f = poet_six_at(left, 0, 0);
    acc->r0 = poet_quad_fma_bits(v, f.f0, acc->r0);
    acc->r1 = poet_quad_fma_bits(v, f.f1, acc->r1);
    acc->r2 = poet_quad_fma_bits(v, f.f2, acc->r2);
    acc->r3 = poet_quad_fma_bits(v, f.f3, acc->r3);
    acc->r4 = poet_quad_fma_bits(v, f.f4, acc->r4);
    acc->r5 = poet_quad_fma_bits(v, f.f5, acc->r5);
}

/* How the lanes' operand lies in memory. */
enum { COLUMNS_ADJACENT, TERMS_ADJACENT, ANY_STEPS };

/* The vector of the next term, wherever that is. */
typedef struct {
    const float *from;
    poet_spread at; /* addresses with TERMS_ADJACENT, else offsets in bytes */
    int32_t step;
} column_walk;

POET_INLINE poet_quad column_next(column_walk *walk, int how)
{
    poet_quad v;
    if (how == TERMS_ADJACENT) {
        POET_SPREAD_NEXT(v, walk->at, 1);
        return v;
    }
    v = (how == ANY_STEPS) ? vldrwq_gather_offset_f32(walk->from, walk->at) : vld1q_f32(walk->from);
    walk->from += walk->step;
    return v;
}

/* Rows are neighbours in left. */
POET_INLINE void block_by_rows(const columns *at, int32_t i, int rows, int how)
{
    const poet_product *p = at->p;
    const float *left = p->left + i;
    const int32_t next = p->left_term;
    column_walk walk = {.from = p->right + at->j * p->right_row, .at = at->right,
                        .step = p->right_term};
    if (how == TERMS_ADJACENT) {
        walk.at = poet_spread_from(walk.from - 1, at->right);
    }
    poet_six_quads acc = columns_start(at, i, rows);
    for (int32_t pairs = at->groups; pairs > 0; pairs--) {
        rows_term(&acc, column_next(&walk, how), left, rows);
        left += next;
        rows_term(&acc, column_next(&walk, how), left, rows);
        left += next;
    }
    if (at->rest != 0) {
        rows_term(&acc, column_next(&walk, how), left, rows);
    }
    columns_finish(at, &acc, i, rows);
}

POET_INLINE void all_by_rows(const poet_product *p, int32_t j, int32_t lanes, int how)
{
    columns at = columns_at(p, j, lanes, 2);
    int32_t i = 0;
    for (; i + 6 <= p->rows; i += 6) {
        COLUMNS_STAY_IN_MEMORY(at);
        block_by_rows(&at, i, 6, how);
    }
    if (i + 4 <= p->rows) {
        block_by_rows(&at, i, 4, how);
        i += 4;
    }
    if (i + 2 <= p->rows) {
        block_by_rows(&at, i, 2, how);
        i += 2;
    }
    if (i < p->rows) {
        block_by_rows(&at, i, 1, how);
    }
}

/* Three terms of two chains, turn about, so that neither waits for itself. */
POET_INLINE void two_by_three(poet_quad *even, poet_quad *odd, poet_three f, poet_three g,
                              poet_quad v0, poet_quad v1, poet_quad v2)
{
    *even = poet_quad_fma_bits(v0, f.f0, *even);
    *odd = poet_quad_fma_bits(v0, g.f0, *odd);
    *even = poet_quad_fma_bits(v1, f.f1, *even);
    *odd = poet_quad_fma_bits(v1, g.f1, *odd);
    *even = poet_quad_fma_bits(v2, f.f2, *even);
    *odd = poet_quad_fma_bits(v2, g.f2, *odd);
}

/* Terms are neighbours in left and in right. */
POET_INLINE void block_by_terms(const columns *columns_of, int32_t i, int rows)
{
    const poet_product *p = columns_of->p;
    const float *left = p->left + i * p->left_row;
    const int32_t next = p->left_row;
    poet_rows from = {left, left + ((rows > 1) ? next : 0), left + ((rows > 2) ? 2 * next : 0),
                      left + ((rows > 2) ? 3 * next : 0)};
    poet_spread at
        = poet_spread_from(p->right + columns_of->j * p->right_row - 1, columns_of->right);
    poet_six_quads acc = columns_start(columns_of, i, rows);
    for (int32_t threes = columns_of->groups; threes > 0; threes--) {
        poet_quad v0;
        poet_quad v1;
        poet_quad v2;
        POET_SPREAD_LOAD(v0, at, 1);
        POET_SPREAD_LOAD(v1, at, 2);
        POET_SPREAD_NEXT(v2, at, 3);
        const poet_three f = poet_three_next(&from.p0, 0);
        if (rows == 1) {
            acc.r0 = poet_quad_fma_bits(v0, f.f0, acc.r0);
            acc.r0 = poet_quad_fma_bits(v1, f.f1, acc.r0);
            acc.r0 = poet_quad_fma_bits(v2, f.f2, acc.r0);
            continue;
        }
        const poet_three g = poet_three_next(&from.p1, 1);
        two_by_three(&acc.r0, &acc.r1, f, g, v0, v1, v2);
        if (rows == 4) {
            const poet_three h = poet_three_next(&from.p2, 0);
            const poet_three k = poet_three_next(&from.p3, 1);
            two_by_three(&acc.r2, &acc.r3, h, k, v0, v1, v2);
        }
    }
    for (int32_t rest = columns_of->rest; rest > 0; rest--) {
        poet_quad v;
        POET_SPREAD_NEXT(v, at, 1);
        acc.r0 = poet_quad_fma(v, *from.p0++, acc.r0);
        acc.r1 = (rows >= 2) ? poet_quad_fma(v, *from.p1++, acc.r1) : acc.r1;
        acc.r2 = (rows == 4) ? poet_quad_fma(v, *from.p2++, acc.r2) : acc.r2;
        acc.r3 = (rows == 4) ? poet_quad_fma(v, *from.p3++, acc.r3) : acc.r3;
    }
    columns_finish(columns_of, &acc, i, rows);
}

/* All rows of some columns: lanes of them from j on. */
typedef void columns_function(const poet_product *p, int32_t j, int32_t lanes);

static void columns_terms_terms(const poet_product *p, int32_t j, int32_t lanes)
{
    columns at = columns_at(p, j, lanes, 3);
    int32_t i = 0;
    for (; i + 4 <= p->rows; i += 4) {
        COLUMNS_STAY_IN_MEMORY(at);
        block_by_terms(&at, i, 4);
    }
    if (i + 2 <= p->rows) {
        block_by_terms(&at, i, 2);
        i += 2;
    }
    if (i < p->rows) {
        block_by_terms(&at, i, 1);
    }
}

static void columns_rows_terms(const poet_product *p, int32_t j, int32_t lanes)
{
    all_by_rows(p, j, lanes, TERMS_ADJACENT);
}

static void columns_rows_rows(const poet_product *p, int32_t j, int32_t lanes)
{
    all_by_rows(p, j, lanes, COLUMNS_ADJACENT);
}

static void columns_rows_any(const poet_product *p, int32_t j, int32_t lanes)
{
    all_by_rows(p, j, lanes, ANY_STEPS);
}

static void multiply_columns(const poet_product *p, columns_function *whole,
                             columns_function *part)
{
    int32_t j = 0;
    for (; j + 4 <= p->columns; j += 4) {
        whole(p, j, 4);
    }
    if (j < p->columns) {
        part(p, j, p->columns - j);
    }
}

/* The product with rows and columns exchanged where that leaves fewer lanes empty. */
static poet_product wide_product(const poet_product *p)
{
    return ((p->columns < 4) && (p->rows > p->columns)) ? transposed_from(p, 0) : *p;
}

/* 0: one or two rows whose terms are neighbours by columns that are, or no neighbours at all. */
static int multiply_vectors(const poet_product *p)
{
    if ((p->left_term == 1) && (p->right_term == 1)) {
        const poet_product wide = wide_product(p);
        multiply_columns(&wide, columns_terms_terms, columns_terms_terms);
        return 1;
    }
    if ((p->left_row == 1) && (p->right_row == 1)) {
        const poet_product wide = wide_product(p);
        multiply_columns(&wide, columns_rows_rows, columns_rows_any);
        return 1;
    }
    if ((p->left_term == 1) && (p->right_row == 1) && (p->rows > 2)) {
        const poet_product turned = transposed_from(p, 0);
        multiply_columns(&turned, columns_rows_terms, columns_rows_terms);
        return 1;
    }
    if ((p->left_row == 1) && (p->right_term == 1) && (p->columns > 2)) {
        multiply_columns(p, columns_rows_terms, columns_rows_terms);
        return 1;
    }
    return 0;
}

/* One or two rows by four columns. */
POET_INLINE void block_few_rows(const poet_product *p, int32_t i, int32_t j, int rows)
{
    const int32_t step = p->right_row;
    poet_lanes right = poet_lanes_at(p->right + j * step, 0, step, 2 * step, 3 * step);
    poet_rows left = left_rows(p, i, rows);
    poet_block acc = block_start(p, i, j, rows);
    by_terms_run(&acc, &right, &left, p->terms, p->right_term, rows, 1);
    block_finish(p, &acc, i, j, rows);
}

PRODUCT_FUNCTION(terms_rows_one, block_few_rows(p, i, j, 1))
PRODUCT_FUNCTION(terms_rows_two, block_few_rows(p, i, j, 2))
static product_set terms_rows = {terms_rows_one, terms_rows_two, 0}; /* never more rows */

#endif
