/* A Vulkan layer that writes down what an engine asks of a device: modules, pipelines with what the
 * driver's compiler says of them (VK_KHR_pipeline_executable_properties), recorded commands,
 * bound buffers, submits, memory. Any engine, any device, also one that computes nothing.
 *
 *   VKNN_CALLS_LOG      the file: a JSON object a line, appended
 *   VKNN_CALLS_FOLDER   where modules go as <module>.spv and compiled texts as <number>.txt
 *
 * Handles stand in the log as hexadecimal strings; one that is used again means the newer object.
 * Built by benchmarks/counting/layer.py, its log read by benchmarks/counting/log.py.
 */
#include <stdint.h>
#include <stdio.h>
#include <vulkan/vulkan.h>

#define HANDLE(h) ((unsigned long long)(uintptr_t)(h))

/* Functions that the layer wraps: X(name) for each; wrap_X is called in place of next_X. */
#define WRAPPED(X)                                                                                \
    X(CreateShaderModule) X(CreateComputePipelines) X(BeginCommandBuffer)                         \
    X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect)                  \
    X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdUpdateBuffer) X(QueueSubmit)     \
    X(AllocateMemory) X(FreeMemory) X(CreateDescriptorUpdateTemplate)                             \
    X(CreateDescriptorUpdateTemplateKHR) X(UpdateDescriptorSetWithTemplate)                       \
    X(UpdateDescriptorSetWithTemplateKHR) X(CmdPushDescriptorSetWithTemplateKHR)                  \
    X(UpdateDescriptorSets) X(CmdBindDescriptorSets)
/* Functions that it calls itself. */
#define CALLED(X)                                                                                 \
    X(GetPipelineExecutablePropertiesKHR) X(GetPipelineExecutableStatisticsKHR)                   \
    X(GetPipelineExecutableInternalRepresentationsKHR)

#define DECLARE_NEXT(f) extern PFN_vk##f next_##f;
WRAPPED(DECLARE_NEXT)
CALLED(DECLARE_NEXT)

/* Whether the driver tells what its compiler made. */
extern int statistics_known;

/* A record is opened by log_start, which takes the lock, and closed by log_finish, which writes the
 * closing brace; log_record does both. */
extern FILE *log_out;
extern const char *log_folder;
void log_start(void);
void log_finish(void);
void log_record(const char *form, ...) __attribute__((format(printf, 1, 2)));
void log_text(const char *text);
FILE *log_file(const char *name, unsigned long long key, const char *mode);
void log_lock(void);
void log_unlock(void);
