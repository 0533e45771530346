// Element types of the buffers of a matrix product. HALF 1: all are float16; 2: c is float32, for another
// dispatch; 3: a is float32, from another dispatch.

#if HALF == 3
#define INPUT4A(b, name) INPUT4S(b, name)
#define INPUT1A(b, name) INPUT1S(b, name)
#else
#define INPUT4A(b, name) INPUT4F(b, name)
#define INPUT1A(b, name) INPUT1F(b, name)
#endif
#if HALF == 2
#define OUTPUT4C(b, name) OUTPUT4S(b, name)
#define OUTPUT1C(b, name) OUTPUT1S(b, name)
#else
#define OUTPUT4C(b, name) OUTPUT4F(b, name)
#define OUTPUT1C(b, name) OUTPUT1F(b, name)
#endif

// c as a buffer that other workgroups' results are read back from: by STORE4 and READ_BACK4.
#define COHERENT_BUFFER(b, name, type) layout(set = 0, binding = b, std430) coherent buffer name##_block { type name[]; }
#if HALF == 0
#define COHERENT4(b, name) COHERENT_BUFFER(b, name, vec4)
#define READ_BACK4(name, i) name[i]
#elif BF16
#define COHERENT4(b, name) \
    COHERENT_BUFFER(b, name, uvec2); \
    void name##_store(int place_, vec4 value_) { name[place_] = to_bfloat16(value_); } \
    vec4 name##_read_back(int place_) { return from_bfloat16(name[place_]); } \
    vec4 name##_read_back(int place_)
#else
#define COHERENT4(b, name) \
    COHERENT_BUFFER(b, name, f16vec4); \
    void name##_store(int place_, vec4 value_) { name[place_] = f16vec4(value_); } \
    vec4 name##_read_back(int place_) { return vec4(name[place_]); } \
    vec4 name##_read_back(int place_)
#endif
#if HALF > 0
#define READ_BACK4(name, i) name##_read_back(int(i))
#endif
