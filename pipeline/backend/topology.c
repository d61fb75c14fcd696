/* Reads topologies. Every key is checked: an unknown one is refused by name, a wrong one with what was expected. What a
 * topology means for time is the simulator's business. */
#include "topology.h"
#include "error.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 65536, ANY_END = -2, PATH = 96 };

typedef struct device_entry {
    uint64_t index;
    sli_sim_device device;
} device_entry;

typedef struct link_entry {
    int from, to; /* a device, SLI_HOST or ANY_END */
    bool both_ways;
    sli_sim_link link;
} link_entry;

struct sli_topology {
    uint64_t count;
    sli_sim_device device; /* of those that have no entry */
    sli_sim_link link;
    size_t n_devices, n_links;
    device_entry *devices;
    link_entry *links; /* a later one counts more */
};

/* ---- Keys ---- */

typedef enum key_kind { KEY_COUNT, KEY_AMOUNT, KEY_RATE, KEY_NAME, KEY_YES, KEY_END_OF_LINK, KEY_NESTED } key_kind;

typedef struct key {
    const char *name;
    key_kind kind;
    size_t offset; /* of the field that it fills */
} key;

typedef struct reader {
    const char *source; /* "simulator topology 'x.json'" */
    sl_status bad;
} reader;

static const char *expected(key_kind kind) {
    switch (kind) {
    case KEY_COUNT:
        return "a whole number from 0 to 65536";
    case KEY_AMOUNT:
        return "a whole number from 0 to 2^53";
    case KEY_RATE:
        return "a finite number of 0 or more";
    case KEY_NAME:
        return "a string of at most 95 bytes";
    case KEY_YES:
        return "true or false";
    case KEY_END_OF_LINK:
        return "a device's number or \"host\"";
    default:
        return "an object or a list";
    }
}

typedef struct excerpt { /* the beginning of a long text */
    char text[48];
    size_t used;
} excerpt;

static int add_to_excerpt(const char *chunk, size_t bytes, void *user) {
    excerpt *e = user;
    size_t room = sizeof e->text - 1 - e->used;
    memcpy(e->text + e->used, chunk, bytes < room ? bytes : room);
    e->used += bytes < room ? bytes : room;
    if (bytes > room)
        memcpy(e->text + sizeof e->text - 4, "...", 3);
    return 0;
}

static sl_status refuse(const reader *r, const char *path, const char *name, const json_t *found, const char *wanted) {
    excerpt e = {.used = 0};
    json_dump_callback(found, add_to_excerpt, &e, JSON_ENCODE_ANY | JSON_COMPACT);
    return sl_fail(r->bad, "%s: %s%s is %s; expected %s", r->source, path, name, e.text, wanted);
}

static bool read_number(const json_t *json, double most, bool whole, double *value) {
    if (!json_is_number(json))
        return false;
    *value = json_number_value(json);
    return *value >= 0 && *value <= most && (!whole || *value == floor(*value));
}

static bool read_value(const json_t *json, key_kind kind, void *field) {
    double number;
    switch (kind) {
    case KEY_COUNT:
    case KEY_AMOUNT:
        if (!read_number(json, kind == KEY_COUNT ? MAX_DEVICES : 0x1p53, true, &number))
            return false;
        *(uint64_t *)field = (uint64_t)number;
        return true;
    case KEY_RATE:
        return read_number(json, 1e300, false, field);
    case KEY_NAME:
        if (!json_is_string(json) || json_string_length(json) >= sizeof((sli_sim_device *)0)->name)
            return false;
        strcpy(field, json_string_value(json));
        return true;
    case KEY_YES:
        *(bool *)field = json_is_true(json);
        return json_is_boolean(json);
    case KEY_END_OF_LINK:
        if (json_is_string(json) && strcmp(json_string_value(json), "host") == 0)
            *(int *)field = SLI_HOST;
        else if (json_is_integer(json) && read_number(json, MAX_DEVICES - 1, true, &number))
            *(int *)field = (int)number;
        else
            return false;
        return true;
    default:
        return true; /* read by whoever reads the object */
    }
}

static sl_status refuse_key(const reader *r, const char *path, const char *name, const key *keys, int n_keys) {
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < n_keys && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", keys[i].name);
    return sl_fail(r->bad, "%s: %s%.64s is no key; expected one of %s", r->source, path, name, known);
}

/* Fills the fields of `object` from the members of `json`. */
static sl_status read_object(const reader *r, const char *path, json_t *json, const key *keys, int n_keys,
                             void *object) {
    const char *name;
    json_t *value;
    if (!json_is_object(json)) {
        char whole[PATH] = "the topology";
        if (*path)
            snprintf(whole, sizeof whole, "%.*s", (int)strlen(path) - 1, path); /* without its dot */
        return refuse(r, whole, "", json, "an object");
    }
    json_object_foreach(json, name, value) {
        int i = 0;
        while (i < n_keys && strcmp(keys[i].name, name) != 0)
            i++;
        if (i == n_keys)
            return refuse_key(r, path, name, keys, n_keys);
        if (!read_value(value, keys[i].kind, (char *)object + keys[i].offset))
            return refuse(r, path, name, value, expected(keys[i].kind));
    }
    return SL_OK;
}

/* ---- The two sections ---- */

#define N(keys) ((int)(sizeof(keys) / sizeof *(keys)))

/* The list `each` of a section, NULL if there is none, and room for its entries. */
static sl_status open_list(const reader *r, const char *path, json_t *section, size_t entry_bytes, json_t **list,
                           void **entries) {
    *list = json_object_get(section, "each");
    if (!*list)
        return SL_OK;
    if (!json_is_array(*list))
        return refuse(r, path, "each", *list, "a list");
    *entries = sl_calloc(json_array_size(*list), entry_bytes);
    return *entries ? SL_OK : SL_OUT_OF_MEMORY;
}

static sl_status check_index(const reader *r, const sli_topology *t, const char *path, const char *name,
                             int64_t index) {
    if (t->count && index >= (int64_t)t->count)
        return sl_fail(r->bad, "%s: %s%s is %lld, but devices.count is %llu; expected 0 to %llu", r->source, path, name,
                       (long long)index, (unsigned long long)t->count, (unsigned long long)t->count - 1);
    return SL_OK;
}

static sl_status read_device(const reader *r, sli_topology *t, json_t *json, device_entry *entry) {
    static const key keys[] = {
        {"index", KEY_COUNT, offsetof(device_entry, index)},
        {"name", KEY_NAME, offsetof(device_entry, device.name)},
        {"memory_bytes", KEY_AMOUNT, offsetof(device_entry, device.memory_bytes)},
        {"operations_per_s", KEY_RATE, offsetof(device_entry, device.operations_per_s)},
    };
    char path[PATH];
    snprintf(path, sizeof path, "devices.each[%zu].", t->n_devices);
    *entry = (device_entry){.index = MAX_DEVICES, .device = t->device};
    SL_TRY(read_object(r, path, json, keys, N(keys), entry));
    if (entry->index == MAX_DEVICES)
        return sl_fail(r->bad, "%s: %sindex is missing or too large; expected the number of the device", r->source,
                       path);
    SL_TRY(check_index(r, t, path, "index", (int64_t)entry->index));
    for (size_t i = 0; i < t->n_devices; i++)
        if (t->devices[i].index == entry->index)
            return sl_fail(r->bad, "%s: %sindex is %llu, as in devices.each[%zu]; expected one entry a device",
                           r->source, path, (unsigned long long)entry->index, i);
    return SL_OK;
}

static sl_status read_devices(const reader *r, sli_topology *t, json_t *section) {
    static const key keys[] = {
        {"count", KEY_COUNT, offsetof(sli_topology, count)},
        {"name", KEY_NAME, offsetof(sli_topology, device.name)},
        {"memory_bytes", KEY_AMOUNT, offsetof(sli_topology, device.memory_bytes)},
        {"operations_per_s", KEY_RATE, offsetof(sli_topology, device.operations_per_s)},
        {"each", KEY_NESTED, 0},
    };
    json_t *list;
    SL_TRY(read_object(r, "devices.", section, keys, N(keys), t));
    if (json_object_get(section, "count") && t->count == 0)
        return sl_fail(r->bad, "%s: devices.count is 0; expected a whole number from 1 to %d", r->source, MAX_DEVICES);
    SL_TRY(open_list(r, "devices.", section, sizeof *t->devices, &list, (void **)&t->devices));
    for (size_t i = 0; t->devices && i < json_array_size(list); i++) {
        SL_TRY(read_device(r, t, json_array_get(list, i), &t->devices[i]));
        t->n_devices = i + 1;
    }
    return SL_OK;
}

static sl_status read_link(const reader *r, sli_topology *t, json_t *json, link_entry *entry) {
    static const key keys[] = {
        {"from", KEY_END_OF_LINK, offsetof(link_entry, from)},
        {"to", KEY_END_OF_LINK, offsetof(link_entry, to)},
        {"both_ways", KEY_YES, offsetof(link_entry, both_ways)},
        {"bytes_per_s", KEY_RATE, offsetof(link_entry, link.bytes_per_s)},
        {"latency_ns", KEY_AMOUNT, offsetof(link_entry, link.latency_ns)},
        {"peer", KEY_YES, offsetof(link_entry, link.peer)},
    };
    char path[PATH];
    snprintf(path, sizeof path, "links.each[%zu].", t->n_links);
    *entry = (link_entry){.from = ANY_END, .to = ANY_END, .link = t->link};
    SL_TRY(read_object(r, path, json, keys, N(keys), entry));
    SL_TRY(check_index(r, t, path, "from", entry->from));
    SL_TRY(check_index(r, t, path, "to", entry->to));
    if (entry->from == entry->to && entry->from != ANY_END)
        return sl_fail(r->bad, "%s: %sfrom and to are the same; expected a link between two ends", r->source, path);
    return SL_OK;
}

static sl_status read_links(const reader *r, sli_topology *t, json_t *section) {
    static const key keys[] = {
        {"bytes_per_s", KEY_RATE, offsetof(sli_topology, link.bytes_per_s)},
        {"latency_ns", KEY_AMOUNT, offsetof(sli_topology, link.latency_ns)},
        {"peer", KEY_YES, offsetof(sli_topology, link.peer)},
        {"each", KEY_NESTED, 0},
    };
    json_t *list;
    SL_TRY(read_object(r, "links.", section, keys, N(keys), t));
    SL_TRY(open_list(r, "links.", section, sizeof *t->links, &list, (void **)&t->links));
    for (size_t i = 0; t->links && i < json_array_size(list); i++) {
        SL_TRY(read_link(r, t, json_array_get(list, i), &t->links[i]));
        t->n_links = i + 1;
    }
    return SL_OK;
}

static sl_status read_topology(const reader *r, sli_topology *t, json_t *root) {
    static const key keys[] = {{"devices", KEY_NESTED, 0}, {"links", KEY_NESTED, 0}};
    json_t *devices = json_object_get(root, "devices"), *links = json_object_get(root, "links");
    SL_TRY(read_object(r, "", root, keys, N(keys), t));
    if (devices)
        SL_TRY(read_devices(r, t, devices));
    return links ? read_links(r, t, links) : SL_OK;
}

/* ---- Text and files ---- */

static sl_status parse(const char *text, bool is_file, const reader *r, json_t **root) {
    json_error_t error;
    FILE *file = is_file ? fopen(text, "rb") : NULL;
    if (is_file && !file)
        return sl_fail(SL_IO, "%s cannot be opened; expected a JSON file, or JSON text that begins with '{'",
                       r->source);
    *root =
        is_file ? json_loadf(file, JSON_REJECT_DUPLICATES, &error) : json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (file)
        fclose(file);
    if (!*root && json_error_code(&error) == json_error_out_of_memory)
        return sl_fail(SL_OUT_OF_MEMORY, "%s: out of host memory while reading it", r->source);
    if (!*root)
        return sl_fail(r->bad, "%s: line %d, column %d: %s", r->source, error.line, error.column, error.text);
    return SL_OK;
}

sl_status sli_topology_read(const char *text, sli_topology **topology) {
    char source[256] = "simulator topology";
    json_t *root = NULL;
    sl_status status = SL_OK;
    sli_topology *t = sl_calloc(1, sizeof *t);
    if (!t)
        return SL_OUT_OF_MEMORY;
    *t = (sli_topology){.device.name = "simulated device", .link.peer = true};
    text = text ? text + strspn(text, " \t\r\n") : "";
    if (*text) {
        bool is_file = *text != '{';
        reader r = {source, is_file ? SL_BAD_FILE : SL_INVALID};
        if (is_file)
            snprintf(source, sizeof source, "simulator topology '%.200s'", text);
        status = parse(text, is_file, &r, &root);
        if (status == SL_OK)
            status = read_topology(&r, t, root);
    }
    json_decref(root);
    if (status == SL_OK)
        *topology = t;
    else
        sli_topology_destroy(t);
    return status;
}

void sli_topology_destroy(sli_topology *t) {
    if (!t)
        return;
    sl_free(t->devices);
    sl_free(t->links);
    sl_free(t);
}

/* ---- Questions ---- */

int sli_topology_count(const sli_topology *t) {
    return (int)t->count;
}

void sli_topology_get_device(const sli_topology *t, int index, sli_sim_device *device) {
    *device = t->device;
    for (size_t i = 0; i < t->n_devices; i++)
        if (t->devices[i].index == (uint64_t)index)
            *device = t->devices[i].device;
}

static bool joins(const link_entry *entry, int from, int to) {
    return (entry->from == ANY_END || entry->from == from) && (entry->to == ANY_END || entry->to == to);
}

void sli_topology_get_link(const sli_topology *t, int from, int to, sli_sim_link *link) {
    *link = t->link;
    for (size_t i = 0; i < t->n_links; i++)
        if (joins(&t->links[i], from, to) || (t->links[i].both_ways && joins(&t->links[i], to, from)))
            *link = t->links[i].link;
}

uint64_t sli_sim_copy_ns(const sli_sim_link *link, size_t bytes) {
    double ns = link->bytes_per_s > 0 ? (double)bytes * 1e9 / link->bytes_per_s : 0;
    return link->latency_ns + (ns < 9e18 ? (uint64_t)(ns + 0.5) : (uint64_t)9e18);
}
