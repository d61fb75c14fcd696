/* Plans of chains, skips, rings and shared devices: the times that come out of them, replayed. */
#include "plans.h"

/* Stages and hops by number; copies from and to the host take no time. */
typedef struct times {
    const uint64_t *stage, *hop; /* [stages], [stages - 1]; a hop is that of its maker */
    uint64_t output;             /* of copies to the host */
} times;

static uint64_t take(const sl_plan *p, int payload, const void *user) {
    const times *t = user;
    const sli_payload *at = &p->payloads[payload];
    if (at->kind == SLI_EXECUTE)
        return t->stage[at->stage];
    if (at->operands[0].buffer < 0)
        return 0;
    if (at->operands[1].buffer < 0)
        return t->output;
    return t->hop[atoi(at->name + 1)]; /* "s2.join: ..." */
}

static int numbers(const char *text, uint64_t *out) {
    int n = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        out[n++] = strtoull(at, NULL, 10);
    return n;
}

static void give_depths(chain *c, const uint64_t *depth) {
    char device[SL_DEVICE_TEXT];
    for (int j = 0; j + 1 < c->n; j++) {
        snprintf(device, sizeof device, "sim:%d", j + 1);
        sl_graph_source_depth(c->g, c->values[j], (int)depth[j]);
        sl_graph_edge_depth(c->g, c->values[j], device, (int)depth[j]);
    }
}

START_TEST(forward_goldens_hold_to_the_last_digit) {
    char line[1024], stage[128], hop[128], slots[128];
    int n, rows = 0;
    unsigned long long m, window, expected;
    FILE *f = fopen(TEST_DATA "/forward_buffers.tsv", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        uint64_t t[16], x[16], depth[16];
        chain c;
        if (sscanf(line, "%d %llu %127s %127s %127s %llu %llu", &n, &m, stage, hop, slots, &window, &expected) != 7)
            continue;
        numbers(stage, t);
        numbers(hop, x);
        numbers(slots, depth);
        make_chain(&c, n, NULL);
        give_depths(&c, depth);
        end_chain(&c);
        sl_plan *p = must_compile(c.g, &(sl_plan_options){.window = (uint32_t)window}, NULL);
        ck_assert_msg(replay_ns(p, (int64_t)m, take, &(times){t, x, 0}) == expected, "row %d: %s", rows, line);
        sl_plan_destroy(p);
        sl_graph_destroy(c.g);
        rows++;
    }
    fclose(f);
    ck_assert_int_eq(rows, 60);
}
END_TEST

int main(void) {
    const test_case cases[] = {TEST(forward_goldens_hold_to_the_last_digit)};
    return test_main("plan", cases, sizeof cases / sizeof *cases);
}
