"""Attention and embeddings as models that onnxruntime's tools have joined have them."""
