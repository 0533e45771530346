/* A Vulkan layer that adds up what is allocated with vkAllocateMemory, for any engine alike.
 *
 * The sums go to the file that VKNN_MEMORY_LOG names, three 64-bit counts: bytes in use, the most
 * bytes in use at once, allocations. Written from the specification and the loader's interface for
 * layers (version 2); declares what it needs of the headers itself.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 64
#define MAX_BLOCKS 65536

enum { LOADER_INSTANCE = 47, LOADER_DEVICE = 48, LINK = 0, FAILED = -3 };

typedef void (*Function)(void);
typedef Function (*GetProc)(void *, const char *);

typedef struct Base {
    int32_t type;
    struct Base *next;
} Base;

/* VkLayerInstanceLink and VkLayerDeviceLink: alike but for the meaning of the last function. */
typedef struct Link {
    struct Link *next;
    GetProc get_instance;
    GetProc get_other;
} Link;

typedef struct {
    int32_t type;
    const void *next;
    int32_t function;
    Link *link;
} LoaderInfo;

typedef struct {
    int32_t type;
    const void *next;
    uint64_t size;
    uint32_t memory_type;
} AllocateInfo;

typedef struct {
    int32_t type;
    void *next;
    uint32_t version;
    GetProc get_instance, get_device, get_physical;
} Negotiation;

typedef int32_t (*Create)(void *, const void *, const void *, void **);
typedef int32_t (*CreateInstance)(const void *, const void *, void **);
typedef int32_t (*Allocate)(void *, const AllocateInfo *, const void *, uint64_t *);
typedef void (*Free)(void *, uint64_t, const void *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { void *device; GetProc next; Allocate allocate; Free free; } devices[MAX_DEVICES];
static struct { uint64_t memory, size; } blocks[MAX_BLOCKS];
static int device_count, block_count;
static uint64_t nowhere[3], *log_ = nowhere;
static GetProc next_instance;

static Function get_instance(void *instance, const char *name);
static Function get_device(void *device, const char *name);

__attribute__((constructor)) static void open_log(void) {
    const char *path = getenv("VKNN_MEMORY_LOG");
    int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0) return;
    if (ftruncate(file, sizeof nowhere) == 0) {
        void *map = mmap(0, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (map != MAP_FAILED) log_ = map;
    }
    close(file);
}

/* The link that the loader hands down, taken out of the chain as the interface asks. */
static Link *take_link(const void *info, int32_t type) {
    for (Base *b = ((Base *)info)->next; b; b = b->next) {
        LoaderInfo *found = (LoaderInfo *)b;
        if (b->type != type || found->function != LINK) continue;
        Link *link = found->link;
        found->link = link->next;
        return link;
    }
    return 0;
}

static int32_t create_instance(const void *info, const void *allocator, void **instance) {
    Link *link = take_link(info, LOADER_INSTANCE);
    if (!link) return FAILED;
    CreateInstance create = (CreateInstance)link->get_instance(0, "vkCreateInstance");
    if (!create) return FAILED;
    next_instance = link->get_instance;
    return create(info, allocator, instance);
}

static int32_t create_device(void *physical, const void *info, const void *allocator, void **made) {
    Link *link = take_link(info, LOADER_DEVICE);
    if (!link) return FAILED;
    Create create = (Create)link->get_instance(0, "vkCreateDevice");
    if (!create) return FAILED;
    int32_t code = create(physical, info, allocator, made);
    if (code != 0) return code;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < device_count && devices[i].device != *made) i++;
    if (i == device_count && device_count < MAX_DEVICES) device_count++;
    if (i < MAX_DEVICES) {
        devices[i].device = *made;
        devices[i].next = link->get_other;
        devices[i].allocate = (Allocate)link->get_other(*made, "vkAllocateMemory");
        devices[i].free = (Free)link->get_other(*made, "vkFreeMemory");
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int find(void *device) {
    for (int i = 0; i < device_count; i++)
        if (devices[i].device == device) return i;
    return 0;
}

static int32_t allocate(void *device, const AllocateInfo *info, const void *a, uint64_t *memory) {
    int32_t code = devices[find(device)].allocate(device, info, a, memory);
    if (code != 0) return code;
    pthread_mutex_lock(&lock);
    log_[0] += info->size;
    if (log_[0] > log_[1]) log_[1] = log_[0];
    log_[2]++;
    if (block_count < MAX_BLOCKS) {
        blocks[block_count].memory = *memory;
        blocks[block_count++].size = info->size;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static void free_memory(void *device, uint64_t memory, const void *a) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].memory != memory) continue;
        log_[0] -= blocks[i].size;
        blocks[i] = blocks[--block_count];
        break;
    }
    pthread_mutex_unlock(&lock);
    devices[find(device)].free(device, memory, a);
}

static Function ours(const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)get_instance;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (Function)get_device;
    if (!strcmp(name, "vkCreateInstance")) return (Function)create_instance;
    if (!strcmp(name, "vkCreateDevice")) return (Function)create_device;
    if (!strcmp(name, "vkAllocateMemory")) return (Function)allocate;
    if (!strcmp(name, "vkFreeMemory")) return (Function)free_memory;
    return 0;
}

static Function get_instance(void *instance, const char *name) {
    Function found = ours(name);
    return found ? found : next_instance ? next_instance(instance, name) : 0;
}

static Function get_device(void *device, const char *name) {
    Function found = ours(name);
    return found ? found : device_count ? devices[find(device)].next(device, name) : 0;
}

EXPORT int32_t vkNegotiateLoaderLayerInterfaceVersion(Negotiation *n) {
    if (n->version < 2) return FAILED;
    n->version = 2;
    n->get_instance = get_instance;
    n->get_device = get_device;
    n->get_physical = 0;
    return 0;
}
