/* Fully connected layer, forward and the gradients of input and weights: three matrix products
 * out[i, j] = start[j] + sum over r of left[i, r] * right[j, r], by blocks of 4 x 4 outputs.
 */
#include "blocks.h"
#include "poet/kernels.h"

/* Steps in floats. left is POET_X, right is POET_W. */
typedef struct {
    int32_t rows, columns, terms;   /* i, j, r */
    int32_t left_row, left_term;    /* step of left per i, per r */
    int32_t right_row, right_term;  /* step of right per j, per r */
    int32_t out_row, out_column;    /* step of out per i, per j */
    int32_t start_row, start_column; /* step of start per i, per j; 0 or 1 */
    const float *left, *right, *start; /* start may be NULL: 0 */
    float *out;
} product;

POET_INLINE float start_at(const product *p, int32_t i, int32_t j)
{
    return (p->start != 0) ? p->start[i * p->start_row + j * p->start_column] : 0.0F;
}

POET_INLINE poet_quad start_of_four(const product *p, int32_t i, int32_t j)
{
    if ((p->start != 0) && (p->start_column == 1)) {
        return poet_quad_read(p->start + j, 1);
    }
    return poet_quad_of(start_at(p, i, j));
}

/* rows (1, 2, 4) of left by four of right; the four are the lanes. */
POET_INLINE void product_block(const product *p, const poet_sum *sum, int32_t i, int32_t j,
                               int rows, int lanes_adjacent, int unit)
{
    const poet_block_kind kind = {.lane_operand = POET_W,
                                  .rows = rows,
                                  .lanes_adjacent = lanes_adjacent,
                                  .rows_adjacent = 0,
                                  .x_tap = unit,
                                  .taps = 0};
    const int32_t step = p->right_row;
    const float *left = p->left + i * p->left_row;
    const int32_t next = p->left_row;
    const poet_lanes lanes = poet_lanes_at(p->right + j * step, 0, step, 2 * step, 3 * step);
    const int32_t second = (rows > 1) ? next : 0; /* rows past the block read the first again */
    const int32_t third = (rows > 2) ? 2 * next : 0;
    const int32_t fourth = (rows > 2) ? 3 * next : 0;
    const poet_rows from = {left, left + second, left + third, left + fourth};
    poet_block acc;
    acc.r0 = start_of_four(p, i, j);
    acc.r1 = (rows > 1) ? start_of_four(p, i + 1, j) : acc.r0;
    acc.r2 = (rows > 2) ? start_of_four(p, i + 2, j) : acc.r0;
    acc.r3 = (rows > 2) ? start_of_four(p, i + 3, j) : acc.r0;
    poet_block_run(&acc, sum, lanes, from, kind);
    float *out = p->out + i * p->out_row + j * p->out_column;
    const int32_t c = p->out_column;
    poet_quad_store(acc.r0, out, out + c, out + 2 * c, out + 3 * c);
    if (rows >= 2) {
        out += p->out_row;
        poet_quad_store(acc.r1, out, out + c, out + 2 * c, out + 3 * c);
    }
    if (rows == 4) {
        out += p->out_row;
        poet_quad_store(acc.r2, out, out + c, out + 2 * c, out + 3 * c);
        out += p->out_row;
        poet_quad_store(acc.r3, out, out + c, out + 2 * c, out + 3 * c);
    }
}

typedef void product_function(const product *p, const poet_sum *sum, int32_t i, int32_t j);

#define PRODUCT_FUNCTION(name, rows, adjacent, unit)                                             \
    static void name(const product *p, const poet_sum *sum, int32_t i, int32_t j)                \
    {                                                                                            \
        product_block(p, sum, i, j, (rows), (adjacent), (unit));                                 \
    }
#if POET_SOFT_FLOAT
PRODUCT_FUNCTION(product_small, 1, 0, 0)
static product_function *const product_any[3] = {product_small, 0, 0};
#define product_unit product_any
#define product_adjacent product_any
#else
#define PRODUCT_SET(name, adjacent, unit)                                                        \
    PRODUCT_FUNCTION(name##_one, 1, (adjacent), (unit))                                          \
    PRODUCT_FUNCTION(name##_two, 2, (adjacent), (unit))                                          \
    PRODUCT_FUNCTION(name##_four, 4, (adjacent), (unit))                                         \
    static product_function *const name[3] = {name##_one, name##_two, name##_four};

PRODUCT_SET(product_any, 0, 0)      /* any steps */
PRODUCT_SET(product_unit, 0, 1)     /* terms are neighbours in both operands */
PRODUCT_SET(product_adjacent, 1, 0) /* the rows of right are neighbours */
#endif

static poet_sum sum_of(const product *p)
{
    poet_sum sum = {.channels = 1, .rows = 1, .taps = p->terms};
    sum.of[POET_X].tap = p->left_term;
    sum.of[POET_W].tap = p->right_term;
    poet_sum_finish(&sum, 0, 0);
    return sum;
}

/* All rows of the columns that make whole fours; the number of those columns. */
static int32_t multiply_fours(const product *p)
{
    const poet_sum sum = sum_of(p);
    product_function *const *blocks = product_any;
    if ((p->left_term == 1) && (p->right_term == 1)) {
        blocks = product_unit;
    } else if (p->right_row == 1) {
        blocks = product_adjacent;
    }
    int32_t j = 0;
    for (; j + 4 <= p->columns; j += 4) {
        for (int32_t i = 0; i < p->rows;) {
            const int32_t left = p->rows - i;
            const int32_t done = (POET_SOFT_FLOAT || (left < 2)) ? 1 : (left < 4) ? 2 : 4;
            blocks[done / 2](p, &sum, i, j);
            i += done;
        }
    }
    return j;
}

/* The columns from first on, as the rows of the transposed product. */
static product transposed_from(const product *p, int32_t first)
{
    const product t = {.rows = p->columns - first,
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

/* One term: an outer product, whose cost is its stores. out_column must be 1. */
static void multiply_one_term(const product *p)
{
    for (int32_t i = 0; i < p->rows; i++) {
        const float factor = p->left[i * p->left_row];
        const float *right = p->right;
        float *out = p->out + i * p->out_row;
        int32_t left = p->columns;
        for (; left >= 4; left -= 4) {
            out[0] = POET_FMA(factor, right[0], 0.0F);
            out[1] = POET_FMA(factor, right[1], 0.0F);
            out[2] = POET_FMA(factor, right[2], 0.0F);
            out[3] = POET_FMA(factor, right[3], 0.0F);
            right += 4;
            out += 4;
        }
        for (; left > 0; left--) {
            *out++ = POET_FMA(factor, *right++, 0.0F);
        }
    }
}

static void multiply(const product *p)
{
    const int32_t done = multiply_fours(p);
    if (done == p->columns) {
        return;
    }
    const product rest = transposed_from(p, done);
    const poet_sum sum = sum_of(&rest);
    for (int32_t j = multiply_fours(&rest); j < rest.columns; j++) {
        for (int32_t i = 0; i < rest.rows; i++) {
            rest.out[i * rest.out_row + j * rest.out_column]
                = poet_single_run(start_at(&rest, i, j), &sum, rest.left + i * rest.left_row,
                                  rest.right + j * rest.right_row);
        }
    }
}

void poet_dense_fwd_f32(const poet_dense_shape *shape, const float *x, const float *w,
                        const float *b, float *y)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    const product p = {.rows = s->n,
                       .columns = s->m,
                       .terms = s->k,
                       .left_row = s->k,
                       .left_term = 1,
                       .right_row = (by_output != 0) ? s->k : 1,
                       .right_term = (by_output != 0) ? 1 : s->m,
                       .out_row = s->m,
                       .out_column = 1,
                       .start_row = 0,
                       .start_column = 1,
                       .left = x,
                       .right = w,
                       .start = b,
                       .out = y};
    multiply(&p);
}

void poet_dense_bwd_x_f32(const poet_dense_shape *shape, const float *dy, const float *w,
                          float *dx)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    const product p = {.rows = s->n,
                       .columns = s->k,
                       .terms = s->m,
                       .left_row = s->m,
                       .left_term = 1,
                       .right_row = (by_output != 0) ? 1 : s->m,
                       .right_term = (by_output != 0) ? s->k : 1,
                       .out_row = s->k,
                       .out_column = 1,
                       .left = dy,
                       .right = w,
                       .start = 0,
                       .out = dx};
    multiply(&p);
}

void poet_dense_bwd_w_f32(const poet_dense_shape *shape, const float *x, const float *dy,
                          float *dw)
{
    const poet_dense_shape *s = shape;
    const int by_output = (s->w_rows_are_outputs != 0);
    const product p = {.rows = s->m,
                       .columns = s->k,
                       .terms = s->n,
                       .left_row = 1,
                       .left_term = s->m,
                       .right_row = 1,
                       .right_term = s->k,
                       .out_row = (by_output != 0) ? s->k : 1,
                       .out_column = (by_output != 0) ? 1 : s->m,
                       .left = dy,
                       .right = x,
                       .start = 0,
                       .out = dw};
    if (s->n > 1) {
        multiply(&p);
    } else if (by_output != 0) {
        multiply_one_term(&p);
    } else {
        const product transposed = transposed_from(&p, 0);
        multiply_one_term(&transposed);
    }
}
