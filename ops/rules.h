/* What the shape and cost rules share: sentences about inputs, and sums over views. */
#ifndef SLI_RULES_H
#define SLI_RULES_H

#include "ops.h"

enum { SLI_TYPE_TEXT = 128 };

/* What an exp, tanh, erf or square root counts in a cost rule. */
#define SLI_FUNCTION_OPERATIONS 10.0

/* "[rows, 64] f32", into `text`, which is returned. */
const char *sli_type_format(const sl_type *type, char text[SLI_TYPE_TEXT]);

/* SL_INVALID: "input 1 (b) is [rows, 32] f32; expected " and the rest. */
sl_status sli_wrong_input(int i, const char *name, const sl_type *found, const char *expected, ...) SL_PRINTF(4, 5);

/* An input of [rows, columns] (any leading dimensions, one at least) of `dtype`; columns are a number above 0. */
sl_status sli_need_rows(int i, const char *name, const sl_type *type, sl_dtype dtype);

/* The same with exactly two dimensions, and `columns` of them (-1: any). */
sl_status sli_need_matrix(int i, const char *name, const sl_type *type, sl_dtype dtype, int64_t columns);

/* The same with SL_ROWS as its leading dimension, which the micro-batch's segments are about. */
sl_status sli_need_tokens(int i, const char *name, const sl_type *type, int64_t columns);

/* A weight of one row of `columns` elements in f32, f16 or bf16. */
sl_status sli_need_row_weight(int i, const char *name, const sl_type *type, bool is_weight, int64_t columns);

/* A weight [rows, columns] in f32, f16 or bf16; columns -1: any. */
sl_status sli_need_table(int i, const char *name, const sl_type *type, bool is_weight, int64_t columns);

bool sli_same_type(const sl_type *a, const sl_type *b);

/* Rows times row_bytes. */
double sli_view_bytes(const sl_view *view);
/* Rows times columns. */
double sli_view_elements(const sl_view *view);

/* A cost that reads all inputs and writes all outputs once. */
void sli_cost_of_all(const sl_call *call, double operations, sl_cost *cost);

#endif
