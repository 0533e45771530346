/* A Vulkan driver that crashes or hangs where VKNN_BAD_DRIVER says: STAGE:crash or STAGE:hang.
 *
 * Stages: load (of the library), instance, enumerate, properties, destroy. At all others it has one
 * device of Vulkan 1.0, of which nothing can be used. Built and used by tests/bad_drivers.py.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_icd.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

/* Handles that a loader puts its own table into. */
typedef struct { VK_LOADER_DATA data; } handle;

static void reach(const char *stage) {
    const char *wanted = getenv("VKNN_BAD_DRIVER");
    size_t length = strlen(stage);
    if (!wanted || strncmp(wanted, stage, length) || wanted[length] != ':') return;
    if (!strcmp(wanted + length + 1, "crash")) raise(SIGSEGV);
    for (;;) pause();
}

__attribute__((constructor)) static void load(void) { reach("load"); }

static handle *made(void) {
    handle *one = calloc(1, sizeof *one);
    set_loader_magic_value(one);
    return one;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *a,
                                                      VkInstance *instance) {
    reach("instance");
    *instance = (VkInstance)made();
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance i, const VkAllocationCallbacks *a) {
    reach("destroy");
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance i, uint32_t *count,
                                                VkPhysicalDevice *devices) {
    static handle *only;
    reach("enumerate");
    if (!devices) {
        *count = 1;
        return VK_SUCCESS;
    }
    if (*count < 1) return VK_INCOMPLETE;
    if (!only) only = made();
    *count = 1;
    devices[0] = (VkPhysicalDevice)only;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice d, VkPhysicalDeviceProperties *found) {
    reach("properties");
    memset(found, 0, sizeof *found);
    found->apiVersion = VK_API_VERSION_1_0;
    found->deviceType = VK_PHYSICAL_DEVICE_TYPE_OTHER;
    strcpy(found->deviceName, "bad driver");
}

static VKAPI_ATTR VkResult VKAPI_CALL no_entries(void *of, const char *layer, uint32_t *count,
                                                 void *entries) {
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_extensions(const char *layer, uint32_t *count,
                                                    VkExtensionProperties *entries) {
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL nothing(void) {}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance i,
                                                                          const char *name) {
#define IS(vulkan, own) if (!strcmp(name, vulkan)) return (PFN_vkVoidFunction)own
    IS("vkCreateInstance", create_instance);
    IS("vkDestroyInstance", destroy_instance);
    IS("vkEnumeratePhysicalDevices", enumerate);
    IS("vkGetPhysicalDeviceProperties", properties);
    IS("vkEnumerateInstanceExtensionProperties", no_extensions);
    IS("vkEnumerateDeviceExtensionProperties", no_entries);
    /* What a loader asks of all drivers, and nobody calls for a device of Vulkan 1.0. */
    IS("vkGetPhysicalDeviceFeatures", nothing);
    IS("vkGetPhysicalDeviceFormatProperties", nothing);
    IS("vkGetPhysicalDeviceImageFormatProperties", nothing);
    IS("vkGetPhysicalDeviceMemoryProperties", nothing);
    IS("vkGetPhysicalDeviceQueueFamilyProperties", nothing);
    IS("vkGetPhysicalDeviceSparseImageFormatProperties", nothing);
    IS("vkCreateDevice", nothing);
    IS("vkGetDeviceProcAddr", nothing);
    return 0;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    if (*version > 5) *version = 5;
    return VK_SUCCESS;
}
