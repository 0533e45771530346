// Cooperative matrices (VK_KHR_cooperative_matrix): factors of float16, sums of float32, each spread over
// the lanes of a subgroup as the device likes. Their sizes are specialization constants, for devices
// differ in them. Written with GL_EXT_spirv_intrinsics, since compilers in use know no
// GL_KHR_cooperative_matrix; the number behind 4456 is what vknn.runtime.spirv.cooperative makes a type of.

#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model

// rows of the first factor, columns of the second, what they are added up over
layout(constant_id = 20) const int MATRIX_M = 16;
layout(constant_id = 21) const int MATRIX_N = 16;
layout(constant_id = 22) const int MATRIX_K = 16;

#define KHR_COOPERATIVE extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022]
#define MATRIX_A spirv_type(KHR_COOPERATIVE, id = 4456, 10162022)
#define MATRIX_B spirv_type(KHR_COOPERATIVE, id = 4456, 11162221)
#define MATRIX_C spirv_type(KHR_COOPERATIVE, id = 4456, 12322021)
const int ROW_MAJOR = 0, COLUMN_MAJOR = 1;
// What a load and a store say of memory that the workgroup shares: MakePointerVisible or
// MakePointerAvailable, each with NonPrivatePointer, and the scope.
const int VISIBLE = 0x30, AVAILABLE = 0x28, WORKGROUP = 2;

// `stride`: from row to row, by what `place` is an element of
spirv_instruction(KHR_COOPERATIVE, id = 4457)
MATRIX_A load_a(spirv_by_reference f16vec4 place, int layout_, int stride, spirv_literal int memory, int scope);
spirv_instruction(KHR_COOPERATIVE, id = 4457)
MATRIX_B load_b(spirv_by_reference f16vec4 place, int layout_, int stride, spirv_literal int memory, int scope);
// from memory that nothing writes
spirv_instruction(KHR_COOPERATIVE, id = 4457)
MATRIX_B load_constant_b(spirv_by_reference f16vec4 place, int layout_, int stride);
spirv_instruction(KHR_COOPERATIVE, id = 4458)
void store_c(spirv_by_reference vec4 place, MATRIX_C c, int layout_, int stride, spirv_literal int memory, int scope);
#define LOAD_A(place, stride) load_a(place, ROW_MAJOR, stride, VISIBLE, WORKGROUP)
#define LOAD_B(place, layout_, stride) load_b(place, layout_, stride, VISIBLE, WORKGROUP)
#define STORE_C(place, c, stride) store_c(place, c, ROW_MAJOR, stride, AVAILABLE, WORKGROUP)
spirv_instruction(KHR_COOPERATIVE, id = 4459)
MATRIX_C multiply_add(MATRIX_A a, MATRIX_B b, MATRIX_C c);
spirv_instruction(id = 80)
MATRIX_C filled(float value);
