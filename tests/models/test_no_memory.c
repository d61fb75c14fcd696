/* Every allocation that fails, ours and the JSON library's, in turn: an error, nothing lost, and no file left behind.
 */
#include "folder.h"
#include "support.h"
#include <jansson.h>
#include <sluice/memory.h>
#include <sluice/model.h>

static long left, live; /* allocations that still succeed; blocks that are not yet freed */

static void *count(void *memory) {
    live += memory != NULL;
    return memory;
}

static void *allocate(size_t bytes, void *user) {
    (void)user;
    return left-- > 0 ? count(malloc(bytes)) : NULL;
}

static void *reallocate(void *memory, size_t bytes, void *user) {
    (void)user;
    if (left-- <= 0)
        return NULL;
    live += !memory;
    return realloc(memory, bytes);
}

static void release(void *memory, void *user) {
    (void)user;
    live -= memory != NULL;
    free(memory);
}

static void *json_allocate(size_t bytes) {
    return allocate(bytes, NULL);
}

static void json_release(void *memory) {
    release(memory, NULL);
}

/* Runs `action` with the first, the second, ... allocation failing until it succeeds. */
static void sweep(const char *what, sl_status (*action)(const char *path), const char *path) {
    json_object_seed(1);
    sl_set_allocator(&(sl_allocator){allocate, reallocate, release, NULL});
    json_set_alloc_funcs(json_allocate, json_release);
    sl_status status = SL_OUT_OF_MEMORY;
    long n = 0;
    for (; status != SL_OK; n++) {
        left = n;
        live = 0;
        status = action(path);
        ck_assert_msg(live == 0, "%s: %ld blocks are lost when allocation %ld fails", what, live, n);
        ck_assert_msg(status == SL_OK || *sl_last_error(), "%s: no sentence", what);
    }
    ck_assert_msg(n > 3, "%s: only %ld allocations", what, n);
    sl_set_allocator(NULL);
    json_set_alloc_funcs(malloc, free);
}

static const sl_synth_options shape = {"llama", 2, 16, 24, 2, 1, 32, 8, SL_F16, 1};

static sl_status make(const char *path) {
    return sl_model_synth(path, &shape);
}

static sl_status open_and_build(const char *path) {
    static const sl_device devices[2] = {{SL_CPU, 0}, {SL_CPU, 1}};
    sl_model *model;
    SL_TRY(sl_model_open(path, &model));
    sl_graph *graph = sl_model_graph(model, &(sl_model_graph_options){.layer_devices = devices, .logits = true});
    sl_status status = graph ? sl_graph_status(graph) : SL_OUT_OF_MEMORY;
    sl_graph_destroy(graph);
    sl_model_release(model);
    return status;
}

static sl_status place(const char *path) {
    static const sl_device devices[1] = {{SL_CPU, 0}};
    sl_device placed[2];
    sl_model *model;
    SL_TRY(sl_model_open(path, &model));
    sl_status status = sl_model_place(model, 1, devices, NULL, "layers.1=cpu:0", placed);
    sl_model_release(model);
    return status;
}

static sl_status open_vocab(const char *path) {
    sl_vocab *vocab;
    SL_TRY(sl_vocab_open(path, &vocab));
    sl_vocab_close(vocab);
    return SL_OK;
}

START_TEST(models_survive_each_failing_allocation) {
    folder f = folder_make();
    ck_assert_int_eq(sl_devices_find(), SL_OK);
    sweep("synth", make, f.path);
    sweep("open", open_and_build, f.path);
    sweep("place", place, f.path);
    folder_remove(&f);
}
END_TEST

START_TEST(an_index_survives_each_failing_allocation) {
    folder f = folder_make();
    char from[600], to[600];
    ck_assert_int_eq(make(f.path), SL_OK);
    snprintf(from, sizeof from, "%s/model.safetensors", f.path);
    snprintf(to, sizeof to, "%s/one.safetensors", f.path);
    ck_assert_int_eq(rename(from, to), 0);
    folder_write_text(&f, "model.safetensors.index.json",
                      "{\"weight_map\":{\"model.norm.weight\":\"one.safetensors\"}}");
    sweep("index", open_and_build, f.path);
    folder_remove(&f);
}
END_TEST

START_TEST(vocabularies_survive_each_failing_allocation) {
    folder f = folder_make();
    folder_write_text(&f, "tokenizer.json",
                      "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"\\u2581c\":2}},\"added_tokens\":[{\"id\":5,"
                      "\"content\":\"<s>\",\"special\":true}],\"decoder\":{\"type\":\"Metaspace\"}}");
    folder_write(&f, "tok.bin", "\1\0\0\0\0\0\0\0\1\0\0\0a\0\0\0\0\1\0\0\0b", 22);
    sweep("tokenizer.json", open_vocab, f.path);
    sweep("tok.bin", open_vocab, folder_file(&f, "tok.bin"));
    folder_remove(&f);
}
END_TEST

int main(void) {
    const test_case cases[] = {
        TEST(models_survive_each_failing_allocation),
        TEST(an_index_survives_each_failing_allocation),
        TEST(vocabularies_survive_each_failing_allocation),
    };
    return test_main("no_memory", cases, sizeof cases / sizeof *cases);
}
