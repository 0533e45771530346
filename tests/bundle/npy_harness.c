/* Reads the headers of many .npy files with the code of vknn-run, without a bundle or a device. */
#define main program
#include "main.c"
#undef main

const char *vknn_status_name(vknn_status s) { return (void)s, ""; }
vknn_status vknn_devices(const vknn_context_options *o, char **t, vknn_message *w) { return (void)o, (void)t, (void)w, 1; }
void vknn_free(const vknn_context_options *o, void *m) { (void)o, (void)m; }
vknn_status vknn_context_create(const vknn_context_options *o, vknn_context **c, vknn_message *w) { return (void)o, (void)c, (void)w, 1; }
const char *vknn_context_device(const vknn_context *c) { return (void)c, ""; }
void vknn_context_destroy(vknn_context *c) { (void)c; }
vknn_status vknn_net_open_file(vknn_context *c, const char *p, const vknn_net_options *o, vknn_net **n, vknn_message *w) { return (void)c, (void)p, (void)o, (void)n, (void)w, 1; }
void vknn_net_close(vknn_net *n) { (void)n; }
const char *vknn_net_message(const vknn_net *n) { return (void)n, ""; }
uint32_t vknn_ports(const vknn_net *n, vknn_direction d) { return (void)n, (void)d, 0; }
vknn_status vknn_describe(vknn_net *n, vknn_direction d, uint32_t i, vknn_port *p) { return (void)n, (void)d, (void)i, (void)p, 4; }
vknn_status vknn_find(vknn_net *n, vknn_direction d, const char *s, vknn_port *p) { return (void)n, (void)d, (void)s, (void)p, 4; }
const char *vknn_label(const vknn_net *n, const vknn_port *p, uint32_t i) { return (void)n, (void)p, (void)i, ""; }
vknn_status vknn_shape(vknn_net *n, const char *o, uint64_t d[8]) { return (void)n, (void)o, (void)d, 4; }
vknn_status vknn_set(vknn_net *n, const char *i, const void *d, size_t b) { return (void)n, (void)i, (void)d, (void)b, 4; }
vknn_status vknn_get(vknn_net *n, const char *o, void *d, size_t b) { return (void)n, (void)o, (void)d, (void)b, 4; }
vknn_status vknn_run(vknn_net *n) { return (void)n, 4; }
vknn_status vknn_test(vknn_net *n, char **t) { return (void)n, (void)t, 4; }
vknn_status vknn_test_json(vknn_net *n, char **t) { return (void)n, (void)t, 4; }
vknn_status vknn_profile(vknn_net *n, uint32_t r, char **j) { return (void)n, (void)r, (void)j, 4; }

/* A line for each file: the status of reading it as float32[2, 3]. */
int main(int argc, char **argv) {
    vknn_port port = {0};
    port.name = "data", port.rank = 2, port.dims[0] = 2, port.dims[1] = 3, port.bytes = 24;
    for (int i = 1; i < argc; i++) {
        void *data = malloc(port.bytes);
        printf("%d\n", data ? read_npy(argv[i], &port, data) : -1);
        free(data);
    }
    return 0;
}
