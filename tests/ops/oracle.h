/* Reads what tests/oracles/ops.py wrote: arrays by name, and comparisons with them. */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include "op_call.h"
#include <math.h>

typedef struct oracle {
    char *bytes;
    size_t n;
} oracle;

static inline oracle oracle_open(const char *name) {
    oracle o;
    char path[512];
    snprintf(path, sizeof path, "%s/ops/%s.bin", TEST_DATA, name);
    o.bytes = test_read_file(path, &o.n);
    return o;
}

static inline void oracle_close(oracle *o) {
    free(o->bytes);
}

typedef struct oracle_array {
    char name[40], dtype[8];
    int rows, columns;
    const void *data; /* not aligned */
} oracle_array;

static inline oracle_array oracle_get(const oracle *o, const char *name) {
    oracle_array a;
    for (size_t at = 0; at < o->n;) {
        int used = 0;
        ck_assert_int_eq(sscanf(o->bytes + at, "%39s %7s %d %d%n", a.name, a.dtype, &a.rows, &a.columns, &used), 4);
        size_t element = !strcmp(a.dtype, "f64") ? 8 : strstr(a.dtype, "16") ? 2 : 4;
        a.data = o->bytes + at + used + 1;
        if (!strcmp(a.name, name))
            return a;
        at += (size_t)used + 1 + element * (size_t)a.rows * (size_t)a.columns;
    }
    ck_abort_msg("no array '%s'", name);
    return a;
}

/* An array as an input of the call. */
static inline void oracle_input(op_call *c, const oracle *o, const char *name) {
    oracle_array a = oracle_get(o, name);
    sl_dtype dtype;
    size_t row_bytes;
    ck_assert_int_eq(sl_dtype_parse(a.dtype, &dtype), SL_OK);
    ck_assert_int_eq(sl_row_bytes(dtype, a.columns, &row_bytes), SL_OK);
    void *copy = op_memory(c, row_bytes * (size_t)a.rows);
    memcpy(copy, a.data, row_bytes * (size_t)a.rows);
    op_input(c, dtype, a.rows, a.columns, copy);
}

static inline double oracle_f64(const oracle_array *a, size_t i) {
    double d;
    float f;
    if (!strcmp(a->dtype, "f64")) {
        memcpy(&d, (const char *)a->data + 8 * i, sizeof d);
        return d;
    }
    memcpy(&f, (const char *)a->data + 4 * i, sizeof f);
    return (double)f;
}

/* |y - expected| <= tolerance * max(1, |expected|) for every element. */
static inline void oracle_near(const oracle *o, const char *name, const float *y, double tolerance) {
    oracle_array a = oracle_get(o, name);
    for (size_t i = 0; i < (size_t)a.rows * (size_t)a.columns; i++) {
        double e = oracle_f64(&a, i), limit = tolerance * fmax(1, fabs(e));
        ck_assert_msg(fabs((double)y[i] - e) <= limit, "%s: element %zu is %.9g, not %.9g", name, i, (double)y[i], e);
    }
}

#endif
