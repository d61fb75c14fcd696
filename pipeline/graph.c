/* The editable graph: inputs, outputs, row counts, and its first error. Weights are in weight.c, stages and ops in
 * graph_stage.c; what makes a whole graph wrong is in validate.c. */
#include "graph.h"
#include "array.h"
#include "error.h"
#include <stdarg.h>
#include <stdio.h>

sl_graph *sl_graph_create(void) {
    sl_graph *g = sl_calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->n_row_counts = 1;
    g->rows[0].name = sl_strdup("rows");
    if (!g->rows[0].name) {
        sl_graph_destroy(g);
        return NULL;
    }
    return g;
}

void sl_graph_destroy(sl_graph *g) {
    if (!g)
        return;
    for (int v = 0; v < g->n_values; v++) {
        sl_free(g->values[v].name);
        sli_weight_data_release(g->values[v].weight);
    }
    for (int o = 0; o < g->n_ops; o++)
        sl_free(g->ops[o].attributes);
    for (int s = 0; s < g->n_stages; s++) {
        sl_free(g->stages[s].name);
        sl_free(g->stages[s].ops);
    }
    for (int s = 0; s < g->n_states; s++)
        sl_free(g->states[s].name);
    for (int i = 0; i < g->n_outputs; i++)
        sl_free(g->outputs[i].name);
    for (int r = 0; r < g->n_row_counts; r++)
        sl_free(g->rows[r].name);
    void *arrays[] = {g->values, g->ops, g->stages, g->states, g->inputs, g->outputs, g->asked, g->depths};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
    sl_free(g);
}

/* ---- Errors ---- */

bool sli_graph_is_good(const sl_graph *g) {
    return g && g->status == SL_OK;
}

void sli_graph_take_error(sl_graph *g, sl_status status) {
    if (!sli_graph_is_good(g))
        return;
    g->status = status;
    snprintf(g->sentence, sizeof g->sentence, "%s", sl_last_error());
}

void sl_graph_fail(sl_graph *g, sl_status status, const char *format, ...) {
    char sentence[SLI_SENTENCE];
    if (!sli_graph_is_good(g))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    sli_graph_take_error(g, sl_fail(status == SL_OK ? SL_INVALID : status, "%s", sentence));
}

sl_status sl_graph_status(const sl_graph *g) {
    if (!g)
        return sl_fail(SL_INVALID, "there is no graph (NULL): sl_graph_create gives NULL when there is no memory");
    return g->status == SL_OK ? SL_OK : sl_fail(g->status, "%s", g->sentence);
}

/* ---- Handles and types ---- */

int sli_graph_value_index(sl_graph *g, sl_value value, const char *what) {
    if (value.id >= 1 && value.id <= g->n_values)
        return value.id - 1;
    sl_graph_fail(g, SL_INVALID,
                  "%s: %d is no value of this graph, which has 1 to %d; take the handle that a call gave", what,
                  value.id, g->n_values);
    return -1;
}

int sli_graph_stage_index(sl_graph *g, sl_stage stage, const char *what) {
    if (stage.id >= 1 && stage.id <= g->n_stages)
        return stage.id - 1;
    sl_graph_fail(g, SL_INVALID, "%s: %d is no stage of this graph, which has 1 to %d; take what sl_graph_stage gave",
                  what, stage.id, g->n_stages);
    return -1;
}

static const char *row_name(const sl_graph *g, int64_t dimension) {
    return dimension < 0 && SL_ROWS - dimension < g->n_row_counts ? g->rows[SL_ROWS - dimension].name : NULL;
}

const char *sli_graph_type_text(const sl_graph *g, const sl_type *type, char text[SLI_TYPE_TEXT]) {
    size_t n = (size_t)snprintf(text, SLI_TYPE_TEXT, "[");
    for (int d = 0; d < type->shape.rank && d < SL_MAX_RANK && n < SLI_TYPE_TEXT - 40; d++) {
        const char *name = row_name(g, type->shape.dims[d]);
        n += name ? (size_t)snprintf(text + n, SLI_TYPE_TEXT - n, "%s%.24s", d ? ", " : "", name)
                  : (size_t)snprintf(text + n, SLI_TYPE_TEXT - n, "%s%lld", d ? ", " : "",
                                     (long long)type->shape.dims[d]);
    }
    if (n < SLI_TYPE_TEXT)
        snprintf(text + n, SLI_TYPE_TEXT - n, "] %s", sl_dtype_name(type->dtype));
    return text;
}

static sl_status check_dims(const sl_graph *g, const sl_type *type, bool is_weight) {
    const sl_shape *s = &type->shape;
    if (s->rank < 1 || s->rank > SL_MAX_RANK)
        return sl_fail(SL_INVALID, "has rank %d; expected 1 to %d", s->rank, SL_MAX_RANK);
    for (int d = 0; d < s->rank; d++) {
        bool may_be_rows = d == 0 && !is_weight;
        if (s->dims[d] > 0 || (may_be_rows && row_name(g, s->dims[d])))
            continue;
        return sl_fail(SL_INVALID, "has %lld in dimension %d; expected %s", (long long)s->dims[d], d,
                       may_be_rows ? "1 or more, SL_ROWS, or a row count of sl_graph_rows" : "1 or more");
    }
    return SL_OK;
}

/* Whether a whole value of one row fits 63 bits: what is multiplied later does not wrap unnoticed. */
static sl_status check_bytes(const sl_type *type) {
    const sl_shape *s = &type->shape;
    int64_t columns = s->rank == 1 && s->dims[0] < 0 ? 1 : s->dims[s->rank - 1];
    size_t bytes;
    SL_TRY(sl_row_bytes(type->dtype, columns, &bytes));
    for (int d = 0; d + 1 < s->rank; d++)
        if (s->dims[d] > 0 && __builtin_mul_overflow(bytes, (size_t)s->dims[d], &bytes))
            bytes = SIZE_MAX;
    if (bytes > INT64_MAX)
        return sl_fail(SL_INVALID, "has more than 2^63 bytes; expected dimensions whose product fits");
    return SL_OK;
}

sl_status sli_graph_check_type(const sl_graph *g, const sl_type *type, bool is_weight) {
    const sl_dtype_info *info = sl_dtype_get(type->dtype);
    if (!info)
        return sl_fail(SL_INVALID, "has %d for a dtype; expected one of sl_dtype, 0 to %d", (int)type->dtype,
                       SL_DTYPES - 1);
    if (info->weights_only && !is_weight)
        return sl_fail(SL_INVALID, "has the type %s, which is for weights alone; expected f32, f16, bf16 or i32",
                       info->name);
    SL_TRY(check_dims(g, type, is_weight));
    return check_bytes(type);
}

/* ---- Row counts ---- */

int64_t sl_graph_rows(sl_graph *g, const char *name, uint32_t max) {
    if (!sli_graph_is_good(g))
        return 0;
    if (g->n_row_counts == SL_MAX_ROW_COUNTS) {
        sl_graph_fail(g, SL_INVALID, "row count '%s' is one too many: a graph has at most %d, SL_ROWS included",
                      name ? name : "", SL_MAX_ROW_COUNTS);
        return 0;
    }
    char *copy = sl_strdup(name ? name : "");
    if (!copy) {
        sli_graph_take_error(g, SL_OUT_OF_MEMORY);
        return 0;
    }
    g->rows[g->n_row_counts] = (sli_graph_rows){copy, max};
    return SL_ROWS - g->n_row_counts++;
}

void sl_graph_set_rows(sl_graph *g, int64_t dimension, const char *name, uint32_t max) {
    if (!sli_graph_is_good(g))
        return;
    if (!row_name(g, dimension)) {
        sl_graph_fail(g, SL_INVALID,
                      "sl_graph_set_rows: %lld is no row count; expected SL_ROWS or what sl_graph_rows gave",
                      (long long)dimension);
        return;
    }
    char *copy = sl_strdup(name ? name : "");
    if (!copy) {
        sli_graph_take_error(g, SL_OUT_OF_MEMORY);
        return;
    }
    sli_graph_rows *rows = &g->rows[SL_ROWS - dimension];
    sl_free(rows->name);
    *rows = (sli_graph_rows){copy, max};
}

/* ---- Values ---- */

int sli_graph_add_value(sl_graph *g, const sli_graph_value *value, const char *name) {
    if (!SLI_ROOM(g->values, g->n_values)) {
        sli_graph_take_error(g, SL_OUT_OF_MEMORY);
        return -1;
    }
    sli_graph_value *v = &g->values[g->n_values];
    *v = *value;
    v->name = sl_strdup(name);
    if (!v->name) {
        sli_graph_take_error(g, SL_OUT_OF_MEMORY);
        return -1;
    }
    return g->n_values++;
}

sl_value sl_graph_input(sl_graph *g, const char *name, sl_dtype dtype, int64_t rows, int64_t columns) {
    return sl_graph_input_shaped(g, name, &(sl_type){dtype, {2, {rows, columns}}});
}

static sl_status check_input(const sl_graph *g, const char *name, const sl_type *type) {
    if (!name || !*name)
        return sl_fail(SL_INVALID, "an input has no name; give it one of at least one character");
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcmp(g->values[g->inputs[i]].name, name))
            return sl_fail(SL_INVALID, "two inputs are named '%s'; give each a name of its own", name);
    sl_status status = sli_graph_check_type(g, type, false);
    if (status == SL_OK && type->shape.dims[0] > 0)
        status = sl_fail(SL_INVALID, "has %lld in dimension 0; expected SL_ROWS, or a row count of sl_graph_rows",
                         (long long)type->shape.dims[0]);
    return status == SL_OK ? SL_OK : sli_fail_within(status, "input '%s' ", name);
}

sl_value sl_graph_input_shaped(sl_graph *g, const char *name, const sl_type *type) {
    if (!sli_graph_is_good(g))
        return (sl_value){0};
    sl_status status = check_input(g, name, type);
    if (status == SL_OK && !SLI_ROOM(g->inputs, g->n_inputs))
        status = SL_OUT_OF_MEMORY;
    if (status != SL_OK) {
        sli_graph_take_error(g, status);
        return (sl_value){0};
    }
    sli_graph_value v = {.kind = SLI_VALUE_INPUT, .type = *type, .stage = -1, .op = -1, .number = g->n_inputs};
    int index = sli_graph_add_value(g, &v, name);
    if (index >= 0)
        g->inputs[g->n_inputs++] = index;
    return (sl_value){index + 1};
}

static sl_status check_output(const sl_graph *g, const char *name, const sli_graph_value *v) {
    if (!name || !*name)
        return sl_fail(SL_INVALID, "the output of '%s' has no name; give it one of at least one character", v->name);
    if (v->kind != SLI_VALUE_MADE)
        return sl_fail(SL_INVALID, "output '%s': '%s' is %s; expected what an op of a stage makes", name, v->name,
                       v->kind == SLI_VALUE_INPUT ? "an input" : "a weight");
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, name))
            return sl_fail(SL_INVALID, "two outputs are named '%s'; give each a name of its own", name);
    return SL_OK;
}

/* The value is known by the name of the first output that it is. */
static sl_status add_output(sl_graph *g, const char *name, int index) {
    sli_graph_value *v = &g->values[index];
    char *copy = sl_strdup(name), *known_as = v->is_output ? NULL : sl_strdup(name);
    if (!copy || (!known_as && !v->is_output) || !SLI_ROOM(g->outputs, g->n_outputs)) {
        sl_free(copy);
        sl_free(known_as);
        return SL_OUT_OF_MEMORY;
    }
    g->outputs[g->n_outputs++] = (sli_graph_output){copy, index};
    if (known_as) {
        sl_free(v->name);
        v->name = known_as;
    }
    v->is_output = true;
    return SL_OK;
}

void sl_graph_output(sl_graph *g, const char *name, sl_value value) {
    int index = sli_graph_is_good(g) ? sli_graph_value_index(g, value, "sl_graph_output") : -1;
    if (index < 0)
        return;
    sl_status status = check_output(g, name, &g->values[index]);
    if (status == SL_OK)
        status = add_output(g, name, index);
    if (status != SL_OK)
        sli_graph_take_error(g, status);
}

/* ---- Reading ---- */

sl_status sl_graph_value_type(const sl_graph *g, sl_value value, sl_type *type) {
    SL_TRY(sl_graph_status(g));
    if (value.id < 1 || value.id > g->n_values)
        return sl_fail(SL_INVALID, "sl_graph_value_type: %d is no value of this graph, which has 1 to %d", value.id,
                       g->n_values);
    *type = g->values[value.id - 1].type;
    return SL_OK;
}

int sl_graph_n_inputs(const sl_graph *g) {
    return g ? g->n_inputs : 0;
}

int sl_graph_n_outputs(const sl_graph *g) {
    return g ? g->n_outputs : 0;
}

int sl_graph_n_stages(const sl_graph *g) {
    return g ? g->n_stages : 0;
}

const char *sl_graph_input_name(const sl_graph *g, int i) {
    return g && i >= 0 && i < g->n_inputs ? g->values[g->inputs[i]].name : NULL;
}

const char *sl_graph_output_name(const sl_graph *g, int i) {
    return g && i >= 0 && i < g->n_outputs ? g->outputs[i].name : NULL;
}

const char *sl_graph_stage_name(const sl_graph *g, int j) {
    return g && j >= 0 && j < g->n_stages ? g->stages[j].name : NULL;
}
