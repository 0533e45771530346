/* Uses the runner as tests ask: stress opens|threads|options|misuse BUNDLE [COUNT]. Exit status 0: as it should be. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE
#endif
#include "vknn_run.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(KEEP_LIBRARIES) /* so that sanitizers can tell whose memory it is that a driver leaves behind */
int dlclose(void *library);
int dlclose(void *library) { return !library; }
#endif

static vknn_message why;
#define MUST(call) do { int code = (call); if (code) fprintf(stderr, "%s: %d %s\n", #call, code, why.text), exit(1); } while (0)

static long resident(void) { /* pages */
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) exit(2);
    fclose(file);
    return pages;
}

/* One run of zeros; the bytes of the first output, to be freed. */
static void *ran(vknn_net *net, size_t *bytes) {
    vknn_port in, out;
    void *zeros, *found;
    MUST(vknn_describe(net, VKNN_INPUT, 0, &in));
    MUST(vknn_describe(net, VKNN_OUTPUT, 0, &out));
    zeros = calloc(1, in.bytes);
    found = malloc(out.bytes);
    MUST(vknn_set(net, in.name, zeros, in.bytes));
    MUST(vknn_run(net));
    MUST(vknn_get(net, out.name, found, out.bytes));
    free(zeros);
    *bytes = out.bytes;
    return found;
}

/* Bytes of an allocator that counts. */
typedef struct counted { size_t live, calls, fails_at; } counted;

static void *count(void *user, void *old, size_t bytes) {
    counted *c = user;
    if (!bytes) {
        c->live -= old != NULL;
        free(old);
        return NULL;
    }
    if (++c->calls == c->fails_at) return NULL;
    c->live += !old;
    return realloc(old, bytes);
}

/* As many opens and closes of contexts and nets; nothing grows in the second half. */
static void opens(const char *path, int times) {
    long before = 0;
    for (int i = 0; i < times; i++) {
        vknn_context *context;
        vknn_net *net;
        size_t bytes;
        if (i == times / 2) before = resident();
        MUST(vknn_context_create(NULL, &context, &why));
        MUST(vknn_net_open_file(context, path, NULL, &net, &why));
        free(ran(net, &bytes)); /* llvmpipe frees pipelines with the next run */
        vknn_net_close(net);
        vknn_context_destroy(context);
    }
    printf("%ld pages more\n", resident() - before);
    if (resident() - before > 1024) exit(3);
}

typedef struct task { vknn_context *context; const char *path; int times, staged; void *found; size_t bytes; } task;

static void *runs(void *argument) {
    task *t = argument;
    for (int i = 0; i < t->times; i++) {
        vknn_net_options options = {0};
        vknn_net *net;
        vknn_message text;
        options.staged = t->staged;
        if (vknn_net_open_file(t->context, t->path, &options, &net, &text)) fprintf(stderr, "%s\n", text.text), exit(1);
        free(t->found);
        for (int k = 0; k < 5; k++) {
            if (k) free(t->found);
            t->found = ran(net, &t->bytes);
        }
        vknn_net_close(net);
    }
    return NULL;
}

static void *cancels(void *argument) {
    for (int i = 0; i < 100; i++) vknn_cancel(argument);
    return NULL;
}

/* Two nets of a context in two threads, and one that a third thread cancels. */
static void threads(const char *path, int times) {
    vknn_context *context;
    pthread_t two[2], third;
    task tasks[2] = {{NULL, path, times, 0, NULL, 0}, {NULL, path, times, 1, NULL, 0}};
    vknn_net *net;
    MUST(vknn_context_create(NULL, &context, &why));
    for (int i = 0; i < 2; i++) {
        tasks[i].context = context;
        pthread_create(&two[i], NULL, runs, &tasks[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(two[i], NULL);
    if (tasks[0].bytes != tasks[1].bytes || memcmp(tasks[0].found, tasks[1].found, tasks[0].bytes)) exit(4);
    MUST(vknn_net_open_file(context, path, NULL, &net, &why));
    pthread_create(&third, NULL, cancels, net);
    for (int i = 0; i < 20; i++) {
        vknn_status status = vknn_run(net);
        if (status && status != VKNN_ERROR_CANCELLED) exit(5);
    }
    pthread_join(third, NULL);
    vknn_net_close(net);
    vknn_context_destroy(context);
    free(tasks[0].found);
    free(tasks[1].found);
}

static void say(void *user, const char *text) { *(int *)user += text[0] != 0; }

/* Each allocation of the host fails once: an error that says so, and nothing is left. */
static void allocations(const char *path) {
    counted c = {0, 0, 0};
    size_t all = 1;
    for (size_t n = 0; n < all; n++) {
        vknn_context_options options = {0};
        vknn_context *context = NULL;
        vknn_net *net = NULL;
        char *text = NULL;
        int failed;
        options.allocate = count;
        options.user = &c;
        options.threads = 1;
        c.calls = 0;
        c.fails_at = n; /* 0: none does, and they are counted */
        failed = vknn_context_create(&options, &context, &why);
        if (!failed) failed = vknn_net_open_file(context, path, NULL, &net, &why);
        if (!failed) failed = vknn_profile(net, 1, &text);
        vknn_free(&options, text);
        vknn_net_close(net);
        vknn_context_destroy(context);
        if (!n) all = c.calls + 1;
        if (failed != (n ? VKNN_ERROR_HOST_MEMORY : VKNN_OK) || c.live) {
            fprintf(stderr, "allocation %zu of %zu: status %d, %zu left (%s)\n", n, all - 1, failed, c.live, why.text);
            exit(6);
        }
    }
    printf("%zu allocations\n", all - 1);
}

/* Two contexts, logs, all options; devices listed; a net in memory that is not aligned. */
static void options(const char *path) {
    vknn_context_options where = {0};
    vknn_net_options what = {0};
    vknn_context *context;
    vknn_net *net;
    char *text = NULL, *raw;
    uint64_t dims[VKNN_MOST_AXES];
    int said = 0;
    long size;
    FILE *file = fopen(path, "rb");
    vknn_port port;
    size_t bytes;
    where.log = say;
    where.user = &said;
    where.robust = 1;
    where.threads = 3;
    MUST(vknn_devices(&where, &text, &why));
    puts(text);
    vknn_free(&where, text);
    MUST(vknn_context_create(&where, &context, &why));
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) exit(7);
    raw = malloc((size_t)size + 1);
    if (fread(raw + 1, 1, (size_t)size, file) != (size_t)size) exit(7);
    fclose(file);
    what.keeps_memory = 1;
    MUST(vknn_net_open_memory(context, raw + 1, (size_t)size, &what, &net, &why));
    free(raw); /* bytes at an odd address were copied */
    MUST(vknn_describe(net, VKNN_OUTPUT, 0, &port));
    free(ran(net, &bytes));
    MUST(vknn_shape(net, port.name, dims));
    if (vknn_describe(net, VKNN_OUTPUT, 99, &port) != VKNN_ERROR_ARGUMENT || vknn_profile(net, 0, &text) != VKNN_ERROR_ARGUMENT) exit(8);
    vknn_net_close(net);
    if (vknn_net_open_memory(context, NULL, 0, NULL, &net, &why) == VKNN_OK || net) exit(9);
    vknn_context_destroy(context);
    if (!said || vknn_run_version() != VKNN_RUN_VERSION || strcmp(vknn_status_name(VKNN_ERROR_LOST), "lost")) exit(10);
}

#define REFUSED(call) do { int code = (call); \
    if (code != VKNN_ERROR_ARGUMENT || !*vknn_net_message(net)) fprintf(stderr, "%s: %d\n", #call, code), exit(11); } while (0)

/* Whatever an app can get wrong with pointers that are good: an error, and the net works on. */
static void misuse_of(vknn_net *net, vknn_net *other) {
    static const vknn_direction directions[] = {VKNN_INPUT, VKNN_OUTPUT};
    vknn_port in, out, port;
    uint64_t dims[VKNN_MOST_AXES];
    char *text = NULL, *some;
    size_t bytes;
    void *data;
    vknn_cancel(net); /* nothing is under way: the next run goes */
    MUST(vknn_find(net, VKNN_INPUT, NULL, &in));
    MUST(vknn_find(net, VKNN_OUTPUT, NULL, &out));
    for (int i = 0; i < 2; i++) {
        const uint32_t count = vknn_ports(net, directions[i]);
        MUST(vknn_describe(net, directions[i], count - 1, &port));
        REFUSED(vknn_describe(net, directions[i], count, &port));
        REFUSED(vknn_describe(net, directions[i], UINT32_MAX, &port));
        REFUSED(vknn_find(net, directions[i], "\x1b[2J\n%s%n", &port));
        REFUSED(vknn_find(net, directions[1 - i], port.name, &port));
        REFUSED(vknn_borrow(net, directions[1 - i], port.name, &data, &bytes));
    }
    if (vknn_ports(net, (vknn_direction)2)) exit(12);
    REFUSED(vknn_describe(net, (vknn_direction)2, 0, &port));
    if (vknn_label(net, &out, out.labels) || vknn_label(net, &out, UINT32_MAX) || vknn_label(other, &out, 0)) exit(13);
    some = calloc(1, in.bytes + out.bytes + 1);
    for (int off = -1; off < 2; off += 2) {
        REFUSED(vknn_set(net, in.name, some, in.bytes + (size_t)off));
        REFUSED(vknn_get(net, out.name, some, out.bytes + (size_t)off));
    }
    REFUSED(vknn_set(net, in.name, some, 0));
    REFUSED(vknn_set(net, in.name, NULL, in.bytes));
    REFUSED(vknn_get(net, out.name, NULL, out.bytes));
    REFUSED(vknn_set(net, in.name, some, SIZE_MAX));
    REFUSED(vknn_set(net, out.name, some, out.bytes));
    REFUSED(vknn_get(net, in.name, some, in.bytes));
    REFUSED(vknn_shape(net, in.name, dims));
    REFUSED(vknn_profile(net, 0, &text));
    MUST(vknn_wait(net)); /* for nothing */
    MUST(vknn_get(net, out.name, some, out.bytes)); /* zeros, before the first run */
    for (size_t i = 0; i < out.bytes; i++) if (some[i]) exit(14);
    MUST(vknn_submit(net));
    REFUSED(vknn_set(net, in.name, some, in.bytes));
    REFUSED(vknn_get(net, out.name, some, out.bytes));
    REFUSED(vknn_borrow(net, VKNN_INPUT, in.name, &data, &bytes));
    REFUSED(vknn_shape(net, out.name, dims));
    REFUSED(vknn_reset(net));
    REFUSED(vknn_test(net, &text));
    REFUSED(vknn_profile(net, 1, &text));
    if (text) exit(15);
    MUST(vknn_submit(net)); /* waits for the one before */
    MUST(vknn_run(net));
    MUST(vknn_wait(net));
    MUST(vknn_get(net, out.name, some, out.bytes));
    free(some);
    REFUSED(vknn_test(net, NULL)); /* there is no example */
    if (vknn_test_json(net, &text) != VKNN_ERROR_ARGUMENT || !strstr(text, "no example")) exit(16);
    vknn_free(NULL, text);
}

static void misuse(const char *path) {
    static const double limits[] = {-1, 1e300, 1e-300};
    vknn_context_options where = {0};
    vknn_net_options what = {0};
    vknn_context *context;
    vknn_net *net, *other;
    char bytes[128] = {0};
    where.device = where.cache = "";
    where.threads = 1000000;
    MUST(vknn_context_create(&where, &context, &why));
    vknn_net_close(NULL);
    vknn_context_destroy(NULL);
    vknn_free(NULL, NULL);
    if (!vknn_net_open_file(context, "", NULL, &net, NULL) || net) exit(17);
    for (size_t size = 0; size <= sizeof bytes; size++)
        if (!vknn_net_open_memory(context, bytes, size, NULL, &net, &why) || net || !*why.text) exit(18);
    what.memory_limit = 1;
    if (vknn_net_open_file(context, path, &what, &net, &why) != VKNN_ERROR_DEVICE_MEMORY || net) exit(19);
    what.memory_limit = UINT64_MAX;
    what.shapes = "";
    if (vknn_net_open_file(context, path, &what, &net, &why) != VKNN_ERROR_ARGUMENT || net) exit(20);
    what.shapes = NULL;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        vknn_status code;
        what.time_limit = limits[i];
        code = vknn_net_open_file(context, path, &what, &net, &why);
        if (code != VKNN_OK && (code != VKNN_ERROR_TIMEOUT || limits[i] > 1 || limits[i] < 0)) exit(21);
        vknn_net_close(net);
    }
    MUST(vknn_net_open_file(context, path, NULL, &net, &why));
    MUST(vknn_net_open_file(context, path, NULL, &other, &why));
    vknn_context_destroy(context); /* too early: it stays as long as nets use it */
    misuse_of(net, other);
    vknn_net_close(net);
    free(ran(other, &(size_t){0}));
    MUST(vknn_submit(other));
    vknn_net_close(other); /* with a run under way */
}

int main(int count_of, char **given) {
    if (count_of < 3) return 2;
    if (!strcmp(given[1], "opens")) opens(given[2], atoi(given[3]));
    if (!strcmp(given[1], "threads")) threads(given[2], atoi(given[3]));
    if (!strcmp(given[1], "allocations")) allocations(given[2]);
    if (!strcmp(given[1], "options")) options(given[2]);
    if (!strcmp(given[1], "misuse")) misuse(given[2]);
    return 0;
}
