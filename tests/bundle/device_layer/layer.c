/* A Vulkan layer that gives a device other memory, queue families and subgroups than its driver does.
 *
 * VKNN_PLAY says how when the instance is made, as "kind=2 heaps=1,0 types=1:0,f:1 ...":
 *   kind       VkPhysicalDeviceType
 *   heaps      flags of each heap; all have the size of the driver's first one
 *   types      flags (hexadecimal) and heap of each memory type; all are the driver's first one
 *   full       bits of types in which no allocation succeeds
 *   hidden     bits of types that are not for buffers
 *   families   so many queue families, of which the last alone computes and has timestamps
 *   subgroup   size of subgroups that the device would choose
 *   subgroups  how many of them a workgroup may have
 *   refuse     1: no pipeline cache is made of data; 2: pipelines are made in no thread but that
 *              which made the device, and there behind the first refusal
 * Memory that is not coherent is the host's own copy until it is flushed or invalidated. New memory is
 * full of 0xa5. The numbers of one device are kept. Built by benchmarks/counting/layer.py, driven by
 * tests/bundle/played_run.py.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct block {
    struct block *next;
    VkDeviceMemory memory;
    VkDeviceSize size;
    uint32_t type;
    char *real, *seen; /* where it is mapped; the host's copy, if it has one */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    long kind, full, hidden, families, subgroup, subgroups, refuse;
    VkPhysicalDeviceMemoryProperties memory; /* without sizes; no types: the driver's */
} play;
static block *blocks;
static pthread_t maker; /* of the device */
static pthread_cond_t refusal = PTHREAD_COND_INITIALIZER;
static int refused; /* a pipeline, in another thread */
static unsigned long long allocated[VK_MAX_MEMORY_TYPES];
static VkInstance instance;
static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;

#define OF_INSTANCE(X)                                                                            \
    X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2)                                \
    X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceMemoryProperties2)                    \
    X(GetPhysicalDeviceQueueFamilyProperties)
#define OF_DEVICE(X)                                                                              \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(FlushMappedMemoryRanges)                       \
    X(InvalidateMappedMemoryRanges) X(GetBufferMemoryRequirements) X(GetDeviceQueue)              \
    X(CreateCommandPool) X(CreatePipelineCache) X(CreateComputePipelines)
#define NEXT(f) static PFN_vk##f next_##f;
OF_INSTANCE(NEXT)
OF_DEVICE(NEXT)

/* Bytes that were allocated of a memory type since the instance was made. */
EXPORT unsigned long long vknn_play_allocated(uint32_t type) { return allocated[type]; }

/* What stands behind "name=" in VKNN_PLAY; null where it does not. */
static const char *value(const char *name) {
    const char *text = getenv("VKNN_PLAY");
    for (size_t length = strlen(name); text && *text; text += strcspn(text, " ")) {
        text += strspn(text, " ");
        if (!strncmp(text, name, length) && text[length] == '=') return text + length + 1;
    }
    return NULL;
}

static long number(const char *name, long otherwise) {
    const char *text = value(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static void read_play(void) {
    const char *at = value("heaps");
    char *end;
    memset(&play, 0, sizeof play);
    memset(allocated, 0, sizeof allocated);
    refused = 0;
    play.kind = number("kind", -1), play.full = number("full", 0), play.hidden = number("hidden", 0);
    play.families = number("families", 0), play.subgroup = number("subgroup", 0);
    play.subgroups = number("subgroups", 0), play.refuse = number("refuse", 0);
    for (; at; at = *end == ',' ? end + 1 : NULL)
        play.memory.memoryHeaps[play.memory.memoryHeapCount++].flags = strtol(at, &end, 10);
    for (at = value("types"); at; at = *end == ',' ? end + 1 : NULL) {
        VkMemoryType *type = &play.memory.memoryTypes[play.memory.memoryTypeCount++];
        type->propertyFlags = strtol(at, &end, 16);
        type->heapIndex = strtol(end + 1, &end, 10);
    }
}

static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceProperties(VkPhysicalDevice d,
                                                                  VkPhysicalDeviceProperties *p) {
    next_GetPhysicalDeviceProperties(d, p);
    if (play.kind >= 0) p->deviceType = play.kind;
}

static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceProperties2(VkPhysicalDevice d,
                                                                   VkPhysicalDeviceProperties2 *p) {
    next_GetPhysicalDeviceProperties2(d, p);
    if (play.kind >= 0) p->properties.deviceType = play.kind;
    for (VkBaseOutStructure *more = p->pNext; more; more = more->pNext) {
        VkPhysicalDeviceSubgroupProperties *own = (void *)more;
        VkPhysicalDeviceSubgroupSizeControlProperties *control = (void *)more;
        if (more->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES && play.subgroup)
            own->subgroupSize = play.subgroup;
        if (more->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES)
            continue;
        if (play.subgroup) control->maxSubgroupSize = play.subgroup;
        if (play.subgroups) control->maxComputeWorkgroupSubgroups = play.subgroups;
    }
}

static void play_memory(VkPhysicalDeviceMemoryProperties *p) {
    const VkDeviceSize size = p->memoryHeaps[0].size;
    if (!play.memory.memoryTypeCount) return;
    *p = play.memory;
    for (uint32_t i = 0; i < p->memoryHeapCount; i++) p->memoryHeaps[i].size = size;
}

static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceMemoryProperties(
    VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties *p) {
    next_GetPhysicalDeviceMemoryProperties(d, p);
    play_memory(p);
}

static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceMemoryProperties2(
    VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties2 *p) {
    next_GetPhysicalDeviceMemoryProperties2(d, p);
    play_memory(&p->memoryProperties);
}

static VKAPI_ATTR void VKAPI_CALL own_GetPhysicalDeviceQueueFamilyProperties(
    VkPhysicalDevice d, uint32_t *n, VkQueueFamilyProperties *p) {
    VkQueueFamilyProperties first;
    uint32_t one = 1, all = play.families;
    if (!all) {
        next_GetPhysicalDeviceQueueFamilyProperties(d, n, p);
        return;
    }
    next_GetPhysicalDeviceQueueFamilyProperties(d, &one, &first);
    if (!p || *n > all) *n = all;
    for (uint32_t i = 0; p && i < *n; i++) {
        p[i] = first;
        if (i < all - 1) p[i].queueFlags = VK_QUEUE_TRANSFER_BIT, p[i].timestampValidBits = 0;
    }
}

static VKAPI_ATTR void VKAPI_CALL own_GetDeviceQueue(VkDevice d, uint32_t family, uint32_t i,
                                                     VkQueue *q) {
    next_GetDeviceQueue(d, play.families ? 0 : family, i, q);
}

static VKAPI_ATTR VkResult VKAPI_CALL own_CreateCommandPool(VkDevice d,
                                                            const VkCommandPoolCreateInfo *i,
                                                            const VkAllocationCallbacks *a,
                                                            VkCommandPool *made) {
    VkCommandPoolCreateInfo own = *i;
    if (play.families) own.queueFamilyIndex = 0;
    return next_CreateCommandPool(d, &own, a, made);
}

static VKAPI_ATTR VkResult VKAPI_CALL own_CreatePipelineCache(VkDevice d,
                                                              const VkPipelineCacheCreateInfo *i,
                                                              const VkAllocationCallbacks *a,
                                                              VkPipelineCache *made) {
    if (play.refuse == 1 && i->initialDataSize) return VK_ERROR_INITIALIZATION_FAILED;
    return next_CreatePipelineCache(d, i, a, made);
}

static VKAPI_ATTR VkResult VKAPI_CALL own_CreateComputePipelines(
    VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,
    const VkAllocationCallbacks *a, VkPipeline *made) {
    const int is_other = !pthread_equal(pthread_self(), maker);
    if (play.refuse != 2) return next_CreateComputePipelines(d, c, n, i, a, made);
    pthread_mutex_lock(&lock);
    refused |= is_other;
    pthread_cond_broadcast(&refusal);
    while (!refused) pthread_cond_wait(&refusal, &lock);
    pthread_mutex_unlock(&lock);
    return is_other ? VK_ERROR_INITIALIZATION_FAILED
                    : next_CreateComputePipelines(d, c, n, i, a, made);
}

static VKAPI_ATTR void VKAPI_CALL own_GetBufferMemoryRequirements(VkDevice d, VkBuffer b,
                                                                  VkMemoryRequirements *r) {
    next_GetBufferMemoryRequirements(d, b, r);
    if (play.memory.memoryTypeCount)
        r->memoryTypeBits = ((1u << play.memory.memoryTypeCount) - 1) & ~play.hidden;
}

static VKAPI_ATTR VkResult VKAPI_CALL own_AllocateMemory(VkDevice d, const VkMemoryAllocateInfo *i,
                                                         const VkAllocationCallbacks *a,
                                                         VkDeviceMemory *made) {
    VkMemoryAllocateInfo own = *i;
    block *b;
    VkResult code;
    if (play.full >> i->memoryTypeIndex & 1) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (play.memory.memoryTypeCount) own.memoryTypeIndex = 0;
    code = next_AllocateMemory(d, &own, a, made);
    if (code != VK_SUCCESS || !(b = calloc(1, sizeof *b))) return code;
    b->memory = *made, b->size = i->allocationSize, b->type = i->memoryTypeIndex;
    /* All of it is the host's where this layer is used: a CPU. It stays mapped. */
    if (next_MapMemory(d, *made, 0, VK_WHOLE_SIZE, 0, (void **)&b->real) != VK_SUCCESS) abort();
    memset(b->real, 0xa5, b->size);
    pthread_mutex_lock(&lock);
    b->next = blocks, blocks = b;
    allocated[b->type] += b->size;
    pthread_mutex_unlock(&lock);
    return code;
}

static block **find(VkDeviceMemory memory) {
    block **at = &blocks;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    return at;
}

static VKAPI_ATTR void VKAPI_CALL own_FreeMemory(VkDevice d, VkDeviceMemory memory,
                                                 const VkAllocationCallbacks *a) {
    block **at, *found;
    pthread_mutex_lock(&lock);
    at = find(memory);
    if (memory && (found = *at)) {
        *at = found->next;
        free(found->seen);
        free(found);
    }
    pthread_mutex_unlock(&lock);
    next_FreeMemory(d, memory, a);
}

static VKAPI_ATTR VkResult VKAPI_CALL own_MapMemory(VkDevice d, VkDeviceMemory memory,
                                                    VkDeviceSize offset, VkDeviceSize size,
                                                    VkMemoryMapFlags flags, void **into) {
    block *b;
    (void)d, (void)size, (void)flags;
    pthread_mutex_lock(&lock);
    b = *find(memory);
    if (play.memory.memoryTypeCount &&
        !(play.memory.memoryTypes[b->type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT))
        b->seen = memcpy(malloc(b->size), b->real, b->size);
    *into = (b->seen ? b->seen : b->real) + offset;
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VkResult moved(uint32_t n, const VkMappedMemoryRange *ranges, int from_host) {
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++) {
        block *b = *find(ranges[i].memory);
        const VkDeviceSize at = ranges[i].offset;
        const VkDeviceSize size = ranges[i].size == VK_WHOLE_SIZE ? b->size - at : ranges[i].size;
        if (b->seen && from_host) memcpy(b->real + at, b->seen + at, size);
        if (b->seen && !from_host) memcpy(b->seen + at, b->real + at, size);
    }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL own_FlushMappedMemoryRanges(VkDevice d, uint32_t n,
                                                                  const VkMappedMemoryRange *r) {
    return (void)d, moved(n, r, 1);
}

static VKAPI_ATTR VkResult VKAPI_CALL own_InvalidateMappedMemoryRanges(
    VkDevice d, uint32_t n, const VkMappedMemoryRange *r) {
    return (void)d, moved(n, r, 0);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *a,
                                                    VkDevice *made) {
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    VkDeviceQueueCreateInfo queue = *info->pQueueCreateInfos;
    VkDeviceCreateInfo own = *info;
    while (link && (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO ||
                    link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr below = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    if (play.families) queue.queueFamilyIndex = 0, own.pQueueCreateInfos = &queue;
    maker = pthread_self();
    VkResult code = ((PFN_vkCreateDevice)below(instance, "vkCreateDevice"))(physical, &own, a, made);
    if (code != VK_SUCCESS) return code;
#define FIND_IN_DEVICE(f) next_##f = (PFN_vk##f)next_device(*made, "vk" #f);
    OF_DEVICE(FIND_IN_DEVICE)
    return code;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *a,
                                                      VkInstance *made) {
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link && (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
                    link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    read_play();
    VkResult code = ((PFN_vkCreateInstance)next_instance(0, "vkCreateInstance"))(info, a, made);
    if (code != VK_SUCCESS) return code;
    instance = *made;
#define FIND_IN_INSTANCE(f) next_##f = (PFN_vk##f)next_instance(instance, "vk" #f);
    OF_INSTANCE(FIND_IN_INSTANCE)
    return code;
}

#define IS_OWN(f) \
    if (!strcmp(name, "vk" #f)) return (PFN_vkVoidFunction)own_##f;

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device,
                                                                const char *name) {
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)device_function;
    OF_DEVICE(IS_OWN)
    return next_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance made,
                                                                  const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)instance_function;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)device_function;
    if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
    if (!strcmp(name, "vkCreateDevice")) return (PFN_vkVoidFunction)create_device;
    OF_INSTANCE(IS_OWN)
    OF_DEVICE(IS_OWN)
    return next_instance ? next_instance(made, name) : 0;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *about) {
    if (about->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    about->loaderLayerInterfaceVersion = 2;
    about->pfnGetInstanceProcAddr = instance_function;
    about->pfnGetDeviceProcAddr = device_function;
    about->pfnGetPhysicalDeviceProcAddr = 0;
    return VK_SUCCESS;
}
