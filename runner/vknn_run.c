/* Runs bundles on Vulkan devices: vknn_run.h says how, docs/bundle.md what a bundle is.
 *
 * Compile it with your program, as C99: cc -c vknn_run.c (with -pthread, and -ldl where libc has no dlopen).
 * VKNN_STATIC_VULKAN: vkGetInstanceProcAddr is linked in, not looked for. VKNN_NO_THREADS: for platforms
 * without threads; then only one thread may call. There is no global state. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE   /* for mmap, dlopen and madvise beside C99 */
#define _DARWIN_C_SOURCE
#define _FILE_OFFSET_BITS 64
#endif
#define VK_NO_PROTOTYPES
#include "vknn_run.h"
#include "vkb.h"
#include <vulkan/vulkan_core.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#include <direct.h>
#define make_folder(path) _mkdir(path)
#define process_number() ((unsigned long)GetCurrentProcessId())
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define make_folder(path) mkdir(path, 0700)
#define process_number() ((unsigned long)getpid())
#endif
#include "check.c"

#if defined(VKNN_NO_THREADS)
typedef int mutex;
#define mutex_make(m) ((void)(m))
#define mutex_free(m) ((void)(m))
#define mutex_lock(m) ((void)(m))
#define mutex_unlock(m) ((void)(m))
#define THREAD_FUNCTION(name, argument) static void *name(void *argument)
typedef int thread;
#define thread_start(t, function, argument) ((void)(t), 0)
#define thread_join(t) ((void)(t))
#elif defined(_WIN32)
typedef CRITICAL_SECTION mutex;
#define mutex_make(m) InitializeCriticalSection(m)
#define mutex_free(m) DeleteCriticalSection(m)
#define mutex_lock(m) EnterCriticalSection(m)
#define mutex_unlock(m) LeaveCriticalSection(m)
#define THREAD_FUNCTION(name, argument) static DWORD WINAPI name(void *argument)
typedef HANDLE thread;
#define thread_start(t, function, argument) ((*(t) = CreateThread(NULL, 0, function, argument, 0, NULL)) != NULL)
#define thread_join(t) (WaitForSingleObject(t, INFINITE), CloseHandle(t))
#else
#include <pthread.h>
typedef pthread_mutex_t mutex;
#define mutex_make(m) pthread_mutex_init(m, NULL)
#define mutex_free(m) pthread_mutex_destroy(m)
#define mutex_lock(m) pthread_mutex_lock(m)
#define mutex_unlock(m) pthread_mutex_unlock(m)
#define THREAD_FUNCTION(name, argument) static void *name(void *argument)
typedef pthread_t thread;
#define thread_start(t, function, argument) (!pthread_create(t, NULL, function, argument))
#define thread_join(t) pthread_join(t, NULL)
#endif

#define GLOBAL_FUNCTIONS(F) F(CreateInstance) F(EnumerateInstanceExtensionProperties) F(EnumerateInstanceVersion)
#define INSTANCE_FUNCTIONS(F) F(DestroyInstance) F(EnumeratePhysicalDevices) F(GetPhysicalDeviceProperties) \
    F(GetPhysicalDeviceProperties2) F(GetPhysicalDeviceFeatures2) F(GetPhysicalDeviceMemoryProperties2) \
    F(GetPhysicalDeviceQueueFamilyProperties) F(GetPhysicalDeviceFormatProperties) \
    F(EnumerateDeviceExtensionProperties) F(CreateDevice) F(GetDeviceProcAddr)
#define DEVICE_FUNCTIONS(F) F(DestroyDevice) F(GetDeviceQueue) F(QueueSubmit) F(DeviceWaitIdle) \
    F(AllocateMemory) F(FreeMemory) F(MapMemory) F(FlushMappedMemoryRanges) F(InvalidateMappedMemoryRanges) \
    F(CreateBuffer) F(DestroyBuffer) F(GetBufferMemoryRequirements) F(BindBufferMemory) F(CreateBufferView) \
    F(DestroyBufferView) F(CreateShaderModule) F(DestroyShaderModule) F(CreatePipelineCache) \
    F(DestroyPipelineCache) F(GetPipelineCacheData) F(CreateComputePipelines) F(DestroyPipeline) \
    F(CreateDescriptorSetLayout) F(DestroyDescriptorSetLayout) F(CreatePipelineLayout) \
    F(DestroyPipelineLayout) F(CreateDescriptorPool) F(DestroyDescriptorPool) F(AllocateDescriptorSets) \
    F(UpdateDescriptorSets) F(CreateCommandPool) F(DestroyCommandPool) F(AllocateCommandBuffers) \
    F(BeginCommandBuffer) F(EndCommandBuffer) F(CmdBindPipeline) F(CmdBindDescriptorSets) F(CmdPushConstants) \
    F(CmdDispatch) F(CmdPipelineBarrier) F(CmdCopyBuffer) F(CmdFillBuffer) F(CmdResetQueryPool) \
    F(CmdWriteTimestamp) F(CreateFence) F(DestroyFence) F(ResetFences) F(WaitForFences) F(CreateQueryPool) \
    F(DestroyQueryPool) F(GetQueryPoolResults)
#define AS_FIELD(name) PFN_vk##name name;
#define AS_TEXT(name) "vk" #name "\0"
typedef struct functions {
    GLOBAL_FUNCTIONS(AS_FIELD) INSTANCE_FUNCTIONS(AS_FIELD) DEVICE_FUNCTIONS(AS_FIELD)
} functions;

/* Any struct of features: they differ in how many there are. And the properties of a product of cooperative
 * matrices, which older headers lack. */
typedef struct feature_struct { VkStructureType type; void *next; VkBool32 on[4]; } feature_struct;
typedef struct matrix_struct {
    VkStructureType type; void *next;
    uint32_t m, n, k, a, b, c, result;
    VkBool32 saturates;
    uint32_t scope;
} matrix_struct;
typedef VkResult (VKAPI_PTR *matrix_function)(VkPhysicalDevice, uint32_t *, matrix_struct *);

#define SIZE_CONTROL 0x80000000u /* beside the bits of vkb.h: subgroups of a size that we choose */
static const struct ability {
    uint32_t bits[2]; /* of the first features of the struct */
    uint32_t type, core; /* VkStructureType; version of Vulkan that has it without the extension */
    const char *extension;
} abilities[] = {
    {{VKB_FEATURE_STORAGE_16BIT, 0}, 1000083000, VK_API_VERSION_1_1, "VK_KHR_16bit_storage"},
    {{VKB_FEATURE_STORAGE_8BIT, 0}, 1000177000, VK_API_VERSION_1_2, "VK_KHR_8bit_storage"},
    {{VKB_FEATURE_FLOAT16, VKB_FEATURE_INT8}, 1000082000, VK_API_VERSION_1_2, "VK_KHR_shader_float16_int8"},
    {{VKB_FEATURE_INTEGER_DOT, 0}, 1000280000, VK_API_VERSION_1_3, "VK_KHR_shader_integer_dot_product"},
    {{VKB_FEATURE_VULKAN_MEMORY_MODEL, VKB_FEATURE_MEMORY_MODEL_DEVICE_SCOPE}, 1000211000, VK_API_VERSION_1_2,
     "VK_KHR_vulkan_memory_model"},
    {{VKB_FEATURE_COOPERATIVE_MATRIX, 0}, 1000506000, ~0u, "VK_KHR_cooperative_matrix"},
    {{SIZE_CONTROL, VKB_FEATURE_FULL_SUBGROUPS}, 1000225002, VK_API_VERSION_1_3, "VK_EXT_subgroup_size_control"},
    {{VKB_FEATURE_FLOAT_DOT, 0}, 1000673000, ~0u, "VK_VALVE_shader_mixed_float_dot_product"},
};
#define ABILITIES (sizeof abilities / sizeof *abilities)

/* What a physical device says of itself. */
typedef struct facts {
    VkPhysicalDeviceProperties base;
    VkPhysicalDeviceIDProperties id;
    VkPhysicalDeviceMaintenance3Properties sizes;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceSubgroupSizeControlProperties control;
    VkPhysicalDeviceDriverProperties driver;
    uint32_t family, timestamp_bits, extension_count;
    VkExtensionProperties *extensions;
} facts;

struct vknn_context {
    vknn_context_options options;
    void *library;
    PFN_vkGetInstanceProcAddr get;
    functions vk;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    facts facts;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t features;
    matrix_struct *matrices;
    uint32_t matrix_count;
    int unified; /* the host works in device memory */
    mutex lock;  /* of the queue, and of what stands below */
    int lost;
    VkPipelineCache cache;
    char *cache_path;
    size_t cache_bytes; /* of the data that the file has */
};

#define FAIL(status, ...) return say(why, __VA_ARGS__), (status)
#define TRY(call) do { vknn_status tried = (call); if (tried) return tried; } while (0)
/* A call of Vulkan that may fail; c and why are there. */
#define VK(what, call) TRY(checked(c, c->vk.call, what, why))

static void *allocated(const vknn_context_options *options, void *old, size_t bytes) {
    if (options && options->allocate) return options->allocate(options->user, old, bytes);
    if (bytes) return realloc(old, bytes);
    free(old);
    return NULL;
}

static void note(const vknn_context *c, const char *format, ...) {
    char text[1024];
    va_list values;
    if (!c->options.log) return;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    c->options.log(c->options.user, text);
}

/* A text that grows; `at` is null once memory ran out. */
typedef struct text { const vknn_context_options *options; char *at; size_t length, room; int failed; } text;

static void add(text *t, const char *format, ...) {
    va_list values, again;
    int more;
    va_start(values, format);
    va_copy(again, values);
    more = vsnprintf(NULL, 0, format, values);
    if (!t->failed && more >= 0 && t->length + (size_t)more >= t->room) {
        size_t room = 2 * (t->length + (size_t)more) + 256;
        char *at = allocated(t->options, t->at, room);
        t->failed = !at;
        if (at) t->at = at, t->room = room;
    }
    if (!t->failed && more >= 0) t->length += (size_t)vsnprintf(t->at + t->length, t->room - t->length, format, again);
    va_end(again);
    va_end(values);
}

static vknn_status given(text *t, char **into, vknn_message *why) {
    if (!t->failed && into) return *into = t->at, VKNN_OK;
    if (t->at) allocated(t->options, t->at, 0);
    if (t->failed) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory for a text; close what is not needed");
    return VKNN_OK;
}

static vknn_status checked(vknn_context *c, VkResult code, const char *what, vknn_message *why) {
    if (code >= 0) return VKNN_OK;
    note(c, "%s: VkResult %d", what, (int)code);
    switch (code) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        FAIL(VKNN_ERROR_HOST_MEMORY, "%s: out of memory; close what is not needed", what);
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: case VK_ERROR_TOO_MANY_OBJECTS: case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_OUT_OF_POOL_MEMORY: case VK_ERROR_MEMORY_MAP_FAILED:
        FAIL(VKNN_ERROR_DEVICE_MEMORY, "%s: out of device memory (VkResult %d); close other nets, or take a "
             "bundle of smaller shapes or fp16", what, (int)code);
    case VK_ERROR_DEVICE_LOST:
        mutex_lock(&c->lock);
        c->lost = 1;
        mutex_unlock(&c->lock);
        FAIL(VKNN_ERROR_LOST, "%s: %s was lost (VK_ERROR_DEVICE_LOST: the driver reset it, or it was taken "
             "away); close all nets and the context, and open them again", what, c->facts.base.deviceName);
    default:
        FAIL(VKNN_ERROR_DRIVER, "%s: the driver answers VkResult %d; update it, or try another device", what,
             (int)code);
    }
}

static void use_queue(vknn_context *c, int locked) {
    if (locked) mutex_lock(&c->lock);
    if (c->options.lock_queue) c->options.lock_queue(c->options.user, locked);
    if (!locked) mutex_unlock(&c->lock);
}

static vknn_status submitted(vknn_context *c, uint32_t count, const VkSubmitInfo *infos, VkFence fence,
                             vknn_message *why) {
    VkResult code;
    use_queue(c, 1);
    code = c->lost ? VK_ERROR_DEVICE_LOST : c->vk.QueueSubmit(c->queue, count, infos, fence);
    use_queue(c, 0);
    return code ? checked(c, code, "submitting work", why) : VKNN_OK;
}

/* Functions of a list of names, put into the table from a field on. */
static vknn_status load(vknn_context *c, const char *name, size_t field, vknn_message *why) {
    for (; *name; name += strlen(name) + 1, field += sizeof(PFN_vkVoidFunction)) {
        PFN_vkVoidFunction f = c->device ? c->vk.GetDeviceProcAddr(c->device, name) : c->get(c->instance, name);
        if (!f) FAIL(VKNN_ERROR_DEVICE, "Vulkan has no %s here; a loader and a driver of 1.1 are needed", name);
        memcpy((char *)&c->vk + field, &f, sizeof f);
    }
    return VKNN_OK;
}

#if defined(VKNN_STATIC_VULKAN)
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name);
#endif

static vknn_status open_loader(vknn_context *c, vknn_message *why) {
    void *symbol = c->options.get_instance_proc_addr;
#if defined(VKNN_STATIC_VULKAN)
    if (!symbol) return c->get = vkGetInstanceProcAddr, VKNN_OK;
#elif defined(_WIN32)
    if (!symbol && (c->library = (void *)LoadLibraryA("vulkan-1.dll")) != NULL) {
        FARPROC f = GetProcAddress((HMODULE)c->library, "vkGetInstanceProcAddr");
        memcpy(&symbol, &f, sizeof f);
    }
#else
    static const char *const names[] = {
#if defined(__APPLE__)
        "libvulkan.dylib", "libvulkan.1.dylib", "libMoltenVK.dylib", "@rpath/MoltenVK.framework/MoltenVK",
#else
        "libvulkan.so.1", "libvulkan.so",
#endif
    };
    for (size_t i = 0; !symbol && i < sizeof names / sizeof *names; i++)
        if ((c->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL)) != NULL)
            symbol = dlsym(c->library, "vkGetInstanceProcAddr");
#endif
    if (!symbol) FAIL(VKNN_ERROR_DEVICE, "no Vulkan loader is installed (Debian: apt-get install libvulkan1)");
    memcpy(&c->get, &symbol, sizeof symbol);
    return VKNN_OK;
}

static int has(const facts *f, const char *extension) {
    for (uint32_t i = 0; i < f->extension_count; i++)
        if (!strcmp(f->extensions[i].extensionName, extension)) return 1;
    return 0;
}

/* The extensions of a device, or those of the instance. */
static vknn_status list_extensions(vknn_context *c, VkPhysicalDevice device, facts *f, vknn_message *why) {
    VkResult code = VK_SUCCESS;
    for (int filled = 0; filled < 2; filled++) {
        if (filled) f->extensions = allocated(&c->options, NULL, (f->extension_count + 1) * sizeof *f->extensions);
        if (filled && !f->extensions) code = VK_ERROR_OUT_OF_HOST_MEMORY;
        else if (device) code = c->vk.EnumerateDeviceExtensionProperties(device, NULL, &f->extension_count, f->extensions);
        else code = c->vk.EnumerateInstanceExtensionProperties(NULL, &f->extension_count, f->extensions);
        TRY(checked(c, code, "listing extensions", why));
    }
    return VKNN_OK;
}

static void forget_extensions(const vknn_context *c, facts *f) {
    if (f->extensions) allocated(&c->options, f->extensions, 0);
    f->extensions = NULL;
    f->extension_count = 0;
}

static vknn_status make_instance(vknn_context *c, vknn_message *why) {
    static const char *const portability = "VK_KHR_portability_enumeration"; /* else MoltenVK is left out */
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, "vknn-run", 1, "vknn", 1, VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {0};
    uint32_t version = 0;
    facts all = {0};
    TRY(open_loader(c, why));
    c->instance = c->options.instance;
    if (!c->instance) {
        vknn_status status;
        TRY(load(c, GLOBAL_FUNCTIONS(AS_TEXT), 0, why));
        VK("asking for Vulkan's version", EnumerateInstanceVersion(&version));
        if (version < VK_API_VERSION_1_1) FAIL(VKNN_ERROR_DEVICE, "the Vulkan loader is of 1.0; 1.1 is needed");
        info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        info.pApplicationInfo = &app;
        status = list_extensions(c, NULL, &all, why);
        if (!status && has(&all, portability)) {
            info.flags = 1; /* VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR */
            info.enabledExtensionCount = 1;
            info.ppEnabledExtensionNames = &portability;
        }
        if (!status) {
            VkResult code = c->vk.CreateInstance(&info, NULL, &c->instance);
            if (code == VK_ERROR_INCOMPATIBLE_DRIVER)
                say(why, "no Vulkan driver is installed for a device of this machine"), status = VKNN_ERROR_DEVICE;
            else status = checked(c, code, "creating the Vulkan instance", why);
        }
        forget_extensions(c, &all);
        TRY(status);
    }
    return load(c, INSTANCE_FUNCTIONS(AS_TEXT), offsetof(functions, DestroyInstance), why);
}

/* Facts of a device; what it does not tell is zero. Its family is VKB_NONE where it is of no use here. */
static void read_facts(vknn_context *c, VkPhysicalDevice device, int control, facts *f) {
    VkPhysicalDeviceProperties2 head = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, NULL, {0}};
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    c->vk.GetPhysicalDeviceProperties(device, &f->base);
    f->family = VKB_NONE;
    if (f->base.apiVersion < VK_API_VERSION_1_1) return;
    f->id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    f->sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
    f->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    f->control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    f->driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    head.pNext = &f->id;
    f->id.pNext = &f->sizes;
    f->sizes.pNext = &f->subgroup;
    if (f->base.apiVersion >= VK_API_VERSION_1_2) f->driver.pNext = head.pNext, head.pNext = &f->driver;
    if (control) f->control.pNext = head.pNext, head.pNext = &f->control;
    c->vk.GetPhysicalDeviceProperties2(device, &head);
    c->vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++) { /* one that computes alone does not wait behind drawing */
        int drawing = families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT;
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        if (f->family == VKB_NONE || (!drawing && families[f->family].queueFlags & VK_QUEUE_GRAPHICS_BIT)) f->family = i;
    }
    if (c->options.logical_device) f->family = c->options.queue_family;
    if (f->family < count) f->timestamp_bits = families[f->family].timestampValidBits;
}

static int named(const char *name, uint32_t number, const facts *f) {
    size_t digits = strspn(name, "0123456789"), length = strlen(name);
    uint8_t uuid[VK_UUID_SIZE] = {0};
    uint32_t found = 0;
    if (digits == length && length < 4) return strtoul(name, NULL, 10) == number;
    for (const char *at = strncmp(name, "uuid:", 5) ? name : name + 5; *at; at++) {
        int digit = isdigit((unsigned char)*at) ? *at - '0' : tolower((unsigned char)*at) - 'a' + 10;
        if (*at == '-') continue;
        if (!isxdigit((unsigned char)*at) || found == 2 * VK_UUID_SIZE) { found = 0; break; }
        uuid[found / 2] = (uint8_t)(uuid[found / 2] << 4 | digit);
        found++;
    }
    if (found == 2 * VK_UUID_SIZE) return !memcmp(uuid, f->id.deviceUUID, VK_UUID_SIZE);
    for (const char *at = f->base.deviceName; *at; at++) {
        size_t i = 0;
        while (i < length && at[i] && tolower((unsigned char)at[i]) == tolower((unsigned char)name[i])) i++;
        if (i == length) return 1;
    }
    return 0;
}

static vknn_status list_devices(vknn_context *c, VkPhysicalDevice devices[16], uint32_t *count, vknn_message *why) {
    VkResult code = c->vk.EnumeratePhysicalDevices(c->instance, count, devices);
    if (code == VK_ERROR_INITIALIZATION_FAILED) *count = 0; /* what loaders answer where no driver works */
    else TRY(checked(c, code, "listing the devices", why));
    if (!*count) FAIL(VKNN_ERROR_DEVICE, "there is no device with a Vulkan driver; install the driver of one "
                      "(Debian: apt-get install mesa-vulkan-drivers), or look with vulkaninfo what is wrong");
    return VKNN_OK;
}

static const char *kind_of(const facts *f) {
    static const char *const kinds[] = {"other", "integrated", "discrete", "virtual", "cpu"};
    return kinds[f->base.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? f->base.deviceType : 0];
}

static vknn_status pick_device(vknn_context *c, vknn_message *why) {
    static const uint8_t grades[] = {1, 4, 5, 3, 2}; /* by VkPhysicalDeviceType, "other" and cpu last */
    const char *name = c->options.device;
    VkPhysicalDevice devices[16];
    uint32_t count = 16, best = 0;
    char there[600] = "";
    if ((c->physical = c->options.physical_device) != NULL) return VKNN_OK;
    TRY(list_devices(c, devices, &count, why));
    for (uint32_t i = 0; i < count; i++) {
        facts f = {0};
        uint32_t grade;
        read_facts(c, devices[i], 0, &f);
        snprintf(there + strlen(there), sizeof there - strlen(there), "%s%u: %.60s%s", i ? ", " : "", i,
                 f.base.deviceName, f.family == VKB_NONE ? " (no Vulkan 1.1 that computes)" : "");
        grade = f.base.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? grades[f.base.deviceType] : 1;
        if (f.family == VKB_NONE || grade <= best || (name && !named(name, i, &f))) continue;
        best = grade;
        c->physical = devices[i];
    }
    if (!best) FAIL(VKNN_ERROR_DEVICE, "no device %s; there are %s", name ? name : "can be used", there);
    return VKNN_OK;
}

/* The device's abilities are looked up; all that a bundle can ask for are switched on. */
static vknn_status make_device(vknn_context *c, vknn_message *why) {
    VkPhysicalDeviceFeatures2 head = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, NULL, {0}};
    VkPhysicalDeviceFeatures got;
    feature_struct structs[ABILITIES];
    const char *names[ABILITIES + 1];
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo info = {0};
    queue.queueFamilyIndex = c->facts.family;
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    memset(structs, 0, sizeof structs);
    for (size_t i = 0; i < ABILITIES; i++) {
        structs[i].type = (VkStructureType)abilities[i].type;
        if (c->facts.base.apiVersion < abilities[i].core && !has(&c->facts, abilities[i].extension)) continue;
        structs[i].next = head.pNext;
        head.pNext = &structs[i];
    }
    c->vk.GetPhysicalDeviceFeatures2(c->physical, &head);
    got = head.features;
    /* Every kernel's atomics need the second feature once the first is on. */
    if (!structs[4].on[1]) structs[4].on[0] = 0;
    memset(&head.features, 0, sizeof head.features);
    head.pNext = NULL;
    for (size_t i = 0; i < ABILITIES; i++) {
        int used = 0;
        for (int k = 0; k < 4; k++) {
            structs[i].on[k] = structs[i].on[k] && k < 2 && abilities[i].bits[k];
            if (structs[i].on[k]) used = 1, c->features |= abilities[i].bits[k];
        }
        if (!used) continue;
        if (has(&c->facts, abilities[i].extension)) names[info.enabledExtensionCount++] = abilities[i].extension;
        structs[i].next = head.pNext;
        head.pNext = &structs[i];
    }
    if (has(&c->facts, "VK_KHR_portability_subset")) names[info.enabledExtensionCount++] = "VK_KHR_portability_subset";
    if ((head.features.shaderInt16 = got.shaderInt16)) c->features |= VKB_FEATURE_INT16;
    if ((head.features.shaderInt64 = got.shaderInt64)) c->features |= VKB_FEATURE_INT64;
    if ((head.features.shaderFloat64 = got.shaderFloat64)) c->features |= VKB_FEATURE_FLOAT64;
    head.features.robustBufferAccess = c->options.robust ? VK_TRUE : VK_FALSE; /* every device has it */
    info.pNext = &head;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.ppEnabledExtensionNames = names;
    VK("opening the device", CreateDevice(c->physical, &info, NULL, &c->device));
    return VKNN_OK;
}

static vknn_status list_matrices(vknn_context *c, vknn_message *why) {
    PFN_vkVoidFunction found = c->get(c->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    matrix_function list;
    if (!(c->features & VKB_FEATURE_COOPERATIVE_MATRIX) || !found) return VKNN_OK;
    memcpy(&list, &found, sizeof list);
    TRY(checked(c, list(c->physical, &c->matrix_count, NULL), "listing the cooperative matrices", why));
    c->matrices = allocated(&c->options, NULL, (c->matrix_count + 1) * sizeof *c->matrices);
    if (!c->matrices) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory");
    memset(c->matrices, 0, (c->matrix_count + 1) * sizeof *c->matrices);
    for (uint32_t i = 0; i < c->matrix_count; i++) c->matrices[i].type = (VkStructureType)1000506001;
    return checked(c, list(c->physical, &c->matrix_count, c->matrices), "listing the cooperative matrices", why);
}

/* Cache files: a header of our own, which drivers need not be trusted to check, and the driver's data. */
typedef struct cache_header {
    char magic[8];
    uint32_t vendor, device, driver, crc;
    uint8_t uuid[VK_UUID_SIZE];
    uint64_t bytes;
} cache_header;

static void fill_header(const vknn_context *c, const void *data, size_t bytes, cache_header *h) {
    memcpy(h->magic, "VKNNRC1\n", 8);
    h->vendor = c->facts.base.vendorID;
    h->device = c->facts.base.deviceID;
    h->driver = c->facts.base.driverVersion;
    memcpy(h->uuid, c->facts.base.pipelineCacheUUID, VK_UUID_SIZE);
    h->bytes = bytes;
    h->crc = crc32_of(data, bytes);
}

static vknn_status load_cache(vknn_context *c, vknn_message *why) {
    VkPipelineCacheCreateInfo info = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, NULL, 0, 0, NULL};
    const char *folder = c->options.cache, *problem = NULL;
    cache_header is, should;
    uint8_t *data = NULL;
    if (folder) {
        size_t room = strlen(folder) + 64;
        FILE *file;
        if (!(c->cache_path = allocated(&c->options, NULL, room))) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory");
        make_folder(folder); /* where it is there, or cannot be, writing will tell */
        snprintf(c->cache_path, room, "%s/vknn-%08x-%08x.pipelines", folder, (unsigned)c->facts.base.vendorID,
                 (unsigned)c->facts.base.deviceID);
        if ((file = fopen(c->cache_path, "rb")) != NULL) {
            problem = "is damaged";
            if (fread(&is, sizeof is, 1, file) == 1 && is.bytes && is.bytes <= (256u << 20) &&
                (data = allocated(&c->options, NULL, (size_t)is.bytes)) != NULL &&
                fread(data, 1, (size_t)is.bytes, file) == is.bytes && fgetc(file) == EOF) {
                fill_header(c, data, (size_t)is.bytes, &should);
                problem = is.crc != should.crc ? problem : "is of another device or driver";
                if (!memcmp(&is, &should, sizeof is)) problem = NULL, info.initialDataSize = c->cache_bytes = (size_t)is.bytes;
            }
            fclose(file);
        }
        if (problem) note(c, "the cache %s %s; it is written anew", c->cache_path, problem);
    }
    info.pInitialData = data;
    if (c->vk.CreatePipelineCache(c->device, &info, NULL, &c->cache) && info.initialDataSize) {
        note(c, "the driver does not take the cache %s; it is written anew", c->cache_path);
        info.initialDataSize = c->cache_bytes = 0;
        if (c->vk.CreatePipelineCache(c->device, &info, NULL, &c->cache)) c->cache = VK_NULL_HANDLE;
    }
    if (data) allocated(&c->options, data, 0);
    return VKNN_OK;
}

/* Writes the cache where it has grown; what goes wrong is logged. */
static void save_cache(vknn_context *c) {
    size_t bytes = 0, room = c->cache_path ? strlen(c->cache_path) + 64 : 0;
    char *path = NULL, *data = NULL;
    if (!room || !c->cache || c->vk.GetPipelineCacheData(c->device, c->cache, &bytes, NULL)) return;
    if (bytes <= c->cache_bytes || bytes > 256u << 20) return;
    path = allocated(&c->options, NULL, room);
    data = allocated(&c->options, NULL, sizeof(cache_header) + bytes);
    if (path && data && !c->vk.GetPipelineCacheData(c->device, c->cache, &bytes, data + sizeof(cache_header))) {
        FILE *file;
        int failed;
        cache_header header;
        fill_header(c, data + sizeof header, bytes, &header);
        memcpy(data, &header, sizeof header);
        snprintf(path, room, "%s.%lx-%p", c->cache_path, process_number(), (void *)c);
        file = fopen(path, "wb");
        failed = !file || fwrite(data, sizeof header + bytes, 1, file) != 1;
        failed |= file && fclose(file);
#if defined(_WIN32)
        failed = failed || !MoveFileExA(path, c->cache_path, MOVEFILE_REPLACE_EXISTING);
#else
        failed = failed || rename(path, c->cache_path);
#endif
        if (failed && file) remove(path);
        if (failed) note(c, "the cache %s cannot be written; pipelines will be compiled again", c->cache_path);
        else c->cache_bytes = bytes;
    }
    if (path) allocated(&c->options, path, 0);
    if (data) allocated(&c->options, data, 0);
}

static vknn_status open_context(vknn_context *c, vknn_message *why) {
    const vknn_context_options *o = &c->options;
    VkPhysicalDeviceMemoryProperties2 memory = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, NULL, {0}};
    int control, shared;
    if (!o->instance != !o->physical_device || !o->instance != !o->logical_device || !o->instance != !o->queue)
        FAIL(VKNN_ERROR_ARGUMENT, "instance, physical_device, logical_device and queue: give all of them or none");
    TRY(make_instance(c, why));
    TRY(pick_device(c, why));
    TRY(list_extensions(c, c->physical, &c->facts, why));
    c->vk.GetPhysicalDeviceProperties(c->physical, &c->facts.base);
    control = c->facts.base.apiVersion >= VK_API_VERSION_1_3 || has(&c->facts, "VK_EXT_subgroup_size_control");
    read_facts(c, c->physical, control, &c->facts);
    if (c->facts.family == VKB_NONE) FAIL(VKNN_ERROR_DEVICE, "%s has no Vulkan 1.1", c->facts.base.deviceName);
    if (o->logical_device) c->device = o->logical_device, c->features = o->features & 0x7fffffff;
    else TRY(make_device(c, why));
    TRY(load(c, DEVICE_FUNCTIONS(AS_TEXT), offsetof(functions, DestroyDevice), why));
    c->queue = o->queue;
    if (!c->queue) c->vk.GetDeviceQueue(c->device, c->facts.family, 0, &c->queue);
    if (c->facts.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) /* vkb.h has Vulkan's order */
        c->features |= (uint64_t)(c->facts.subgroup.supportedOperations & 0x3f) * VKB_FEATURE_SUBGROUP_BASIC;
    c->vk.GetPhysicalDeviceMemoryProperties2(c->physical, &memory);
    c->memory = memory.memoryProperties;
    /* A discrete GPU may show its memory, too, but the host reads it over the bus: there staging is faster. */
    shared = c->facts.base.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ||
             c->facts.base.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    for (uint32_t i = 0; i < c->memory.memoryTypeCount; i++)
        c->unified |= shared && (c->memory.memoryTypes[i].propertyFlags & 3) == 3; /* device local, host visible */
    TRY(list_matrices(c, why));
    note(c, "device: %s, %s, memory %s", c->facts.base.deviceName, kind_of(&c->facts), c->unified ? "shared" : "apart");
    return load_cache(c, why);
}

static vknn_context *new_context(const vknn_context_options *options) {
    vknn_context *c = allocated(options, NULL, sizeof *c);
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    if (options) c->options = *options;
    mutex_make(&c->lock);
    return c;
}

void vknn_context_destroy(vknn_context *c) {
    vknn_context_options options;
    if (!c) return;
    options = c->options;
    if (c->device && c->vk.GetDeviceQueue) {
        if (!c->lost) save_cache(c);
        c->vk.DestroyPipelineCache(c->device, c->cache, NULL);
        if (!options.logical_device) c->vk.DeviceWaitIdle(c->device), c->vk.DestroyDevice(c->device, NULL);
    }
    if (c->instance && !options.instance && c->vk.DestroyInstance) c->vk.DestroyInstance(c->instance, NULL);
#if defined(_WIN32)
    if (c->library) FreeLibrary((HMODULE)c->library);
#else
    if (c->library) dlclose(c->library);
#endif
    forget_extensions(c, &c->facts);
    if (c->matrices) allocated(&options, c->matrices, 0);
    if (c->cache_path) allocated(&options, c->cache_path, 0);
    mutex_free(&c->lock);
    allocated(&options, c, 0);
}

vknn_status vknn_context_create(const vknn_context_options *options, vknn_context **context, vknn_message *why) {
    vknn_context *c = new_context(options);
    vknn_status status;
    *context = NULL;
    if (!c) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory");
    status = open_context(c, why);
    if (status) vknn_context_destroy(c);
    else *context = c;
    return status;
}

const char *vknn_context_device(const vknn_context *c) { return c->facts.base.deviceName; }
uint32_t vknn_run_version(void) { return VKNN_RUN_VERSION; }
void vknn_free(const vknn_context_options *options, void *memory) { if (memory) allocated(options, memory, 0); }

const char *vknn_status_name(vknn_status status) {
    static const char *const names[] = {"ok", "file", "hash", "device", "argument", "host memory", "device memory",
                                        "timeout", "cancelled", "lost", "driver", "differs"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

vknn_status vknn_devices(const vknn_context_options *options, char **into, vknn_message *why) {
    vknn_context *c = new_context(options);
    text t = {options, NULL, 0, 0, 0};
    VkPhysicalDevice devices[16];
    uint32_t count = 16;
    vknn_status status;
    *into = NULL;
    if (!c) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory");
    status = make_instance(c, why);
    if (!status) status = list_devices(c, devices, &count, why);
    for (uint32_t i = 0; !status && i < count; i++) {
        facts f = {0};
        read_facts(c, devices[i], 0, &f);
        add(&t, "%u  %s  %s  ", i, f.base.deviceName, kind_of(&f));
        for (uint32_t k = 0; k < VK_UUID_SIZE; k++) add(&t, "%02x", f.id.deviceUUID[k]);
        add(&t, "  %s %s\n", f.driver.driverName, f.driver.driverInfo);
    }
    if (!status) status = given(&t, into, why);
    vknn_context_destroy(c);
    return status;
}

/* A buffer with memory of its own; `host`: its bytes where the host reaches them. */
typedef struct block { VkBuffer buffer; VkDeviceMemory memory; uint8_t *host; uint64_t bytes; int coherent; } block;
enum purpose { DEVICE, SHARED, WRITTEN, UPLOAD, DOWNLOAD };
enum { UP = 3, DOWN = 4, RING = 5, WEIGHTS = 6 }; /* blocks: 0 to 2 are the arenas */
typedef struct place { block *in; uint64_t offset; } place;
typedef struct weight { place at; uint64_t bytes; } weight; /* of a blob; no bytes: not used */
typedef struct host { place at, count; int copied, count_copied, is_state; } host; /* of a port, as the host sees it */
typedef struct pipeline { VkDescriptorSetLayout set; VkPipelineLayout layout; VkPipeline handle; int used; } pipeline;
typedef struct kept { struct kept *next; uint64_t fill; } kept;

struct vknn_net {
    vknn_context *context;
    vknn_message message;
    bundle file;
    void *mapped, *copied;
    size_t mapped_bytes;
    const vkb_plan *plan;
    const vkb_buffer *buffers;
    const vkb_step *steps;
    const vkb_port *ports;
    const vkb_state *states;
    kept *kept;
    block *blocks;
    uint32_t block_count, view_count;
    place *places;     /* of the plan's buffers */
    weight *weights;   /* by blob */
    host *hosts;       /* by port */
    pipeline *pipelines;
    VkSpecializationMapEntry *entries;
    VkDescriptorPool sets;
    VkDescriptorSet *bound; /* by step */
    VkBufferView *views;
    VkCommandPool pool;
    VkCommandBuffer *commands; /* by submit; behind them the one that sets states back */
    VkSubmitInfo *infos;
    uint32_t submits;
    VkFence fence;
    uint64_t limit; /* nanoseconds */
    int staged, in_flight, cancelled, opened;
};

#define NET(net) vknn_context *const c = (net)->context; vknn_message *const why = &(net)->message; (void)c; (void)why
#define KEEP(net, into, count) \
    do if (!((into) = keep(net, count, sizeof *(into)))) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory"); while (0)

/* Zeros that live as long as the net. */
static void *keep(vknn_net *net, uint64_t count, size_t size) {
    size_t bytes = sizeof(kept) + (size_t)count * size;
    kept *k = count > (SIZE_MAX >> 1) / size ? NULL : allocated(&net->context->options, NULL, bytes);
    if (!k) return NULL;
    memset(k, 0, bytes);
    k->next = net->kept;
    net->kept = k;
    return k + 1;
}

/* --- Which plan --- */

static void append(char *text, size_t room, const char *format, ...) {
    size_t at = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + at, room - at, format, values);
    va_end(values);
}

/* How many of a plan's needs the device does not meet; `text` tells which. */
static uint32_t lacks(vknn_context *c, const bundle *b, const vkb_plan *p, char *text, size_t room) {
    static const char *const abilities_by_bit[] = {
        "16-bit storage", "float16", "int8", "int16", "int64", "float64", "8-bit storage", "integer dot products",
        "cooperative matrices", "full subgroups", "subgroups", "subgroup votes", "subgroup arithmetic",
        "subgroup ballots", "subgroup shuffles", "relative subgroup shuffles", "float16 dot products",
        "the Vulkan memory model", "the Vulkan memory model's device scope"};
    const VkPhysicalDeviceLimits *l = &c->facts.base.limits;
    const VkPhysicalDeviceSubgroupSizeControlProperties *s = &c->facts.control;
    uint64_t arena = 0, rounds = strstr(c->facts.base.deviceName, "llvmpipe") ? 65535 : UINT64_MAX;
    uint32_t count = 0, last[2] = {0, 0};
    for (int i = 0; i < 3; i++) arena = p->arenas[i] > arena ? p->arenas[i] : arena;
    const struct { const char *what; uint64_t needs, has; } rows[] = {
        {"bytes in a storage buffer", p->storage_range, l->maxStorageBufferRange},
        {"texels in a texel buffer", p->texel_elements, l->maxTexelBufferElements},
        {"invocations in a workgroup", p->group_invocations, l->maxComputeWorkGroupInvocations},
        {"bytes of shared memory", p->shared_memory, l->maxComputeSharedMemorySize},
        {"bytes of push constants", p->push_bytes, l->maxPushConstantsSize},
        {"storage buffers in a shader", p->storage_buffers, l->maxPerStageDescriptorStorageBuffers},
        {"uniform texel buffers in a shader", p->uniform_texel_buffers, l->maxPerStageDescriptorSampledImages},
        {"storage texel buffers in a shader", p->storage_texel_buffers, l->maxPerStageDescriptorStorageImages},
        {"bytes in an allocation", arena, c->facts.sizes.maxMemoryAllocationSize},
        {"rounds of a shader's loops", p->loop_rounds, rounds},
        {"invocations of a workgroup in x", p->group_size[0], l->maxComputeWorkGroupSize[0]},
        {"invocations of a workgroup in y", p->group_size[1], l->maxComputeWorkGroupSize[1]},
        {"invocations of a workgroup in z", p->group_size[2], l->maxComputeWorkGroupSize[2]},
        {"workgroups in x", p->group_count[0], l->maxComputeWorkGroupCount[0]},
        {"workgroups in y", p->group_count[1], l->maxComputeWorkGroupCount[1]},
        {"workgroups in z", p->group_count[2], l->maxComputeWorkGroupCount[2]},
        {"as Vulkan's version", p->vulkan >> 12, c->facts.base.apiVersion >> 12}};
#define LACKS(...) (count++ ? append(text, room, ", ") : (void)0, append(text, room, __VA_ARGS__))
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].needs > rows[i].has)
            LACKS("%llu %s (not %llu)", (unsigned long long)rows[i].needs, rows[i].what, (unsigned long long)rows[i].has);
    for (int i = 0; i < 64; i++)
        if (p->features & ~c->features & UINT64_C(1) << i)
            LACKS("%s", i < 19 ? abilities_by_bit[i] : "an ability that this runner does not know");
    if (p->storage_alignment % l->minStorageBufferOffsetAlignment || p->texel_alignment % l->minTexelBufferOffsetAlignment)
        LACKS("buffers at multiples of %u bytes, texel buffers of %u", p->storage_alignment, p->texel_alignment);
    if (p->subgroup_size && p->subgroup_size != c->facts.subgroup.subgroupSize &&
        (!(c->features & SIZE_CONTROL) || p->subgroup_size < s->minSubgroupSize || p->subgroup_size > s->maxSubgroupSize ||
         !(s->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT)))
        LACKS("subgroups of %u (not %u)", p->subgroup_size, c->facts.subgroup.subgroupSize);
    for (uint32_t i = 0; i < p->matrices; i++) {
        const vkb_matrix *w = &b->matrices[p->first_matrices + i];
        uint32_t k = 0;
        for (; k < c->matrix_count; k++) {
            const matrix_struct *m = &c->matrices[k];
            if (m->m == w->m && m->n == w->n && m->k == w->k && m->a == w->factors && m->b == w->factors &&
                m->c == w->sums && m->result == w->sums && !m->saturates && m->scope == 3) break;
        }
        if (k == c->matrix_count) LACKS("products of %ux%ux%u matrices of types %u and %u", w->m, w->n, w->k, w->factors, w->sums);
    }
    for (uint32_t i = 0; i < p->steps; i++) { /* formats: few, and mostly the same ones */
        const vkb_step *step = &b->steps[p->first_steps + i];
        for (uint32_t k = 0; step->kind == VKB_STEP_DISPATCH && k < step->bindings; k++) {
            uint32_t view = b->slots[b->pipelines[step->pipeline].first_slots + k].view;
            uint32_t format = b->bindings[step->first_bindings + k].format;
            VkFormatProperties f;
            if (view == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER || last[view & 1] == format) continue;
            last[view & 1] = format;
            c->vk.GetPhysicalDeviceFormatProperties(c->physical, (VkFormat)format, &f);
            if (!(f.bufferFeatures & (view == VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER ?
                                      VK_FORMAT_FEATURE_UNIFORM_TEXEL_BUFFER_BIT : VK_FORMAT_FEATURE_STORAGE_TEXEL_BUFFER_BIT)))
                LACKS("%s texel buffers of VkFormat %u", view == VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER ? "uniform" : "storage", format);
        }
    }
#undef LACKS
    return count;
}

static vknn_status choose_plan(vknn_net *net, const vknn_net_options *o) {
    NET(net);
    const bundle *b = &net->file;
    uint32_t least = UINT32_MAX;
    char closest[700] = "", there[300] = "";
    const char *shapes = o->shapes ? o->shapes : bundle_string(b, b->plans[0].shapes);
    for (uint32_t i = 0; i < b->plan_count && !net->plan; i++) {
        const vkb_plan *p = &b->plans[i];
        const char *target = bundle_string(b, p->target), *is = bundle_string(b, p->shapes);
        char text[500] = "";
        uint32_t count;
        append(there, sizeof there, "%s%s for %s", i ? ", " : "", is, target);
        if (strcmp(shapes, is) || (o->target && strcmp(o->target, target))) continue;
        count = lacks(c, b, p, text, sizeof text);
        if (!count) net->plan = p;
        if (count >= least) continue;
        least = count;
        closest[0] = 0;
        append(closest, sizeof closest, "its plan for %s needs %s", target, text);
    }
    if (least == UINT32_MAX)
        FAIL(VKNN_ERROR_ARGUMENT, "the bundle has no plan of shapes %s for %s; it has %s", shapes,
             o->target ? o->target : "any target", there);
    if (!net->plan)
        FAIL(VKNN_ERROR_DEVICE, "the bundle does not suit %s: %s; export it for this device (vknn export --target, "
             "for most devices \"generic\")", c->facts.base.deviceName, closest);
    net->buffers = b->buffers + net->plan->first_buffers;
    net->steps = b->steps + net->plan->first_steps;
    net->ports = b->ports + net->plan->first_ports;
    net->states = b->states + net->plan->first_states;
    note(c, "plan: %s, %s, for %s", bundle_string(b, net->plan->shapes), bundle_string(b, net->plan->precision),
         bundle_string(b, net->plan->target));
    return VKNN_OK;
}

/* --- Memory --- */

static uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

static int memory_type(const vknn_context *c, uint32_t allowed, enum purpose purpose) {
    enum { LOCAL = 1, VISIBLE = 2, COHERENT = 4, CACHED = 8 };
    static const uint32_t needs[] = {0, LOCAL | VISIBLE, LOCAL | VISIBLE, VISIBLE, VISIBLE};
    static const uint8_t first[] = {LOCAL, CACHED, COHERENT, COHERENT, CACHED}, then[] = {0, COHERENT, 0, 0, COHERENT};
    int best = -1, most = -1;
    for (int i = 0; i < (int)c->memory.memoryTypeCount; i++) {
        uint32_t flags = c->memory.memoryTypes[i].propertyFlags;
        int grade = 4 * !!(flags & first[purpose]) + 2 * !!(flags & then[purpose]) + (purpose < UPLOAD || !(flags & LOCAL));
        if (!(allowed >> i & 1) || (flags & needs[purpose]) != needs[purpose] || flags & 0xf0) continue;
        if (grade > most) best = i, most = grade; /* 0xf0: protected, lazy, and AMD's for debugging */
    }
    return best;
}

static void free_block(vknn_context *c, block *k) {
    c->vk.DestroyBuffer(c->device, k->buffer, NULL);
    c->vk.FreeMemory(c->device, k->memory, NULL);
    memset(k, 0, sizeof *k);
}

static vknn_status make_block(vknn_net *net, block *k, uint64_t bytes, enum purpose purpose) {
    NET(net);
    VkBufferCreateInfo info = {0};
    VkMemoryAllocateInfo request = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 0, 0};
    VkMemoryRequirements needs;
    void *host;
    int type;
    k->bytes = rounded(bytes ? bytes : 1, 16);
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = k->bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                 VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VK("creating a buffer", CreateBuffer(c->device, &info, NULL, &k->buffer));
    c->vk.GetBufferMemoryRequirements(c->device, k->buffer, &needs);
    type = memory_type(c, needs.memoryTypeBits, purpose);
    if (type < 0 || (purpose != DEVICE && needs.size > SIZE_MAX))
        FAIL(VKNN_ERROR_DEVICE_MEMORY, "%s has no memory of a kind that is needed", c->facts.base.deviceName);
    request.allocationSize = needs.size;
    request.memoryTypeIndex = (uint32_t)type;
    VK("allocating device memory", AllocateMemory(c->device, &request, NULL, &k->memory));
    VK("binding memory", BindBufferMemory(c->device, k->buffer, k->memory, 0));
    k->coherent = 1;
    if (purpose == DEVICE) return VKNN_OK;
    VK("mapping memory", MapMemory(c->device, k->memory, 0, VK_WHOLE_SIZE, 0, &host));
    k->host = host;
    k->coherent = !!(c->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    return VKNN_OK;
}

/* The host's writes reach the device, or the device's the host; the whole block, so that atoms do not matter. */
static vknn_status synchronized(vknn_net *net, const block *k, int writes) {
    NET(net);
    VkMappedMemoryRange range = {VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, NULL, k->memory, 0, VK_WHOLE_SIZE};
    if (!k->host || k->coherent) return VKNN_OK;
    if (writes) VK("flushing memory", FlushMappedMemoryRanges(c->device, 1, &range));
    else VK("invalidating memory", InvalidateMappedMemoryRanges(c->device, 1, &range));
    return VKNN_OK;
}

static uint64_t free_memory(const vknn_context *c) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {0};
    VkPhysicalDeviceMemoryProperties2 memory = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, NULL, {0}};
    uint64_t most = 0;
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    if (has(&c->facts, "VK_EXT_memory_budget")) memory.pNext = &budget;
    c->vk.GetPhysicalDeviceMemoryProperties2(c->physical, &memory);
    for (uint32_t i = 0; i < c->memory.memoryHeapCount; i++) {
        uint64_t bytes = c->memory.memoryHeaps[i].size;
        if (!(c->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
        if (budget.heapBudget[i]) bytes = budget.heapBudget[i] > budget.heapUsage[i] ? budget.heapBudget[i] - budget.heapUsage[i] : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static void use_blob(vknn_net *net, uint32_t blob, uint64_t bytes) {
    weight *w = &net->weights[blob];
    if (w->bytes < bytes) w->bytes = bytes;
    if (w->bytes < net->file.blobs[blob].nbytes) w->bytes = net->file.blobs[blob].nbytes;
}

/* Blocks for arenas and weights, and where each buffer lies in them. */
static vknn_status make_memory(vknn_net *net, uint64_t limit) {
    NET(net);
    const vkb_plan *p = net->plan;
    const VkPhysicalDeviceLimits *l = &c->facts.base.limits;
    const uint64_t most = 64u << 20; /* of a block; a larger weight has one of its own */
    uint64_t align = l->minStorageBufferOffsetAlignment, total = 0;
    uint32_t count = WEIGHTS, used = 0;
    if (align < l->minTexelBufferOffsetAlignment) align = l->minTexelBufferOffsetAlignment;
    if (align < 64) align = 64;
    KEEP(net, net->weights, net->file.blob_count);
    KEEP(net, net->places, p->buffers);
    for (uint32_t i = 0; i < p->buffers; i++)
        if (net->buffers[i].role == VKB_ROLE_WEIGHT) use_blob(net, net->buffers[i].blob, net->buffers[i].nbytes), used++;
    for (uint32_t i = 0; i < p->states; i++)
        if (net->states[i].blob != VKB_NONE) use_blob(net, net->states[i].blob, net->states[i].nbytes), used++;
    KEEP(net, net->blocks, WEIGHTS + used);
    for (int i = 0; i < 3; i++) total += net->blocks[i].bytes = rounded(p->arenas[i], 16);
    for (uint32_t i = 0; i < net->file.blob_count; i++) {
        weight *w = &net->weights[i];
        if (!w->bytes) continue;
        if (w->bytes > c->facts.sizes.maxMemoryAllocationSize || w->bytes > limit)
            FAIL(VKNN_ERROR_DEVICE_MEMORY, "a weight takes %llu bytes; %s can allocate %llu at once and %llu in all",
                 (unsigned long long)w->bytes, c->facts.base.deviceName,
                 (unsigned long long)c->facts.sizes.maxMemoryAllocationSize, (unsigned long long)limit);
        w->bytes = rounded(w->bytes, align);
        if (count == WEIGHTS || net->blocks[count - 1].bytes + w->bytes > most) count++;
        w->at.in = &net->blocks[count - 1];
        w->at.offset = w->at.in->bytes;
        w->at.in->bytes += w->bytes;
        total += w->bytes;
        if (total > limit) break;
    }
    if (total > limit)
        FAIL(VKNN_ERROR_DEVICE_MEMORY, "the net takes %llu bytes of device memory or more, %llu are free on %s; close "
             "other nets, or take a bundle of smaller shapes or fp16", (unsigned long long)total,
             (unsigned long long)limit, c->facts.base.deviceName);
    for (net->block_count = 0; net->block_count < count; net->block_count++) {
        uint32_t i = net->block_count;
        block *k = &net->blocks[i];
        enum purpose purpose = net->staged || i == VKB_ROLE_ACTIVATION ? DEVICE : SHARED;
        vknn_status status = VKNN_ERROR_DEVICE_MEMORY;
        if (i >= UP && i <= RING) continue;
        /* Behind a discrete GPU's window the host writes inputs well; it may be small and full. */
        if (i == VKB_ROLE_INPUT && net->staged == 2 && memory_type(c, ~0u, WRITTEN) >= 0) {
            status = make_block(net, k, k->bytes, WRITTEN);
            if (status == VKNN_ERROR_DEVICE_MEMORY) free_block(c, k), k->bytes = p->arenas[i];
        }
        if (status == VKNN_ERROR_DEVICE_MEMORY) TRY(make_block(net, k, k->bytes, purpose));
        else TRY(status);
    }
    for (uint32_t i = 0; i < p->buffers; i++) {
        const vkb_buffer *b = &net->buffers[i];
        if (b->role == VKB_ROLE_WEIGHT) net->places[i] = net->weights[b->blob].at;
        else net->places[i].in = &net->blocks[b->role], net->places[i].offset = b->offset;
    }
    return VKNN_OK;
}

static const uint8_t element_bytes[] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8};

/* Where the host sees a buffer: in place, or in staging memory. */
static int seen(vknn_net *net, uint32_t buffer, uint32_t staging, place *at) {
    block *k = &net->blocks[staging];
    *at = net->places[buffer];
    if (at->in->host && (staging == UP || at->in != &net->blocks[VKB_ROLE_INPUT] || net->staged != 2)) return 0;
    at->in = k;
    at->offset = k->bytes;
    k->bytes = rounded(k->bytes + net->buffers[buffer].nbytes, 64);
    return 1;
}

static vknn_status make_hosts(vknn_net *net) {
    vknn_message *why = &net->message;
    KEEP(net, net->hosts, net->plan->ports);
    for (uint32_t i = 0; i < net->plan->ports; i++) {
        host *h = &net->hosts[i];
        for (uint32_t k = 0; k < net->plan->states; k++) h->is_state |= net->states[k].input == net->ports[i].buffer;
        h->copied = seen(net, net->ports[i].buffer, net->ports[i].direction == VKNN_INPUT ? UP : DOWN, &h->at);
        if (net->ports[i].count != VKB_NONE) h->count_copied = seen(net, net->ports[i].count, DOWN, &h->count);
    }
    if (net->blocks[UP].bytes) TRY(make_block(net, &net->blocks[UP], net->blocks[UP].bytes, UPLOAD));
    if (net->blocks[DOWN].bytes) TRY(make_block(net, &net->blocks[DOWN], net->blocks[DOWN].bytes, DOWNLOAD));
    for (uint32_t i = 0; i < net->plan->ports; i++) /* what nobody sets is zero */
        memset(net->hosts[i].at.in->host + net->hosts[i].at.offset, 0, (size_t)port_bytes(&net->ports[i]));
    return VKNN_OK;
}


/* --- Work on the queue --- */

static void barrier(const vknn_context *c, VkCommandBuffer to, int to_host) {
    enum { DEVICE_STAGES = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT };
    VkMemoryBarrier b = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, NULL, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, 0};
    b.dstAccessMask = to_host ? VK_ACCESS_HOST_READ_BIT : b.srcAccessMask | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
    c->vk.CmdPipelineBarrier(to, DEVICE_STAGES, to_host ? VK_PIPELINE_STAGE_HOST_BIT : DEVICE_STAGES, 0, 1, &b, 0, NULL, 0, NULL);
}

static void copy(const vknn_context *c, VkCommandBuffer to, place source, place target, uint64_t bytes) {
    VkBufferCopy region;
    region.srcOffset = source.offset;
    region.dstOffset = target.offset;
    region.size = bytes;
    if (bytes) c->vk.CmdCopyBuffer(to, source.in->buffer, target.in->buffer, 1, &region);
}

static vknn_status begin(vknn_net *net, VkCommandBuffer to) {
    NET(net);
    VkCommandBufferBeginInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL};
    VK("recording commands", BeginCommandBuffer(to, &info));
    barrier(c, to, 0); /* what earlier submits wrote is visible */
    return VKNN_OK;
}

static vknn_status go(vknn_net *net, uint32_t count, const VkSubmitInfo *infos) {
    NET(net);
    mutex_lock(&c->lock);
    net->cancelled = 0;
    mutex_unlock(&c->lock);
    VK("resetting a fence", ResetFences(c->device, 1, &net->fence));
    TRY(submitted(c, count, infos, net->fence, why));
    net->in_flight = 1;
    return VKNN_OK;
}

/* Waits in slices, so that vknn_cancel is seen. */
static vknn_status finish(vknn_net *net) {
    NET(net);
    const uint64_t slice = 10000000;
    for (uint64_t left = net->limit; net->in_flight; left -= left < slice ? left : slice) {
        VkResult code = c->vk.WaitForFences(c->device, 1, &net->fence, VK_TRUE, left < slice ? left : slice);
        int cancelled;
        if (code == VK_SUCCESS || code == VK_ERROR_DEVICE_LOST) net->in_flight = 0;
        if (code != VK_TIMEOUT) { TRY(checked(c, code, "waiting for the device", why)); continue; }
        mutex_lock(&c->lock);
        cancelled = net->cancelled;
        net->cancelled = 0;
        mutex_unlock(&c->lock);
        if (cancelled) FAIL(VKNN_ERROR_CANCELLED, "the run was cancelled; the device works on: wait again, or close");
        if (left <= slice)
            FAIL(VKNN_ERROR_TIMEOUT, "%s did not finish within %g s on %s; wait again, raise time_limit, or close",
                 bundle_string(&net->file, net->plan->name), (double)net->limit / 1e9, c->facts.base.deviceName);
    }
    return VKNN_OK;
}

/* What was begun is ended, done and waited for. */
static vknn_status done(vknn_net *net, VkCommandBuffer commands) {
    NET(net);
    VkSubmitInfo info = {0};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    VK("recording commands", EndCommandBuffer(commands));
    TRY(go(net, 1, &info));
    return finish(net);
}

/* Weights go up; in pieces where the host does not reach the device's memory. */
static vknn_status load_weights(vknn_net *net) {
    NET(net);
    const uint64_t piece = 4 << 20;
    place ring = {&net->blocks[RING], 0};
    VkCommandBuffer commands = net->commands[net->submits];
    for (uint32_t i = 0; i < net->file.blob_count; i++) {
        const weight *w = &net->weights[i];
        const vkb_blob *blob = &net->file.blobs[i];
        const uint8_t *bytes = net->file.data + blob->offset;
        if (!w->bytes) continue;
        if (crc32_of(bytes, (size_t)blob->nbytes) != blob->crc)
            FAIL(VKNN_ERROR_FILE, "the bundle is damaged: blob %u has another sum; copy the file again", i);
        for (uint64_t at = 0, size; at < w->bytes; at += size) {
            uint8_t *into = w->at.in->host ? w->at.in->host + w->at.offset : NULL;
            place target = {w->at.in, w->at.offset + at};
            uint64_t filled;
            size = into || w->bytes - at < piece ? w->bytes - at : piece;
            filled = at >= blob->nbytes ? 0 : blob->nbytes - at < size ? blob->nbytes - at : size;
            if (!into && !ring.in->bytes) TRY(make_block(net, ring.in, piece, UPLOAD));
            if (!into) into = ring.in->host;
            memcpy(into, bytes + at, (size_t)filled);
            memset(into + filled, 0, (size_t)(size - filled));
            if (w->at.in->host) continue;
            TRY(synchronized(net, ring.in, 1));
            TRY(begin(net, commands));
            copy(c, commands, ring, target, size);
            TRY(done(net, commands));
        }
    }
    if (ring.in->bytes) free_block(c, ring.in);
    for (uint32_t i = WEIGHTS; i < net->block_count; i++) TRY(synchronized(net, &net->blocks[i], 1));
    return VKNN_OK;
}

/* --- Pipelines --- */

static vknn_status make_pipeline(vknn_net *net, uint32_t index, vknn_message *why) {
    vknn_context *c = net->context;
    const bundle *b = &net->file;
    const vkb_pipeline *p = &b->pipelines[index];
    pipeline *made = &net->pipelines[index];
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo lanes = {0};
    VkShaderModuleCreateInfo code = {0};
    VkComputePipelineCreateInfo info = {0};
    VkSpecializationInfo constants = {0};
    VkShaderModule module;
    VkResult result;
    char what[160];
    snprintf(what, sizeof what, "making the pipeline of %.100s", bundle_string(b, p->kernel));
    code.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    code.codeSize = (size_t)b->modules[p->module].nbytes;
    code.pCode = (const uint32_t *)(const void *)(b->spirv + b->modules[p->module].offset);
    VK(what, CreateShaderModule(c->device, &code, NULL, &module));
    constants.mapEntryCount = p->constants;
    constants.pMapEntries = net->entries + p->first_constants;
    constants.dataSize = p->constants * sizeof(vkb_constant);
    constants.pData = b->constants + p->first_constants;
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.layout = made->layout;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.flags = p->flags & 1 ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &constants;
    lanes.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    lanes.requiredSubgroupSize = net->plan->subgroup_size;
    if (lanes.requiredSubgroupSize && lanes.requiredSubgroupSize != c->facts.subgroup.subgroupSize) info.stage.pNext = &lanes;
    result = c->vk.CreateComputePipelines(c->device, c->cache, 1, &info, NULL, &made->handle);
    c->vk.DestroyShaderModule(c->device, module, NULL);
    return checked(c, result, what, why);
}

typedef struct job { vknn_net *net; uint32_t next; vknn_status status; vknn_message message; } job;

/* Pipelines, each taken by the first thread that is free. */
THREAD_FUNCTION(work, argument) {
    job *j = argument;
    vknn_context *c = j->net->context;
    for (;;) {
        vknn_message message;
        vknn_status status;
        uint32_t index;
        mutex_lock(&c->lock);
        while (j->next < j->net->file.pipeline_count && !j->net->pipelines[j->next].used) j->next++;
        index = j->status ? j->net->file.pipeline_count : j->next++;
        mutex_unlock(&c->lock);
        if (index >= j->net->file.pipeline_count) return 0;
        status = make_pipeline(j->net, index, &message);
        if (!status) continue;
        mutex_lock(&c->lock);
        j->status = status;
        j->message = message;
        mutex_unlock(&c->lock);
    }
}

static vknn_status make_layouts(vknn_net *net, uint32_t *used) {
    NET(net);
    const bundle *b = &net->file;
    VkDescriptorSetLayoutBinding *bindings;
    uint32_t most = 0;
    KEEP(net, net->pipelines, b->pipeline_count);
    KEEP(net, net->entries, b->constant_count);
    for (uint32_t i = 0; i < net->plan->steps; i++)
        if (net->steps[i].kind == VKB_STEP_DISPATCH) net->pipelines[net->steps[i].pipeline].used = 1;
    for (uint32_t i = 0; i < b->pipeline_count; i++)
        if (b->pipelines[i].slots > most) most = b->pipelines[i].slots;
    KEEP(net, bindings, most);
    for (uint32_t i = 0; i < b->pipeline_count; i++) {
        const vkb_pipeline *p = &b->pipelines[i];
        VkDescriptorSetLayoutCreateInfo set = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, NULL, 0, 0, NULL};
        VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 0};
        VkPipelineLayoutCreateInfo layout = {0};
        if (!net->pipelines[i].used) continue;
        ++*used;
        for (uint32_t k = 0; k < p->constants; k++) {
            VkSpecializationMapEntry *e = &net->entries[p->first_constants + k];
            e->constantID = b->constants[p->first_constants + k].id;
            e->offset = (uint32_t)(k * sizeof(vkb_constant) + offsetof(vkb_constant, word));
            e->size = 4;
        }
        for (uint32_t k = 0; k < p->slots; k++) {
            bindings[k].binding = k;
            bindings[k].descriptorType = (VkDescriptorType)b->slots[p->first_slots + k].view;
            bindings[k].descriptorCount = 1;
            bindings[k].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
        }
        set.bindingCount = p->slots;
        set.pBindings = bindings;
        VK("making a set layout", CreateDescriptorSetLayout(c->device, &set, NULL, &net->pipelines[i].set));
        push.size = p->push_bytes;
        layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
        layout.setLayoutCount = 1;
        layout.pSetLayouts = &net->pipelines[i].set;
        layout.pushConstantRangeCount = push.size > 0;
        layout.pPushConstantRanges = &push;
        VK("making a pipeline layout", CreatePipelineLayout(c->device, &layout, NULL, &net->pipelines[i].layout));
    }
    return VKNN_OK;
}

static vknn_status make_pipelines(vknn_net *net) {
    vknn_message *why = &net->message;
    job j = {net, 0, VKNN_OK, {{0}}};
    thread threads[16];
    uint32_t used = 0, started = 0, most = net->context->options.threads ? net->context->options.threads : 4;
    TRY(make_layouts(net, &used));
    if (most > 16) most = 16;
    while (started + 1 < most && 2 * (started + 1) < used && thread_start(&threads[started], work, &j)) started++;
    work(&j);
    for (uint32_t i = 0; i < started; i++) thread_join(threads[i]);
    if (j.status) FAIL(j.status, "%s", j.message.text);
    return VKNN_OK;
}

static vknn_status bind_buffers(vknn_net *net) {
    NET(net);
    const bundle *b = &net->file;
    VkDescriptorPoolSize sizes[3] = {{VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 0},
        {VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, 0}, {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 0}};
    VkDescriptorPoolCreateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, NULL, 0, 0, 3, sizes};
    VkDescriptorSetAllocateInfo request = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, NULL, 0, 1, NULL};
    uint32_t views = 0;
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        const vkb_step *s = &net->steps[i];
        if (s->kind != VKB_STEP_DISPATCH) continue;
        info.maxSets++;
        for (uint32_t k = 0; k < s->bindings; k++) {
            uint32_t view = b->slots[b->pipelines[s->pipeline].first_slots + k].view;
            sizes[view == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER ? 2 : view == VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER].descriptorCount++;
            views += view != VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        }
    }
    KEEP(net, net->bound, net->plan->steps);
    KEEP(net, net->views, views);
    if (!info.maxSets) return VKNN_OK;
    for (int i = 0; i < 3; i++) if (!sizes[i].descriptorCount) sizes[i].descriptorCount = 1; /* 0 is not allowed */
    VK("making a descriptor pool", CreateDescriptorPool(c->device, &info, NULL, &net->sets));
    request.descriptorPool = net->sets;
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        const vkb_step *s = &net->steps[i];
        if (s->kind != VKB_STEP_DISPATCH) continue;
        request.pSetLayouts = &net->pipelines[s->pipeline].set;
        VK("allocating descriptors", AllocateDescriptorSets(c->device, &request, &net->bound[i]));
        for (uint32_t k = 0; k < s->bindings; k++) {
            const vkb_binding *binding = &b->bindings[s->first_bindings + k];
            place at = net->places[binding->buffer];
            VkDescriptorBufferInfo whole = {at.in->buffer, at.offset, net->buffers[binding->buffer].nbytes};
            VkBufferViewCreateInfo view = {0};
            VkWriteDescriptorSet write = {0};
            write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
            write.dstSet = net->bound[i];
            write.dstBinding = k;
            write.descriptorCount = 1;
            write.descriptorType = (VkDescriptorType)b->slots[b->pipelines[s->pipeline].first_slots + k].view;
            write.pBufferInfo = &whole;
            if (write.descriptorType != VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) {
                view.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO;
                view.buffer = at.in->buffer;
                view.format = (VkFormat)binding->format;
                view.offset = at.offset;
                view.range = whole.range;
                write.pTexelBufferView = &net->views[net->view_count];
                VK("making a buffer view", CreateBufferView(c->device, &view, NULL, &net->views[net->view_count++]));
            }
            c->vk.UpdateDescriptorSets(c->device, 1, &write, 0, NULL);
        }
    }
    return VKNN_OK;
}

/* --- Recording --- */

static void copy_ports(vknn_net *net, VkCommandBuffer to, uint32_t direction) {
    const vknn_context *c = net->context;
    for (uint32_t i = 0; i < net->plan->ports; i++) {
        const vkb_port *p = &net->ports[i];
        const host *h = &net->hosts[i];
        if (p->direction != direction) continue;
        if (h->copied && direction == VKNN_INPUT && !h->is_state) copy(c, to, h->at, net->places[p->buffer], port_bytes(p));
        if (h->copied && direction == VKNN_OUTPUT) copy(c, to, net->places[p->buffer], h->at, port_bytes(p));
        if (h->count_copied) copy(c, to, net->places[p->count], h->count, 4);
    }
}

/* The commands of a submit, with timestamps around each where queries are given. */
static vknn_status record(vknn_net *net, VkCommandBuffer to, uint32_t first, uint32_t end, VkQueryPool queries) {
    NET(net);
    const bundle *b = &net->file;
    uint32_t current = VKB_NONE;
    TRY(begin(net, to));
    if (!first) {
        if (queries) c->vk.CmdResetQueryPool(to, queries, 0, 2 * net->plan->steps);
        copy_ports(net, to, VKNN_INPUT);
        if (net->blocks[UP].bytes) barrier(c, to, 0);
    }
    for (uint32_t i = first; i < end; i++) {
        const vkb_step *s = &net->steps[i];
        place target;
        if (s->kind == VKB_STEP_BARRIER) { barrier(c, to, 0); continue; }
        if (queries) c->vk.CmdWriteTimestamp(to, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 2 * i);
        if (s->kind == VKB_STEP_DISPATCH) {
            const pipeline *p = &net->pipelines[s->pipeline];
            uint32_t push = b->pipelines[s->pipeline].push_bytes;
            if (s->pipeline != current) c->vk.CmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, p->handle);
            current = s->pipeline;
            c->vk.CmdBindDescriptorSets(to, VK_PIPELINE_BIND_POINT_COMPUTE, p->layout, 0, 1, &net->bound[i], 0, NULL);
            if (push) c->vk.CmdPushConstants(to, p->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, push, b->push + s->push);
            c->vk.CmdDispatch(to, s->groups[0], s->groups[1], s->groups[2]);
        } else {
            target = net->places[s->target];
            if (s->kind == VKB_STEP_FILL)
                c->vk.CmdFillBuffer(to, target.in->buffer, target.offset, net->buffers[s->target].nbytes, s->word);
            else {
                place source = net->places[s->source];
                source.offset += s->source_offset;
                target.offset += s->target_offset;
                copy(c, to, source, target, s->nbytes);
            }
        }
        if (queries) c->vk.CmdWriteTimestamp(to, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 2 * i + 1);
    }
    if (end == net->plan->steps) {
        if (net->blocks[DOWN].bytes) barrier(c, to, 0);
        copy_ports(net, to, VKNN_OUTPUT);
        if (net->plan->states) barrier(c, to, 0);
        for (uint32_t i = 0; i < net->plan->states; i++)
            copy(c, to, net->places[net->states[i].output], net->places[net->states[i].input], net->states[i].nbytes);
        barrier(c, to, 1);
    }
    VK("recording commands", EndCommandBuffer(to));
    return VKNN_OK;
}

static vknn_status make_commands(vknn_net *net) {
    NET(net);
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, 0};
    VkCommandBufferAllocateInfo request = {0};
    VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, 0};
    net->submits = net->plan->submits ? net->plan->submits : 1;
    KEEP(net, net->commands, net->submits + 1);
    KEEP(net, net->infos, net->submits);
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool.queueFamilyIndex = c->facts.family;
    VK("making a command pool", CreateCommandPool(c->device, &pool, NULL, &net->pool));
    request.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    request.commandPool = net->pool;
    request.commandBufferCount = net->submits + 1;
    VK("allocating command buffers", AllocateCommandBuffers(c->device, &request, net->commands));
    VK("making a fence", CreateFence(c->device, &fence, NULL, &net->fence));
    return VKNN_OK;
}

static vknn_status record_all(vknn_net *net, VkCommandBuffer *commands, VkSubmitInfo *infos, VkQueryPool queries) {
    for (uint32_t i = 0, first = 0; i < net->submits; i++) {
        uint32_t end = net->plan->submits ? net->file.submits[net->plan->first_submits + i].end : net->plan->steps;
        TRY(record(net, commands[i], first, end, queries));
        infos[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        infos[i].commandBufferCount = 1;
        infos[i].pCommandBuffers = &commands[i];
        first = end;
    }
    return VKNN_OK;
}

static vknn_status ready(vknn_net *net) {
    vknn_message *why = &net->message;
    if (net->in_flight) FAIL(VKNN_ERROR_ARGUMENT, "a run is under way; call vknn_wait first");
    return VKNN_OK;
}

vknn_status vknn_reset(vknn_net *net) {
    NET(net);
    VkCommandBuffer to = net->commands[net->submits];
    TRY(ready(net));
    if (!net->plan->states) return VKNN_OK;
    TRY(begin(net, to));
    for (uint32_t i = 0; i < net->plan->states; i++) {
        const vkb_state *s = &net->states[i];
        place target = net->places[s->input];
        if (s->blob != VKB_NONE) copy(c, to, net->weights[s->blob].at, target, s->nbytes);
        else c->vk.CmdFillBuffer(to, target.in->buffer, target.offset, rounded(s->nbytes, 4), 0);
    }
    return done(net, to);
}

/* --- Nets --- */

#if defined(_WIN32)
static vknn_status map_file(vknn_net *net, const char *path) {
    vknn_message *why = &net->message;
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL), map = NULL;
    LARGE_INTEGER size = {{0, 0}};
    if (file != INVALID_HANDLE_VALUE && GetFileSizeEx(file, &size) && (uint64_t)size.QuadPart <= SIZE_MAX)
        map = CreateFileMappingA(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (map) net->mapped = MapViewOfFile(map, FILE_MAP_READ, 0, 0, 0);
    net->mapped_bytes = (size_t)size.QuadPart;
    if (map) CloseHandle(map);
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    if (!net->mapped) FAIL(VKNN_ERROR_FILE, "%s cannot be read (error %lu)", path, GetLastError());
    return VKNN_OK;
}
#else
static vknn_status map_file(vknn_net *net, const char *path) {
    vknn_message *why = &net->message;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat is;
    void *at = MAP_FAILED;
    if (file < 0) FAIL(VKNN_ERROR_FILE, "%s cannot be opened: %s", path, strerror(errno));
    if (!fstat(file, &is) && S_ISREG(is.st_mode) && is.st_size > 0 && (uint64_t)is.st_size <= SIZE_MAX)
        at = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (at == MAP_FAILED) FAIL(VKNN_ERROR_FILE, "%s is empty, or no file that can be mapped", path);
    net->mapped = at;
    net->mapped_bytes = (size_t)is.st_size;
    return VKNN_OK;
}
#endif

static vknn_status open_net(vknn_net *net, const char *path, const void *bytes, size_t size, const vknn_net_options *o) {
    NET(net);
    double seconds = o->time_limit > 0 && o->time_limit < 1e9 ? o->time_limit : 30;
    net->limit = (uint64_t)(seconds * 1e9);
    net->staged = c->unified ? !!o->staged : o->staged ? 1 : 2; /* 2: because memory is apart */
    if (path) {
        TRY(map_file(net, path));
        bytes = net->mapped;
        size = net->mapped_bytes;
    } else if (!o->keeps_memory || (uintptr_t)bytes % 8) {
        if (!(net->copied = allocated(&c->options, NULL, size + !size))) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory");
        bytes = memcpy(net->copied, bytes, size);
    }
    TRY(bundle_open(&net->file, bytes, size, o->sha256, why));
    TRY(choose_plan(net, o));
    TRY(make_memory(net, o->memory_limit ? o->memory_limit : free_memory(c)));
    TRY(make_hosts(net));
    TRY(make_commands(net));
    TRY(load_weights(net));
    TRY(make_pipelines(net));
    TRY(bind_buffers(net));
    TRY(record_all(net, net->commands, net->infos, VK_NULL_HANDLE));
    TRY(vknn_reset(net));
#if !defined(_WIN32)
    if (net->mapped && net->file.data_bytes) { /* the weights are on the device; what is read again is read again */
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)net->file.data / page * page;
        madvise((void *)at, (size_t)((uintptr_t)net->file.data + net->file.data_bytes - at), MADV_DONTNEED);
    }
#endif
    mutex_lock(&c->lock);
    save_cache(c);
    mutex_unlock(&c->lock);
    return VKNN_OK;
}

static vknn_status new_net(vknn_context *c, const char *path, const void *bytes, size_t size,
                           const vknn_net_options *options, vknn_net **into, vknn_message *why) {
    const vknn_net_options none = {0};
    vknn_net *net = allocated(&c->options, NULL, sizeof *net);
    vknn_status status;
    *into = NULL;
    if (!net) FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory");
    memset(net, 0, sizeof *net);
    net->context = c;
    status = open_net(net, path, bytes, size, options ? options : &none);
    if (!status) return *into = net, VKNN_OK;
    if (why) *why = net->message;
    vknn_net_close(net);
    return status;
}

vknn_status vknn_net_open_file(vknn_context *c, const char *path, const vknn_net_options *options, vknn_net **net,
                               vknn_message *why) {
    return new_net(c, path, NULL, 0, options, net, why);
}

vknn_status vknn_net_open_memory(vknn_context *c, const void *bytes, size_t size, const vknn_net_options *options,
                                 vknn_net **net, vknn_message *why) {
    return new_net(c, NULL, bytes, size, options, net, why);
}

void vknn_net_close(vknn_net *net) {
    vknn_context *c;
    if (!net) return;
    c = net->context;
    for (int i = 0; net->in_flight && i < 4; i++)
        if (c->vk.WaitForFences(c->device, 1, &net->fence, VK_TRUE, UINT64_MAX) != VK_TIMEOUT) net->in_flight = 0;
    c->vk.DestroyFence(c->device, net->fence, NULL);
    c->vk.DestroyCommandPool(c->device, net->pool, NULL);
    c->vk.DestroyDescriptorPool(c->device, net->sets, NULL);
    for (uint32_t i = 0; i < net->view_count; i++) c->vk.DestroyBufferView(c->device, net->views[i], NULL);
    for (uint32_t i = 0; net->pipelines && i < net->file.pipeline_count; i++) {
        c->vk.DestroyPipeline(c->device, net->pipelines[i].handle, NULL);
        c->vk.DestroyPipelineLayout(c->device, net->pipelines[i].layout, NULL);
        c->vk.DestroyDescriptorSetLayout(c->device, net->pipelines[i].set, NULL);
    }
    for (uint32_t i = 0; net->blocks && i <= net->block_count; i++)
        if (i < net->block_count || net->blocks[i].buffer) free_block(c, &net->blocks[i]);
#if defined(_WIN32)
    if (net->mapped) UnmapViewOfFile(net->mapped);
#else
    if (net->mapped) munmap(net->mapped, net->mapped_bytes);
#endif
    if (net->copied) allocated(&c->options, net->copied, 0);
    while (net->kept) {
        kept *k = net->kept;
        net->kept = k->next;
        allocated(&c->options, k, 0);
    }
    allocated(&c->options, net, 0);
}

const char *vknn_net_message(const vknn_net *net) { return net->message.text; }

uint64_t vknn_net_memory(const vknn_net *net) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < net->block_count; i++) bytes += net->blocks[i].bytes;
    return bytes;
}

uint32_t vknn_ports(const vknn_net *net, vknn_direction direction) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->plan->ports; i++) count += net->ports[i].direction == (uint32_t)direction;
    return count;
}

/* Index of a port by its name, or by its number among those of its direction. */
static vknn_status find_port(vknn_net *net, vknn_direction direction, const char *name, uint32_t number, uint32_t *found) {
    vknn_message *why = &net->message;
    char there[600] = "";
    for (*found = 0; *found < net->plan->ports; ++*found) {
        const char *is = bundle_string(&net->file, net->ports[*found].name);
        if (net->ports[*found].direction != (uint32_t)direction) continue;
        if (name ? !strcmp(name, is) : !number--) return VKNN_OK;
        append(there, sizeof there, "%s%s", *there ? ", " : "", is);
    }
    FAIL(VKNN_ERROR_ARGUMENT, "there is no %s %s; there are: %s", direction ? "output" : "input",
         name ? name : "of that number", *there ? there : "none");
}

static void describe(const vknn_net *net, uint32_t index, vknn_port *port) {
    const vkb_port *p = &net->ports[index];
    memset(port, 0, sizeof *port);
    port->name = bundle_string(&net->file, p->name);
    port->direction = (vknn_direction)p->direction;
    port->type = (vknn_type)p->type;
    port->rank = p->rank;
    memcpy(port->dims, p->dims, sizeof port->dims);
    port->bytes = (size_t)port_bytes(p);
    port->layout = bundle_string(&net->file, p->layout);
    port->picture = bundle_string(&net->file, p->picture);
    port->quantized = p->quantized != 0;
    port->scale = p->scale;
    port->zero_point = p->zero_point;
    port->labels = p->labels;
    port->open = p->count != VKB_NONE;
}

vknn_status vknn_describe(vknn_net *net, vknn_direction direction, uint32_t number, vknn_port *port) {
    uint32_t index;
    TRY(find_port(net, direction, NULL, number, &index));
    describe(net, index, port);
    return VKNN_OK;
}

vknn_status vknn_find(vknn_net *net, vknn_direction direction, const char *name, vknn_port *port) {
    uint32_t index;
    TRY(find_port(net, direction, name, 0, &index));
    describe(net, index, port);
    return VKNN_OK;
}

const char *vknn_label(const vknn_net *net, const vknn_port *port, uint32_t index) {
    for (uint32_t i = 0; i < net->plan->ports; i++) {
        const vkb_port *p = &net->ports[i];
        if (p->direction == (uint32_t)port->direction && !strcmp(bundle_string(&net->file, p->name), port->name))
            return index < p->labels ? bundle_string(&net->file, net->file.labels[p->first_labels + index].text) : NULL;
    }
    return NULL;
}

/* A port's sizes behind the last run, and its bytes. */
static uint64_t sizes_now(const vknn_net *net, uint32_t index, uint64_t dims[VKNN_MOST_AXES]) {
    const vkb_port *p = &net->ports[index];
    const host *h = &net->hosts[index];
    uint64_t bytes = element_bytes[p->type];
    int32_t count;
    memcpy(dims, p->dims, sizeof p->dims);
    if (p->count != VKB_NONE) {
        memcpy(&count, h->count.in->host + h->count.offset, sizeof count);
        if (count < 0) count = 0;
        if ((uint64_t)count < dims[p->open_axis]) dims[p->open_axis] = (uint64_t)count;
    }
    for (uint32_t i = 0; i < p->rank; i++) bytes *= dims[i];
    return bytes;
}

vknn_status vknn_shape(vknn_net *net, const char *output, uint64_t dims[VKNN_MOST_AXES]) {
    uint32_t index;
    TRY(ready(net));
    TRY(find_port(net, VKNN_OUTPUT, output, 0, &index));
    sizes_now(net, index, dims);
    return VKNN_OK;
}

/* The host's bytes of a port that is named. */
static vknn_status reach(vknn_net *net, vknn_direction direction, const char *name, uint8_t **at, uint64_t *bytes) {
    vknn_message *why = &net->message;
    uint64_t dims[VKNN_MOST_AXES];
    uint32_t index;
    TRY(ready(net));
    TRY(find_port(net, direction, name, 0, &index));
    if (direction == VKNN_INPUT && net->hosts[index].is_state)
        FAIL(VKNN_ERROR_ARGUMENT, "%s is state, which the net sets itself; vknn_reset gives it its first value", name);
    *at = net->hosts[index].at.in->host + net->hosts[index].at.offset;
    *bytes = sizes_now(net, index, dims);
    return VKNN_OK;
}

static vknn_status wrong_size(vknn_net *net, const char *name, uint64_t bytes, size_t given) {
    vknn_message *why = &net->message;
    FAIL(VKNN_ERROR_ARGUMENT, "%s takes %llu bytes, not %llu", name, (unsigned long long)bytes, (unsigned long long)given);
}

vknn_status vknn_set(vknn_net *net, const char *input, const void *data, size_t bytes) {
    uint64_t size;
    uint8_t *at;
    TRY(reach(net, VKNN_INPUT, input, &at, &size));
    if (size != bytes) return wrong_size(net, input, size, bytes);
    memcpy(at, data, bytes);
    return VKNN_OK;
}

vknn_status vknn_get(vknn_net *net, const char *output, void *data, size_t bytes) {
    uint64_t size;
    uint8_t *at;
    TRY(reach(net, VKNN_OUTPUT, output, &at, &size));
    if (size != bytes) return wrong_size(net, output, size, bytes);
    memcpy(data, at, bytes);
    return VKNN_OK;
}

vknn_status vknn_borrow(vknn_net *net, vknn_direction direction, const char *name, void **data, size_t *bytes) {
    uint32_t index;
    uint64_t size;
    uint8_t *at;
    TRY(reach(net, direction, name, &at, &size));
    TRY(find_port(net, direction, name, 0, &index));
    *data = at;
    *bytes = (size_t)port_bytes(&net->ports[index]);
    return VKNN_OK;
}

static vknn_status start(vknn_net *net, const VkSubmitInfo *infos) {
    if (net->in_flight) TRY(finish(net));
    for (uint32_t i = 0; i < net->plan->ports; i++)
        if (net->ports[i].direction == VKNN_INPUT) TRY(synchronized(net, net->hosts[i].at.in, 1));
    return go(net, net->submits, infos);
}

vknn_status vknn_submit(vknn_net *net) { return start(net, net->infos); }

vknn_status vknn_wait(vknn_net *net) {
    TRY(finish(net));
    for (uint32_t i = 0; i < net->plan->ports; i++) {
        if (net->ports[i].direction != VKNN_OUTPUT) continue;
        TRY(synchronized(net, net->hosts[i].at.in, 0));
        if (net->ports[i].count != VKB_NONE) TRY(synchronized(net, net->hosts[i].count.in, 0));
    }
    return VKNN_OK;
}

vknn_status vknn_run(vknn_net *net) {
    TRY(vknn_submit(net));
    return vknn_wait(net);
}

void vknn_cancel(vknn_net *net) {
    mutex_lock(&net->context->lock);
    net->cancelled = 1;
    mutex_unlock(&net->context->lock);
}

/* --- The bundle's example --- */

static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) value = fraction ? (double)NAN : (double)INFINITY;
    return h >> 15 ? -value : value;
}

static double element(uint32_t type, const uint8_t *at) {
    union { float f; double d; uint16_t u16; int16_t i16; uint32_t u32; int32_t i32; uint64_t u64; int64_t i64; } v;
    memcpy(&v, at, element_bytes[type]);
    switch (type) {
    case VKB_TYPE_FLOAT32: return v.f;
    case VKB_TYPE_FLOAT16: return half_value(v.u16);
    case VKB_TYPE_INT8: return (int8_t)*at;
    case VKB_TYPE_INT16: return v.i16;
    case VKB_TYPE_UINT16: return v.u16;
    case VKB_TYPE_INT32: return v.i32;
    case VKB_TYPE_UINT32: return v.u32;
    case VKB_TYPE_INT64: return (double)v.i64;
    case VKB_TYPE_UINT64: return (double)v.u64;
    case VKB_TYPE_FLOAT64: return v.d;
    default: return *at; /* uint8, bool */
    }
}

/* A line about an output; how many of its elements are off. */
static uint64_t compared(vknn_net *net, const vkb_example *e, text *t) {
    const vkb_port *p = &net->ports[e->port];
    const vkb_blob *blob = &net->file.blobs[e->blob];
    const uint8_t *expected = net->file.data + blob->offset;
    const uint8_t *got = net->hosts[e->port].at.in->host + net->hosts[e->port].at.offset;
    const char *name = bundle_string(&net->file, p->name);
    uint64_t dims[VKNN_MOST_AXES], size = element_bytes[p->type], bytes = sizes_now(net, e->port, dims), wrong = 0;
    double most = 0;
    if (bytes != blob->nbytes) {
        add(t, "%s: %llu elements, not %llu\n", name, (unsigned long long)(bytes / size), (unsigned long long)(blob->nbytes / size));
        return 1;
    }
    for (uint64_t at = 0; at < bytes; at += size) {
        double a = element(p->type, got + at), b = element(p->type, expected + at), off = fabs(a - b);
        if (!memcmp(got + at, expected + at, (size_t)size) || a == b || (isnan(a) && isnan(b))) continue;
        if (!(off <= most)) most = off;
        if (!(off <= e->absolute + e->relative * fabs(b))) wrong++;
    }
    add(t, "%s: %llu of %llu elements differ, by at most %g (allowed: %g + %g of the value)\n", name,
        (unsigned long long)wrong, (unsigned long long)(bytes / size), most, e->absolute, e->relative);
    return wrong;
}

vknn_status vknn_test(vknn_net *net, char **into) {
    NET(net);
    text t = {&c->options, NULL, 0, 0, 0};
    const vkb_example *examples = net->file.examples + net->plan->first_examples;
    uint64_t wrong = 0;
    if (into) *into = NULL;
    if (!net->plan->examples) FAIL(VKNN_ERROR_ARGUMENT, "the bundle has no example; export it without --no-example");
    TRY(vknn_reset(net));
    for (uint32_t i = 0; i < net->plan->examples; i++) {
        const vkb_example *e = &examples[i];
        const vkb_blob *blob = &net->file.blobs[e->blob];
        const host *h = &net->hosts[e->port];
        const uint8_t *bytes = net->file.data + blob->offset;
        if (crc32_of(bytes, (size_t)blob->nbytes) != blob->crc)
            FAIL(VKNN_ERROR_FILE, "the bundle is damaged: the sum of the example does not fit; copy the file again");
        if (net->ports[e->port].direction != VKNN_INPUT || h->is_state) continue;
        memcpy(h->at.in->host + h->at.offset, bytes, (size_t)blob->nbytes);
    }
    TRY(vknn_run(net));
    for (uint32_t i = 0; i < net->plan->examples; i++)
        if (net->ports[examples[i].port].direction == VKNN_OUTPUT) wrong += compared(net, &examples[i], &t);
    TRY(given(&t, into, why));
    TRY(vknn_reset(net));
    if (wrong)
        FAIL(VKNN_ERROR_DIFFERS, "%s computes something else than vknn's reference (%llu elements); export with other "
             "targets, and see docs/phones.md", c->facts.base.deviceName, (unsigned long long)wrong);
    return VKNN_OK;
}

/* --- Times --- */

static void add_quoted(text *t, const char *before, const char *value) {
    add(t, "%s\"", before);
    for (; *value; value++)
        if (*value == '"' || *value == '\\' || (unsigned char)*value < 32) add(t, "\\u%04x", (unsigned char)*value);
        else add(t, "%c", *value);
    add(t, "\"");
}

/* {"device", "driver", "target", "shapes", "precision", "runs", "steps": [{"label": layers, "op", "kernel" ("copy" and
 * "fill" of those), "groups": [x, y, z], "flops", "bytes", "begin", "microseconds"}], "microseconds"}: means of all
 * runs in microseconds, `begin` from the first step's begin, the last number from there to the last step's end. */
static vknn_status write_profile(vknn_net *net, uint32_t runs, const double *times, char **into) {
    NET(net);
    const bundle *b = &net->file;
    const double unit = (double)c->facts.base.limits.timestampPeriod / 1000 / runs;
    text t = {&c->options, NULL, 0, 0, 0};
    double end = 0;
    const char *between = "";
    add_quoted(&t, "{\"device\": ", c->facts.base.deviceName);
    add_quoted(&t, ", \"driver\": ", c->facts.driver.driverInfo);
    add_quoted(&t, ", \"target\": ", bundle_string(b, net->plan->target));
    add_quoted(&t, ", \"shapes\": ", bundle_string(b, net->plan->shapes));
    add_quoted(&t, ", \"precision\": ", bundle_string(b, net->plan->precision));
    add(&t, ", \"runs\": %u, \"steps\": [", runs);
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        const vkb_step *s = &net->steps[i];
        if (s->kind == VKB_STEP_BARRIER) continue;
        add(&t, "%s{", between);
        between = ",\n";
        add_quoted(&t, "\"label\": ", bundle_string(b, s->label));
        add_quoted(&t, ", \"op\": ", bundle_string(b, s->op));
        add_quoted(&t, ", \"kernel\": ", s->kind == VKB_STEP_COPY ? "copy" : s->kind == VKB_STEP_FILL ? "fill" :
                   bundle_string(b, b->pipelines[s->pipeline].kernel));
        add(&t, ", \"groups\": [%u, %u, %u], \"flops\": %llu, \"bytes\": %llu, \"begin\": %.3f, \"microseconds\": %.3f}",
            s->groups[0], s->groups[1], s->groups[2], (unsigned long long)s->flops, (unsigned long long)s->traffic,
            times[2 * i] * unit, (times[2 * i + 1] - times[2 * i]) * unit);
        if (times[2 * i + 1] * unit > end) end = times[2 * i + 1] * unit;
    }
    add(&t, "], \"microseconds\": %.3f}\n", end);
    return given(&t, into, why);
}

static vknn_status measure(vknn_net *net, uint32_t runs, VkQueryPool queries, VkCommandBuffer *commands, char **json) {
    NET(net);
    const uint64_t mask = c->facts.timestamp_bits < 64 ? (UINT64_C(1) << c->facts.timestamp_bits) - 1 : UINT64_MAX;
    double *times;
    VkSubmitInfo *infos;
    KEEP(net, times, 2 * (uint64_t)net->plan->steps);
    KEEP(net, infos, net->submits);
    TRY(record_all(net, commands, infos, queries));
    for (uint32_t run = 0; run < runs; run++) {
        uint64_t first = 0;
        int seen_first = 0;
        TRY(start(net, infos));
        TRY(vknn_wait(net));
        for (uint32_t i = 0; i < 2 * net->plan->steps; i++) {
            uint64_t ticks;
            if (net->steps[i / 2].kind == VKB_STEP_BARRIER) continue;
            VK("reading timestamps", GetQueryPoolResults(c->device, queries, i, 1, sizeof ticks, &ticks, sizeof ticks,
                                                         VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
            if (!seen_first) first = ticks, seen_first = 1;
            times[i] += (double)((ticks - first) & mask);
        }
    }
    return write_profile(net, runs, times, json);
}

vknn_status vknn_profile(vknn_net *net, uint32_t runs, char **json) {
    NET(net);
    VkQueryPoolCreateInfo info = {0};
    VkCommandBufferAllocateInfo request = {0};
    VkQueryPool queries;
    VkCommandBuffer *commands;
    vknn_status status;
    *json = NULL;
    TRY(ready(net));
    if (!c->facts.timestamp_bits || !runs)
        FAIL(VKNN_ERROR_ARGUMENT, runs ? "%s has no timestamps" : "no run is asked for (%s)", c->facts.base.deviceName);
    KEEP(net, commands, net->submits);
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2 * net->plan->steps + !net->plan->steps;
    VK("making a query pool", CreateQueryPool(c->device, &info, NULL, &queries));
    request.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    request.commandPool = net->pool;
    request.commandBufferCount = net->submits;
    status = checked(c, c->vk.AllocateCommandBuffers(c->device, &request, commands), "allocating command buffers", why);
    if (!status) status = measure(net, runs, queries, commands, json);
    if (net->in_flight) c->vk.WaitForFences(c->device, 1, &net->fence, VK_TRUE, UINT64_MAX), net->in_flight = 0;
    c->vk.DestroyQueryPool(c->device, queries, NULL);
    return status;
}
