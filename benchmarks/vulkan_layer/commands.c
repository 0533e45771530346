/* Recorded commands, the buffers that are bound to them, submits, and memory. */
#include "layer.h"
#include <stdlib.h>
#include <string.h>

VKAPI_ATTR VkResult VKAPI_CALL wrap_BeginCommandBuffer(
    VkCommandBuffer commands, const VkCommandBufferBeginInfo *info) {
    log_record("{\"what\":\"begin\",\"commands\":\"%llx\"", HANDLE(commands));
    return next_BeginCommandBuffer(commands, info);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdBindPipeline(
    VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
    log_record("{\"what\":\"bind\",\"commands\":\"%llx\",\"pipeline\":\"%llx\"", HANDLE(commands),
           HANDLE(pipeline));
    next_CmdBindPipeline(commands, point, pipeline);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdPushConstants(
    VkCommandBuffer commands, VkPipelineLayout layout, VkShaderStageFlags stages, uint32_t offset,
    uint32_t size, const void *values) {
    log_start();
    fprintf(log_out, "{\"what\":\"push\",\"commands\":\"%llx\",\"offset\":%u,\"bytes\":\"",
            HANDLE(commands), offset);
    for (uint32_t i = 0; i < size; i++) fprintf(log_out, "%02x", ((const uint8_t *)values)[i]);
    fputc('"', log_out);
    log_finish();
    next_CmdPushConstants(commands, layout, stages, offset, size, values);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdDispatch(
    VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
    log_record("{\"what\":\"dispatch\",\"commands\":\"%llx\",\"groups\":[%u,%u,%u]",
               HANDLE(commands), x, y, z);
    next_CmdDispatch(commands, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdDispatchIndirect(
    VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
    log_record("{\"what\":\"dispatch\",\"commands\":\"%llx\",\"groups\":[1,1,1]", HANDLE(commands));
    next_CmdDispatchIndirect(commands, buffer, offset);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdPipelineBarrier(
    VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
    VkDependencyFlags flags, uint32_t memories, const VkMemoryBarrier *memory, uint32_t buffers,
    const VkBufferMemoryBarrier *buffer, uint32_t images, const VkImageMemoryBarrier *image) {
    log_record("{\"what\":\"barrier\",\"commands\":\"%llx\"", HANDLE(commands));
    next_CmdPipelineBarrier(commands, from, to, flags, memories, memory, buffers, buffer, images,
                            image);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdCopyBuffer(
    VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
    const VkBufferCopy *parts) {
    unsigned long long bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += parts[i].size;
    log_record("{\"what\":\"copy\",\"commands\":\"%llx\",\"bytes\":%llu", HANDLE(commands), bytes);
    next_CmdCopyBuffer(commands, from, to, count, parts);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdFillBuffer(
    VkCommandBuffer commands, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, uint32_t value) {
    log_record("{\"what\":\"copy\",\"commands\":\"%llx\",\"bytes\":%llu", HANDLE(commands),
           size == VK_WHOLE_SIZE ? 0 : (unsigned long long)size);
    next_CmdFillBuffer(commands, to, offset, size, value);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdUpdateBuffer(
    VkCommandBuffer commands, VkBuffer to, VkDeviceSize offset, VkDeviceSize size,
    const void *data) {
    log_record("{\"what\":\"copy\",\"commands\":\"%llx\",\"bytes\":%llu", HANDLE(commands),
           (unsigned long long)size);
    next_CmdUpdateBuffer(commands, to, offset, size, data);
}

VKAPI_ATTR VkResult VKAPI_CALL wrap_QueueSubmit(
    VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
    const char *comma = "";
    log_start();
    fputs("{\"what\":\"submit\",\"commands\":[", log_out);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < submits[i].commandBufferCount; k++, comma = ",")
            fprintf(log_out, "%s\"%llx\"", comma, HANDLE(submits[i].pCommandBuffers[k]));
    fputc(']', log_out);
    log_finish();
    return next_QueueSubmit(queue, count, submits, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wrap_AllocateMemory(
    VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a,
    VkDeviceMemory *made) {
    VkResult code = next_AllocateMemory(device, info, a, made);
    if (code == VK_SUCCESS)
        log_record("{\"what\":\"allocate\",\"memory\":\"%llx\",\"bytes\":%llu", HANDLE(*made),
               (unsigned long long)info->allocationSize);
    return code;
}

VKAPI_ATTR void VKAPI_CALL wrap_FreeMemory(
    VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *a) {
    log_record("{\"what\":\"free\",\"memory\":\"%llx\"", HANDLE(memory));
    next_FreeMemory(device, memory, a);
}

/* Bound buffers: descriptors by way of templates, of writes to sets, or pushed. */
typedef struct {
    VkDescriptorUpdateTemplate handle;
    uint32_t count;
    VkDescriptorUpdateTemplateEntry *entries;
} Template;
static Template *templates;
static size_t template_count;

static void keep_template(const VkDescriptorUpdateTemplateCreateInfo *info,
                          VkDescriptorUpdateTemplate made) {
    uint32_t count = info->descriptorUpdateEntryCount;
    VkDescriptorUpdateTemplateEntry *entries = malloc((count + 1) * sizeof *entries);
    memcpy(entries, info->pDescriptorUpdateEntries, count * sizeof *entries);
    log_lock();
    templates = realloc(templates, (template_count + 1) * sizeof *templates);
    templates[template_count++] = (Template){made, count, entries};
    log_unlock();
}

static void put_buffer(const char *comma, uint32_t binding, const VkDescriptorBufferInfo *b) {
    fprintf(log_out, "%s[%u,\"%llx\",%llu,%lld]", comma, binding, HANDLE(b->buffer),
            (unsigned long long)b->offset, (long long)b->range);
}

static int is_buffer(VkDescriptorType type) {
    return type >= VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER &&
           type <= VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC;
}

static void put_template(VkDescriptorUpdateTemplate handle, const char *data) {
    const char *comma = "";
    size_t i = template_count;
    while (i && templates[i - 1].handle != handle) i--;
    fputs(",\"buffers\":[", log_out);
    for (uint32_t k = 0; i && k < templates[i - 1].count; k++) {
        const VkDescriptorUpdateTemplateEntry *e = templates[i - 1].entries + k;
        for (uint32_t n = 0; n < e->descriptorCount && is_buffer(e->descriptorType); n++) {
            put_buffer(comma, e->dstBinding + n,
                       (const VkDescriptorBufferInfo *)(data + e->offset + n * e->stride));
            comma = ",";
        }
    }
    fputc(']', log_out);
}

#define TEMPLATE_FUNCTIONS(SUFFIX)                                                                \
    VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateDescriptorUpdateTemplate##SUFFIX(            \
        VkDevice device, const VkDescriptorUpdateTemplateCreateInfo *info,                        \
        const VkAllocationCallbacks *a, VkDescriptorUpdateTemplate *made) {                       \
        VkResult code = next_CreateDescriptorUpdateTemplate##SUFFIX(device, info, a, made);       \
        if (code == VK_SUCCESS) keep_template(info, *made);                                       \
        return code;                                                                              \
    }                                                                                             \
    VKAPI_ATTR void VKAPI_CALL wrap_UpdateDescriptorSetWithTemplate##SUFFIX(               \
        VkDevice device, VkDescriptorSet set, VkDescriptorUpdateTemplate handle,                  \
        const void *data) {                                                                       \
        log_start();                                                                              \
        fprintf(log_out, "{\"what\":\"set\",\"set\":\"%llx\"", HANDLE(set));                      \
        put_template(handle, data);                                                               \
        log_finish();                                                                             \
        next_UpdateDescriptorSetWithTemplate##SUFFIX(device, set, handle, data);                  \
    }
TEMPLATE_FUNCTIONS()
TEMPLATE_FUNCTIONS(KHR)

VKAPI_ATTR void VKAPI_CALL wrap_CmdPushDescriptorSetWithTemplateKHR(
    VkCommandBuffer commands, VkDescriptorUpdateTemplate handle, VkPipelineLayout layout,
    uint32_t set, const void *data) {
    log_start();
    fprintf(log_out, "{\"what\":\"buffers\",\"commands\":\"%llx\"", HANDLE(commands));
    put_template(handle, data);
    log_finish();
    next_CmdPushDescriptorSetWithTemplateKHR(commands, handle, layout, set, data);
}

VKAPI_ATTR void VKAPI_CALL wrap_UpdateDescriptorSets(
    VkDevice device, uint32_t count, const VkWriteDescriptorSet *writes, uint32_t copies,
    const VkCopyDescriptorSet *copy) {
    for (uint32_t i = 0; i < count; i++) {
        if (!is_buffer(writes[i].descriptorType)) continue;
        log_start();
        fprintf(log_out, "{\"what\":\"set\",\"set\":\"%llx\",\"buffers\":[",
                HANDLE(writes[i].dstSet));
        for (uint32_t n = 0; n < writes[i].descriptorCount; n++)
            put_buffer(n ? "," : "", writes[i].dstBinding + n, writes[i].pBufferInfo + n);
        fputc(']', log_out);
        log_finish();
    }
    next_UpdateDescriptorSets(device, count, writes, copies, copy);
}

VKAPI_ATTR void VKAPI_CALL wrap_CmdBindDescriptorSets(
    VkCommandBuffer commands, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t first,
    uint32_t count, const VkDescriptorSet *sets, uint32_t offsets, const uint32_t *offset) {
    if (count)
        log_record("{\"what\":\"buffers\",\"commands\":\"%llx\",\"set\":\"%llx\"", HANDLE(commands),
               HANDLE(sets[0]));
    next_CmdBindDescriptorSets(commands, point, layout, first, count, sets, offsets, offset);
}
