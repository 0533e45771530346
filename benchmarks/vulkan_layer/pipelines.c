/* Modules and pipelines: what the compiler was given, and what it says that it made of it. */
#include "layer.h"
#include <stdlib.h>
#include <string.h>

/* Modules and their hashes (FNV-1a); a module may be destroyed as soon as its pipeline is made. */
typedef struct { VkShaderModule handle; uint64_t hash; } Module;
static Module *modules;
static size_t module_count, module_room, pipeline_count;

static uint64_t hash_of(const uint8_t *bytes, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    while (size--) hash = (hash ^ *bytes++) * 0x100000001b3u;
    return hash;
}

VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateShaderModule(
    VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *a,
    VkShaderModule *made) {
    VkResult code = next_CreateShaderModule(device, info, a, made);
    if (code != VK_SUCCESS) return code;
    uint64_t hash = hash_of((const uint8_t *)info->pCode, info->codeSize);
    log_start();
    if (module_count == module_room) {
        module_room = module_room ? 2 * module_room : 256;
        modules = realloc(modules, module_room * sizeof *modules);
    }
    modules[module_count++] = (Module){*made, hash};
    FILE *file = log_file("%016llx.spv", hash, "wb");
    if (file) {
        fwrite(info->pCode, 1, info->codeSize, file);
        fclose(file);
    }
    fprintf(log_out, "{\"what\":\"module\",\"module\":\"%016llx\"", (unsigned long long)hash);
    log_finish();
    return code;
}

static void put_statistic(const VkPipelineExecutableStatisticKHR *s) {
    fputc(',', log_out);
    log_text(s->name);
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
        fprintf(log_out, ":%g", s->value.f64);
        break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        fprintf(log_out, ":%u", s->value.b32);
        break;
    default:
        fprintf(log_out, ":%llu", (unsigned long long)s->value.u64);
    }
}

static void write_texts(VkDevice device, const VkPipelineExecutableInfoKHR *which, size_t number) {
    uint32_t count = 0;
    next_GetPipelineExecutableInternalRepresentationsKHR(device, which, &count, 0);
    VkPipelineExecutableInternalRepresentationKHR *texts = calloc(count + 1, sizeof *texts);
    for (uint32_t i = 0; i < count; i++)
        texts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    next_GetPipelineExecutableInternalRepresentationsKHR(device, which, &count, texts);
    for (uint32_t i = 0; i < count; i++) texts[i].pData = calloc(texts[i].dataSize + 1, 1);
    next_GetPipelineExecutableInternalRepresentationsKHR(device, which, &count, texts);
    FILE *file = log_file("%05llu.txt", number, "w");
    for (uint32_t i = 0; i < count; i++) {
        if (file) fprintf(file, "=== %s\n%s\n", texts[i].name, (const char *)texts[i].pData);
        free(texts[i].pData);
    }
    if (file) fclose(file);
    free(texts);
}

/* A compute pipeline has one executable with all drivers so far; of more, the first is taken. */
static void put_statistics(VkDevice device, VkPipeline pipeline, size_t number) {
    VkPipelineInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, 0, pipeline};
    VkPipelineExecutablePropertiesKHR found = {
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
    VkPipelineExecutableInfoKHR which = {
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, 0, pipeline, 0};
    uint32_t count = 1;
    next_GetPipelineExecutablePropertiesKHR(device, &info, &count, &found);
    if (!count) return;
    fprintf(log_out, ",\"subgroup\":%u,\"statistics\":{\"\":0", found.subgroupSize);
    next_GetPipelineExecutableStatisticsKHR(device, &which, &count, 0);
    VkPipelineExecutableStatisticKHR *all = calloc(count + 1, sizeof *all);
    for (uint32_t i = 0; i < count; i++)
        all[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    next_GetPipelineExecutableStatisticsKHR(device, &which, &count, all);
    for (uint32_t i = 0; i < count; i++) put_statistic(all + i);
    fputc('}', log_out);
    free(all);
    if (log_folder) write_texts(device, &which, number);
}

static void put_pipeline(VkDevice device, const VkComputePipelineCreateInfo *info,
                         VkPipeline made) {
    const VkSpecializationInfo *constants = info->stage.pSpecializationInfo;
    size_t i = module_count, number = pipeline_count++;
    while (i && modules[i - 1].handle != info->stage.module) i--;
    fprintf(log_out, "{\"what\":\"pipeline\",\"pipeline\":\"%llx\",\"number\":%zu,", HANDLE(made),
            number);
    fprintf(log_out, "\"module\":\"%016llx\"", i ? (unsigned long long)modules[i - 1].hash : 0);
    fputs(",\"constants\":{", log_out);
    for (uint32_t k = 0; constants && k < constants->mapEntryCount; k++) {
        const VkSpecializationMapEntry *entry = constants->pMapEntries + k;
        uint32_t value = 0;
        memcpy(&value, (const char *)constants->pData + entry->offset,
               entry->size < sizeof value ? entry->size : sizeof value);
        fprintf(log_out, "%s\"%u\":%u", k ? "," : "", entry->constantID, value);
    }
    fputc('}', log_out);
    if (statistics_known) put_statistics(device, made, number);
}

VKAPI_ATTR VkResult VKAPI_CALL wrap_CreateComputePipelines(
    VkDevice device, VkPipelineCache cache, uint32_t count,
    const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *a, VkPipeline *made) {
    VkComputePipelineCreateInfo *own = malloc(count * sizeof *own);
    memcpy(own, infos, count * sizeof *own);
    for (uint32_t i = 0; i < count && statistics_known; i++) {
        own[i].flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
        if (getenv("VKNN_CALLS_FOLDER"))
            own[i].flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    }
    VkResult code = next_CreateComputePipelines(device, cache, count, own, a, made);
    free(own);
    for (uint32_t i = 0; i < count && code == VK_SUCCESS; i++) {
        log_start();
        put_pipeline(device, infos + i, made[i]);
        log_finish();
    }
    return code;
}

