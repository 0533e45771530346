"""Operators of onnxruntime (com.microsoft) that files in use have."""
