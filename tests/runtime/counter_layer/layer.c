/* A Vulkan layer that offers counters with known numbers (VK_KHR_performance_query).
 *
 * What a query gives follows from the commands between its begin and its end: dispatches, groups,
 * bytes copied. It keeps to what the specification asks of applications, and says so by an error:
 * the profiling lock is held, each pass is submitted, and a query of a counter of command buffers is
 * the first command of its command buffer. Built by benchmarks/counting/layer.py.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))
#define EXTENSION VK_KHR_PERFORMANCE_QUERY_EXTENSION_NAME
#define MOST_POOLS 64
#define MOST_BUFFERS 256

static const struct {
    const char *name, *category;
    VkPerformanceCounterUnitKHR unit;
    VkPerformanceCounterScopeKHR scope;
    VkPerformanceCounterStorageKHR storage;
    VkPerformanceCounterDescriptionFlagsKHR flags;
} table[] = {
    {"dispatches", "commands", VK_PERFORMANCE_COUNTER_UNIT_GENERIC_KHR,
     VK_PERFORMANCE_COUNTER_SCOPE_COMMAND_KHR, VK_PERFORMANCE_COUNTER_STORAGE_UINT64_KHR, 0},
    {"groups", "commands", VK_PERFORMANCE_COUNTER_UNIT_GENERIC_KHR,
     VK_PERFORMANCE_COUNTER_SCOPE_COMMAND_KHR, VK_PERFORMANCE_COUNTER_STORAGE_UINT32_KHR, 0},
    {"busy", "units", VK_PERFORMANCE_COUNTER_UNIT_PERCENTAGE_KHR,
     VK_PERFORMANCE_COUNTER_SCOPE_COMMAND_KHR, VK_PERFORMANCE_COUNTER_STORAGE_FLOAT32_KHR,
     VK_PERFORMANCE_COUNTER_DESCRIPTION_PERFORMANCE_IMPACTING_BIT_KHR},
    {"fragments", "units", VK_PERFORMANCE_COUNTER_UNIT_GENERIC_KHR,
     VK_PERFORMANCE_COUNTER_SCOPE_RENDER_PASS_KHR, VK_PERFORMANCE_COUNTER_STORAGE_UINT64_KHR, 0},
    {"copied", "memory", VK_PERFORMANCE_COUNTER_UNIT_BYTES_KHR,
     VK_PERFORMANCE_COUNTER_SCOPE_COMMAND_BUFFER_KHR, VK_PERFORMANCE_COUNTER_STORAGE_INT64_KHR, 0},
    {"volts", "board", VK_PERFORMANCE_COUNTER_UNIT_VOLTS_KHR,
     VK_PERFORMANCE_COUNTER_SCOPE_COMMAND_KHR, VK_PERFORMANCE_COUNTER_STORAGE_FLOAT64_KHR, 0},
};
#define COUNTERS ((uint32_t)(sizeof table / sizeof *table))
#define COPIED 4

struct numbers {
    uint64_t dispatches, groups, copied;
};
struct pool {
    uint32_t queries, width, *counters, passes, seen;
    int of_buffers;
    struct numbers *found;
};
/* What a command buffer has recorded since its begin. */
struct buffer {
    VkCommandBuffer handle;
    uint64_t commands;
    struct numbers now, begun;
    struct pool *pool;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools[MOST_POOLS];
static struct buffer buffers[MOST_BUFFERS];
static int held, wrong, devices;
static VkInstance instance;
static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;

#define INSTANCE(X) X(EnumerateDeviceExtensionProperties) X(GetPhysicalDeviceFeatures2) \
    X(DestroyInstance)
#define DEVICE(X)                                                                                 \
    X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) X(CmdResetQueryPool)            \
    X(CmdBeginQuery) X(CmdEndQuery) X(BeginCommandBuffer) X(CmdDispatch) X(CmdCopyBuffer)         \
    X(CmdPipelineBarrier) X(CmdBindPipeline) X(CmdFillBuffer) X(QueueSubmit) X(DestroyDevice)
#define NEXT(f) static PFN_vk##f next_##f;
INSTANCE(NEXT)
DEVICE(NEXT)

static struct pool *own(VkQueryPool handle) {
    for (int i = 0; i < MOST_POOLS; i++)
        if (pools[i] && (VkQueryPool)(uintptr_t)pools[i] == handle) return pools[i];
    return 0;
}

static struct buffer *recorded(VkCommandBuffer handle) {
    struct buffer *free_ = 0;
    for (int i = 0; i < MOST_BUFFERS; i++) {
        if (buffers[i].handle == handle) return &buffers[i];
        if (!buffers[i].handle && !free_) free_ = &buffers[i];
    }
    if (!free_) abort();
    free_->handle = handle;
    return free_;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_EnumerateDeviceExtensionProperties(
    VkPhysicalDevice d, const char *layer, uint32_t *n, VkExtensionProperties *found) {
    if (layer) return next_EnumerateDeviceExtensionProperties(d, layer, n, found);
    uint32_t below = 0;
    VkResult code = next_EnumerateDeviceExtensionProperties(d, 0, &below, 0);
    if (code != VK_SUCCESS) return code;
    if (!found) {
        *n = below + 1;
        return VK_SUCCESS;
    }
    uint32_t room = *n;
    if (room < below + 1) return VK_INCOMPLETE;
    code = next_EnumerateDeviceExtensionProperties(d, 0, &below, found);
    snprintf(found[below].extensionName, sizeof found[below].extensionName, EXTENSION);
    found[below].specVersion = 1;
    *n = below + 1;
    return code;
}

static VKAPI_ATTR void VKAPI_CALL wrap_GetPhysicalDeviceFeatures2(VkPhysicalDevice d,
                                                                  VkPhysicalDeviceFeatures2 *f) {
    next_GetPhysicalDeviceFeatures2(d, f);
    for (VkBaseOutStructure *s = (VkBaseOutStructure *)f; s; s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PERFORMANCE_QUERY_FEATURES_KHR)
            ((VkPhysicalDevicePerformanceQueryFeaturesKHR *)s)->performanceCounterQueryPools = 1;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_counters(
    VkPhysicalDevice d, uint32_t family, uint32_t *n, VkPerformanceCounterKHR *counters,
    VkPerformanceCounterDescriptionKHR *texts) {
    (void)d, (void)family;
    if (!counters && !texts) {
        *n = COUNTERS;
        return VK_SUCCESS;
    }
    for (uint32_t i = 0; i < COUNTERS && i < *n; i++) {
        counters[i].unit = table[i].unit, counters[i].scope = table[i].scope;
        counters[i].storage = table[i].storage;
        texts[i].flags = table[i].flags;
        snprintf(texts[i].name, sizeof texts[i].name, "%s", table[i].name);
        snprintf(texts[i].category, sizeof texts[i].category, "%s", table[i].category);
        snprintf(texts[i].description, sizeof texts[i].description, "number of %s", table[i].name);
    }
    VkResult code = *n < COUNTERS ? VK_INCOMPLETE : VK_SUCCESS;
    if (*n > COUNTERS) *n = COUNTERS;
    return code;
}

/* Two where bytes are counted: no unit counts both at a time. */
static uint32_t passes_of(const VkQueryPoolPerformanceCreateInfoKHR *info) {
    for (uint32_t i = 0; i < info->counterIndexCount; i++)
        if (info->pCounterIndices[i] == COPIED) return 2;
    return 1;
}

static VKAPI_ATTR void VKAPI_CALL count_passes(VkPhysicalDevice d,
                                               const VkQueryPoolPerformanceCreateInfoKHR *info,
                                               uint32_t *n) {
    (void)d;
    *n = passes_of(info);
}

static VKAPI_ATTR VkResult VKAPI_CALL acquire(VkDevice d,
                                              const VkAcquireProfilingLockInfoKHR *info) {
    (void)d, (void)info;
    if (getenv("VKNN_COUNTERS_HELD")) return VK_TIMEOUT;
    held = 1;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL release(VkDevice d) {
    (void)d;
    held = 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateQueryPool(VkDevice d,
                                                           const VkQueryPoolCreateInfo *info,
                                                           const VkAllocationCallbacks *a,
                                                           VkQueryPool *made) {
    if (info->queryType != VK_QUERY_TYPE_PERFORMANCE_QUERY_KHR)
        return next_CreateQueryPool(d, info, a, made);
    const VkQueryPoolPerformanceCreateInfoKHR *more = info->pNext;
    struct pool *pool = calloc(1, sizeof *pool);
    pool->queries = info->queryCount, pool->width = more->counterIndexCount;
    pool->counters = malloc(pool->width * sizeof *pool->counters);
    pool->found = calloc(pool->queries, sizeof *pool->found);
    pool->passes = passes_of(more);
    for (uint32_t i = 0; i < pool->width; i++) {
        pool->counters[i] = more->pCounterIndices[i];
        pool->of_buffers |= table[pool->counters[i]].scope ==
                            VK_PERFORMANCE_COUNTER_SCOPE_COMMAND_BUFFER_KHR;
    }
    pthread_mutex_lock(&lock);
    int place = 0;
    while (place < MOST_POOLS && pools[place]) place++;
    if (place == MOST_POOLS) abort();
    pools[place] = pool;
    pthread_mutex_unlock(&lock);
    *made = (VkQueryPool)(uintptr_t)pool;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL wrap_DestroyQueryPool(VkDevice d, VkQueryPool q,
                                                        const VkAllocationCallbacks *a) {
    for (int i = 0; i < MOST_POOLS; i++)
        if (pools[i] && (VkQueryPool)(uintptr_t)pools[i] == q) {
            free(pools[i]->counters), free(pools[i]->found), free(pools[i]);
            pools[i] = 0;
            return;
        }
    next_DestroyQueryPool(d, q, a);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdResetQueryPool(VkCommandBuffer b, VkQueryPool q,
                                                         uint32_t first, uint32_t n) {
    struct pool *pool = own(q);
    if (!pool) next_CmdResetQueryPool(b, q, first, n);
    else pool->seen = 0;
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdBeginQuery(VkCommandBuffer b, VkQueryPool q, uint32_t n,
                                                     VkQueryControlFlags f) {
    struct pool *pool = own(q);
    if (!pool) {
        next_CmdBeginQuery(b, q, n, f);
        return;
    }
    struct buffer *buffer = recorded(b);
    if (!held || (pool->of_buffers && buffer->commands)) wrong = 1;
    buffer->begun = buffer->now, buffer->pool = pool;
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdEndQuery(VkCommandBuffer b, VkQueryPool q, uint32_t n) {
    struct pool *pool = own(q);
    if (!pool) {
        next_CmdEndQuery(b, q, n);
        return;
    }
    struct buffer *buffer = recorded(b);
    pool->found[n].dispatches = buffer->now.dispatches - buffer->begun.dispatches;
    pool->found[n].groups = buffer->now.groups - buffer->begun.groups;
    pool->found[n].copied = buffer->now.copied - buffer->begun.copied;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_GetQueryPoolResults(VkDevice d, VkQueryPool q,
                                                               uint32_t first, uint32_t n,
                                                               size_t size, void *data,
                                                               VkDeviceSize stride,
                                                               VkQueryResultFlags f) {
    struct pool *pool = own(q);
    if (!pool) return next_GetQueryPoolResults(d, q, first, n, size, data, stride, f);
    if (wrong || pool->seen != (1u << pool->passes) - 1) return VK_ERROR_UNKNOWN;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < pool->width; k++) {
            VkPerformanceCounterResultKHR *to =
                (VkPerformanceCounterResultKHR *)((char *)data + i * stride) + k;
            const struct numbers *found = &pool->found[first + i];
            switch (pool->counters[k]) {
                case 0: to->uint64 = found->dispatches; break;
                case 1: to->uint32 = (uint32_t)found->groups; break;
                case 2: to->float32 = 12.5f * (float)found->dispatches; break;
                case COPIED: to->int64 = (int64_t)found->copied; break;
                default: to->float64 = 0.75; break;
            }
        }
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_BeginCommandBuffer(VkCommandBuffer b,
                                                              const VkCommandBufferBeginInfo *i) {
    pthread_mutex_lock(&lock);
    struct buffer *buffer = recorded(b);
    memset(buffer, 0, sizeof *buffer);
    buffer->handle = b;
    pthread_mutex_unlock(&lock);
    return next_BeginCommandBuffer(b, i);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdDispatch(VkCommandBuffer b, uint32_t x, uint32_t y,
                                                   uint32_t z) {
    struct buffer *buffer = recorded(b);
    buffer->commands++, buffer->now.dispatches++;
    buffer->now.groups += (uint64_t)x * y * z;
    next_CmdDispatch(b, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdCopyBuffer(VkCommandBuffer b, VkBuffer s, VkBuffer t,
                                                     uint32_t n, const VkBufferCopy *regions) {
    struct buffer *buffer = recorded(b);
    buffer->commands++;
    for (uint32_t i = 0; i < n; i++) buffer->now.copied += regions[i].size;
    next_CmdCopyBuffer(b, s, t, n, regions);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdPipelineBarrier(
    VkCommandBuffer b, VkPipelineStageFlags s, VkPipelineStageFlags t, VkDependencyFlags f,
    uint32_t n, const VkMemoryBarrier *m, uint32_t bn, const VkBufferMemoryBarrier *bm, uint32_t in,
    const VkImageMemoryBarrier *im) {
    recorded(b)->commands++;
    next_CmdPipelineBarrier(b, s, t, f, n, m, bn, bm, in, im);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdBindPipeline(VkCommandBuffer b, VkPipelineBindPoint p,
                                                       VkPipeline pipeline) {
    recorded(b)->commands++;
    next_CmdBindPipeline(b, p, pipeline);
}

static VKAPI_ATTR void VKAPI_CALL wrap_CmdFillBuffer(VkCommandBuffer b, VkBuffer t, VkDeviceSize o,
                                                     VkDeviceSize n, uint32_t word) {
    recorded(b)->commands++;
    next_CmdFillBuffer(b, t, o, n, word);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrap_QueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *i,
                                                       VkFence f) {
    for (uint32_t k = 0; k < n; k++) {
        const VkPerformanceQuerySubmitInfoKHR *pass = i[k].pNext;
        if (!pass || pass->sType != VK_STRUCTURE_TYPE_PERFORMANCE_QUERY_SUBMIT_INFO_KHR) continue;
        struct pool *pool = recorded(i[k].pCommandBuffers[0])->pool;
        if (!held || !pool) wrong = 1;
        else pool->seen |= 1u << pass->counterPassIndex;
    }
    return next_QueueSubmit(q, n, i, f);
}

static VKAPI_ATTR void VKAPI_CALL wrap_DestroyDevice(VkDevice d, const VkAllocationCallbacks *a) {
    /* Another thread may try a device out meanwhile: its end is not that of others' buffers. */
    pthread_mutex_lock(&lock);
    if (--devices == 0) memset(buffers, 0, sizeof buffers);
    pthread_mutex_unlock(&lock);
    next_DestroyDevice(d, a);
}

static VKAPI_ATTR void VKAPI_CALL wrap_DestroyInstance(VkInstance i,
                                                       const VkAllocationCallbacks *a) {
    next_DestroyInstance(i, a);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *a,
                                                    VkDevice *made) {
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    while (link && (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO ||
                    link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr below = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    /* The driver knows neither the extension nor its struct of features. */
    VkDeviceCreateInfo less = *info;
    const char **names = malloc((info->enabledExtensionCount + 1) * sizeof *names);
    less.enabledExtensionCount = 0, less.ppEnabledExtensionNames = names;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], EXTENSION))
            names[less.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    VkBaseOutStructure *at = (VkBaseOutStructure *)&less, *gone = 0;
    for (; at->pNext; at = at->pNext)
        if (at->pNext->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PERFORMANCE_QUERY_FEATURES_KHR) {
            gone = at->pNext;
            at->pNext = gone->pNext;
            break;
        }
    VkResult code = ((PFN_vkCreateDevice)below(instance, "vkCreateDevice"))(physical, &less, a, made);
    if (gone) at->pNext = gone;
    free(names);
    if (code != VK_SUCCESS) return code;
#define FIND(f) next_##f = (PFN_vk##f)next_device(*made, "vk" #f);
    DEVICE(FIND)
    pthread_mutex_lock(&lock);
    devices++;
    pthread_mutex_unlock(&lock);
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
    VkResult code = ((PFN_vkCreateInstance)next_instance(0, "vkCreateInstance"))(info, a, made);
    if (code != VK_SUCCESS) return code;
    instance = *made;
#define FIND_INSTANCE(f) next_##f = (PFN_vk##f)next_instance(instance, "vk" #f);
    INSTANCE(FIND_INSTANCE)
    return code;
}

static PFN_vkVoidFunction of_device(const char *name) {
#define IS(f) \
    if (!strcmp(name, "vk" #f)) return (PFN_vkVoidFunction)wrap_##f;
    DEVICE(IS)
    if (!strcmp(name, "vkAcquireProfilingLockKHR")) return (PFN_vkVoidFunction)acquire;
    if (!strcmp(name, "vkReleaseProfilingLockKHR")) return (PFN_vkVoidFunction)release;
    return 0;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device,
                                                                const char *name) {
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)device_function;
    PFN_vkVoidFunction mine = of_device(name);
    return mine ? mine : next_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance made,
                                                                  const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)instance_function;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)device_function;
    if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
    if (!strcmp(name, "vkCreateDevice")) return (PFN_vkVoidFunction)create_device;
    INSTANCE(IS)
    if (!strcmp(name, "vkEnumeratePhysicalDeviceQueueFamilyPerformanceQueryCountersKHR"))
        return (PFN_vkVoidFunction)enumerate_counters;
    if (!strcmp(name, "vkGetPhysicalDeviceQueueFamilyPerformanceQueryPassesKHR"))
        return (PFN_vkVoidFunction)count_passes;
    PFN_vkVoidFunction mine = of_device(name);
    return mine ? mine : next_instance ? next_instance(made, name) : 0;
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
