/* Printed plans: what a person and a program find in them. */
#include "plans.h"
#include "text.h"
#include <jansson.h>

static const float data[1024];

static sl_plan *plan_of_all(const char *middle, sl_plan_options options) {
    sl_graph *g = sl_graph_create();
    sl_value x = sl_graph_input(g, "x", SL_F32, SL_ROWS, 16);
    sl_value w = sl_graph_weight_source(g, "w", SL_F32, 2, (int64_t[]){16, 16}, &(sl_source){.memory = data});
    sl_stage a = sl_graph_stage(g, "front", "sim:0"), b = sl_graph_stage(g, middle, "sim:1");
    sl_stage c = sl_graph_stage(g, "back", "sim:2"), d = sl_graph_stage(g, "tail", "sim:2");
    sl_graph_stage_time(g, a, 100, 2.5);
    sl_value h = join(g, a, 2, (sl_value[]){x, w}), m = join(g, b, 1, &h), n = join(g, c, 2, (sl_value[]){m, h});
    sl_graph_output(g, "y", sl_graph_op1(g, d, &place_op, NULL, 1, &n, 0, NULL));
    sl_plan *p = must_compile(g, &options, NULL);
    sl_graph_destroy(g);
    return p;
}

static char *print(const sl_plan *p, sl_plan_format format) {
    char *text;
    ck_assert_int_eq(sl_plan_format_as(p, format, &text), SL_OK);
    return text;
}

static void has(const char *text, const char *part) {
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in:\n%s", part, text);
}

START_TEST(text_tells_devices_edges_slots_and_the_step) {
    sl_plan *p = plan_of_all("middle", (sl_plan_options){.micro_batch_rows = 4});
    char *text = print(p, SL_PLAN_TEXT);
    has(text, "plan: 4 stages on 3 devices, 4 edges between stages, 9 lanes\n");
    has(text, "micro-batches of at most 4 rows, 4 segments\n");
    has(text, "front             sim:0     join; weights 1024 bytes, state 0 bytes; takes 100 ns and 2.5 ns a row\n");
    has(text, "x                 host -> sim:0     host; at its reader: 2 x 256 bytes (the default)\n");
    has(text,
        "front.join        sim:0 -> sim:2    peer; at its maker: 2 x 256 bytes (the default); at its reader: 4 x 256 "
        "bytes (one for each stage and each copy on the longest way round)\n");
    has(text, "back.join         sim:2 -> sim:2    alias; slots: 2 x 256 bytes (the default)\n");
    has(text, "copies sim:0 -> sim:1");
    has(text, "front(k)                        after x: host -> sim:0(k)");
    has(text, "x: host -> sim:0(k)             after front(k-2)\n");
    has(text, "more are left out, since others imply them");
    has(text, "at most 12 micro-batches are under way");
    has(text, "sim:0               1024");
    sl_free(text);
    sl_plan_destroy(p);
}
END_TEST

START_TEST(text_tells_pieces_windows_and_rings) {
    sl_plan *p = plan_of_all(
        "middle", (sl_plan_options){
                      .micro_batch_rows = 4, .route = SL_ROUTE_STAGED, .staging_bytes = 64, .window = 2, .groups = 3});
    char *text = print(p, SL_PLAN_TEXT);
    has(text, "staged in 4 pieces");
    has(text, "pinned: 2 x 64 bytes (one for each half of the way)");
    has(text, "window front -> tail: 2 tokens\n");
    has(text, "a ring of 3 groups");
    has(text, "pinned host memory for staged copies: 384 bytes");
    sl_free(text);
    sl_plan_destroy(p);
}
END_TEST

static json_t *at(json_t *object, const char *name, size_t i) {
    json_t *found = json_array_get(json_object_get(object, name), i);
    ck_assert_msg(found != NULL, "no %s[%zu]", name, i);
    return found;
}

static long long number(json_t *object, const char *name) {
    ck_assert_msg(json_is_integer(json_object_get(object, name)), "no number '%s'", name);
    return json_integer_value(json_object_get(object, name));
}

static const char *string(json_t *object, const char *name) {
    ck_assert_msg(json_is_string(json_object_get(object, name)), "no string '%s'", name);
    return json_string_value(json_object_get(object, name));
}

START_TEST(json_holds_what_the_plan_does) {
    sl_plan *p = plan_of_all("odd \"\\\t\x01 \xff\xc3\xa9 name", (sl_plan_options){.micro_batch_rows = 4});
    char *text = print(p, SL_PLAN_JSON);
    json_error_t error;
    json_t *j = json_loads(text, 0, &error);
    ck_assert_msg(j != NULL, "%s: %s", error.text, text);
    ck_assert_str_eq(string(j, "kind"), "sim");
    ck_assert_int_eq(number(j, "credits"), p->credits);
    ck_assert_int_eq(number(j, "waits"), p->n_waits);
    ck_assert_int_eq(number(json_object_get(j, "options"), "depth"), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "devices")), 3);
    ck_assert_int_eq(number(at(j, "devices", 0), "weights"), 1024);
    ck_assert_int_eq(number(at(j, "devices", 0), "peak"), (long long)p->devices[0].memory.peak);
    ck_assert_str_eq(string(at(j, "stages", 1), "name"), "odd \"\\\t\x01 \xef\xbf\xbd\xc3\xa9 name");
    ck_assert_int_eq(number(at(j, "stages", 0), "fixed_ns"), 100);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "buffers")), (size_t)p->n_buffers);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "edges")), (size_t)p->n_edges);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "step")), (size_t)p->n_payloads);
    size_t waits = 0;
    for (int i = 0; i < p->n_payloads; i++)
        waits += json_array_size(json_object_get(at(j, "step", (size_t)i), "waits"));
    ck_assert_uint_eq(waits, (size_t)p->n_waits);
    json_decref(j);
    sl_free(text);
    sl_plan_destroy(p);
}
END_TEST

START_TEST(dot_draws_devices_stages_and_arrows) {
    sl_plan *p = plan_of_all("mid\"dle", (sl_plan_options){.micro_batch_rows = 4});
    char *text = print(p, SL_PLAN_DOT);
    ck_assert_int_eq(strncmp(text, "digraph plan {\n", 15), 0);
    has(text, "subgraph cluster_2 {");
    has(text, "stage_1 [label=\"mid\\\"dle\"];");
    has(text, "host -> stage_0 [label=\"x\"");
    has(text,
        "stage_0 -> stage_2 [label=\"front.join\", tooltip=\"peer, 2 slots at the maker, 4 at the reader: one for");
    has(text, "stage_2 -> stage_3 [label=\"back.join\", tooltip=\"alias, 2 slots at the maker\"];");
    has(text, "stage_3 -> host_out [label=\"y\"");
    int depth = 0;
    for (const char *c = text; *c; c++)
        depth += (*c == '{') - (*c == '}');
    ck_assert_int_eq(depth, 0);
    sl_free(text);
    sl_plan_destroy(p);
}
END_TEST

START_TEST(an_unknown_format_is_refused) {
    sl_plan *p = plan_of_all("middle", (sl_plan_options){.depth = 1});
    char *text = (char *)p;
    ck_assert_int_eq(sl_plan_format_as(p, (sl_plan_format)9, &text), SL_INVALID);
    ck_assert_ptr_null(text);
    sl_plan_destroy(p);
}
END_TEST

START_TEST(figures_are_those_of_the_plan) {
    sl_plan *p = plan_of_all("middle", (sl_plan_options){.depth = 1});
    sl_plan_figures f;
    sl_plan_get_figures(p, &f);
    ck_assert_int_eq(f.n_stages, 4);
    ck_assert_int_eq(f.n_edges, 4);
    ck_assert_int_eq(f.n_lanes, 9);
    ck_assert_int_eq(f.n_actions, (int)p->n_program);
    ck_assert_int_eq(f.n_waits, p->n_waits);
    ck_assert_int_eq(f.n_waits_implied, p->n_implied);
    ck_assert_uint_eq(f.credits, p->credits);
    ck_assert_int_eq(sl_plan_n_devices(p), 3);
    sl_plan_destroy(p);
}
END_TEST

/* Quoted strings against jansson's reading of them: random bytes. */
START_TEST(any_bytes_are_quoted_as_json) {
    uint64_t seed = test_seed();
    for (int i = 0; i < test_cases(3000); i++) {
        char bytes[24];
        size_t n = (size_t)test_below(&seed, 23);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)(1 + (test_below(&seed, 2) ? test_below(&seed, 255) : 0xbe + test_below(&seed, 0x36)));
        bytes[n] = '\0';
        sli_text t = {0};
        sli_text_quote(&t, bytes);
        char *quoted;
        ck_assert_int_eq(sli_text_take(&t, &quoted), SL_OK);
        json_t *as_given = json_string(bytes), *read = json_loads(quoted, JSON_DECODE_ANY, NULL);
        ck_assert_msg(read != NULL, "%s", quoted);
        ck_assert_int_eq(as_given != NULL, strstr(quoted, "\\ufffd") == NULL); /* jansson takes UTF-8 alone */
        if (as_given)
            ck_assert_str_eq(json_string_value(read), bytes);
        json_decref(as_given);
        json_decref(read);
        sl_free(quoted);
    }
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(text_tells_devices_edges_slots_and_the_step),
        TEST(text_tells_pieces_windows_and_rings),
        TEST(json_holds_what_the_plan_does),
        TEST(dot_draws_devices_stages_and_arrows),
        TEST(an_unknown_format_is_refused),
        TEST(figures_are_those_of_the_plan),
        TEST(any_bytes_are_quoted_as_json),
    };
    return test_main("plan_print", cases, sizeof cases / sizeof *cases);
}
