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
