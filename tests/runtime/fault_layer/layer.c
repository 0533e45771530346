/* A Vulkan layer that lets native calls fail, and counts what is created and destroyed.
 *
 * The process that runs under it opens the same library (dlopen gives the one that the loader uses)
 * and calls vknn_faults_*. Calls are counted whose VkResult an application looks at; the Nth, or
 * all from the Nth on, give the chosen VkResult and do not reach the driver. What a lost device or
 * full memory cannot stop (vkDestroy and vkFree functions) always goes through.
 * A process of its own has VKNN_FAULT=NAME:N:crash or NAME:N:hang: there the Nth call of that name
 * ends the process by SIGSEGV, or never ends.
 * Built by benchmarks/counting/layer.py, driven by tests/runtime/fault_run.py.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

/* X(function, kind that it creates or -, how many, parameters, arguments). */
#define DEVICE_CALLS(X)                                                                           \
    X(AllocateMemory, memory, 1,                                                                  \
      (VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *a,                 \
       VkDeviceMemory *m), (d, i, a, m))                                                          \
    X(BindBufferMemory, none, 0,                                                                  \
      (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize o), (d, b, m, o))                   \
    X(MapMemory, none, 0,                                                                         \
      (VkDevice d, VkDeviceMemory m, VkDeviceSize o, VkDeviceSize s, VkMemoryMapFlags f,          \
       void **p), (d, m, o, s, f, p))                                                             \
    X(FlushMappedMemoryRanges, none, 0,                                                           \
      (VkDevice d, uint32_t n, const VkMappedMemoryRange *r), (d, n, r))                          \
    X(InvalidateMappedMemoryRanges, none, 0,                                                      \
      (VkDevice d, uint32_t n, const VkMappedMemoryRange *r), (d, n, r))                          \
    CREATE(X, Buffer, buffer) CREATE(X, BufferView, view) CREATE(X, ShaderModule, module)         \
    CREATE(X, DescriptorSetLayout, set_layout) CREATE(X, PipelineLayout, layout)                  \
    CREATE(X, PipelineCache, cache) CREATE(X, DescriptorPool, descriptor_pool)                    \
    CREATE(X, CommandPool, command_pool) CREATE(X, QueryPool, query_pool)                         \
    CREATE(X, Fence, fence) CREATE(X, Semaphore, semaphore)                                       \
    X(CreateComputePipelines, pipeline, n,                                                        \
      (VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *i,           \
       const VkAllocationCallbacks *a, VkPipeline *m), (d, c, n, i, a, m))                        \
    X(GetPipelineCacheData, none, 0, (VkDevice d, VkPipelineCache c, size_t *n, void *p),         \
      (d, c, n, p))                                                                               \
    X(AllocateDescriptorSets, none, 0,                                                            \
      (VkDevice d, const VkDescriptorSetAllocateInfo *i, VkDescriptorSet *s), (d, i, s))          \
    X(AllocateCommandBuffers, none, 0,                                                            \
      (VkDevice d, const VkCommandBufferAllocateInfo *i, VkCommandBuffer *b), (d, i, b))          \
    X(GetQueryPoolResults, none, 0,                                                               \
      (VkDevice d, VkQueryPool q, uint32_t f, uint32_t n, size_t s, void *p, VkDeviceSize t,      \
       VkQueryResultFlags g), (d, q, f, n, s, p, t, g))                                           \
    X(ResetFences, none, 0, (VkDevice d, uint32_t n, const VkFence *f), (d, n, f))                \
    X(WaitForFences, none, 0,                                                                     \
      (VkDevice d, uint32_t n, const VkFence *f, VkBool32 all, uint64_t t), (d, n, f, all, t))    \
    X(BeginCommandBuffer, none, 0, (VkCommandBuffer b, const VkCommandBufferBeginInfo *i), (b, i))\
    X(EndCommandBuffer, none, 0, (VkCommandBuffer b), (b))                                        \
    X(QueueSubmit, none, 0,                                                                       \
      (VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f), (q, n, i, f))                    \
    X(DeviceWaitIdle, none, 0, (VkDevice d), (d))
#define CREATE(X, What, kind)                                                                     \
    X(Create##What, kind, 1,                                                                      \
      (VkDevice d, const Vk##What##CreateInfo *i, const VkAllocationCallbacks *a, Vk##What *m),   \
      (d, i, a, m))
/* X(function, kind, handle type). */
#define DEVICE_ENDS(X)                                                                            \
    X(FreeMemory, memory, VkDeviceMemory) X(DestroyBuffer, buffer, VkBuffer)                      \
    X(DestroyBufferView, view, VkBufferView) X(DestroyShaderModule, module, VkShaderModule)       \
    X(DestroyDescriptorSetLayout, set_layout, VkDescriptorSetLayout)                              \
    X(DestroyPipelineLayout, layout, VkPipelineLayout)                                            \
    X(DestroyPipelineCache, cache, VkPipelineCache) X(DestroyPipeline, pipeline, VkPipeline)      \
    X(DestroyDescriptorPool, descriptor_pool, VkDescriptorPool)                                   \
    X(DestroyCommandPool, command_pool, VkCommandPool) X(DestroyQueryPool, query_pool, VkQueryPool)\
    X(DestroyFence, fence, VkFence) X(DestroySemaphore, semaphore, VkSemaphore)
#define INSTANCE_CALLS(X)                                                                         \
    X(EnumeratePhysicalDevices, none, 0, (VkInstance i, uint32_t *n, VkPhysicalDevice *p),        \
      (i, n, p))                                                                                  \
    X(EnumerateDeviceExtensionProperties, none, 0,                                                \
      (VkPhysicalDevice d, const char *l, uint32_t *n, VkExtensionProperties *p), (d, l, n, p))
#define KINDS(X)                                                                                  \
    X(none) X(instance) X(device) X(memory) X(buffer) X(view) X(module) X(set_layout) X(layout)   \
    X(cache) X(pipeline) X(descriptor_pool) X(command_pool) X(query_pool) X(fence) X(semaphore)

#define KIND_NUMBER(k) kind_##k,
enum { KINDS(KIND_NUMBER) kind_count };
#define KIND_NAME(k) #k,
static const char *const kind_names[] = {KINDS(KIND_NAME)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long live[kind_count], calls, fault_at, faults;
static int fault_result, fault_stays;
/* What calls do in place of giving a VkResult. */
enum { CRASH = 1000000001, HANG };
static char fault_name[64], only_name[64];
static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static PFN_vkDestroyInstance next_DestroyInstance;
static PFN_vkDestroyDevice next_DestroyDevice;
static VkInstance instance;

/* From the next call on: the Nth (0: none) fails with a VkResult; only those named, if any are. */
EXPORT void vknn_faults_arm(long nth, int result, int stays, const char *only) {
    pthread_mutex_lock(&lock);
    fault_at = nth, fault_result = result, fault_stays = stays, calls = faults = 0;
    fault_name[0] = 0;
    snprintf(only_name, sizeof only_name, "%s", only);
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void arm_by_environment(void) {
    const char *text = getenv("VKNN_FAULT");
    char name[64], what[8];
    long nth;
    if (text && sscanf(text, "%63[^:]:%ld:%7s", name, &nth, what) == 3)
        vknn_faults_arm(nth, !strcmp(what, "crash") ? CRASH : HANG, 0, name);
}

/* The number of calls since then that could fail. */
EXPORT long vknn_faults_calls(void) { return calls; }

/* The number of calls that were let fail, and the first one's name. */
EXPORT long vknn_faults_done(void) { return faults; }
EXPORT const char *vknn_faults_name(void) { return fault_name; }

/* The number of living objects of a kind, whose name goes to *name; -1 behind the last kind. */
EXPORT long vknn_faults_live(int kind, const char **name) {
    if (kind >= kind_count) return -1;
    *name = kind_names[kind];
    return kind == kind_none ? 0 : live[kind];
}

static VkResult fault(const char *name) {
    VkResult code = VK_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!only_name[0] || !strcmp(name, only_name)) {
        calls++;
        if (fault_at && (calls == fault_at || (fault_stays && calls > fault_at))) {
            if (!faults++) snprintf(fault_name, sizeof fault_name, "%s", name);
            code = fault_result;
        }
    }
    pthread_mutex_unlock(&lock);
    if (code == CRASH) raise(SIGSEGV);
    while (code == HANG) pause();
    return code;
}

/* Calls behind which a lost device is at work no more, as by the specification. */
static int waits(const char *name) {
    return !strcmp(name, "WaitForFences") || !strcmp(name, "DeviceWaitIdle");
}

static void count(int kind, long number) {
    pthread_mutex_lock(&lock);
    live[kind] += number;
    pthread_mutex_unlock(&lock);
}

#define WRAP_CALL(f, kind, number, parameters, arguments)                                         \
    static PFN_vk##f next_##f;                                                                    \
    static VKAPI_ATTR VkResult VKAPI_CALL wrap_##f parameters {                                   \
        VkResult code = fault("vk" #f);                                                           \
        if (code == VK_SUCCESS) {                                                                 \
            code = next_##f arguments;                                                            \
            if (code == VK_SUCCESS && kind_##kind) count(kind_##kind, number);                    \
        } else if (code == VK_ERROR_DEVICE_LOST && waits(#f)) {                                   \
            next_##f arguments;                                                                   \
        }                                                                                         \
        return code;                                                                              \
    }
#define WRAP_END(f, kind, type)                                                                   \
    static PFN_vk##f next_##f;                                                                    \
    static VKAPI_ATTR void VKAPI_CALL wrap_##f(VkDevice d, type object,                           \
                                               const VkAllocationCallbacks *a) {                  \
        if (object) count(kind_##kind, -1);                                                       \
        next_##f(d, object, a);                                                                   \
    }
DEVICE_CALLS(WRAP_CALL)
INSTANCE_CALLS(WRAP_CALL)
DEVICE_ENDS(WRAP_END)

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice d, const VkAllocationCallbacks *a) {
    if (d) count(kind_device, -1);
    next_DestroyDevice(d, a);
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance i, const VkAllocationCallbacks *a) {
    if (i) count(kind_instance, -1);
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
    VkResult code = fault("vkCreateDevice");
    if (code == VK_SUCCESS)
        code = ((PFN_vkCreateDevice)below(instance, "vkCreateDevice"))(physical, info, a, made);
    if (code != VK_SUCCESS) return code;
    count(kind_device, 1);
#define FIND_CALL(f, kind, number, parameters, arguments)                                         \
    next_##f = (PFN_vk##f)next_device(*made, "vk" #f);
#define FIND_END(f, kind, type) next_##f = (PFN_vk##f)next_device(*made, "vk" #f);
    DEVICE_CALLS(FIND_CALL)
    DEVICE_ENDS(FIND_END)
    next_DestroyDevice = (PFN_vkDestroyDevice)next_device(*made, "vkDestroyDevice");
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
    VkResult code = fault("vkCreateInstance");
    if (code == VK_SUCCESS)
        code = ((PFN_vkCreateInstance)next_instance(0, "vkCreateInstance"))(info, a, made);
    if (code != VK_SUCCESS) return code;
    instance = *made;
    count(kind_instance, 1);
#define FIND_INSTANCE_CALL(f, kind, number, parameters, arguments)                                \
    next_##f = (PFN_vk##f)next_instance(instance, "vk" #f);
    INSTANCE_CALLS(FIND_INSTANCE_CALL)
    next_DestroyInstance = (PFN_vkDestroyInstance)next_instance(instance, "vkDestroyInstance");
    return code;
}

static PFN_vkVoidFunction wrapped(const char *name) {
#define IS_CALL(f, kind, number, parameters, arguments)                                           \
    if (!strcmp(name, "vk" #f)) return (PFN_vkVoidFunction)wrap_##f;
#define IS_END(f, kind, type) IS_CALL(f, kind, 1, (), ())
    DEVICE_CALLS(IS_CALL)
    DEVICE_ENDS(IS_END)
    if (!strcmp(name, "vkDestroyDevice")) return (PFN_vkVoidFunction)destroy_device;
    return 0;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device,
                                                                const char *name) {
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)device_function;
    PFN_vkVoidFunction below = next_device(device, name), own = wrapped(name);
    return below && own ? own : below;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance made,
                                                                  const char *name) {
    if (!strcmp(name, "vkGetInstanceProcAddr")) return (PFN_vkVoidFunction)instance_function;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)device_function;
    if (!strcmp(name, "vkCreateInstance")) return (PFN_vkVoidFunction)create_instance;
    if (!strcmp(name, "vkDestroyInstance")) return (PFN_vkVoidFunction)destroy_instance;
    if (!strcmp(name, "vkCreateDevice")) return (PFN_vkVoidFunction)create_device;
    INSTANCE_CALLS(IS_CALL)
    PFN_vkVoidFunction below = next_instance ? next_instance(made, name) : 0;
    PFN_vkVoidFunction own = below ? wrapped(name) : 0;
    return own ? own : below;
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
