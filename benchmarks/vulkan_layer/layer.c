/* The log, and the layer's place in the chain between engine and driver (interface version 2). */
#include "layer.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>

#define DEFINE_NEXT(f) PFN_vk##f next_##f;
WRAPPED(DEFINE_NEXT)
CALLED(DEFINE_NEXT)

int statistics_known;
FILE *log_out;
const char *log_folder;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance instance;

void log_lock(void) { pthread_mutex_lock(&lock); }

void log_unlock(void) { pthread_mutex_unlock(&lock); }

void log_start(void) {
    log_lock();
    if (log_out) return;
    const char *path = getenv("VKNN_CALLS_LOG");
    log_folder = getenv("VKNN_CALLS_FOLDER");
    log_out = fopen(path ? path : "/dev/null", "a");
    if (!log_out) log_out = stderr;
}

void log_finish(void) {
    fputs("}\n", log_out);
    fflush(log_out); /* the engine's process appends lines of its own, and may end anyhow */
    log_unlock();
}

void log_record(const char *form, ...) {
    va_list values;
    log_start();
    va_start(values, form);
    vfprintf(log_out, form, values);
    va_end(values);
    log_finish();
}

void log_text(const char *text) {
    fputc('"', log_out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', log_out);
        if ((unsigned char)*text >= ' ') fputc(*text, log_out);
    }
    fputc('"', log_out);
}

FILE *log_file(const char *name, unsigned long long key, const char *mode) {
    char file[64], path[4096];
    if (!log_folder) return 0;
    snprintf(file, sizeof file, name, key);
    snprintf(path, sizeof path, "%s/%s", log_folder, file);
    return fopen(path, mode);
}

/* Whether the device tells what its compiler made. */
static int tells(VkPhysicalDevice physical) {
    PFN_vkEnumerateDeviceExtensionProperties list =
        (PFN_vkEnumerateDeviceExtensionProperties)next_instance(
            instance, "vkEnumerateDeviceExtensionProperties");
    uint32_t count = 0;
    list(physical, 0, &count, 0);
    VkExtensionProperties *found = calloc(count + 1, sizeof *found);
    list(physical, 0, &count, found);
    int known = 0;
    for (uint32_t i = 0; i < count; i++)
        known |= !strcmp(found[i].extensionName,
                         VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    free(found);
    return known;
}

static int asked(const VkDeviceCreateInfo *info, const char *extension) {
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (!strcmp(info->ppEnabledExtensionNames[i], extension)) return 1;
    return 0;
}

/* The device with the statistics switched on, unless the engine has done so. */
static VkResult create_with_statistics(PFN_vkCreateDevice create, VkPhysicalDevice physical,
                                       const VkDeviceCreateInfo *info,
                                       const VkAllocationCallbacks *a, VkDevice *made) {
    const char *extension = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    if (!tells(physical) || asked(info, extension)) return create(physical, info, a, made);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        (void *)info->pNext, VK_TRUE};
    VkDeviceCreateInfo own = *info;
    const char **names = malloc((info->enabledExtensionCount + 1) * sizeof *names);
    if (info->enabledExtensionCount)
        memcpy(names, info->ppEnabledExtensionNames, info->enabledExtensionCount * sizeof *names);
    names[own.enabledExtensionCount++] = extension;
    own.ppEnabledExtensionNames = names;
    own.pNext = &feature;
    VkResult code = create(physical, &own, a, made);
    free(names);
    return code;
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
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)below(instance, "vkCreateDevice");
    VkResult code = create_with_statistics(create, physical, info, a, made);
    if (code != VK_SUCCESS) return code;
    statistics_known = tells(physical);
#define FIND_NEXT(f) next_##f = (PFN_vk##f)next_device(*made, "vk" #f);
    WRAPPED(FIND_NEXT)
    CALLED(FIND_NEXT)
    VkPhysicalDeviceProperties about;
    PFN_vkGetPhysicalDeviceProperties ask = (PFN_vkGetPhysicalDeviceProperties)next_instance(
        instance, "vkGetPhysicalDeviceProperties");
    ask(physical, &about);
    log_start();
    fputs("{\"what\":\"device\",\"name\":", log_out);
    log_text(about.deviceName);
    log_finish();
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
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next_instance(0, "vkCreateInstance");
    VkResult code = create(info, a, made);
    if (code == VK_SUCCESS) instance = *made;
    return code;
}

#define DECLARE_WRAP(f) extern __typeof__(*(PFN_vk##f)0) wrap_##f;
WRAPPED(DECLARE_WRAP)

/* A wrapper only where the driver has the function: engines ask to see what there is. */
static PFN_vkVoidFunction wrapped(const char *name) {
#define IS_WRAPPED(f) if (!strcmp(name, "vk" #f)) return (PFN_vkVoidFunction)wrap_##f;
    WRAPPED(IS_WRAPPED)
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
    if (!strcmp(name, "vkCreateDevice")) return (PFN_vkVoidFunction)create_device;
    PFN_vkVoidFunction below = next_instance ? next_instance(made, name) : 0;
    PFN_vkVoidFunction own = below ? wrapped(name) : 0;
    return own ? own : below;
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *about) {
    if (about->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    about->loaderLayerInterfaceVersion = 2;
    about->pfnGetInstanceProcAddr = instance_function;
    about->pfnGetDeviceProcAddr = device_function;
    about->pfnGetPhysicalDeviceProcAddr = 0;
    return VK_SUCCESS;
}
