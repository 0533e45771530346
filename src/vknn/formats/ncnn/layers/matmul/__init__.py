"""Matrix products: InnerProduct, Gemm, MatMul, Einsum."""
