// Cooperative matrices of int8 with sums in int32, as matmul/cooperative.glsl has those of float16. Four
// components are the bytes of a word; the second factor's columns lie one after the other.

#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_memory_scope_semantics : require
#pragma use_vulkan_memory_model

// rows of the first factor, columns of the second, what they are added up over
layout(constant_id = 30) const int MATRIX_M = 16;
layout(constant_id = 31) const int MATRIX_N = 16;
layout(constant_id = 32) const int MATRIX_K = 16;

// The capabilities of cooperative matrices and of 8-bit integers.
#define KHR_COOPERATIVE extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022, 39]
#define MATRIX_A spirv_type(KHR_COOPERATIVE, id = 4456, 20083032)
#define MATRIX_B spirv_type(KHR_COOPERATIVE, id = 4456, 21083231)
#define MATRIX_C spirv_type(KHR_COOPERATIVE, id = 4456, 22323031)
const int ROW_MAJOR = 0, COLUMN_MAJOR = 1;
// MakePointerVisible or MakePointerAvailable, each with NonPrivatePointer, and the scope.
const int VISIBLE = 0x30, AVAILABLE = 0x28, WORKGROUP = 2;

// `stride`: from row to row, or from column to column, by what `place` is an element of
spirv_instruction(KHR_COOPERATIVE, id = 4457)
MATRIX_A load_a(spirv_by_reference ivec2 place, int layout_, int stride, spirv_literal int memory, int scope);
spirv_instruction(KHR_COOPERATIVE, id = 4457)
MATRIX_B load_b(spirv_by_reference ivec2 place, int layout_, int stride, spirv_literal int memory, int scope);
spirv_instruction(KHR_COOPERATIVE, id = 4458)
void store_c(spirv_by_reference ivec4 place, MATRIX_C c, int layout_, int stride, spirv_literal int memory, int scope);
#define LOAD_A(place, stride) load_a(place, ROW_MAJOR, stride, VISIBLE, WORKGROUP)
#define LOAD_B(place, stride) load_b(place, COLUMN_MAJOR, stride, VISIBLE, WORKGROUP)
#define STORE_C(place, c, stride) store_c(place, c, ROW_MAJOR, stride, AVAILABLE, WORKGROUP)
// All four operands are signed.
spirv_instruction(KHR_COOPERATIVE, id = 4459)
MATRIX_C multiply_add(MATRIX_A a, MATRIX_B b, MATRIX_C c, spirv_literal int signs);
#define MULTIPLY(a, b, c) multiply_add(a, b, c, 15)
spirv_instruction(id = 80)
MATRIX_C filled(int value);
