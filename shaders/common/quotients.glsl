// Quotient and rest of what is not negative, which compilers do not know of a lane's number: of signed numbers
// they take twice the instructions.

#ifndef VKNN_COMMON_QUOTIENTS_GLSL
#define VKNN_COMMON_QUOTIENTS_GLSL

int whole_part(int x, int by) { return int(uint(x) / uint(by)); }
int rest(int x, int by) { return int(uint(x) % uint(by)); }

#endif
