/* Runs bundles (.vkb files that `vknn export` writes) on a device with Vulkan 1.1, in C99.
 *
 *     vknn_context *context = NULL;
 *     vknn_net *net = NULL;
 *     vknn_message why;
 *     if (vknn_context_create(NULL, &context, &why) || vknn_net_open_file(context, "net.vkb", NULL, &net, &why))
 *         puts(why.text);
 *     vknn_set(net, "data", pixels, sizeof pixels);
 *     vknn_run(net);
 *     vknn_get(net, "prob", scores, sizeof scores);
 *
 * A net is used by one thread at a time; several nets, in several threads, may share a context. They are opened
 * and closed in any thread, and what is equal is there once: weights on the device (by their bytes; also those of
 * another bundle), and pipelines. So a bundle that is opened again takes its arenas alone. Bundles that are pinned
 * share among themselves, as the bytes of others may change while they are read. Device memory of weights is
 * freed, in blocks of 64 MiB or one weight, with the last net that uses any of a block.
 * Pointers are never null but where it is said here. Calls on one net from two threads at once are a race, which
 * nothing tells; vknn_cancel alone may come from any thread, while the net is open.
 * A bundle holds shaders, which are programs: pin those that come from elsewhere by their SHA-256.
 */
#ifndef VKNN_RUN_H
#define VKNN_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(VKNN_SHARED)
#define VKNN_API __declspec(dllexport)
#elif defined(__GNUC__)
#define VKNN_API __attribute__((visibility("default")))
#else
#define VKNN_API
#endif

#define VKNN_RUN_VERSION 1 /* of this interface; grows when something is added */
#define VKNN_MOST_AXES 8

typedef enum vknn_status {
    VKNN_OK = 0,
    VKNN_ERROR_FILE = 1,          /* the bundle cannot be read, is damaged, or of a newer version */
    VKNN_ERROR_HASH = 2,          /* the bundle is not the one whose SHA-256 was given */
    VKNN_ERROR_DEVICE = 3,        /* no driver, no such device, or none that suits the bundle */
    VKNN_ERROR_ARGUMENT = 4,      /* a name, size or option that does not fit */
    VKNN_ERROR_HOST_MEMORY = 5,
    VKNN_ERROR_DEVICE_MEMORY = 6,
    VKNN_ERROR_TIMEOUT = 7,       /* the device works on; wait again, or close */
    VKNN_ERROR_CANCELLED = 8,
    VKNN_ERROR_LOST = 9,          /* VK_ERROR_DEVICE_LOST: close all nets and the context */
    VKNN_ERROR_DRIVER = 10,       /* any other error of the driver */
    VKNN_ERROR_DIFFERS = 11       /* vknn_test: the device computes something else */
} vknn_status;

/* A sentence that says what is wrong and what to do. */
typedef struct vknn_message {
    char text[1024];
} vknn_message;

typedef enum vknn_direction { VKNN_INPUT = 0, VKNN_OUTPUT = 1 } vknn_direction;

typedef enum vknn_type {
    VKNN_FLOAT32 = 0,
    VKNN_FLOAT16 = 1,
    VKNN_INT8 = 2,
    VKNN_UINT8 = 3,
    VKNN_INT16 = 4,
    VKNN_UINT16 = 5,
    VKNN_INT32 = 6,
    VKNN_UINT32 = 7,
    VKNN_INT64 = 8,
    VKNN_UINT64 = 9,
    VKNN_BOOL = 10, /* a byte, 0 or 1 */
    VKNN_FLOAT64 = 11
} vknn_type;

typedef struct vknn_context vknn_context;
typedef struct vknn_net vknn_net;

/* Where to work. All zeros (or a null pointer in its place) are good defaults. */
typedef struct vknn_context_options {
    const char *device;  /* its number (up to three digits are one, and no part of a name), part of its name, or
                            its UUID in hex; null: the best one */
    const char *cache;   /* folder for the driver's compiled pipelines; null: none is kept */
    unsigned threads;    /* that make pipelines; 0: up to four */
    int robust;          /* 1: robustBufferAccess: shaders stay within a VkBuffer, which is a whole arena, or a
                            block of weights, with those of other nets; of an app's own device it says nothing */
    /* As realloc; bytes 0: frees. This and the log are called by whatever thread makes a call, the log also by those
     * that make pipelines. They must not call the runner. */
    void *(*allocate)(void *user, void *old, size_t bytes);
    void (*log)(void *user, const char *text);
    void *user;          /* given to all functions here */
    /* An app's own Vulkan, all or none. The device must have the bundle's features switched on. */
    void *instance, *physical_device, *logical_device, *queue;
    uint32_t queue_family;
    uint64_t features;   /* of those of vkb.h, which of them are switched on */
    void *get_instance_proc_addr;        /* its vkGetInstanceProcAddr; null: the loader's */
    void (*lock_queue)(void *user, int locked); /* around each use of the queue; may be null */
} vknn_context_options;

/* What to open. All zeros are good defaults. */
typedef struct vknn_net_options {
    const char *shapes;     /* one of the bundle's, "data=3,224,224"; null: its first */
    const char *target;     /* one of the bundle's; null: the first that suits the device */
    const uint8_t *sha256;  /* 32 bytes, or null: nothing of another bundle is used; a file is read, not mapped */
    double time_limit;      /* seconds of a run; 0: 30. Opening has 30 at least */
    int keeps_memory;       /* vknn_net_open_memory: the caller keeps the bytes until the net is closed */
    int staged;             /* 1: through staging memory even where the device shares the host's */
    uint64_t memory_limit;  /* bytes of device memory that are taken anew; 0: what the device says is free */
} vknn_net_options;

/* An input or output. Texts live as long as the net. */
typedef struct vknn_port {
    const char *name;
    vknn_direction direction;
    vknn_type type;
    uint32_t rank;
    uint64_t dims[VKNN_MOST_AXES]; /* of an output whose size depends on data: at most */
    size_t bytes;
    const char *layout;            /* "NHWC"; empty where the format has none */
    const char *picture;           /* "RGB": takes pictures; else empty */
    int quantized;                 /* 1: stands for scale * (stored - zero_point) */
    float scale;
    int32_t zero_point;
    uint32_t labels;               /* names of classes, see vknn_label */
    int open;                      /* 1: vknn_shape says its sizes behind each run */
} vknn_port;

/* Version of the interface that was built, VKNN_RUN_VERSION. */
VKNN_API uint32_t vknn_run_version(void);
VKNN_API const char *vknn_status_name(vknn_status status);

/* Devices as a text, a line each: number, name, kind, UUID, driver. To be freed by vknn_free. */
VKNN_API vknn_status vknn_devices(const vknn_context_options *options, char **text, vknn_message *why);
VKNN_API void vknn_free(const vknn_context_options *options, void *memory);

/* `why` may be null wherever it stands. Texts are UTF-8, paths too (also on Windows). */
VKNN_API vknn_status vknn_context_create(const vknn_context_options *options, vknn_context **context,
                                         vknn_message *why);
/* Writes the cache. Where nets are open it goes with the last one of them: an app's own device has to stay until
 * then. Null is fine. */
VKNN_API void vknn_context_destroy(vknn_context *context);
VKNN_API const char *vknn_context_device(const vknn_context *context); /* its name */

VKNN_API vknn_status vknn_net_open_file(vknn_context *context, const char *path,
                                        const vknn_net_options *options, vknn_net **net, vknn_message *why);
VKNN_API vknn_status vknn_net_open_memory(vknn_context *context, const void *bytes, size_t size,
                                          const vknn_net_options *options, vknn_net **net, vknn_message *why);
/* Waits for work that is under way, as long as that takes. Null is fine. A mapped file must not be written to
 * before: put a new bundle in its place by renaming. */
VKNN_API void vknn_net_close(vknn_net *net);

/* What the last call on this net that failed has to say. */
VKNN_API const char *vknn_net_message(const vknn_net *net);
/* Bytes of device memory that the net uses: arenas, staging memory and weights, those too that others share. */
VKNN_API uint64_t vknn_net_memory(const vknn_net *net);

VKNN_API uint32_t vknn_ports(const vknn_net *net, vknn_direction direction); /* how many */
VKNN_API vknn_status vknn_describe(vknn_net *net, vknn_direction direction, uint32_t index, vknn_port *port);
VKNN_API vknn_status vknn_find(vknn_net *net, vknn_direction direction, const char *name, vknn_port *port);
VKNN_API const char *vknn_label(const vknn_net *net, const vknn_port *port, uint32_t index); /* or null */
/* Sizes of an output behind the last run. */
VKNN_API vknn_status vknn_shape(vknn_net *net, const char *output, uint64_t dims[VKNN_MOST_AXES]);

/* Copies of whole arrays; `bytes` must be the port's (of an open output: what its sizes now take). A port's
 * name may be null: the first one. */
VKNN_API vknn_status vknn_set(vknn_net *net, const char *input, const void *data, size_t bytes);
VKNN_API vknn_status vknn_get(vknn_net *net, const char *output, void *data, size_t bytes);
/* The port's own memory, until the net is closed; not to be touched while a run is under way. */
VKNN_API vknn_status vknn_borrow(vknn_net *net, vknn_direction direction, const char *name, void **data,
                                 size_t *bytes);

VKNN_API vknn_status vknn_run(vknn_net *net);    /* vknn_submit, vknn_wait */
VKNN_API vknn_status vknn_submit(vknn_net *net); /* waits first for a run that is under way */
VKNN_API vknn_status vknn_wait(vknn_net *net);   /* no longer than the time limit */
/* From any thread: the wait for a run that has begun returns soon. One that has not begun is not cancelled. */
VKNN_API void vknn_cancel(vknn_net *net);
VKNN_API vknn_status vknn_reset(vknn_net *net);  /* state takes its first values again */

/* Runs the bundle's example, in place of what was set. `text`: a line an output, how far it is off; to be freed; may be null. */
VKNN_API vknn_status vknn_test(vknn_net *net, char **text);
/* The same as JSON, with device, driver and plan, also where it fails: docs/files.md. */
VKNN_API vknn_status vknn_test_json(vknn_net *net, char **json);
/* Times of so many runs, step by step, as JSON for `vknn report`; to be freed by vknn_free. */
VKNN_API vknn_status vknn_profile(vknn_net *net, uint32_t runs, char **json);

#ifdef __cplusplus
}
#endif
#endif
