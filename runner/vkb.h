/* Records of a bundle, format version 1. Made by tools/bundle_format.py
 * from src/vknn/bundle/schema.py; docs/bundle.md explains them. */
#ifndef VKB_H
#define VKB_H

#include <stdint.h>

#define VKB_MAGIC {0x89, 0x56, 0x4b, 0x42, 0x0d, 0x0a, 0x1a, 0x0a}
#define VKB_VERSION 1u
#define VKB_NONE 0xffffffffu
#define VKB_ALIGNMENT 64u
#define VKB_DATA_ALIGNMENT 65536u
#define VKB_BLOB_ALIGNMENT 256u
#define VKB_MOST_AXES 8

#define VKB_SECTION_PLAN 2u
#define VKB_SECTION_BUFFER 3u
#define VKB_SECTION_STEP 4u
#define VKB_SECTION_PIPELINE 5u
#define VKB_SECTION_MODULE 6u
#define VKB_SECTION_CONSTANT 7u
#define VKB_SECTION_SLOT 8u
#define VKB_SECTION_BINDING 9u
#define VKB_SECTION_PORT 11u
#define VKB_SECTION_SUBMIT 12u
#define VKB_SECTION_BLOB 13u
#define VKB_SECTION_LABEL 17u
#define VKB_SECTION_STATE 18u
#define VKB_SECTION_EXAMPLE 19u
#define VKB_SECTION_MATRIX 20u
#define VKB_SECTION_STRINGS 1u
#define VKB_SECTION_PUSH 10u
#define VKB_SECTION_SPIRV 14u
#define VKB_SECTION_DATA 15u
#define VKB_SECTION_META 16u
#define VKB_SECTIONS 21u

#define VKB_STEP_DISPATCH 0u
#define VKB_STEP_COPY 1u
#define VKB_STEP_FILL 2u
#define VKB_STEP_BARRIER 3u

#define VKB_ROLE_INPUT 0u
#define VKB_ROLE_OUTPUT 1u
#define VKB_ROLE_ACTIVATION 2u
#define VKB_ROLE_WEIGHT 3u

#define VKB_TYPE_FLOAT32 0u
#define VKB_TYPE_FLOAT16 1u
#define VKB_TYPE_INT8 2u
#define VKB_TYPE_UINT8 3u
#define VKB_TYPE_INT16 4u
#define VKB_TYPE_UINT16 5u
#define VKB_TYPE_INT32 6u
#define VKB_TYPE_UINT32 7u
#define VKB_TYPE_INT64 8u
#define VKB_TYPE_UINT64 9u
#define VKB_TYPE_BOOL 10u
#define VKB_TYPE_FLOAT64 11u

#define VKB_DIRECTION_INPUT 0u
#define VKB_DIRECTION_OUTPUT 1u

#define VKB_FEATURE_STORAGE_16BIT 0x1u
#define VKB_FEATURE_FLOAT16 0x2u
#define VKB_FEATURE_INT8 0x4u
#define VKB_FEATURE_INT16 0x8u
#define VKB_FEATURE_INT64 0x10u
#define VKB_FEATURE_FLOAT64 0x20u
#define VKB_FEATURE_STORAGE_8BIT 0x40u
#define VKB_FEATURE_INTEGER_DOT 0x80u
#define VKB_FEATURE_COOPERATIVE_MATRIX 0x100u
#define VKB_FEATURE_FULL_SUBGROUPS 0x200u
#define VKB_FEATURE_SUBGROUP_BASIC 0x400u
#define VKB_FEATURE_SUBGROUP_VOTE 0x800u
#define VKB_FEATURE_SUBGROUP_ARITHMETIC 0x1000u
#define VKB_FEATURE_SUBGROUP_BALLOT 0x2000u
#define VKB_FEATURE_SUBGROUP_SHUFFLE 0x4000u
#define VKB_FEATURE_SUBGROUP_SHUFFLE_RELATIVE 0x8000u
#define VKB_FEATURE_FLOAT_DOT 0x10000u
#define VKB_FEATURE_VULKAN_MEMORY_MODEL 0x20000u
#define VKB_FEATURE_MEMORY_MODEL_DEVICE_SCOPE 0x40000u

/* The first 128 bytes; the section table follows. */
typedef struct vkb_header {
    uint8_t magic[8]; /* 89 56 4B 42 0D 0A 1A 0A */
    uint32_t version; /* Version of the format */
    uint32_t header_bytes; /* 128 */
    uint64_t file_bytes; /* Bytes of the whole file */
    uint32_t sections; /* Entries of the section table */
    uint32_t table_crc; /* CRC-32 (IEEE 802.3) of the section table */
    uint8_t sha256[32]; /* SHA-256 of the whole file, with these 32 bytes as zeros */
    uint8_t data_sha256[32]; /* SHA-256 of the data section; zeros: not given */
    uint8_t reserved[32]; /* Zeros */
} vkb_header;
typedef char vkb_header_is_packed[sizeof(vkb_header) == 128 ? 1 : -1];

/* An entry of the section table; each kind is there once at most, missing ones are empty. */
typedef struct vkb_section {
    uint32_t kind; /* Which section */
    uint32_t crc; /* CRC-32 of its bytes; 0 for the data, whose blobs have their own */
    uint64_t offset; /* From the start of the file */
    uint64_t nbytes; /* Its size */
    uint32_t record_bytes; /* Size of a record; 1 where it is no table */
    uint32_t count; /* How many records; bytes where it is no table and they fit, else 0 */
} vkb_section;
typedef char vkb_section_is_packed[sizeof(vkb_section) == 32 ? 1 : -1];

/* A plan: a network for one set of shapes and one target, and what it needs of a device. */
typedef struct vkb_plan {
    uint32_t name; /* String: the network's name */
    uint32_t target; /* String: the target that it was made for */
    uint32_t shapes; /* String: its inputs' shapes, "data=3,224,224;mask=7" */
    uint32_t precision; /* String: "fp32", "fp16", ... */
    uint32_t first_buffers; /* First of its records among the buffers */
    uint32_t buffers; /* How many these are */
    uint32_t first_steps; /* First of its records among the steps */
    uint32_t steps; /* How many these are */
    uint32_t first_submits; /* First of its records among the submits */
    uint32_t submits; /* How many these are */
    uint32_t first_ports; /* First of its records among the ports */
    uint32_t ports; /* How many these are */
    uint32_t first_states; /* First of its records among the states */
    uint32_t states; /* How many these are */
    uint32_t first_examples; /* First of its records among the examples */
    uint32_t examples; /* How many these are */
    uint32_t first_matrices; /* First of its records among the matrices */
    uint32_t matrices; /* How many these are */
    uint64_t arenas[3]; /* Bytes of the arenas of inputs, outputs and activations */
    uint64_t features; /* Bits of the abilities that it needs */
    uint64_t storage_range; /* Bytes of the largest storage buffer */
    uint64_t work; /* Multiply-adds and other operations of a run, estimated */
    uint32_t vulkan; /* Version of Vulkan, as VK_MAKE_API_VERSION writes it */
    uint32_t texel_elements; /* Texels of the largest texel view */
    uint32_t group_size[3]; /* Largest size of a workgroup in x, y, z */
    uint32_t group_invocations; /* Most invocations of a workgroup */
    uint32_t group_count[3]; /* Most workgroups of a dispatch in x, y, z */
    uint32_t shared_memory; /* Most bytes of shared memory of a workgroup */
    uint32_t push_bytes; /* Most bytes of push constants */
    uint32_t storage_buffers; /* Most storage buffers of a pipeline */
    uint32_t uniform_texel_buffers; /* Most uniform texel buffers of a pipeline */
    uint32_t storage_texel_buffers; /* Most storage texel buffers of a pipeline */
    uint32_t storage_alignment; /* Every offset of a storage buffer is a multiple of this */
    uint32_t texel_alignment; /* Every offset of a texel view is a multiple of this */
    uint32_t subgroup_size; /* The subgroups' size, exactly; 0: any will do */
    uint32_t loop_rounds; /* Most rounds that the loops of an invocation run, estimated */
} vkb_plan;
typedef char vkb_plan_is_packed[sizeof(vkb_plan) == 192 ? 1 : -1];

/* A range of an arena, or a weight. */
typedef struct vkb_buffer {
    uint32_t name; /* String */
    uint32_t role; /* 0 input, 1 output, 2 activation, 3 weight */
    uint64_t offset; /* In its arena; 0 for weights */
    uint64_t nbytes; /* Its size */
    uint32_t blob; /* A weight's blob (bytes of the buffer behind it are 0), else none */
    uint32_t reserved; /* 0 */
} vkb_buffer;
typedef char vkb_buffer_is_packed[sizeof(vkb_buffer) == 32 ? 1 : -1];

/* A dispatch, copy, fill or barrier (of all memory, from and to shaders and transfers). */
typedef struct vkb_step {
    uint32_t kind; /* 0 dispatch, 1 copy, 2 fill, 3 barrier */
    uint32_t label; /* String: the layers that it computes */
    uint32_t op; /* String: the operator and algorithm */
    uint32_t pipeline; /* Of a dispatch */
    uint32_t first_bindings; /* First of its records among the bindings */
    uint32_t bindings; /* How many these are */
    uint32_t push; /* Offset of a dispatch's push constants in that section */
    uint32_t groups[3]; /* Workgroups of a dispatch in x, y, z */
    uint32_t source; /* Buffer that a copy reads */
    uint32_t target; /* Buffer that a copy or fill writes (a fill all of it) */
    uint64_t source_offset; /* Of a copy, in its source */
    uint64_t target_offset; /* Of a copy, in its target */
    uint64_t nbytes; /* Of a copy */
    uint32_t word; /* Of a fill */
    uint32_t reserved; /* 0 */
    uint64_t flops; /* Operations, estimated */
    uint64_t traffic; /* Bytes read and written once, estimated */
} vkb_step;
typedef char vkb_step_is_packed[sizeof(vkb_step) == 96 ? 1 : -1];

/* A compute pipeline; its entry point is main. */
typedef struct vkb_pipeline {
    uint32_t kernel; /* String */
    uint32_t module; /* Its module */
    uint32_t first_constants; /* First of its records among the constants */
    uint32_t constants; /* How many these are */
    uint32_t first_slots; /* First of its records among the slots */
    uint32_t slots; /* How many these are */
    uint32_t push_bytes; /* Bytes of its push constants */
    uint32_t flags; /* 1: subgroups must be full */
} vkb_pipeline;
typedef char vkb_pipeline_is_packed[sizeof(vkb_pipeline) == 32 ? 1 : -1];

/* A SPIR-V module. */
typedef struct vkb_module {
    uint64_t offset; /* In the SPIR-V section, a multiple of 4 */
    uint64_t nbytes; /* Its size */
    uint32_t shared_memory; /* Bytes of shared memory with any pipeline's constants */
    uint32_t reserved; /* 0 */
} vkb_module;
typedef char vkb_module_is_packed[sizeof(vkb_module) == 24 ? 1 : -1];

/* A specialization constant. */
typedef struct vkb_constant {
    uint32_t id; /* Its SpecId */
    uint32_t word; /* Its 32 bits */
} vkb_constant;
typedef char vkb_constant_is_packed[sizeof(vkb_constant) == 8 ? 1 : -1];

/* A binding of a pipeline's layout; slot n has binding number n. */
typedef struct vkb_slot {
    uint32_t view; /* VkDescriptorType: 4 uniform texel, 5 storage texel, 7 storage buffer */
    uint32_t access; /* 1 read, 2 written, 3 both */
} vkb_slot;
typedef char vkb_slot_is_packed[sizeof(vkb_slot) == 8 ? 1 : -1];

/* A buffer of a dispatch, in the order of its pipeline's slots. */
typedef struct vkb_binding {
    uint32_t buffer; /* Index in the plan's own buffers */
    uint32_t format; /* VkFormat of a texel view, else 0 */
} vkb_binding;
typedef char vkb_binding_is_packed[sizeof(vkb_binding) == 8 ? 1 : -1];

/* An input or output, in the model's own words; its elements lie dense in its buffer. */
typedef struct vkb_port {
    uint32_t name; /* String */
    uint32_t direction; /* 0 input, 1 output */
    uint32_t type; /* Element type */
    uint32_t rank; /* How many axes */
    uint64_t dims[8]; /* Their sizes; 1 behind the last */
    uint32_t buffer; /* Index in the plan's own buffers */
    uint32_t count; /* Buffer with an int32: size of the open axis, at most; else none */
    uint32_t open_axis; /* Which axis that is; those in front of it are of size 1 */
    uint32_t layout; /* String: a letter an axis, "NHWC"; empty where the format has none */
    uint32_t first_labels; /* First of its records among the labels */
    uint32_t labels; /* How many these are */
    uint32_t picture; /* String: order of a picture's colours, "RGB"; else empty */
    uint32_t quantized; /* 1: integers stand for scale * (stored - zero point) */
    float scale; /* Of a quantized port */
    int32_t zero_point; /* Of a quantized port */
} vkb_port;
typedef char vkb_port_is_packed[sizeof(vkb_port) == 120 ? 1 : -1];

/* The end of a submit. */
typedef struct vkb_submit {
    uint32_t end; /* Step behind its last, in the plan's own */
    uint32_t reserved; /* 0 */
} vkb_submit;
typedef char vkb_submit_is_packed[sizeof(vkb_submit) == 8 ? 1 : -1];

/* Bytes of the data section: a weight, or an array of an example. */
typedef struct vkb_blob {
    uint64_t offset; /* In the data section, a multiple of 256 */
    uint64_t nbytes; /* Its size */
    uint32_t crc; /* CRC-32 of its bytes */
    uint32_t reserved; /* 0 */
} vkb_blob;
typedef char vkb_blob_is_packed[sizeof(vkb_blob) == 24 ? 1 : -1];

/* A label of a class. */
typedef struct vkb_label {
    uint32_t text; /* String */
    uint32_t reserved; /* 0 */
} vkb_label;
typedef char vkb_label_is_packed[sizeof(vkb_label) == 8 ? 1 : -1];

/* State: behind a run the output buffer is copied over the input buffer. */
typedef struct vkb_state {
    uint32_t name; /* String */
    uint32_t input; /* Index in the plan's own buffers */
    uint32_t output; /* Index in the plan's own buffers */
    uint32_t blob; /* First value; none: zeros */
    uint64_t nbytes; /* Size of both */
} vkb_state;
typedef char vkb_state_is_packed[sizeof(vkb_state) == 24 ? 1 : -1];

/* An array of the example: an input, or what the NumPy reference makes of these. */
typedef struct vkb_example {
    uint32_t port; /* Index in the plan's own ports */
    uint32_t blob; /* Its elements; where the port's axis is open, as many as there are */
    float absolute; /* Of an output: |got - expected| <= absolute + relative |expected| */
    float relative; /* Of an output; both 0: must be equal */
} vkb_example;
typedef char vkb_example_is_packed[sizeof(vkb_example) == 16 ? 1 : -1];

/* A product of cooperative matrices that the device must know, with the scope of a subgroup. */
typedef struct vkb_matrix {
    uint32_t m; /* Rows of the first factor */
    uint32_t n; /* Columns of the second factor */
    uint32_t k; /* Columns of the first factor */
    uint32_t factors; /* VkComponentTypeKHR of both factors */
    uint32_t sums; /* VkComponentTypeKHR of what is added to and comes out */
    uint32_t reserved; /* 0 */
} vkb_matrix;
typedef char vkb_matrix_is_packed[sizeof(vkb_matrix) == 24 ? 1 : -1];

/* The sections of records: X(plural, record, RECORD). */
#define VKB_TABLES(X) \
    X(plans,plan,PLAN) X(buffers,buffer,BUFFER) X(steps,step,STEP) X(pipelines,pipeline,PIPELINE) \
    X(modules,module,MODULE) X(constants,constant,CONSTANT) X(slots,slot,SLOT) X(bindings,binding,BINDING) \
    X(ports,port,PORT) X(submits,submit,SUBMIT) X(blobs,blob,BLOB) X(labels,label,LABEL) \
    X(states,state,STATE) X(examples,example,EXAMPLE) X(matrices,matrix,MATRIX)

/* The sections of bytes: X(section, SECTION). */
#define VKB_BYTES(X) \
    X(strings,STRINGS) X(push,PUSH) X(spirv,SPIRV) X(data,DATA) X(meta,META)

/* Fields that are the offset of a text: X(record, plural, field). */
#define VKB_TEXTS(X) \
    X(plan,plans,name) X(plan,plans,target) X(plan,plans,shapes) X(plan,plans,precision) \
    X(buffer,buffers,name) X(step,steps,label) X(step,steps,op) X(pipeline,pipelines,kernel) \
    X(port,ports,name) X(port,ports,layout) X(port,ports,picture) X(label,labels,text) \
    X(state,states,name)

/* Records with reserved bytes: X(record, plural). */
#define VKB_RESERVED(X) \
    X(buffer,buffers) X(step,steps) X(module,modules) X(submit,submits) X(blob,blobs) X(label,labels) \
    X(matrix,matrices)

/* Ranges, from first_THESE on so many as THESE: X(record, plural, these, this). */
#define VKB_RANGES(X) \
    X(plan,plans,buffers,buffer) X(plan,plans,steps,step) X(plan,plans,submits,submit) \
    X(plan,plans,ports,port) X(plan,plans,states,state) X(plan,plans,examples,example) \
    X(plan,plans,matrices,matrix) X(step,steps,bindings,binding) X(pipeline,pipelines,constants,constant) \
    X(pipeline,pipelines,slots,slot) X(port,ports,labels,label)

/* Tables of which each plan has a range, one behind the other: X(plural, record). */
#define VKB_OF_PLANS(X) \
    X(buffers,buffer) X(steps,step) X(submits,submit) X(ports,port) X(states,state) X(examples,example) \
    X(matrices,matrix)

/* What SPIR-V's capabilities need; others are refused: X(capability, features). */
#define VKB_CAPABILITIES(X) \
    X(1u,0x0u) X(9u,0x2u) X(10u,0x20u) X(11u,0x10u) X(22u,0x8u) X(39u,0x4u) X(46u,0x0u) X(47u,0x0u) \
    X(50u,0x0u) X(61u,0x400u) X(62u,0x800u) X(63u,0x1000u) X(64u,0x2000u) X(65u,0x4000u) X(66u,0x8000u) \
    X(4433u,0x1u) X(4448u,0x40u) X(5345u,0x20000u) X(5346u,0x40000u) X(6016u,0x80u) X(6017u,0x80u) \
    X(6018u,0x80u) X(6019u,0x80u) X(6912u,0x10000u) X(6022u,0x300u)

/* Formats of texel views: X(VkFormat, bytes of a texel). */
#define VKB_TEXELS(X) \
    X(100u,4u) X(109u,16u) X(99u,4u) X(108u,16u) X(76u,2u) X(97u,8u) X(74u,2u) X(95u,8u)

/* Bytes of an element, by its type. */
#define VKB_TYPE_BYTES {4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8}

#endif
