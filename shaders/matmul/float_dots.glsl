// Dot products of two pairs of float16 added to a float32, one instruction where the device has
// VK_VALVE_shader_mixed_float_dot_product. DOTS: 1 that instruction; 2 written out in float32, which
// tests what stands around it on any device.
//
// Written with GL_EXT_spirv_intrinsics, since compilers in use do not know it: 6912 is the capability
// DotProductFloat16AccFloat32VALVE, 6916 OpFDot2MixAcc32VALVE (SPV_VALVE_mixed_float_dot_product).

#if DOTS == 1
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_VALVE_mixed_float_dot_product"], capabilities = [6912], id = 6916)
float dot_of_pairs(f16vec2 a, f16vec2 b, float sum);
#else
float dot_of_pairs(f16vec2 a, f16vec2 b, float sum) {
    return fma(float(a.y), float(b.y), fma(float(a.x), float(b.x), sum));
}
#endif

// The four products of vec4s along k, added up.
float dot_added(f16vec4 a, f16vec4 b, float sum) {
    return dot_of_pairs(a.zw, b.zw, dot_of_pairs(a.xy, b.xy, sum));
}
