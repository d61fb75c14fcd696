/* A clock is a table of pages of values; clocks and pages are counted references, copied when one of several owners
 * changes them. In a pipeline a lane's knowledge of what is upstream is its neighbour's, page for page. */
#include "san_clock.h"
#include <string.h>

enum { LANES_A_PAGE = 64, PAGES = SLI_MAX_LANES / LANES_A_PAGE };

typedef struct page {
    uint32_t owners;
    uint64_t values[LANES_A_PAGE];
} page;

struct sli_clock {
    uint32_t owners;
    int n_pages;
    page *pages[]; /* NULL: zeros */
};

static sli_clock *make_clock(int n_pages) {
    sli_clock *c = sl_calloc(1, sizeof *c + (size_t)n_pages * sizeof *c->pages);
    if (c) {
        c->owners = 1;
        c->n_pages = n_pages;
    }
    return c;
}

sli_clock *sli_clock_create(void) {
    return make_clock(0);
}

sli_clock *sli_clock_retain(sli_clock *clock) {
    clock->owners++;
    return clock;
}

static void release_page(page *p) {
    if (p && --p->owners == 0)
        sl_free(p);
}

void sli_clock_release(sli_clock *clock) {
    if (!clock || --clock->owners)
        return;
    for (int i = 0; i < clock->n_pages; i++)
        release_page(clock->pages[i]);
    sl_free(clock);
}

uint64_t sli_clock_get(const sli_clock *clock, int lane) {
    int i = lane / LANES_A_PAGE;
    return i < clock->n_pages && clock->pages[i] ? clock->pages[i]->values[lane % LANES_A_PAGE] : 0;
}

/* The owner's clock alone, with at least n_pages. */
static bool own_clock(sli_clock **clock, int n_pages) {
    sli_clock *old = *clock;
    if (old->owners == 1 && old->n_pages >= n_pages)
        return true;
    sli_clock *c = make_clock(n_pages > old->n_pages ? n_pages : old->n_pages);
    if (!c)
        return false;
    for (int i = 0; i < old->n_pages; i++)
        if ((c->pages[i] = old->pages[i]))
            c->pages[i]->owners++;
    sli_clock_release(old);
    *clock = c;
    return true;
}

static bool own_page(page **at) {
    page *old = *at;
    if (old && old->owners == 1)
        return true;
    page *p = sl_calloc(1, sizeof *p);
    if (!p)
        return false;
    if (old)
        memcpy(p->values, old->values, sizeof p->values);
    p->owners = 1;
    release_page(old);
    *at = p;
    return true;
}

bool sli_clock_raise(sli_clock **clock, int lane, uint64_t value) {
    int i = lane / LANES_A_PAGE;
    if (sli_clock_get(*clock, lane) >= value)
        return true;
    if (!own_clock(clock, i + 1) || !own_page(&(*clock)->pages[i]))
        return false;
    (*clock)->pages[i]->values[lane % LANES_A_PAGE] = value;
    return true;
}

/* Whether a knows all that b knows. */
static bool covers(const page *a, const page *b) {
    bool all = true;
    for (int k = 0; k < LANES_A_PAGE; k++)
        all &= a->values[k] >= b->values[k];
    return all;
}

static bool join_page(page **mine, page *theirs) {
    if (*mine && covers(*mine, theirs))
        return true;
    if (!*mine || covers(theirs, *mine)) { /* share it */
        release_page(*mine);
        theirs->owners++;
        *mine = theirs;
        return true;
    }
    if (!own_page(mine))
        return false;
    for (int k = 0; k < LANES_A_PAGE; k++)
        if (theirs->values[k] > (*mine)->values[k])
            (*mine)->values[k] = theirs->values[k];
    return true;
}

bool sli_clock_join(sli_clock **clock, const sli_clock *other) {
    if (*clock == other)
        return true;
    if (!own_clock(clock, other->n_pages))
        return false;
    for (int i = 0; i < other->n_pages; i++)
        if (other->pages[i] && other->pages[i] != (*clock)->pages[i] &&
            !join_page(&(*clock)->pages[i], other->pages[i]))
            return false;
    return true;
}
