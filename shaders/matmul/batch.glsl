// Batch entries of matrix products: up to three batch axes of sizes (any, d1, d2), each with a stride in
// a, b and c (0 where a matrix is shared), in elements or vec4s as the buffer is read. BATCH_MEMBERS
// belongs inside the push-constant block; BATCH_PLACES(z) declares where the matrices of entry z begin.

#define BATCH_MEMBERS \
    int d1, d2; \
    int a_step0, a_step1, a_step2; \
    int b_step0, b_step1, b_step2; \
    int c_step0, c_step1, c_step2;

#define BATCH_PLACES(z) \
    int batch2 = (z) % p.d2; \
    int batch1 = (z) / p.d2 % p.d1; \
    int batch0 = (z) / (p.d2 * p.d1); \
    int a_base = batch0 * p.a_step0 + batch1 * p.a_step1 + batch2 * p.a_step2; \
    int b_base = batch0 * p.b_step0 + batch1 * p.b_step1 + batch2 * p.b_step2; \
    int c_base = batch0 * p.c_step0 + batch1 * p.c_step1 + batch2 * p.c_step2;
