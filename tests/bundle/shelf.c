/* shelf BUNDLE: where there is no memory for a place of weights, other nets find none without one. Exit status 0. */
#include "vknn_run.c"

static int fails;

static void *allocate(void *user, void *old, size_t bytes) {
    (void)user;
    if (bytes) return fails && !old && bytes == sizeof(shelf) ? NULL : realloc(old, bytes);
    free(old);
    return NULL;
}

int main(int count, char **given) {
    const vknn_context_options where = {.allocate = allocate};
    const vknn_net_options what = {.shapes = NULL};
    vknn_context *c;
    vknn_net *net;
    vknn_message why;
    int placeless = 0;
    if (count < 2 || vknn_context_create(&where, &c, &why)) return 2;
    if (!(net = zeros(&where, sizeof *net))) return 2;
    net->context = c;
    changed(c, &c->holders, 1, 1);
    if (!(net->mapped = map_file(given[1], &net->mapped_bytes, &why))) return 2;
    if (bundle_open(&net->file, net->mapped, net->mapped_bytes, NULL, &why) || choose_plan(net, &what)) return 2;
    fails = 1;
    if (place_weights(net, UINT64_MAX) != VKNN_ERROR_HOST_MEMORY) return 3;
    fails = 0;
    for (size_t i = 0; i < sizeof c->weights / sizeof *c->weights; i++)
        for (const shared *s = c->weights[i]; s; s = s->next) placeless |= !((const weight *)(const void *)s)->in;
    vknn_net_close(net);
    vknn_context_destroy(c);
    return placeless ? 4 : 0;
}
