/* Nets of one context in four threads: sharing BUNDLE TIMES. Each thread opens it, runs it, compares and closes;
 * those of an odd number go through staging memory. Exit status 0: as it should be. */
#include "vknn_run.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(KEEP_LIBRARIES) /* so that sanitizers can tell whose memory it is that a driver leaves behind */
int dlclose(void *library);
int dlclose(void *library) { return !library; }
#endif

enum { THREADS = 4 };
typedef struct task { vknn_context *context; const char *path; int times, staged; unsigned char found[256]; } task;

static void must(vknn_status status, const char *text) {
    if (status) fprintf(stderr, "status %d: %s\n", (int)status, text), exit(1);
}

static void *runs(void *argument) {
    task *t = argument;
    unsigned char first[sizeof t->found];
    for (int i = 0; i < t->times; i++) {
        vknn_net_options options = {0};
        vknn_message why;
        vknn_net *net;
        vknn_port in, out;
        void *ones;
        options.staged = t->staged;
        must(vknn_net_open_file(t->context, t->path, &options, &net, &why), why.text);
        must(vknn_describe(net, VKNN_INPUT, 0, &in), vknn_net_message(net));
        must(vknn_describe(net, VKNN_OUTPUT, 0, &out), vknn_net_message(net));
        if (!out.bytes || out.bytes > sizeof t->found || !(ones = malloc(in.bytes))) exit(2);
        memset(ones, 1, in.bytes);
        must(vknn_set(net, NULL, ones, in.bytes), vknn_net_message(net));
        free(ones);
        must(vknn_run(net), vknn_net_message(net));
        memset(t->found, 0, sizeof t->found);
        must(vknn_get(net, NULL, t->found, out.bytes), vknn_net_message(net));
        if (i && memcmp(first, t->found, sizeof first)) exit(3);
        memcpy(first, t->found, sizeof first);
        vknn_net_close(net);
    }
    return NULL;
}

int main(int count, char **given) {
    vknn_context *context;
    vknn_message why;
    pthread_t threads[THREADS];
    task tasks[THREADS];
    if (count != 3) return 2;
    must(vknn_context_create(NULL, &context, &why), why.text);
    for (int i = 0; i < THREADS; i++) {
        const task t = {context, given[1], atoi(given[2]), i % 2, {0}};
        tasks[i] = t;
        if (pthread_create(&threads[i], NULL, runs, &tasks[i])) return 4;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        if (memcmp(tasks[0].found, tasks[i].found, sizeof tasks[i].found)) return 5;
    vknn_context_destroy(context);
    return 0;
}
