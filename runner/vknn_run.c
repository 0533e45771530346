/* Runs bundles on Vulkan devices: vknn_run.h says how, docs/bundle.md what a bundle is.
 *
 * Compile it with your program: cc -std=c99 -c vknn_run.c (link with -pthread, and -ldl where libc lacks
 * dlopen). VKNN_STATIC_VULKAN: vkGetInstanceProcAddr is linked in, not looked for. VKNN_NO_THREADS: for
 * platforms without threads; then one thread alone may call. VKNN_SMALL: 8 KB less; an error of a damaged
 * bundle names field and value, not the rule that is broken. There is no global state.
 * Built and run with gcc and clang on Linux; for Windows by zig, and run by wine; for macOS compiled alone, by zig;
 * for phones never. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE /* mmap, dlopen and madvise beside C99 */
#define _DARWIN_C_SOURCE
#define _FILE_OFFSET_BITS 64
#endif
#include "check.c"
#define VK_NO_PROTOTYPES
#if defined(__has_include)
#if !__has_include(<vulkan/vulkan_core.h>)
#include "headers/vulkan/vulkan_core.h" /* what is used here of them, where they are not installed */
#endif
#endif
#if !defined(VULKAN_CORE_H_)
#include <vulkan/vulkan_core.h>
#endif
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#if defined(_WIN32)
#include <windows.h>
#include <direct.h>
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#if defined(VKNN_NO_THREADS)
typedef int mutex, thread;
#define MUTEX_INIT(m) ((void)(m))
#define MUTEX(does, m) ((void)(m))
#define THREAD_FUNCTION(name, argument) static void *name(void *argument)
#define thread_start(t, function, argument) (*(t) = 0)
#define thread_join(t) ((void)(t))
#elif defined(_WIN32)
typedef CRITICAL_SECTION mutex;
typedef HANDLE thread;
#define MUTEX_INIT(m) InitializeCriticalSection(m)
#define MUTEX(does, m) MUTEX_##does(m)
#define MUTEX_destroy DeleteCriticalSection
#define MUTEX_lock EnterCriticalSection
#define MUTEX_unlock LeaveCriticalSection
#define THREAD_FUNCTION(name, argument) static DWORD WINAPI name(void *argument)
#define thread_start(t, function, argument) \
    ((*(t) = CreateThread(NULL, 0, function, argument, 0, NULL)) != NULL)
#define thread_join(t) (WaitForSingleObject(t, INFINITE), CloseHandle(t))
#else
#include <pthread.h>
typedef pthread_mutex_t mutex;
typedef pthread_t thread;
#define MUTEX_INIT(m) pthread_mutex_init(m, NULL)
#define MUTEX(does, m) pthread_mutex_##does(m)
#define THREAD_FUNCTION(name, argument) static void *name(void *argument)
#define thread_start(t, function, argument) (!pthread_create(t, NULL, function, argument))
#define thread_join(t) pthread_join(t, NULL)
#endif

#define GLOBAL(F) F(CreateInstance) F(EnumerateInstanceVersion)
#define OF_INSTANCE(F) F(DestroyInstance) F(EnumeratePhysicalDevices) F(GetPhysicalDeviceProperties) \
    F(GetPhysicalDeviceProperties2) F(GetPhysicalDeviceFeatures2) F(GetPhysicalDeviceMemoryProperties2) \
    F(GetPhysicalDeviceQueueFamilyProperties) F(GetPhysicalDeviceFormatProperties) \
    F(EnumerateDeviceExtensionProperties) F(CreateDevice) F(GetDeviceProcAddr)
#define OF_DEVICE(F) \
    F(DestroyDevice) F(GetDeviceQueue) F(QueueSubmit) F(QueueWaitIdle) F(DeviceWaitIdle) F(AllocateMemory) \
    F(FreeMemory) F(MapMemory) F(FlushMappedMemoryRanges) F(InvalidateMappedMemoryRanges) F(CreateBuffer) \
    F(DestroyBuffer) F(GetBufferMemoryRequirements) F(BindBufferMemory) F(CreateBufferView) \
    F(DestroyBufferView) F(CreateShaderModule) F(DestroyShaderModule) F(CreatePipelineCache) \
    F(DestroyPipelineCache) F(GetPipelineCacheData) F(CreateComputePipelines) F(DestroyPipeline) \
    F(CreateDescriptorSetLayout) F(DestroyDescriptorSetLayout) F(CreatePipelineLayout) \
    F(DestroyPipelineLayout) F(CreateDescriptorPool) F(DestroyDescriptorPool) F(AllocateDescriptorSets) \
    F(UpdateDescriptorSets) F(CreateCommandPool) F(DestroyCommandPool) F(AllocateCommandBuffers) \
    F(BeginCommandBuffer) F(EndCommandBuffer) F(CmdBindPipeline) \
    F(CmdBindDescriptorSets) F(CmdPushConstants) F(CmdDispatch) F(CmdPipelineBarrier) F(CmdCopyBuffer) \
    F(CmdFillBuffer) F(CmdResetQueryPool) F(CmdWriteTimestamp) F(CreateFence) F(DestroyFence) \
    F(ResetFences) F(WaitForFences) F(CreateQueryPool) F(DestroyQueryPool) F(GetQueryPoolResults)
#define AS_FIELD(name) PFN_vk##name name;
#define AS_TEXT(name) "vk" #name "\0"
typedef struct functions { GLOBAL(AS_FIELD) OF_INSTANCE(AS_FIELD) OF_DEVICE(AS_FIELD) } functions;

/* Any struct of features (they differ in how many), and what headers before 1.3.255 do not have. */
typedef struct feature_struct { VkStructureType type; void *next; VkBool32 on[4]; } feature_struct;
typedef struct matrix_struct {
    VkStructureType type; void *next; uint32_t m, n, k, a, b, c, result, saturates, scope;
} matrix_struct;
typedef VkResult (VKAPI_PTR *matrix_function)(VkPhysicalDevice, uint32_t *, matrix_struct *);

#define SIZE_CONTROL 0x80000000u /* beside the bits of vkb.h: subgroups of a size that is asked for */
static const struct ability {
    uint32_t bits[2], type; /* of the struct's first features; its VkStructureType */
    uint32_t core;          /* the Vulkan that needs no extension */
    char extension[44];
} abilities[] = {
    /* the memory model first: make_device looks at it */
    {{VKB_FEATURE_VULKAN_MEMORY_MODEL, VKB_FEATURE_MEMORY_MODEL_DEVICE_SCOPE}, 1000211000, VK_API_VERSION_1_2,
        "VK_KHR_vulkan_memory_model"},
    {{VKB_FEATURE_STORAGE_16BIT, 0}, 1000083000, VK_API_VERSION_1_1, "VK_KHR_16bit_storage"},
    {{VKB_FEATURE_STORAGE_8BIT, 0}, 1000177000, VK_API_VERSION_1_2, "VK_KHR_8bit_storage"},
    {{VKB_FEATURE_FLOAT16, VKB_FEATURE_INT8}, 1000082000, VK_API_VERSION_1_2, "VK_KHR_shader_float16_int8"},
    {{VKB_FEATURE_INTEGER_DOT, 0}, 1000280000, VK_API_VERSION_1_3, "VK_KHR_shader_integer_dot_product"},
    {{SIZE_CONTROL, VKB_FEATURE_FULL_SUBGROUPS}, 1000225002, VK_API_VERSION_1_3,
        "VK_EXT_subgroup_size_control"},
    {{VKB_FEATURE_COOPERATIVE_MATRIX, 0}, 1000506000, ~0u, "VK_KHR_cooperative_matrix"},
    {{VKB_FEATURE_FLOAT_DOT, 0}, 1000673000, ~0u, "VK_VALVE_shader_mixed_float_dot_product"},
};
#define ABILITIES (sizeof abilities / sizeof *abilities)

typedef struct facts { /* what a physical device says of itself */
    VkPhysicalDeviceProperties base;
    VkPhysicalDeviceIDProperties id;
    VkPhysicalDeviceMaintenance3Properties sizes;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceSubgroupSizeControlProperties control;
    VkPhysicalDeviceDriverProperties driver;
    uint32_t family, timestamp_bits, extension_count;
    VkExtensionProperties *extensions;
} facts;

typedef struct shared shared;

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
    int lost;
    int holders; /* the app, until it destroys the context, and nets */
    mutex lock;  /* of the queue, the two above, the cache's file, and of what threads share */
    mutex sharing; /* of these, taken before any other lock: */
    shared *weights[64], *pipelines; /* by the last bits of CRCs */
    VkPipelineCache cache;
    char *cache_path;
    size_t cache_bytes; /* of the data in the file */
};

typedef struct block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint8_t *host;
    uint64_t bytes;
    int coherent;
} block;
/* A net's blocks: first the arenas, then staging memory. */
enum { UP = 3, DOWN = 4, RING = 5, BLOCKS = 6 };
/* Weights go through a ring of pieces: while the device copies some, the host fills the next one. */
enum { PIECES = 4, PIECE = 1 << 20 };
typedef struct place { block *in; uint64_t offset; } place;

/* A use, by a net, of what nets share: a weight or a pipeline, the one of this number in its bundle. */
typedef struct use {
    shared *of; /* null: not used */
    struct use *next, **at; /* among its users; what leads here */
    const vknn_net *net;
    uint64_t bytes; /* that a weight takes; 0: not used */
    uint32_t index;
    int sums; /* whether a weight's were compared */
} use;
struct shared { shared *next, **at; use *users; }; /* in its list; lives as long as it has users */
/* So many of a list are looked at, for opening takes time in proportion to a bundle's size; what is not found is
 * not shared. */
enum { MOST_LOOKED_AT = 256 };
typedef struct shelf { /* memory of weights that came with one net */
    block block;
    mutex lock; /* of making the block, and of loading what lies in it */
    uint32_t weights;
} shelf;
typedef struct weight { shared head; shelf *in; uint64_t offset, bytes; int loaded; } weight;
typedef struct pipeline {
    shared head;
    mutex lock; /* of making it */
    VkDescriptorSetLayout set;
    VkPipelineLayout layout;
    VkPipeline handle;
} pipeline;
typedef struct kept { struct kept *next; uint64_t fill; } kept;

struct vknn_net {
    vknn_context *context;
    vknn_message message;
    bundle file;
    void *mapped, *copied;
    size_t mapped_bytes;
    const vkb_plan *plan; /* and its records: */
    const vkb_buffer *buffers;
    const vkb_step *steps;
    const vkb_port *ports;
    const vkb_state *states;
    kept *kept;
    block blocks[BLOCKS], *host[2]; /* where the host sees inputs and outputs: their arenas, or UP and DOWN */
    uint32_t view_count, submits;
    place *places;             /* of the plan's buffers */
    use *weights, *pipelines;  /* by blob and by pipeline */
    VkDescriptorPool pool;
    VkDescriptorSet *sets; /* by step */
    VkBufferView *views;
    VkCommandPool commands_pool;
    VkCommandBuffer *commands; /* by submit; one for all else; by piece of the ring */
    VkSubmitInfo *infos;
    VkFence fences[1 + PIECES]; /* of runs and all else; by piece */
    uint64_t limit; /* nanoseconds */
    uint32_t filled; /* bytes in the ring's piece that is being filled */
    int in_flight, piece, cancelled, pinned, recorded; /* in_flight: a bit for each fence */
};

typedef unsigned long long number; /* for printf */
/* Calls of Vulkan that may fail, where c and why are. */
#define VK(what, call) TRY(checked(c, c->vk.call, what, why))
#define NET(net) \
    vknn_context *const c = (net)->context; \
    vknn_message *const why = &(net)->message; \
    (void)c, (void)why
#define KEEP(into, count) do if (!((into) = keep(net, count, sizeof *(into)))) NO_MEMORY; while (0)
#define NO_MEMORY FAIL(VKNN_ERROR_HOST_MEMORY, "out of memory; close what is not needed")

static void *allocated(const vknn_context_options *options, void *old, size_t bytes) {
    if (options && options->allocate)
        return old || bytes ? options->allocate(options->user, old, bytes) : NULL;
    if (bytes) return realloc(old, bytes);
    free(old);
    return NULL;
}

static void *zeros(const vknn_context_options *options, size_t bytes) {
    void *at = allocated(options, NULL, bytes);
    return at ? memset(at, 0, bytes) : NULL;
}

/* Zeros that live as long as the net, or until they are given back. */
static void *keep(vknn_net *net, uint64_t count, size_t size) {
    kept *k = count > (SIZE_MAX >> 1) / size
                  ? NULL : zeros(&net->context->options, sizeof(kept) + (size_t)count * size);
    if (!k) return NULL;
    k->next = net->kept;
    net->kept = k;
    return k + 1;
}

/* Gives back what was kept since. */
static void give_back(vknn_net *net, kept *since) {
    for (kept *k; (k = net->kept) != since;) {
        net->kept = k->next;
        allocated(&net->context->options, k, 0);
    }
}

static void append(char *text, size_t room, const char *format, ...) {
    va_list values;
    va_start(values, format);
    append_values(text, room, format, values);
    va_end(values);
}

static void note(const vknn_context *c, const char *format, ...) {
    char text[600] = "";
    va_list values;
    va_start(values, format);
    append_values(text, sizeof text, format, values);
    va_end(values);
    if (c->options.log) c->options.log(c->options.user, text);
}

/* A text that grows. */
typedef struct text { const vknn_context_options *options; char *at; size_t length, room; int failed; } text;

static void add(text *t, const char *format, ...) {
    va_list values;
    size_t more;
    va_start(values, format);
    more = (size_t)vsnprintf(NULL, 0, format, values);
    va_end(values);
    if (t->length + more >= t->room) {
        char *at = t->failed ? NULL : allocated(t->options, t->at, 2 * (t->length + more) + 256);
        if (!at) { t->failed = 1; return; }
        t->at = at;
        t->room = 2 * (t->length + more) + 256;
    }
    va_start(values, format);
    t->length += (size_t)vsnprintf(t->at + t->length, t->room - t->length, format, values);
    va_end(values);
}

static void add_quoted(text *t, const char *before, const char *value) {
    for (add(t, "%s\"", before); *value; value++)
        add(t, *value == '"' || *value == '\\' || (unsigned char)*value < 32 ? "\\u%04x" : "%c",
            (unsigned char)*value);
    add(t, "\"");
}

enum { NUMBER_ROOM = 32 };
/* A number with a point, whatever the app's locale has in its place, of however many bytes. */
static const char *decimal(char text[NUMBER_ROOM], double value) {
    char *to = text;
    snprintf(text, NUMBER_ROOM, "%.7g", value);
    for (const char *at = text; *at; at++)
        if (strchr("+-0123456789aefin", *at)) *to++ = *at;
        else if (to == text || to[-1] != '.') *to++ = '.';
    *to = 0;
    return text;
}

static vknn_status given(text *t, char **into, vknn_message *why) {
    if (!t->failed && into) return *into = t->at, VKNN_OK;
    allocated(t->options, t->at, 0);
    if (t->failed) NO_MEMORY;
    return VKNN_OK;
}

/* A number that threads share becomes so many times itself, and so many more; returns what it was. */
static int changed(vknn_context *c, int *at, int times, int more) {
    int was;
    MUTEX(lock, &c->lock);
    was = *at;
    *at = was * times + more;
    MUTEX(unlock, &c->lock);
    return was;
}

static vknn_status checked(vknn_context *c, VkResult code, const char *what, vknn_message *why) {
    if (code >= 0) return VKNN_OK;
    note(c, "%s: VkResult %d", what, (int)code);
    if (code == VK_ERROR_OUT_OF_HOST_MEMORY)
        FAIL(VKNN_ERROR_HOST_MEMORY, "%s: out of memory; close what is not needed", what);
    if (code == VK_ERROR_OUT_OF_DEVICE_MEMORY || code == VK_ERROR_TOO_MANY_OBJECTS ||
        code == VK_ERROR_FRAGMENTED_POOL || code == VK_ERROR_OUT_OF_POOL_MEMORY ||
        code == VK_ERROR_MEMORY_MAP_FAILED)
        FAIL(VKNN_ERROR_DEVICE_MEMORY,
            "%s: out of device memory (VkResult %d); close other nets, or take a bundle of "
            "smaller shapes or fp16",
            what, (int)code);
    if (code != VK_ERROR_DEVICE_LOST)
        FAIL(VKNN_ERROR_DRIVER, "%s: the driver answers VkResult %d; update it, or try another device", what,
            (int)code);
    changed(c, &c->lost, 0, 1);
    FAIL(VKNN_ERROR_LOST,
        "%s: %s was lost (VK_ERROR_DEVICE_LOST: reset by its driver, or taken away); close all nets and "
        "the context, and open them again",
        what, c->facts.base.deviceName);
}

static void lock_queue(vknn_context *c, int locked) {
    if (locked) MUTEX(lock, &c->lock);
    if (c->options.lock_queue) c->options.lock_queue(c->options.user, locked);
    if (!locked) MUTEX(unlock, &c->lock);
}

static vknn_status submitted(
    vknn_context *c, uint32_t count, const VkSubmitInfo *infos, VkFence fence, vknn_message *why) {
    VkResult code;
    lock_queue(c, 1);
    code = c->lost ? VK_ERROR_DEVICE_LOST : c->vk.QueueSubmit(c->queue, count, infos, fence);
    lock_queue(c, 0);
    return checked(c, code, "submitting work", why);
}

/* ---- Files: their paths are UTF-8 ---- */

#if defined(_WIN32)
enum { MOST_PATH = 4096 };
/* Empty, a path that there is not, where it is too long or no UTF-8. */
#define WIDE(name, path) \
    wchar_t name[MOST_PATH]; \
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, name, MOST_PATH)) name[0] = 0

static FILE *open_file(const char *path, int write) {
    WIDE(wide, path);
    return _wfopen(wide, write ? L"wb" : L"rb");
}

static void make_folder(const char *path) {
    WIDE(wide, path);
    _wmkdir(wide);
}

static void remove_file(const char *path) {
    WIDE(wide, path);
    _wremove(wide);
}

static int replace_file(const char *from, const char *to) {
    WIDE(old, from);
    WIDE(new, to);
    return !MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING);
}

static unsigned long process(void) { return GetCurrentProcessId(); }

/* Null, with what is wrong, where it cannot be mapped. */
static void *map_file(const char *path, size_t *bytes, vknn_message *why) {
    WIDE(wide, path);
    HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL), map = NULL;
    LARGE_INTEGER size = {{0, 0}};
    void *at = NULL;
    if (file != INVALID_HANDLE_VALUE && GetFileSizeEx(file, &size) && (uint64_t)size.QuadPart <= SIZE_MAX)
        map = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (map) at = MapViewOfFile(map, FILE_MAP_READ, 0, 0, 0);
    if (!at) { /* in the system's words, which end with a full stop and a space */
        const DWORD error = GetLastError(), how = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
        wchar_t words[200] = L"";
        char text[600] = "";
        FormatMessageW(how | FORMAT_MESSAGE_MAX_WIDTH_MASK, NULL, error, 0, words, 200, NULL);
        WideCharToMultiByte(CP_UTF8, 0, words, -1, text, sizeof text, NULL, NULL);
        say(why, "%.400s cannot be %s: %s(error %lu of Windows)", path,
            file == INVALID_HANDLE_VALUE ? "opened" : "mapped", text, error);
    }
    *bytes = (size_t)size.QuadPart;
    if (map) CloseHandle(map);
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    return at;
}

static void unmap_file(void *at, size_t bytes) {
    (void)bytes;
    if (at) UnmapViewOfFile(at);
}

static void forget(const uint8_t *at, uint64_t bytes) { (void)at, (void)bytes; }
#else
static FILE *open_file(const char *path, int write) { return fopen(path, write ? "wb" : "rb"); }
static void make_folder(const char *path) { mkdir(path, 0700); }
static void remove_file(const char *path) { remove(path); }
static int replace_file(const char *from, const char *to) { return rename(from, to); }
static unsigned long process(void) { return (unsigned long)getpid(); }

static void *map_file(const char *path, size_t *bytes, vknn_message *why) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat is = {.st_size = 0};
    void *at = MAP_FAILED;
    if (file < 0) return say(why, "%.500s cannot be opened: %s", path, strerror(errno)), NULL;
    if (!fstat(file, &is) && S_ISREG(is.st_mode) && is.st_size > 0 && (uint64_t)is.st_size <= SIZE_MAX)
        at = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    *bytes = (size_t)is.st_size;
    if (at != MAP_FAILED) return at;
    return say(why, "%.500s is empty, or no file that can be mapped", path), NULL;
}

static void unmap_file(void *at, size_t bytes) {
    if (at) munmap(at, bytes);
}

/* Bytes of a mapped file need no memory until they are read again. */
static void forget(const uint8_t *at, uint64_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)at / page * page;
    madvise((void *)first, (size_t)((uintptr_t)at + bytes - first), MADV_DONTNEED);
}
#endif

/* ---- Context ---- */

/* Functions of a list of names, put into the table from a field on. */
static vknn_status load(vknn_context *c, const char *name, size_t field, vknn_message *why) {
    for (; *name; name += strlen(name) + 1, field += sizeof(PFN_vkVoidFunction)) {
        PFN_vkVoidFunction f = c->device ? c->vk.GetDeviceProcAddr(c->device, name)
                                         : c->get(c->instance, name);
        if (!f)
            FAIL(VKNN_ERROR_DEVICE, "Vulkan has no %s here; a loader and a driver of 1.1 are needed", name);
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
    /* The system's, or one beside the program; never that of the folder it is in, or on the PATH. */
    if (!symbol &&
        (c->library = (void *)LoadLibraryExA("vulkan-1.dll", NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)) != NULL) {
        FARPROC f = GetProcAddress((HMODULE)c->library, "vkGetInstanceProcAddr");
        memcpy(&symbol, &f, sizeof f);
    }
#else
#if defined(__APPLE__)
    static const char names[] = "libvulkan.dylib\0libvulkan.1.dylib\0libMoltenVK.dylib\0";
#else
    static const char names[] = "libvulkan.so.1\0libvulkan.so\0";
#endif
    for (const char *name = names; !symbol && *name; name += strlen(name) + 1)
        if ((c->library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != NULL)
            symbol = dlsym(c->library, "vkGetInstanceProcAddr");
#endif
    if (!symbol)
#if defined(_WIN32)
        FAIL(VKNN_ERROR_DEVICE, "no vulkan-1.dll is installed; drivers of GPUs bring it");
#else
        FAIL(VKNN_ERROR_DEVICE, "no Vulkan loader is installed (Debian: apt-get install libvulkan1)");
#endif
    memcpy(&c->get, &symbol, sizeof symbol);
    return VKNN_OK;
}

static int has(const facts *f, const char *extension) {
    for (uint32_t i = 0; i < f->extension_count; i++)
        if (!strcmp(f->extensions[i].extensionName, extension)) return 1;
    return 0;
}

static vknn_status list_extensions(vknn_context *c, facts *f, vknn_message *why) {
    for (int filled = 0; filled < 2; filled++) {
        if (filled &&
            !(f->extensions = allocated(&c->options, NULL, (f->extension_count + 1) * sizeof *f->extensions)))
            NO_MEMORY;
        VK("listing extensions",
            EnumerateDeviceExtensionProperties(c->physical, NULL, &f->extension_count, f->extensions));
    }
    return VKNN_OK;
}

static vknn_status no_driver(vknn_message *why) {
    FAIL(VKNN_ERROR_DEVICE,
        "there is no device with a Vulkan driver; install one (Debian: apt-get install "
        "mesa-vulkan-drivers), or see with vulkaninfo what is wrong");
}

static vknn_status make_instance(vknn_context *c, vknn_message *why) {
    const char *const portability = "VK_KHR_portability_enumeration"; /* without it MoltenVK is left out */
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "vknn-run",
        .pEngineName = "vknn",
        .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app,
                                 .ppEnabledExtensionNames = &portability};
    uint32_t version = 0;
    VkResult code;
    TRY(open_loader(c, why));
    c->instance = c->options.instance;
    if (!c->instance) {
        TRY(load(c, GLOBAL(AS_TEXT), 0, why));
        VK("asking for Vulkan's version", EnumerateInstanceVersion(&version));
        if (version < VK_API_VERSION_1_1)
            FAIL(VKNN_ERROR_DEVICE, "the Vulkan loader is of 1.0; 1.1 is needed");
#if !defined(__ANDROID__) /* whose loader has no such extension, and need not refuse it */
        info.flags = info.enabledExtensionCount = 1; /* ..._ENUMERATE_PORTABILITY_BIT_KHR */
#endif
        while ((code = c->vk.CreateInstance(&info, NULL, &c->instance)) == VK_ERROR_EXTENSION_NOT_PRESENT &&
               info.flags)
            info.flags = info.enabledExtensionCount = 0; /* of loaders before 1.3.207 */
        if (code == VK_ERROR_INCOMPATIBLE_DRIVER) return no_driver(why); /* as loaders answer without any */
        TRY(checked(c, code, "creating the Vulkan instance", why));
    }
    return load(c, OF_INSTANCE(AS_TEXT), offsetof(functions, DestroyInstance), why);
}

/* Facts of a device; what it does not tell is zero. Its family is VKB_NONE where it is of no use here. */
static void read_facts(vknn_context *c, VkPhysicalDevice device, facts *f) {
    VkPhysicalDeviceProperties2 head = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &f->id};
    VkQueueFamilyProperties families[64]; /* several times what any driver has */
    uint32_t count = 64;
    c->vk.GetPhysicalDeviceProperties(device, &f->base);
    f->family = VKB_NONE;
    if (f->base.apiVersion < VK_API_VERSION_1_1) return;
    f->id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    f->sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
    f->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    f->control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    f->driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    f->id.pNext = &f->sizes;
    f->sizes.pNext = &f->subgroup;
    if (f->base.apiVersion >= VK_API_VERSION_1_2) f->driver.pNext = head.pNext, head.pNext = &f->driver;
    if (f->base.apiVersion >= VK_API_VERSION_1_3 || has(f, "VK_EXT_subgroup_size_control"))
        f->control.pNext = head.pNext, head.pNext = &f->control;
    c->vk.GetPhysicalDeviceProperties2(device, &head);
    c->vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++) /* one that computes alone does not wait behind drawing */
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT &&
            (f->family == VKB_NONE ||
                families[f->family].queueFlags & ~families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT))
            f->family = i;
    if (c->options.logical_device) f->family = c->options.queue_family;
    if (f->family < count) f->timestamp_bits = families[f->family].timestampValidBits;
}

/* Whether the app's text names a device: by its number, its UUID, or a part of its name. */
static int named(const char *name, uint32_t index, const facts *f) {
    size_t length = strlen(name), found = 0;
    char uuid[2 * VK_UUID_SIZE + 1], digits[2 * VK_UUID_SIZE + 1] = "";
    if (strspn(name, "0123456789") == length && length < 4) return strtoul(name, NULL, 10) == index;
    for (size_t i = 0; i < VK_UUID_SIZE; i++) snprintf(uuid + 2 * i, 3, "%02x", f->id.deviceUUID[i]);
    for (const char *at = strncmp(name, "uuid:", 5) ? name : name + 5; *at && found < sizeof uuid - 1; at++)
        if (*at != '-') digits[found++] = (char)tolower((unsigned char)*at);
    if (!strcmp(uuid, digits)) return 1;
    for (const char *at = f->base.deviceName; *at; at++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)at[i]) == tolower((unsigned char)name[i])) i++;
        if (i == length) return 1;
    }
    return 0;
}

/* All devices, to be freed, whatever is returned. */
static vknn_status list_devices(
    vknn_context *c, VkPhysicalDevice **devices, uint32_t *count, vknn_message *why) {
    *devices = NULL;
    *count = 0;
    for (int filled = 0; filled < 2; filled++) {
        VkResult code = c->vk.EnumeratePhysicalDevices(c->instance, count, *devices);
        if (code == VK_ERROR_INITIALIZATION_FAILED) *count = 0; /* as loaders answer where no driver works */
        else TRY(checked(c, code, "listing the devices", why));
        if (!filled && !(*devices = allocated(&c->options, NULL, (*count + 1) * sizeof **devices))) NO_MEMORY;
    }
    return *count ? VKNN_OK : no_driver(why);
}

static uint32_t kind(const facts *f) {
    return f->base.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? f->base.deviceType
                                                             : VK_PHYSICAL_DEVICE_TYPE_OTHER;
}
static const char device_kinds[][12] = {"other", "integrated", "discrete", "virtual", "cpu"};

static vknn_status pick_device(vknn_context *c, vknn_message *why) {
    static const uint8_t grades[] = {1, 4, 5, 3, 2}; /* by kind */
    const char *name = c->options.device;
    VkPhysicalDevice *devices;
    uint32_t count, best = 0;
    char there[600] = "";
    vknn_status status;
    if ((c->physical = c->options.physical_device) != NULL) return VKNN_OK;
    status = list_devices(c, &devices, &count, why);
    for (uint32_t i = 0; !status && i < count; i++) {
        facts f = {.extension_count = 0};
        read_facts(c, devices[i], &f);
        append(there, sizeof there, "%s%u: %.60s%s", i ? ", " : "", i, f.base.deviceName,
               f.family == VKB_NONE ? " (no Vulkan 1.1 that computes)" : "");
        if (f.family == VKB_NONE || grades[kind(&f)] <= best || (name && !named(name, i, &f))) continue;
        best = grades[kind(&f)];
        c->physical = devices[i];
    }
    allocated(&c->options, devices, 0);
    TRY(status);
    if (!best) FAIL(VKNN_ERROR_DEVICE, "no device %s; there are %s", name ? name : "can be used", there);
    return VKNN_OK;
}

/* The device's abilities are looked up; all that a bundle can ask for are switched on. */
static vknn_status make_device(vknn_context *c, vknn_message *why) {
    feature_struct structs[ABILITIES];
    VkPhysicalDeviceFeatures2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceFeatures got;
    const char *names[ABILITIES + 1];
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueCount = 1,
        .queueFamilyIndex = c->facts.family,
        .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &head,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .ppEnabledExtensionNames = names};
    memset(structs, 0, sizeof structs);
    for (size_t i = 0; i < ABILITIES; i++) {
        structs[i].type = (VkStructureType)abilities[i].type;
        if (c->facts.base.apiVersion < abilities[i].core && !has(&c->facts, abilities[i].extension)) continue;
        structs[i].next = head.pNext;
        head.pNext = &structs[i];
    }
    c->vk.GetPhysicalDeviceFeatures2(c->physical, &head);
    got = head.features;
    /* With the memory model on, any kernel's atomics need its second feature. */
    if (!structs[0].on[1]) structs[0].on[0] = 0;
    memset(&head.features, 0, sizeof head.features);
    head.pNext = NULL;
    for (size_t i = 0; i < ABILITIES; i++) {
        for (int k = 0; k < 4; k++) structs[i].on[k] &= k < 2 && abilities[i].bits[k];
        if (!structs[i].on[0] && !structs[i].on[1]) continue;
        for (int k = 0; k < 2; k++) c->features |= structs[i].on[k] ? abilities[i].bits[k] : 0;
        if (has(&c->facts, abilities[i].extension))
            names[info.enabledExtensionCount++] = abilities[i].extension;
        structs[i].next = head.pNext;
        head.pNext = &structs[i];
    }
    if (has(&c->facts, "VK_KHR_portability_subset"))
        names[info.enabledExtensionCount++] = "VK_KHR_portability_subset";
    if ((head.features.shaderInt16 = got.shaderInt16)) c->features |= VKB_FEATURE_INT16;
    if ((head.features.shaderInt64 = got.shaderInt64)) c->features |= VKB_FEATURE_INT64;
    if ((head.features.shaderFloat64 = got.shaderFloat64)) c->features |= VKB_FEATURE_FLOAT64;
    head.features.robustBufferAccess = c->options.robust ? VK_TRUE : VK_FALSE; /* every device has it */
    VK("opening the device", CreateDevice(c->physical, &info, NULL, &c->device));
    return VKNN_OK;
}

static vknn_status list_matrices(vknn_context *c, vknn_message *why) {
    PFN_vkVoidFunction found = c->get(c->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    matrix_function list;
    if (!(c->features & VKB_FEATURE_COOPERATIVE_MATRIX) || !found) return VKNN_OK;
    memcpy(&list, &found, sizeof list);
    TRY(checked(c, list(c->physical, &c->matrix_count, NULL), "listing the cooperative matrices", why));
    if (!(c->matrices = zeros(&c->options, (c->matrix_count + 1) * sizeof *c->matrices))) NO_MEMORY;
    for (uint32_t i = 0; i < c->matrix_count; i++) c->matrices[i].type = (VkStructureType)1000506001;
    return checked(
        c, list(c->physical, &c->matrix_count, c->matrices), "listing the cooperative matrices", why);
}

/* Cache files: a header of our own, as drivers need not be trusted to check theirs, and the driver's data. */
typedef struct cache_header {
    char magic[8];
    uint32_t vendor, device, driver, crc;
    uint8_t uuid[VK_UUID_SIZE];
    uint64_t bytes;
} cache_header;
#define MOST_CACHE (256u << 20)

static cache_header header_of(const vknn_context *c, const void *data, size_t bytes) {
    const VkPhysicalDeviceProperties *p = &c->facts.base;
    cache_header h = {
        "VKNNRC1", p->vendorID, p->deviceID, p->driverVersion, crc32_of(data, bytes), {0}, bytes};
    memcpy(h.uuid, p->pipelineCacheUUID, VK_UUID_SIZE);
    return h;
}

static vknn_status load_cache(vknn_context *c, vknn_message *why) {
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    const char *folder = c->options.cache;
    uint8_t *data = NULL;
    cache_header is, should;
    FILE *file;
    if (folder && *folder) {
        size_t room = strlen(folder) + 64;
        if (!(c->cache_path = allocated(&c->options, NULL, room))) NO_MEMORY;
        make_folder(folder); /* where it cannot be made, writing will tell */
        snprintf(c->cache_path, room, "%s/vknn-%08x-%08x.pipelines", folder, (unsigned)c->facts.base.vendorID,
                 (unsigned)c->facts.base.deviceID);
        if ((file = open_file(c->cache_path, 0)) != NULL) {
            if (fread(&is, sizeof is, 1, file) == 1 && is.bytes && is.bytes <= MOST_CACHE &&
                (data = allocated(&c->options, NULL, (size_t)is.bytes)) != NULL &&
                fread(data, 1, (size_t)is.bytes, file) == is.bytes && fgetc(file) == EOF) {
                should = header_of(c, data, (size_t)is.bytes);
                if (!memcmp(&is, &should, sizeof is)) info.initialDataSize = (size_t)is.bytes;
            }
            fclose(file);
            if (!info.initialDataSize)
                note(c, "%s is damaged, or of another device or driver; it is written anew", c->cache_path);
        }
    }
    info.pInitialData = data;
    while (c->vk.CreatePipelineCache(c->device, &info, NULL, &c->cache)) { /* without one it goes as well */
        c->cache = VK_NULL_HANDLE;
        note(c, "the driver refuses %s", info.initialDataSize ? c->cache_path : "a cache of pipelines");
        if (!info.initialDataSize) break;
        info.initialDataSize = 0; /* the file is written anew */
    }
    c->cache_bytes = info.initialDataSize;
    allocated(&c->options, data, 0);
    return VKNN_OK;
}

/* Writes the cache where it has grown; what goes wrong is logged. */
static void save_cache(vknn_context *c) {
    size_t bytes = 0, room = c->cache_path ? strlen(c->cache_path) + 64 : 0;
    char *path, *data;
    if (!room || !c->cache || c->vk.GetPipelineCacheData(c->device, c->cache, &bytes, NULL)) return;
    if (bytes <= c->cache_bytes || bytes > MOST_CACHE) return;
    path = allocated(&c->options, NULL, room);
    data = allocated(&c->options, NULL, sizeof(cache_header) + bytes);
    if (path && data &&
        !c->vk.GetPipelineCacheData(c->device, c->cache, &bytes, data + sizeof(cache_header))) {
        cache_header header = header_of(c, data + sizeof header, bytes);
        FILE *file;
        int failed;
        snprintf(path, room, "%s.%lx-%p", c->cache_path, process(), (void *)c);
        memcpy(data, &header, sizeof header);
        file = open_file(path, 1);
        failed = !file || fwrite(data, sizeof header + bytes, 1, file) != 1 || fflush(file);
        failed |= file && fclose(file);
        failed = failed || replace_file(path, c->cache_path); /* at once: readers see all of it, or the old */
        if (failed && file) remove_file(path);
        if (failed) note(c, "the cache %s cannot be written; pipelines are compiled again", c->cache_path);
        c->cache_bytes = bytes; /* also then: it is told once */
    }
    allocated(&c->options, path, 0);
    allocated(&c->options, data, 0);
}

/* What memory is for. */
enum purpose { DEVICE, SHARED, WRITTEN, UPLOAD, DOWNLOAD };

/* The best type of those that a buffer allows, or -1. Memory is shared where it is of the heap that the
 * device's own comes from, and of no window onto another, and where the host caches it or has none apart from
 * it. That of discrete GPUs, all of which the host may reach, it reads over the bus, uncached: there staging is
 * faster, and weights and activations stay in memory that is the device's alone. */
static int memory_type(const vknn_context *c, uint32_t allowed, enum purpose purpose) {
    enum {
        LOCAL = 1,
        VISIBLE = 2,
        COHERENT = 4,
        CACHED = 8,
        ODD = 0xf0 /* protected, lazy, for debugging */
    };
    static const uint32_t needs[] = {0, LOCAL | VISIBLE, LOCAL | VISIBLE, VISIBLE, VISIBLE};
    static const uint8_t first[] = {LOCAL, CACHED, COHERENT, COHERENT, CACHED},
                         then[] = {0, COHERENT, 0, 0, COHERENT};
    const VkMemoryType *types = c->memory.memoryTypes;
    int best = -1, most = -1, apart = 0;
    for (int i = 0; i < (int)c->memory.memoryTypeCount; i++) {
        uint32_t flags = types[i].propertyFlags;
        /* Staging memory that is the device's own sits behind the bus, or in a small window. */
        int grade = 4 * !!(flags & first[purpose]) + 2 * !!(flags & then[purpose]) +
                    (purpose < UPLOAD || !(flags & LOCAL));
        if (!(allowed >> i & 1) || flags & ODD) continue;
        apart |= (flags & (LOCAL | VISIBLE)) == VISIBLE;
        if ((flags & needs[purpose]) != needs[purpose] || grade <= most) continue;
        best = i;
        most = grade;
    }
    if (purpose == SHARED && best >= 0 &&
        ((apart && most < 4 + 2 + 1) ||
            types[best].heapIndex != types[memory_type(c, allowed, DEVICE)].heapIndex))
        best = -1;
    return best;
}

static vknn_status open_context(vknn_context *c, vknn_message *why) {
    const vknn_context_options *o = &c->options;
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    if (!o->instance != !o->physical_device || !o->instance != !o->logical_device ||
        !o->instance != !o->queue)
        FAIL(VKNN_ERROR_ARGUMENT,
            "instance, physical_device, logical_device and queue: give all of them or none");
    TRY(make_instance(c, why));
    TRY(pick_device(c, why));
    TRY(list_extensions(c, &c->facts, why));
    read_facts(c, c->physical, &c->facts);
    if (c->facts.family == VKB_NONE)
        FAIL(VKNN_ERROR_DEVICE, "%s has no Vulkan 1.1", c->facts.base.deviceName);
    if (o->logical_device) c->device = o->logical_device, c->features = o->features & ~(uint64_t)SIZE_CONTROL;
    else TRY(make_device(c, why));
    TRY(load(c, OF_DEVICE(AS_TEXT), offsetof(functions, DestroyDevice), why));
    c->queue = o->queue;
    if (!c->queue) c->vk.GetDeviceQueue(c->device, c->facts.family, 0, &c->queue);
    if (c->facts.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) /* vkb.h has Vulkan's order */
        c->features |= (uint64_t)(c->facts.subgroup.supportedOperations & 0x3f) * VKB_FEATURE_SUBGROUP_BASIC;
    c->vk.GetPhysicalDeviceMemoryProperties2(c->physical, &memory);
    c->memory = memory.memoryProperties;
    c->unified = memory_type(c, ~0u, SHARED) >= 0;
    TRY(list_matrices(c, why));
    note(c, "device: %s, %s, memory %s", c->facts.base.deviceName, device_kinds[kind(&c->facts)],
        c->unified ? "shared" : "apart");
    return load_cache(c, why);
}

static vknn_context *new_context(const vknn_context_options *options) {
    vknn_context *c = zeros(options, sizeof *c);
    if (!c) return NULL;
    if (options) c->options = *options;
    c->holders = 1;
    MUTEX_INIT(&c->lock);
    MUTEX_INIT(&c->sharing);
    return c;
}

/* Ends a context with the last of its holders. */
void vknn_context_destroy(vknn_context *c) {
    vknn_context_options options;
    if (!c || changed(c, &c->holders, 1, -1) > 1) return;
    options = c->options;
    if (c->device && c->vk.GetQueryPoolResults) { /* the last function: all are there */
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
    allocated(&options, c->facts.extensions, 0);
    allocated(&options, c->matrices, 0);
    allocated(&options, c->cache_path, 0);
    MUTEX(destroy, &c->lock);
    MUTEX(destroy, &c->sharing);
    allocated(&options, c, 0);
}

vknn_status vknn_context_create(
    const vknn_context_options *options, vknn_context **context, vknn_message *why) {
    vknn_context *c = new_context(options);
    vknn_status status;
    *context = NULL;
    if (!c) NO_MEMORY;
    status = open_context(c, why);
    if (status) vknn_context_destroy(c);
    else *context = c;
    return status;
}

const char *vknn_context_device(const vknn_context *c) { return c->facts.base.deviceName; }
uint32_t vknn_run_version(void) { return VKNN_RUN_VERSION; }
void vknn_free(const vknn_context_options *options, void *memory) { allocated(options, memory, 0); }

const char *vknn_status_name(vknn_status status) {
    static const char names[][14] = {"ok", "file", "hash", "device", "argument", "host memory",
        "device memory", "timeout", "cancelled", "lost", "driver", "differs"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

vknn_status vknn_devices(const vknn_context_options *options, char **into, vknn_message *why) {
    vknn_context *c = new_context(options);
    text t = {.options = options};
    VkPhysicalDevice *devices = NULL;
    uint32_t count;
    vknn_status status;
    *into = NULL;
    if (!c) NO_MEMORY;
    status = make_instance(c, why);
    if (!status) status = list_devices(c, &devices, &count, why);
    for (uint32_t i = 0; !status && i < count; i++) {
        facts f = {.extension_count = 0};
        read_facts(c, devices[i], &f);
        add(&t, "%u  %s  %s  ", i, f.base.deviceName, device_kinds[kind(&f)]);
        for (size_t k = 0; k < VK_UUID_SIZE; k++) add(&t, "%02x", f.id.deviceUUID[k]);
        add(&t, "  %s %s\n", f.driver.driverName, f.driver.driverInfo);
    }
    if (!status) status = given(&t, into, why);
    allocated(options, devices, 0);
    vknn_context_destroy(c);
    return status;
}

/* ---- Which plan ---- */

static uint32_t view_of(const bundle *b, const vkb_step *s, uint32_t binding) {
    return b->slots[b->pipelines[s->pipeline].first_slots + binding].view;
}

/* How many of a plan's needs the device does not meet; `text` tells which, each behind a comma. */
static uint32_t lacks(const vknn_context *c, const bundle *b, const vkb_plan *p, char *text, size_t room) {
    static const char features[] = "16-bit storage\0float16\0int8\0int16\0int64\0float64\0"
        "8-bit storage\0integer dot products\0cooperative matrices\0full subgroups\0subgroups\0"
        "subgroup votes\0subgroup arithmetic\0subgroup ballots\0subgroup shuffles\0"
        "relative subgroup shuffles\0float16 dot products\0the Vulkan memory model\0"
        "the Vulkan memory model's device scope\0";
    static const char axes[] = "xyz";
    uint64_t missing = p->features & ~c->features;
    const VkPhysicalDeviceLimits *l = &c->facts.base.limits;
    const VkPhysicalDeviceSubgroupSizeControlProperties *s = &c->facts.control;
    uint64_t most = p->arenas[0] > p->arenas[1] ? p->arenas[0] : p->arenas[1];
    const struct { const char *what; uint64_t needs, has;
    } rows[] = {{"bytes in a storage buffer", p->storage_range, l->maxStorageBufferRange},
        {"texels in a texel buffer", p->texel_elements, l->maxTexelBufferElements},
        {"invocations in a workgroup", p->group_invocations, l->maxComputeWorkGroupInvocations},
        {"bytes of shared memory", p->shared_memory, l->maxComputeSharedMemorySize},
        {"bytes of push constants", p->push_bytes, l->maxPushConstantsSize},
        {"storage buffers in a shader", p->storage_buffers, l->maxPerStageDescriptorStorageBuffers},
        {"uniform texel buffers in a shader", p->uniform_texel_buffers,
            l->maxPerStageDescriptorSampledImages},
        {"storage texel buffers in a shader", p->storage_texel_buffers,
            l->maxPerStageDescriptorStorageImages},
        {"bytes in an allocation", most > p->arenas[2] ? most : p->arenas[2],
            c->facts.sizes.maxMemoryAllocationSize},
        /* Mesa's llvmpipe ends loops in silence. */
        {"rounds of loops", p->loop_rounds,
            strstr(c->facts.base.deviceName, "llvmpipe") ? 65535 : UINT32_MAX}};
    uint32_t count = 0, last[2] = {0, 0};
#define LACKS(format, ...) (count++, append(text, room, ", " format, __VA_ARGS__))
    if (p->vulkan >> 12 > c->facts.base.apiVersion >> 12)
        LACKS("Vulkan %u.%u", VK_API_VERSION_MAJOR(p->vulkan), VK_API_VERSION_MINOR(p->vulkan));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].needs > rows[i].has)
            LACKS("%llu %s (not %llu)", (number)rows[i].needs, rows[i].what, (number)rows[i].has);
    for (int i = 0; i < 3; i++)
        if (p->group_size[i] > l->maxComputeWorkGroupSize[i] ||
            p->group_count[i] > l->maxComputeWorkGroupCount[i])
            LACKS("%u workgroups of %u in %c (not %u of %u)", p->group_count[i], p->group_size[i], axes[i],
                  l->maxComputeWorkGroupCount[i], l->maxComputeWorkGroupSize[i]);
    for (const char *feature = features; *feature; feature += strlen(feature) + 1, missing >>= 1)
        if (missing & 1) LACKS("%s", feature);
    if (p->storage_alignment % l->minStorageBufferOffsetAlignment ||
        p->texel_alignment % l->minTexelBufferOffsetAlignment)
        LACKS("buffers at multiples of %u bytes, texels of %u", p->storage_alignment, p->texel_alignment);
    if (p->subgroup_size && p->subgroup_size != c->facts.subgroup.subgroupSize &&
        (!(c->features & SIZE_CONTROL) || !(s->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) ||
         p->subgroup_size < s->minSubgroupSize || p->subgroup_size > s->maxSubgroupSize ||
         p->group_invocations > (uint64_t)p->subgroup_size * s->maxComputeWorkgroupSubgroups))
        LACKS("subgroups of %u (not %u)", p->subgroup_size, c->facts.subgroup.subgroupSize);
    for (uint32_t i = 0, k; i < p->matrices; i++) {
        const vkb_matrix *w = &b->matrices[p->first_matrices + i];
        for (k = 0; k < c->matrix_count; k++) {
            const matrix_struct *m = &c->matrices[k];
            if (m->m == w->m && m->n == w->n && m->k == w->k && m->a == w->factors && m->b == w->factors &&
                m->c == w->sums && m->result == w->sums && !m->saturates && m->scope == 3)
                break; /* of a subgroup */
        }
        if (k == c->matrix_count)
            LACKS("products of %ux%ux%u matrices of types %u and %u", w->m, w->n, w->k, w->factors, w->sums);
    }
    for (uint32_t i = p->first_steps; i < p->first_steps + p->steps; i++) {
        const vkb_step *step = &b->steps[i];
        for (uint32_t k = 0; step->kind == VKB_STEP_DISPATCH && k < step->bindings; k++) {
            uint32_t view = view_of(b, step, k), format = b->bindings[step->first_bindings + k].format,
                     storage = view == VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER;
            VkFormatProperties f;
            if (view == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER || last[storage] == format)
                continue; /* mostly the same one */
            last[storage] = format;
            c->vk.GetPhysicalDeviceFormatProperties(c->physical, (VkFormat)format, &f);
            if (!(f.bufferFeatures & (storage ? VK_FORMAT_FEATURE_STORAGE_TEXEL_BUFFER_BIT
                                              : VK_FORMAT_FEATURE_UNIFORM_TEXEL_BUFFER_BIT)))
                LACKS("%s texel buffers of VkFormat %u", storage ? "storage" : "uniform", format);
        }
    }
    return count;
}

static vknn_status choose_plan(vknn_net *net, const vknn_net_options *o) {
    NET(net);
    const bundle *b = &net->file;
    const char *shapes = o->shapes ? o->shapes : bundle_string(b, b->plans[0].shapes);
    uint32_t least = UINT32_MAX;
    char closest[700] = "", there[640] = "";
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
        snprintf(closest, sizeof closest, "its plan for %.100s needs%s", target, text + 1);
    }
    if (least == UINT32_MAX)
        FAIL(VKNN_ERROR_ARGUMENT, "the bundle has no plan of shapes %.200s for %.100s; it has %s", shapes,
             o->target ? o->target : "any target", there);
    if (!net->plan)
        FAIL(VKNN_ERROR_DEVICE,
            "the bundle does not suit %s: %s; export it for this device (vknn export --target, for "
            "most devices \"generic\")",
            c->facts.base.deviceName, closest);
    net->buffers = b->buffers + net->plan->first_buffers;
    net->steps = b->steps + net->plan->first_steps;
    net->ports = b->ports + net->plan->first_ports;
    net->states = b->states + net->plan->first_states;
    net->submits = net->plan->submits ? net->plan->submits : 1;
    note(c, "plan: %.200s, %.20s, for %.100s", bundle_string(b, net->plan->shapes),
        bundle_string(b, net->plan->precision), bundle_string(b, net->plan->target));
    return VKNN_OK;
}

/* ---- What nets share ---- */

static weight *weight_of(const use *u) { return (weight *)(void *)u->of; }
static pipeline *pipeline_of(const vknn_net *net, const vkb_step *s) {
    return (pipeline *)(void *)net->pipelines[s->pipeline].of;
}

/* Takes part in the use of a thing that is the same, or (then `next` is null) makes it, of so many zeros. The
 * bytes of a bundle that is not pinned may change while it is open, so that pinned ones share among themselves. */
static shared *join(vknn_net *net, shared **list, use *u, uint32_t index, size_t size,
    int (*same)(const shared *, const use *, const use *)) {
    shared *s = *list;
    int left = MOST_LOOKED_AT;
    u->net = net;
    u->index = index;
    while (s && left-- && (s->users->net->pinned != net->pinned || !same(s, s->users, u))) s = s->next;
    if (!s || left < 0) {
        if (!(s = zeros(&net->context->options, size))) return NULL;
        if ((s->next = *list) != NULL) s->next->at = &s->next;
        *(s->at = list) = s;
    }
    if ((u->next = s->users) != NULL) u->next->at = &u->next;
    *(u->at = &s->users) = u;
    return u->of = s;
}

/* Ends a use; what is returned has no user any more. */
static shared *leave(use *u) {
    shared *s = u->of;
    if ((*u->at = u->next) != NULL) u->next->at = u->at;
    u->of = NULL;
    if (s->users) return NULL;
    if ((*s->at = s->next) != NULL) s->next->at = s->at;
    return s;
}

/* By its bytes: other ones of an equal sum are easily made. */
static int same_weight(const shared *s, const use *a, const use *b) {
    const vkb_blob *x = &a->net->file.blobs[a->index], *y = &b->net->file.blobs[b->index];
    return x->crc == y->crc && x->nbytes == y->nbytes &&
           ((const weight *)(const void *)s)->bytes >= b->bytes &&
           !memcmp(a->net->file.data + x->offset, b->net->file.data + y->offset, (size_t)x->nbytes);
}

/* The size of subgroups that is asked for; 0: the device's own. */
static uint32_t sized(const vknn_net *net) {
    uint32_t size = net->plan->subgroup_size;
    return size == net->context->facts.subgroup.subgroupSize ? 0 : size;
}

static void forget_blob(const use *u) {
    const bundle *b = &u->net->file;
    const vkb_blob *blob = &b->blobs[u->index];
    if (u->net->mapped && !u->net->copied) forget(b->data + blob->offset, blob->nbytes);
}

static int same_pipeline(const shared *s, const use *a, const use *b) {
    const bundle *f = &a->net->file, *g = &b->net->file;
    const vkb_pipeline *p = &f->pipelines[a->index], *q = &g->pipelines[b->index];
    const vkb_module *m = &f->modules[p->module], *n = &g->modules[q->module];
    (void)s;
    return m->nbytes == n->nbytes && p->constants == q->constants && p->slots == q->slots &&
           p->push_bytes == q->push_bytes && p->flags == q->flags && sized(a->net) == sized(b->net) &&
           !memcmp(f->constants + p->first_constants, g->constants + q->first_constants,
               p->constants * sizeof(vkb_constant)) &&
           !memcmp(f->slots + p->first_slots, g->slots + q->first_slots, p->slots * sizeof(vkb_slot)) &&
           (f == g ? m == n : !memcmp(f->spirv + m->offset, g->spirv + n->offset, (size_t)m->nbytes));
}

/* ---- Memory ---- */

static uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

static void free_block(vknn_context *c, block *k) {
    c->vk.DestroyBuffer(c->device, k->buffer, NULL);
    c->vk.FreeMemory(c->device, k->memory, NULL);
    *k = (block){.bytes = k->bytes};
}

/* A buffer of the block's bytes with memory of its own. What of it was made, free_block frees. */
static vknn_status make_block(vknn_net *net, block *k, enum purpose purpose) {
    NET(net);
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = k->bytes = rounded(k->bytes + !k->bytes, 16),
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                 VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkMemoryAllocateInfo request = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkMemoryRequirements needs;
    void *host;
    int type;
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

/* A block, in memory of another kind where there is none of this one, or no room in it: it is then staged. */
static vknn_status make_either(vknn_net *net, block *k, enum purpose purpose) {
    vknn_status status = make_block(net, k, purpose);
    if (status != VKNN_ERROR_DEVICE_MEMORY || purpose == DEVICE) return status;
    free_block(net->context, k);
    return make_block(net, k, DEVICE);
}

/* The host's writes reach the device, or its writes the host. Of the whole block: so atoms do not matter. */
static vknn_status synchronized(vknn_net *net, const block *k, int host_wrote) {
    NET(net);
    const VkMappedMemoryRange range = {
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, .memory = k->memory, .size = VK_WHOLE_SIZE};
    if (!k->host || k->coherent) return VKNN_OK;
    if (host_wrote) VK("flushing memory", FlushMappedMemoryRanges(c->device, 1, &range));
    else VK("invalidating memory", InvalidateMappedMemoryRanges(c->device, 1, &range));
    return VKNN_OK;
}

static uint64_t free_memory(const vknn_context *c) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    uint64_t most = 0;
    if (has(&c->facts, "VK_EXT_memory_budget")) memory.pNext = &budget;
    c->vk.GetPhysicalDeviceMemoryProperties2(c->physical, &memory);
    for (uint32_t i = 0; i < c->memory.memoryHeapCount; i++) {
        uint64_t bytes = c->memory.memoryHeaps[i].size, all = budget.heapBudget[i],
                 used = budget.heapUsage[i];
        if (all) bytes = all > used ? all - used : 0;
        if (c->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT && bytes > most) most = bytes;
    }
    return most;
}

static void use_blob(vknn_net *net, uint32_t blob, uint64_t bytes) {
    if (net->weights[blob].bytes < bytes) net->weights[blob].bytes = bytes;
}

static void drop_weight(vknn_context *c, use *u) {
    weight *w = (weight *)(void *)leave(u);
    if (w && w->in && !--w->in->weights) {
        free_block(c, &w->in->block);
        MUTEX(destroy, &w->in->lock);
        allocated(&c->options, w->in, 0);
    }
    if (w) allocated(&c->options, w, 0);
}

/* A weight that is new to the context gets a place; `last`: the shelf that the one before lies on, or null. */
static vknn_status shelve(vknn_net *net, use *u, shelf **last, uint64_t most) {
    NET(net);
    weight *w = weight_of(u);
    if (!*last || (*last)->block.bytes + u->bytes > most) {
        if (!(*last = zeros(&c->options, sizeof **last))) NO_MEMORY; /* no other net takes one of no bytes */
        MUTEX_INIT(&(*last)->lock);
    }
    w->in = *last;
    w->offset = w->in->block.bytes;
    w->in->block.bytes += w->bytes = u->bytes;
    w->in->weights++;
    return VKNN_OK;
}

static vknn_status join_weights(vknn_net *net, uint64_t limit) {
    NET(net);
    const uint64_t largest = c->facts.sizes.maxMemoryAllocationSize;
    const uint64_t most = largest < 64 << 20 ? largest : 64 << 20; /* a larger weight has a shelf of its own */
    const uint64_t *arenas = net->plan->arenas;
    uint64_t align = 64, total = arenas[0] + arenas[1] + arenas[2], there = 0;
    shelf *last = NULL;
    while (align < c->facts.base.limits.minStorageBufferOffsetAlignment ||
           align < c->facts.base.limits.minTexelBufferOffsetAlignment)
        align *= 2;
    for (uint32_t i = 0; i < net->file.blob_count && total <= limit; i++) {
        use *u = &net->weights[i];
        if (!u->bytes) continue;
        u->bytes = rounded(u->bytes, align);
        if (u->bytes > largest)
            FAIL(VKNN_ERROR_DEVICE_MEMORY,
                "a weight takes %llu bytes, %s allocates %llu at once at most; take a smaller "
                "network, or fp16",
                (number)u->bytes, c->facts.base.deviceName, (number)largest);
        if (!join(net, &c->weights[net->file.blobs[i].crc % 64], u, i, sizeof(weight), same_weight)) NO_MEMORY;
        if (!u->next) {
            vknn_status status = shelve(net, u, &last, most);
            if (status) return drop_weight(c, u), status; /* none without a place is there to be joined */
            total += u->bytes;
            continue;
        }
        there += u->bytes;
        forget_blob(u->next); /* which was read to compare it */
    }
    if (total > limit)
        FAIL(VKNN_ERROR_DEVICE_MEMORY,
            "the net takes %llu bytes of device memory or more, and %llu are free on %s, or allowed; "
            "close other nets, or take a bundle of smaller shapes or fp16",
            (number)total, (number)limit, c->facts.base.deviceName);
    note(c, "memory: %llu bytes, and %llu of weights that other nets have", (number)total, (number)there);
    return VKNN_OK;
}

/* Where weights lie, those that other nets brought or a place for them. */
static vknn_status place_weights(vknn_net *net, uint64_t limit) {
    NET(net);
    const vkb_plan *p = net->plan;
    vknn_status status;
    KEEP(net->weights, net->file.blob_count);
    KEEP(net->places, p->buffers);
    for (uint32_t i = 0; i < p->buffers; i++)
        if (net->buffers[i].role == VKB_ROLE_WEIGHT)
            use_blob(net, net->buffers[i].blob, net->buffers[i].nbytes);
    for (uint32_t i = 0; i < p->states; i++)
        if (net->states[i].blob != VKB_NONE) use_blob(net, net->states[i].blob, net->states[i].nbytes);
    MUTEX(lock, &c->sharing);
    status = join_weights(net, limit);
    MUTEX(unlock, &c->sharing);
    return status;
}

static place place_of(const use *u) {
    return (place){&weight_of(u)->in->block, weight_of(u)->offset};
}

static vknn_status make_memory(vknn_net *net, const vknn_net_options *o) {
    NET(net);
    TRY(place_weights(net, o->memory_limit ? o->memory_limit : free_memory(c)));
    for (uint32_t i = 0; i < UP; i++) {
        enum purpose purpose = DEVICE;
        if (!o->staged && i != VKB_ROLE_ACTIVATION && c->unified) purpose = SHARED;
        /* Through a discrete GPU's window the host writes inputs well. */
        if (!o->staged && i == VKB_ROLE_INPUT && !c->unified) purpose = WRITTEN;
        net->blocks[i].bytes = net->plan->arenas[i];
        TRY(make_either(net, &net->blocks[i], purpose));
    }
    for (uint32_t i = 0; i < net->plan->buffers; i++) {
        const vkb_buffer *b = &net->buffers[i];
        if (b->role == VKB_ROLE_WEIGHT) net->places[i] = place_of(&net->weights[b->blob]);
        else net->places[i].in = &net->blocks[b->role], net->places[i].offset = b->offset;
    }
    for (int i = 0; i < 2; i++) { /* inputs and outputs; staging memory is laid out as the arena is */
        net->host[i] = &net->blocks[i];
        if (net->host[i]->host) continue;
        net->host[i] = &net->blocks[UP + i];
        net->host[i]->bytes = net->plan->arenas[i];
        TRY(make_block(net, net->host[i], i ? DOWNLOAD : UPLOAD));
    }
    for (int i = 0; i < 2; i++) { /* what nobody sets is zero, and outputs before the first run */
        memset(net->host[i]->host, 0, (size_t)net->host[i]->bytes);
        TRY(synchronized(net, net->host[i], 1));
    }
    return VKNN_OK;
}

static uint8_t *bytes_of(const vknn_net *net, uint32_t buffer, uint32_t direction) {
    return net->host[direction]->host + net->buffers[buffer].offset;
}

/* ---- Work on the queue ---- */

static void barrier(const vknn_context *c, VkCommandBuffer to, int host) {
    const VkPipelineStageFlags device = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkMemoryBarrier b = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = writes,
        .dstAccessMask = host ? VK_ACCESS_HOST_READ_BIT
                              : writes | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT};
    c->vk.CmdPipelineBarrier(
        to, device, host ? VK_PIPELINE_STAGE_HOST_BIT : device, 0, 1, &b, 0, NULL, 0, NULL);
}

static void copy(const vknn_context *c, VkCommandBuffer to, place source, place target, uint64_t bytes) {
    const VkBufferCopy region = {source.offset, target.offset, bytes};
    if (bytes) c->vk.CmdCopyBuffer(to, source.in->buffer, target.in->buffer, 1, &region);
}

static vknn_status begin(vknn_net *net, VkCommandBuffer to) {
    NET(net);
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VK("recording commands", BeginCommandBuffer(to, &info));
    barrier(c, to, 0); /* what earlier submits wrote is seen */
    return VKNN_OK;
}

static vknn_status go(vknn_net *net, int which, uint32_t count, const VkSubmitInfo *infos) {
    NET(net);
    VK("resetting a fence", ResetFences(c->device, 1, &net->fences[which]));
    changed(c, &net->cancelled, 0, 0);
    TRY(submitted(c, count, infos, net->fences[which], why));
    net->in_flight |= 1 << which;
    return VKNN_OK;
}

/* States lie beside inputs, and the device has written them: or else the next flush would write old ones. */
static vknn_status see_states(vknn_net *net) {
    return net->plan->states ? synchronized(net, net->host[VKNN_INPUT], 0) : VKNN_OK;
}

/* Waits in slices, so that a cancelled run is seen soon. */
static vknn_status finish(vknn_net *net, int which) {
    NET(net);
    const uint64_t slice = 10000000;
    char seconds[NUMBER_ROOM];
    for (uint64_t left = net->limit; net->in_flight >> which & 1; left -= left < slice ? left : slice) {
        VkResult code = c->vk.WaitForFences(
            c->device, 1, &net->fences[which], VK_TRUE, left < slice ? left : slice);
        if (code == VK_SUCCESS) net->in_flight &= ~(1 << which);
        TRY(checked(c, code, "waiting for the device", why));
        if (code == VK_SUCCESS && !which) TRY(see_states(net));
        if (code != VK_TIMEOUT) continue;
        if (changed(c, &net->cancelled, 0, 0))
            FAIL(VKNN_ERROR_CANCELLED, "the run was cancelled; the device works on: wait again, or close");
        if (left <= slice)
            FAIL(VKNN_ERROR_TIMEOUT,
                "%.200s did not finish within %s s on %s; wait again, raise time_limit, or close",
                bundle_string(&net->file, net->plan->name),
                decimal(seconds, (double)net->limit / 1e9), c->facts.base.deviceName);
    }
    return VKNN_OK;
}

/* What was begun is ended and sent off. */
static vknn_status sent(vknn_net *net, int which, VkCommandBuffer commands) {
    NET(net);
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    VK("recording commands", EndCommandBuffer(commands));
    return go(net, which, 1, &info);
}

static vknn_status ready(vknn_net *net) {
    NET(net);
    if (changed(c, &c->lost, 1, 0)) return checked(c, VK_ERROR_DEVICE_LOST, "an earlier call", why);
    if (net->in_flight) FAIL(VKNN_ERROR_ARGUMENT, "a run is under way; call vknn_wait first");
    return VKNN_OK;
}

static vknn_status make_commands(vknn_net *net) {
    NET(net);
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, .queueFamilyIndex = c->facts.family};
    VkCommandBufferAllocateInfo request = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandBufferCount = net->submits + 1 + PIECES};
    KEEP(net->commands, net->submits + 1 + PIECES);
    KEEP(net->infos, net->submits);
    VK("making a command pool", CreateCommandPool(c->device, &pool, NULL, &net->commands_pool));
    request.commandPool = net->commands_pool;
    VK("allocating command buffers", AllocateCommandBuffers(c->device, &request, net->commands));
    for (int i = 0; i <= PIECES; i++)
        VK("making a fence", CreateFence(c->device, &fence, NULL, &net->fences[i]));
    return VKNN_OK;
}

static vknn_status check_blob(vknn_net *net, uint32_t index) {
    NET(net);
    const vkb_blob *blob = &net->file.blobs[index];
    if (crc32_of(net->file.data + blob->offset, (size_t)blob->nbytes) != blob->crc)
        FAIL(VKNN_ERROR_FILE, "the bundle is damaged: blob %u has another sum; copy the file again", index);
    return VKNN_OK;
}

/* Commands and fence of the piece of the ring that is being filled. */
static int piece_of(const vknn_net *net) { return 1 + net->piece % PIECES; }

static vknn_status send_piece(vknn_net *net) {
    const int which = piece_of(net);
    if (!net->filled) return VKNN_OK;
    net->filled = 0;
    net->piece++;
    TRY(synchronized(net, &net->blocks[RING], 1));
    return sent(net, which, net->commands[net->submits + (uint32_t)which]);
}

/* A weight goes up, through the ring where the host does not reach the device's memory. */
static vknn_status upload(vknn_net *net, const use *u) {
    NET(net);
    const weight *w = weight_of(u);
    const vkb_blob *blob = &net->file.blobs[u->index];
    for (uint64_t at = 0, size; at < w->bytes; at += size) {
        const place target = {&w->in->block, w->offset + at};
        const place source = {&net->blocks[RING], (uint64_t)(piece_of(net) - 1) * PIECE + net->filled};
        const VkCommandBuffer to = net->commands[net->submits + (uint32_t)piece_of(net)];
        uint64_t left = at < blob->nbytes ? blob->nbytes - at : 0;
        uint8_t *into = target.in->host ? target.in->host + target.offset : NULL;
        size = into || w->bytes - at < PIECE - net->filled ? w->bytes - at : PIECE - net->filled;
        if (left > size) left = size;
        if (!into) {
            if (!source.in->buffer) {
                source.in->bytes = PIECES * PIECE;
                TRY(make_block(net, source.in, UPLOAD));
            }
            if (!net->filled) {
                TRY(finish(net, piece_of(net)));
                TRY(begin(net, to));
            }
            into = source.in->host + source.offset;
        }
        memcpy(into, net->file.data + blob->offset + at, (size_t)left);
        memset(into + left, 0, (size_t)(size - left));
        if (target.in->host) continue;
        copy(c, to, source, target, size);
        net->filled += (uint32_t)size; /* stays a multiple of 64 */
        if (net->filled == PIECE) TRY(send_piece(net));
    }
    return VKNN_OK;
}

/* Loads the weights, from one on, that lie where that one does and that no other net has loaded. */
static vknn_status load_shelf(vknn_net *net, shelf *in, uint32_t first, int in_place) {
    vknn_context *c = net->context;
    if (!in->block.buffer) {
        vknn_status status = make_either(net, &in->block, in_place ? SHARED : DEVICE);
        if (status) return free_block(c, &in->block), status;
    }
    for (int loaded = 0; loaded < 2; loaded++) { /* they are when all of them are there */
        for (use *u = net->weights + first; u < net->weights + net->file.blob_count; u++) {
            if (!u->of || weight_of(u)->in != in || weight_of(u)->loaded) continue;
            if (loaded) weight_of(u)->loaded = 1;
            else {
                TRY(check_blob(net, u->index));
                u->sums = 1;
                TRY(upload(net, u));
            }
        }
        if (loaded) break;
        TRY(synchronized(net, &in->block, 1));
        TRY(send_piece(net));
        for (int i = 1; i <= PIECES; i++) TRY(finish(net, i));
    }
    return VKNN_OK;
}

/* A net that comes second waits for those that are being loaded, and loads what the first one could not. */
static vknn_status load_weights(vknn_net *net, int in_place) {
    vknn_context *c = net->context;
    for (uint32_t i = 0; i < net->file.blob_count; i++) {
        const use *u = &net->weights[i];
        vknn_status status = VKNN_OK;
        shelf *in;
        if (!u->of) continue;
        in = weight_of(u)->in;
        MUTEX(lock, &in->lock);
        if (!weight_of(u)->loaded) status = load_shelf(net, in, i, in_place);
        MUTEX(unlock, &in->lock);
        TRY(status);
        if (!u->sums) TRY(check_blob(net, i));
    }
    if (net->blocks[RING].buffer) free_block(c, &net->blocks[RING]);
    net->blocks[RING].bytes = 0;
    return VKNN_OK;
}

/* ---- Pipelines ---- */

static void unmake_pipeline(vknn_context *c, pipeline *p) {
    c->vk.DestroyPipeline(c->device, p->handle, NULL);
    c->vk.DestroyPipelineLayout(c->device, p->layout, NULL);
    c->vk.DestroyDescriptorSetLayout(c->device, p->set, NULL);
    p->handle = VK_NULL_HANDLE;
    p->layout = VK_NULL_HANDLE;
    p->set = VK_NULL_HANDLE;
}

static void drop_pipeline(vknn_context *c, use *u) {
    pipeline *p = (pipeline *)(void *)leave(u);
    if (!p) return;
    unmake_pipeline(c, p);
    MUTEX(destroy, &p->lock);
    allocated(&c->options, p, 0);
}

static vknn_status make_pipeline(vknn_net *net, uint32_t index, pipeline *made, vknn_message *why) {
    vknn_context *const c = net->context;
    const bundle *b = &net->file;
    const vkb_pipeline *p = &b->pipelines[index];
    const vkb_module *m = &b->modules[p->module];
    VkDescriptorSetLayoutBinding slots[MOST_SLOTS];
    VkSpecializationMapEntry entries[MOST_CONSTANTS];
    const VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = p->slots, .pBindings = slots};
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, p->push_bytes};
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &made->set,
        .pushConstantRangeCount = push.size > 0,
        .pPushConstantRanges = &push};
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = (size_t)m->nbytes,
        .pCode = (const uint32_t *)(const void *)(b->spirv + m->offset)};
    const VkSpecializationInfo constants = {
        p->constants, entries, p->constants * sizeof(vkb_constant), b->constants + p->first_constants};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo lanes = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = sized(net)};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
            .pNext = sized(net) ? &lanes : NULL,
            .flags = p->flags & 1 ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
            .stage = VK_SHADER_STAGE_COMPUTE_BIT,
            .pName = "main",
            .pSpecializationInfo = &constants}};
    VkResult result;
    char what[160];
    for (uint32_t i = 0; i < p->slots; i++)
        slots[i] = (VkDescriptorSetLayoutBinding){
            i, (VkDescriptorType)b->slots[p->first_slots + i].view, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    for (uint32_t i = 0; i < p->constants; i++)
        entries[i] = (VkSpecializationMapEntry){b->constants[p->first_constants + i].id,
            (uint32_t)(i * sizeof(vkb_constant) + offsetof(vkb_constant, word)), 4};
    snprintf(what, sizeof what, "making the pipeline of %.100s", bundle_string(b, p->kernel));
    VK(what, CreateDescriptorSetLayout(c->device, &set, NULL, &made->set));
    VK(what, CreatePipelineLayout(c->device, &layout, NULL, &made->layout));
    VK(what, CreateShaderModule(c->device, &code, NULL, &info.stage.module));
    info.layout = made->layout;
    result = c->vk.CreateComputePipelines(c->device, c->cache, 1, &info, NULL, &made->handle);
    c->vk.DestroyShaderModule(c->device, info.stage.module, NULL);
    return checked(c, result, what, why);
}

typedef struct job { vknn_net *net; uint32_t next; vknn_status status; vknn_message message; } job;

/* Pipelines, each made by the first thread that is free; none behind one that failed. */
THREAD_FUNCTION(work, argument) {
    job *j = argument;
    mutex *lock = &j->net->context->lock;
    for (;;) {
        vknn_message message;
        vknn_status status = VKNN_OK;
        uint32_t index;
        pipeline *p;
        MUTEX(lock, lock);
        while (j->next < j->net->file.pipeline_count && !j->net->pipelines[j->next].of) j->next++;
        index = j->status ? j->net->file.pipeline_count : j->next++;
        MUTEX(unlock, lock);
        if (index >= j->net->file.pipeline_count) return 0;
        p = (pipeline *)(void *)j->net->pipelines[index].of;
        MUTEX(lock, &p->lock); /* another net may be making it */
        if (!p->handle && (status = make_pipeline(j->net, index, p, &message)))
            unmake_pipeline(j->net->context, p);
        MUTEX(unlock, &p->lock);
        if (!status) continue;
        MUTEX(lock, lock);
        j->status = status;
        j->message = message;
        MUTEX(unlock, lock);
    }
}

/* How many pipelines are new to the context; UINT32_MAX: out of memory. */
static uint32_t join_pipelines(vknn_net *net) {
    vknn_context *c = net->context;
    uint32_t made = 0;
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        uint32_t index = net->steps[i].pipeline;
        use *u = &net->pipelines[index];
        if (net->steps[i].kind != VKB_STEP_DISPATCH || u->of) continue;
        if (!join(net, &c->pipelines, u, index, sizeof(pipeline), same_pipeline)) return UINT32_MAX;
        if (u->next) continue;
        MUTEX_INIT(&pipeline_of(net, &net->steps[i])->lock);
        made++;
    }
    return made;
}

static vknn_status make_pipelines(vknn_net *net) {
    NET(net);
    job j = {net, 0, VKNN_OK, {{0}}};
    thread threads[16];
    uint32_t made, started = 0, most = c->options.threads ? c->options.threads : 4;
    KEEP(net->pipelines, net->file.pipeline_count);
    MUTEX(lock, &c->sharing);
    made = join_pipelines(net);
    MUTEX(unlock, &c->sharing);
    if (made == UINT32_MAX) NO_MEMORY;
    for (most = most < 16 ? most : 16; started + 1 < most && 2 * (started + 1) < made; started++)
        if (!thread_start(&threads[started], work, &j)) break;
    work(&j);
    for (uint32_t i = 0; i < started; i++) thread_join(threads[i]);
    if (j.status) FAIL(j.status, "%s", j.message.text);
    return VKNN_OK;
}

static vknn_status bind_buffers(vknn_net *net) {
    NET(net);
    const bundle *b = &net->file;
    VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 1},
        {VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, 1}, {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1},
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1}}; /* 4 to 7; 0 is not allowed */
    VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 4,
        .pPoolSizes = sizes};
    VkDescriptorSetAllocateInfo request = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorSetCount = 1};
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        info.maxSets += net->steps[i].kind == VKB_STEP_DISPATCH;
        for (uint32_t k = 0; net->steps[i].kind == VKB_STEP_DISPATCH && k < net->steps[i].bindings; k++)
            sizes[view_of(b, &net->steps[i], k) - VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER].descriptorCount++;
    }
    KEEP(net->sets, net->plan->steps);
    KEEP(net->views, (uint64_t)sizes[0].descriptorCount + sizes[1].descriptorCount);
    VK("making a descriptor pool", CreateDescriptorPool(c->device, &info, NULL, &net->pool));
    request.descriptorPool = net->pool;
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        const vkb_step *s = &net->steps[i];
        if (s->kind != VKB_STEP_DISPATCH) continue;
        request.pSetLayouts = &pipeline_of(net, s)->set;
        VK("allocating descriptors", AllocateDescriptorSets(c->device, &request, &net->sets[i]));
        for (uint32_t k = 0; k < s->bindings; k++) {
            const vkb_binding *binding = &b->bindings[s->first_bindings + k];
            const place at = net->places[binding->buffer];
            const VkDescriptorBufferInfo whole = {
                at.in->buffer, at.offset, net->buffers[binding->buffer].nbytes};
            const VkBufferViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                .buffer = whole.buffer,
                .format = (VkFormat)binding->format,
                .offset = whole.offset,
                .range = whole.range};
            const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                .dstSet = net->sets[i],
                .dstBinding = k,
                .descriptorCount = 1,
                .descriptorType = (VkDescriptorType)view_of(b, s, k),
                .pBufferInfo = &whole,
                .pTexelBufferView = &net->views[net->view_count]};
            if (write.descriptorType != VK_DESCRIPTOR_TYPE_STORAGE_BUFFER)
                VK("making a buffer view",
                    CreateBufferView(c->device, &view, NULL, &net->views[net->view_count++]));
            c->vk.UpdateDescriptorSets(c->device, 1, &write, 0, NULL);
        }
    }
    return VKNN_OK;
}

/* ---- Recording ---- */

/* Between staging memory, where there is some, and an arena; first values of states come from elsewhere. */
static void copy_ports(vknn_net *net, VkCommandBuffer to, uint32_t direction) {
    const vknn_context *c = net->context;
    block *arena = &net->blocks[direction], *staging = net->host[direction];
    if (arena == staging) return;
    if (direction == VKNN_OUTPUT) barrier(c, to, 0);
    for (uint32_t i = 0; i < net->plan->ports; i++) {
        const vkb_port *p = &net->ports[i];
        const place on_device = net->places[p->buffer];
        const place ends[] = {{staging, on_device.offset}, on_device};
        if (p->direction != direction) continue;
        copy(c, to, ends[direction], ends[!direction], port_bytes(p));
        if (p->count != VKB_NONE)
            copy(c, to, net->places[p->count], (place){staging, net->places[p->count].offset}, 4);
    }
    if (direction == VKNN_INPUT) barrier(c, to, 0);
}

static void record_step(vknn_net *net, VkCommandBuffer to, uint32_t index) {
    const vknn_context *c = net->context;
    const vkb_step *s = &net->steps[index];
    if (s->kind == VKB_STEP_DISPATCH) {
        const pipeline *p = pipeline_of(net, s);
        uint32_t push = net->file.pipelines[s->pipeline].push_bytes;
        c->vk.CmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, p->handle);
        c->vk.CmdBindDescriptorSets(
            to, VK_PIPELINE_BIND_POINT_COMPUTE, p->layout, 0, 1, &net->sets[index], 0, NULL);
        if (push)
            c->vk.CmdPushConstants(
                to, p->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, push, net->file.push + s->push);
        c->vk.CmdDispatch(to, s->groups[0], s->groups[1], s->groups[2]);
    } else if (s->kind == VKB_STEP_FILL) {
        const place at = net->places[s->target];
        c->vk.CmdFillBuffer(to, at.in->buffer, at.offset, net->buffers[s->target].nbytes, s->word);
    } else {
        place source = net->places[s->source], target = net->places[s->target];
        source.offset += s->source_offset;
        target.offset += s->target_offset;
        copy(c, to, source, target, s->nbytes);
    }
}

/* The commands of each submit, with timestamps around each step where queries are given. */
static vknn_status record(vknn_net *net, VkQueryPool queries) {
    NET(net);
    uint32_t step = 0;
    net->recorded = 0;
    for (uint32_t i = 0; i < net->submits; i++) {
        const uint32_t end = net->plan->submits ? net->file.submits[net->plan->first_submits + i].end
                                                : net->plan->steps;
        const VkCommandBuffer to = net->commands[i];
        TRY(begin(net, to));
        if (!i && queries) c->vk.CmdResetQueryPool(to, queries, 0, 2 * net->plan->steps);
        if (!i) copy_ports(net, to, VKNN_INPUT);
        for (; step < end; step++) {
            if (net->steps[step].kind == VKB_STEP_BARRIER) { barrier(c, to, 0); continue; }
            if (queries) c->vk.CmdWriteTimestamp(to, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 2 * step);
            record_step(net, to, step);
            if (queries)
                c->vk.CmdWriteTimestamp(to, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 2 * step + 1);
        }
        if (i == net->submits - 1) {
            copy_ports(net, to, VKNN_OUTPUT);
            if (net->plan->states) barrier(c, to, 0);
            for (uint32_t k = 0; k < net->plan->states; k++)
                copy(c, to, net->places[net->states[k].output], net->places[net->states[k].input],
                    net->states[k].nbytes);
            barrier(c, to, 1);
        }
        VK("recording commands", EndCommandBuffer(to));
        net->infos[i] = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
            .commandBufferCount = 1, .pCommandBuffers = &net->commands[i]};
    }
    net->recorded = !queries; /* which go when they were read */
    return VKNN_OK;
}

vknn_status vknn_reset(vknn_net *net) {
    NET(net);
    const VkCommandBuffer to = net->commands[net->submits];
    TRY(ready(net));
    if (!net->plan->states) return VKNN_OK;
    TRY(synchronized(net, net->host[VKNN_INPUT], 1)); /* what was set is not lost as states are seen */
    TRY(begin(net, to));
    for (uint32_t i = 0; i < net->plan->states; i++) {
        const vkb_state *s = &net->states[i];
        const place at = net->places[s->input];
        if (s->blob != VKB_NONE) copy(c, to, place_of(&net->weights[s->blob]), at, s->nbytes);
        else c->vk.CmdFillBuffer(to, at.in->buffer, at.offset, rounded(s->nbytes, 4), 0);
    }
    TRY(sent(net, 0, to));
    return finish(net, 0);
}

/* ---- Nets ---- */

static vknn_status open_net(
    vknn_net *net, const char *path, const void *bytes, size_t size, const vknn_net_options *o) {
    NET(net);
    const uint64_t second = 1000000000, least = 30 * second, limit =
        o->time_limit > 1e9 ? second * second : o->time_limit > 0 ? (uint64_t)(o->time_limit * 1e9) : least;
    net->pinned = o->sha256 != NULL;
    net->limit = limit > least ? limit : least; /* what opening does is no run */
    if (path) {
        if (!(bytes = net->mapped = map_file(path, &net->mapped_bytes, why))) return VKNN_ERROR_FILE;
        size = net->mapped_bytes;
    }
    /* What is pinned is not read again from a file that others may write to in the meantime. */
    if (bytes && (path ? o->sha256 != NULL : !o->keeps_memory || (uintptr_t)bytes % 8)) {
        if (!(net->copied = allocated(&c->options, NULL, size + !size))) NO_MEMORY;
        bytes = memcpy(net->copied, bytes, size);
    }
    TRY(bundle_open(&net->file, bytes, size, o->sha256, why));
    TRY(choose_plan(net, o));
    TRY(make_memory(net, o));
    TRY(make_commands(net));
    TRY(load_weights(net, c->unified && !o->staged));
    TRY(make_pipelines(net));
    TRY(bind_buffers(net));
    TRY(record(net, VK_NULL_HANDLE));
    TRY(vknn_reset(net));
    net->limit = limit;
    /* The weights are on the device. */
    if (net->mapped && !net->copied && net->file.data_bytes) forget(net->file.data, net->file.data_bytes);
    MUTEX(lock, &c->lock);
    save_cache(c);
    MUTEX(unlock, &c->lock);
    return VKNN_OK;
}

static vknn_status new_net(vknn_context *c, const char *path, const void *bytes, size_t size,
    const vknn_net_options *options, vknn_net **into, vknn_message *why) {
    const vknn_net_options none = {.shapes = NULL};
    vknn_net *net = zeros(&c->options, sizeof *net);
    vknn_status status;
    *into = NULL;
    if (!net) NO_MEMORY;
    net->context = c;
    changed(c, &c->holders, 1, 1);
    status = open_net(net, path, bytes, size, options ? options : &none);
    if (!status) return *into = net, VKNN_OK;
    if (why) *why = net->message;
    vknn_net_close(net);
    return status;
}

vknn_status vknn_net_open_file(
    vknn_context *c, const char *path, const vknn_net_options *options, vknn_net **net, vknn_message *why) {
    return new_net(c, path, NULL, 0, options, net, why);
}

vknn_status vknn_net_open_memory(vknn_context *c, const void *bytes, size_t size,
    const vknn_net_options *options, vknn_net **net, vknn_message *why) {
    return new_net(c, NULL, bytes, size, options, net, why);
}

/* The device is done with the net. One that is lost may still be at work: then all of it is waited for. */
static void settle(vknn_net *net) {
    vknn_context *c = net->context;
    for (int i = 0; i <= PIECES; i++) {
        if (!(net->in_flight >> i & 1) ||
            c->vk.WaitForFences(c->device, 1, &net->fences[i], VK_TRUE, UINT64_MAX) == VK_SUCCESS)
            continue;
        lock_queue(c, 1);
        c->vk.QueueWaitIdle(c->queue);
        lock_queue(c, 0);
    }
    if (net->in_flight & 1) see_states(net);
    net->in_flight = 0;
}

void vknn_net_close(vknn_net *net) {
    vknn_context *c;
    if (!net) return;
    c = net->context;
    settle(net);
    for (int i = 0; i <= PIECES; i++) c->vk.DestroyFence(c->device, net->fences[i], NULL);
    c->vk.DestroyCommandPool(c->device, net->commands_pool, NULL);
    c->vk.DestroyDescriptorPool(c->device, net->pool, NULL);
    for (uint32_t i = 0; i < net->view_count; i++) c->vk.DestroyBufferView(c->device, net->views[i], NULL);
    MUTEX(lock, &c->sharing); /* others compare with the file until here */
    for (uint32_t i = 0; net->pipelines && i < net->file.pipeline_count; i++)
        if (net->pipelines[i].of) drop_pipeline(c, &net->pipelines[i]);
    for (uint32_t i = 0; net->weights && i < net->file.blob_count; i++)
        if (net->weights[i].of) drop_weight(c, &net->weights[i]);
    MUTEX(unlock, &c->sharing);
    for (uint32_t i = 0; i < BLOCKS; i++) free_block(c, &net->blocks[i]);
    unmap_file(net->mapped, net->mapped_bytes);
    allocated(&c->options, net->copied, 0);
    give_back(net, NULL);
    allocated(&c->options, net, 0);
    vknn_context_destroy(c);
}

const char *vknn_net_message(const vknn_net *net) { return net->message.text; }

uint64_t vknn_net_memory(const vknn_net *net) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) bytes += net->blocks[i].bytes;
    for (uint32_t i = 0; i < net->file.blob_count; i++)
        if (net->weights[i].of) bytes += weight_of(&net->weights[i])->bytes;
    return bytes;
}

/* ---- Ports ---- */

uint32_t vknn_ports(const vknn_net *net, vknn_direction direction) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->plan->ports; i++) count += net->ports[i].direction == (uint32_t)direction;
    return count;
}

/* A port by its name, or (null) by its number among those of its direction. */
static vknn_status find_port(
    vknn_net *net, vknn_direction direction, const char *name, uint32_t index, const vkb_port **port) {
    NET(net);
    char there[600] = "";
    for (*port = net->ports; *port < net->ports + net->plan->ports; ++*port) {
        const char *is = bundle_string(&net->file, (*port)->name);
        if ((*port)->direction == (uint32_t)direction && (name ? !strcmp(name, is) : !index--)) return VKNN_OK;
    }
    for (const vkb_port *p = net->ports; p < *port; p++)
        if (p->direction == (uint32_t)direction)
            append(there, sizeof there, "%s%s", *there ? ", " : "", bundle_string(&net->file, p->name));
    FAIL(VKNN_ERROR_ARGUMENT, "there is no %s %.100s; there are: %s",
        direction == VKNN_OUTPUT ? "output" : "input", name ? name : "else",
        *there ? there : "none");
}

static vknn_status describe(
    vknn_net *net, vknn_direction direction, const char *name, uint32_t index, vknn_port *port) {
    const vkb_port *p;
    TRY(find_port(net, direction, name, index, &p));
    memset(port, 0, sizeof *port);
    port->name = bundle_string(&net->file, p->name);
    port->direction = direction;
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
    return VKNN_OK;
}

vknn_status vknn_describe(vknn_net *net, vknn_direction direction, uint32_t index, vknn_port *port) {
    return describe(net, direction, NULL, index, port);
}

vknn_status vknn_find(vknn_net *net, vknn_direction direction, const char *name, vknn_port *port) {
    return describe(net, direction, name, 0, port);
}

const char *vknn_label(const vknn_net *net, const vknn_port *port, uint32_t index) {
    for (const vkb_port *p = net->ports; p < net->ports + net->plan->ports; p++)
        if (p->direction == (uint32_t)port->direction && bundle_string(&net->file, p->name) == port->name)
            return index < p->labels
                       ? bundle_string(&net->file, net->file.labels[p->first_labels + index].text)
                       : NULL;
    return NULL;
}

/* Bytes of a port behind the last run, and its sizes. */
static uint64_t bytes_now(const vknn_net *net, const vkb_port *p, uint64_t dims[VKNN_MOST_AXES]) {
    uint64_t bytes = element_bytes[p->type];
    int32_t count;
    memcpy(dims, p->dims, sizeof p->dims);
    if (p->count != VKB_NONE) {
        memcpy(&count, bytes_of(net, p->count, p->direction), sizeof count);
        if (count < 0) count = 0;
        if ((uint64_t)count < dims[p->open_axis]) dims[p->open_axis] = (uint64_t)count;
    }
    for (uint32_t i = 0; i < p->rank; i++) bytes *= dims[i];
    return bytes;
}

vknn_status vknn_shape(vknn_net *net, const char *output, uint64_t dims[VKNN_MOST_AXES]) {
    const vkb_port *p;
    TRY(ready(net));
    TRY(find_port(net, VKNN_OUTPUT, output, 0, &p));
    bytes_now(net, p, dims);
    return VKNN_OK;
}

/* A port's memory for the host; `bytes`, where it is not the whole that is borrowed, must be the port's, and
 * `data` be there. */
static vknn_status reach(vknn_net *net, vknn_direction direction, const char *name, const void *data,
    const size_t *bytes, const vkb_port **p, uint8_t **at) {
    NET(net);
    uint64_t dims[VKNN_MOST_AXES], is;
    TRY(ready(net));
    TRY(find_port(net, direction, name, 0, p));
    is = bytes_now(net, *p, dims);
    if (bytes && *bytes != is)
        FAIL(VKNN_ERROR_ARGUMENT, "%.100s has %llu bytes, not %llu", bundle_string(&net->file, (*p)->name),
            (number)is, (number)*bytes);
    if (bytes && *bytes && !data) FAIL(VKNN_ERROR_ARGUMENT, "data is null; give the array's address");
    *at = bytes_of(net, (*p)->buffer, direction);
    return VKNN_OK;
}

vknn_status vknn_set(vknn_net *net, const char *input, const void *data, size_t bytes) {
    const vkb_port *p;
    uint8_t *at;
    TRY(reach(net, VKNN_INPUT, input, data, &bytes, &p, &at));
    if (bytes) memcpy(at, data, bytes); /* data may be null then */
    return VKNN_OK;
}

vknn_status vknn_get(vknn_net *net, const char *output, void *data, size_t bytes) {
    const vkb_port *p;
    uint8_t *at;
    TRY(reach(net, VKNN_OUTPUT, output, data, &bytes, &p, &at));
    if (bytes) memcpy(data, at, bytes);
    return VKNN_OK;
}

vknn_status vknn_borrow(
    vknn_net *net, vknn_direction direction, const char *name, void **data, size_t *bytes) {
    const vkb_port *p;
    uint8_t *at;
    TRY(reach(net, direction, name, NULL, NULL, &p, &at));
    *data = at;
    *bytes = (size_t)port_bytes(p);
    return VKNN_OK;
}

/* ---- Runs ---- */

static vknn_status start(vknn_net *net) {
    TRY(synchronized(net, net->host[VKNN_INPUT], 1));
    return go(net, 0, net->submits, net->infos);
}

vknn_status vknn_submit(vknn_net *net) {
    TRY(finish(net, 0)); /* an earlier run that was given up on */
    if (!net->recorded) TRY(record(net, VK_NULL_HANDLE)); /* since a profile */
    return start(net);
}

vknn_status vknn_wait(vknn_net *net) {
    TRY(finish(net, 0));
    return synchronized(net, net->host[VKNN_OUTPUT], 0);
}

vknn_status vknn_run(vknn_net *net) {
    TRY(vknn_submit(net));
    return vknn_wait(net);
}

void vknn_cancel(vknn_net *net) {
    changed(net->context, &net->cancelled, 0, 1);
}

static double element(uint32_t type, const uint8_t *at) {
    const uint32_t size = element_bytes[type];
    const int is_signed = type == VKB_TYPE_INT8 || type == VKB_TYPE_INT16 || type == VKB_TYPE_INT32 ||
                          type == VKB_TYPE_INT64;
    const uint64_t sign = (uint64_t)is_signed << (8 * size - 1);
    uint64_t bits = 0;
    double wide;
    float narrow;
    memcpy(&bits, at, size); /* little endian, as all of a bundle */
    if (type == VKB_TYPE_FLOAT64) return memcpy(&wide, at, sizeof wide), wide;
    if (type == VKB_TYPE_FLOAT32) return memcpy(&narrow, at, sizeof narrow), narrow;
    if (type == VKB_TYPE_FLOAT16) {
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        wide = exponent == 31 ? (fraction ? NAN : INFINITY)
                              : ldexp(fraction + 1024 * !!exponent, exponent + !exponent - 25);
        return bits >> 15 ? -wide : wide;
    }
    return is_signed ? (double)(int64_t)((bits ^ sign) - sign) : (double)bits;
}

/* How many elements of an output are off; the rest of its line, or of its object in JSON. */
static uint64_t compared(vknn_net *net, const vkb_example *e, text *t, int json) {
    const vkb_port *p = &net->ports[e->port];
    const vkb_blob *blob = &net->file.blobs[e->blob];
    const uint8_t *expected = net->file.data + blob->offset, *got = bytes_of(net, p->buffer, VKNN_OUTPUT);
    uint64_t dims[VKNN_MOST_AXES], size = element_bytes[p->type], bytes = bytes_now(net, p, dims), wrong = 0;
    const number count = bytes / size, answers = blob->nbytes / size;
    const int wide = p->type == VKB_TYPE_INT64 || p->type == VKB_TYPE_UINT64; /* than doubles tell apart */
    double most = 0;
    char digits[3][NUMBER_ROOM];
    const char *quote;
    if (bytes != blob->nbytes) {
        if (json) add(t, ", \"wrong\": %llu, \"elements\": %llu, \"expected\": %llu", answers, count, answers);
        else add(t, ": %llu elements, not %llu", count, answers);
        return answers ? answers : 1;
    }
    for (uint64_t at = 0; at < bytes; at += size) {
        double a = element(p->type, got + at), b = element(p->type, expected + at), off = fabs(a - b);
        if (!memcmp(got + at, expected + at, (size_t)size) || (a == b && !wide) || (isnan(a) && isnan(b)))
            continue;
        if (wide && off < 1) off = 1;
        if (!(off <= most)) most = off;
        wrong += !(off <= e->absolute + e->relative * fabs(b)) || isinf(off);
    }
    quote = json && !isfinite(most) ? "\"" : ""; /* JSON has no such number */
    add(t,
        json ? ", \"wrong\": %llu, \"elements\": %llu, \"max_abs\": %s%s%s, \"absolute\": %s, "
               "\"relative\": %s"
             : ": %llu of %llu elements are off, the most by %s%s%s (allowed: %s + %s of the value)",
        (number)wrong, count, quote, decimal(digits[0], most), quote, decimal(digits[1], e->absolute),
        decimal(digits[2], e->relative));
    return wrong;
}

/* What it is that ran: the first members of an object of JSON. */
static void add_about(vknn_net *net, text *t) {
    const bundle *b = &net->file;
    add_quoted(t, "{\"device\": ", net->context->facts.base.deviceName);
    add_quoted(t, ", \"driver\": ", net->context->facts.driver.driverInfo);
    add_quoted(t, ", \"target\": ", bundle_string(b, net->plan->target));
    add_quoted(t, ", \"shapes\": ", bundle_string(b, net->plan->shapes));
    add_quoted(t, ", \"precision\": ", bundle_string(b, net->plan->precision));
}

/* Runs the example; adds a line, or an object of JSON, an output. */
static vknn_status tested(vknn_net *net, text *t, int json) {
    NET(net);
    const vkb_example *examples = net->file.examples + net->plan->first_examples;
    const char *between = "\n{\"output\": ";
    uint64_t wrong = 0;
    uint32_t answers = 0;
    for (uint32_t i = 0; i < net->plan->examples; i++)
        answers += net->ports[examples[i].port].direction == VKNN_OUTPUT;
    if (!answers)
        FAIL(VKNN_ERROR_ARGUMENT, "the bundle has no example with answers; export it with --example FILE");
    TRY(vknn_reset(net));
    for (uint32_t i = 0; i < net->plan->examples; i++) {
        const vkb_port *p = &net->ports[examples[i].port];
        const vkb_blob *blob = &net->file.blobs[examples[i].blob];
        TRY(check_blob(net, examples[i].blob));
        if (p->direction == VKNN_INPUT)
            memcpy(bytes_of(net, p->buffer, VKNN_INPUT), net->file.data + blob->offset, (size_t)blob->nbytes);
    }
    TRY(vknn_run(net));
    for (uint32_t k = 0, i; k < net->plan->ports; k++) {
        const char *name = bundle_string(&net->file, net->ports[k].name);
        if (net->ports[k].direction != VKNN_OUTPUT) continue;
        for (i = 0; i < net->plan->examples && examples[i].port != k;) i++;
        if (json) add_quoted(t, between, name), between = ",\n{\"output\": ";
        else /* a name is no line of its own */
            for (; *name; name++) add(t, (unsigned char)*name < 32 ? "\\x%02x" : "%c", (unsigned char)*name);
        if (json) add(t, ", \"compared\": %s", i < net->plan->examples ? "true" : "false");
        if (i < net->plan->examples) wrong += compared(net, &examples[i], t, json);
        else if (!json) add(t, ": not compared, the example has no answer for it");
        add(t, json ? "}" : "\n");
    }
    TRY(vknn_reset(net));
    if (wrong)
        FAIL(VKNN_ERROR_DIFFERS,
            "%s computes something else than vknn's reference (%llu elements); try another target, "
            "and see docs/phones.md",
            c->facts.base.deviceName, (number)wrong);
    return VKNN_OK;
}

vknn_status vknn_test(vknn_net *net, char **into) {
    NET(net);
    text t = {.options = &c->options};
    vknn_status status;
    if (into) *into = NULL;
    status = tested(net, &t, 0);
    if (!status || status == VKNN_ERROR_DIFFERS) TRY(given(&t, into, why));
    else allocated(t.options, t.at, 0);
    return status;
}

vknn_status vknn_test_json(vknn_net *net, char **json) {
    NET(net);
    text t = {.options = &c->options};
    char error[sizeof why->text + 20] = "";
    vknn_status status;
    *json = NULL;
    add_about(net, &t);
    add(&t, ", \"outputs\": [");
    status = tested(net, &t, 1);
    add(&t, "],\n\"ok\": %s, \"error\": ", status ? "false" : "true");
    append(error, sizeof error, "%s: %s", vknn_status_name(status), why->text);
    if (status) add_quoted(&t, "", error);
    else add(&t, "null");
    add(&t, "}\n");
    TRY(given(&t, json, why));
    return status;
}

/* {"device", "driver", "target", "shapes", "precision", "runs", "steps": [{"label": layers, "op", "kernel"
 * ("copy" and "fill" for those), "groups": [x, y, z], "flops", "bytes", "begin", "microseconds"}, ...],
 * "microseconds"}. Times are means of the runs, in microseconds; `begin` counts from the first step's, as the
 * last number does, which ends with the last step. */
static vknn_status write_profile(vknn_net *net, uint32_t runs, const double *times, char **into) {
    NET(net);
    const bundle *b = &net->file;
    const double unit = (double)c->facts.base.limits.timestampPeriod / 1000 / runs;
    text t = {.options = &c->options};
    char at[NUMBER_ROOM], took[NUMBER_ROOM];
    double end = 0;
    int first = 1;
    add_about(net, &t);
    add(&t, ", \"runs\": %u, \"steps\": [", runs);
    for (uint32_t i = 0; i < net->plan->steps; i++) {
        const vkb_step *s = &net->steps[i];
        if (s->kind == VKB_STEP_BARRIER) continue;
        add_quoted(&t, first ? "{\"label\": " : ",\n{\"label\": ", bundle_string(b, s->label));
        add_quoted(&t, ", \"op\": ", bundle_string(b, s->op));
        add_quoted(&t, ", \"kernel\": ",
            s->kind == VKB_STEP_COPY   ? "copy"
            : s->kind == VKB_STEP_FILL ? "fill"
                                       : bundle_string(b, b->pipelines[s->pipeline].kernel));
        add(&t,
            ", \"groups\": [%u, %u, %u], \"flops\": %llu, \"bytes\": %llu, \"begin\": %s, "
            "\"microseconds\": %s}",
            s->groups[0], s->groups[1], s->groups[2], (number)s->flops, (number)s->traffic,
            decimal(at, times[2 * i] * unit), decimal(took, (times[2 * i + 1] - times[2 * i]) * unit));
        first = 0;
        if (times[2 * i + 1] * unit > end) end = times[2 * i + 1] * unit;
    }
    add(&t, "], \"microseconds\": %s}\n", decimal(took, end));
    return given(&t, into, why);
}

static vknn_status measure(vknn_net *net, uint32_t runs, VkQueryPool queries, double *times) {
    NET(net);
    const uint64_t mask = UINT64_MAX >> (64 - c->facts.timestamp_bits);
    TRY(record(net, queries));
    for (uint32_t run = 0; run < runs; run++) {
        uint64_t first = 0, ticks;
        VkResult code;
        int any = 0;
        TRY(start(net));
        TRY(vknn_wait(net));
        for (uint32_t i = 0; i < 2 * net->plan->steps; i++) {
            if (net->steps[i / 2].kind == VKB_STEP_BARRIER) continue;
            code = c->vk.GetQueryPoolResults(
                c->device, queries, i, 1, sizeof ticks, &ticks, sizeof ticks, VK_QUERY_RESULT_64_BIT);
            TRY(checked(c, code, "reading timestamps", why));
            if (code)
                FAIL(
                    VKNN_ERROR_DRIVER, "%s wrote no timestamps", c->facts.base.deviceName); /* VK_NOT_READY */
            if (!any++) first = ticks;
            times[i] += (double)((ticks - first) & mask);
        }
    }
    return VKNN_OK;
}

static vknn_status profile(vknn_net *net, uint32_t runs, char **json) {
    NET(net);
    const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 2 * net->plan->steps + !net->plan->steps};
    VkQueryPool queries;
    double *times;
    vknn_status status;
    TRY(ready(net));
    if (!runs) FAIL(VKNN_ERROR_ARGUMENT, "a profile takes one run at least");
    if (!c->facts.timestamp_bits) FAIL(VKNN_ERROR_DEVICE, "%s has no timestamps", c->facts.base.deviceName);
    KEEP(times, 2 * (uint64_t)net->plan->steps);
    VK("making a query pool", CreateQueryPool(c->device, &info, NULL, &queries));
    status = measure(net, runs, queries, times);
    settle(net);
    c->vk.DestroyQueryPool(c->device, queries, NULL);
    return status ? status : write_profile(net, runs, times, json);
}

vknn_status vknn_profile(vknn_net *net, uint32_t runs, char **json) {
    kept *const before = net->kept;
    vknn_status status;
    *json = NULL;
    status = profile(net, runs, json);
    give_back(net, before);
    return status;
}
