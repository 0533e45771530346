"""Parts of ONNX that vknn does not run, with the reason."""

from __future__ import annotations

#: Domains whose operators are out of scope.
DOMAINS = {
    "ai.onnx.ml": "classical models (trees, support vectors, encoders of labels) are no networks",
    "ai.onnx.training": "training operators: export the model for inference",
    "ai.onnx.preview.training": "training operators: export the model for inference",
    "ai.onnx.preview": "it may still change: export the model with its functions expanded",
    "com.microsoft.nchwc": "onnxruntime saved it for one CPU: export the model anew, or have "
    "onnxruntime save it without the optimizations of level 3 (ORT_ENABLE_EXTENDED)",
    "com.microsoft.extensions": "onnxruntime-extensions; vknn.register_layer can define it",
    "ai.onnx.contrib": "onnxruntime-extensions; vknn.register_layer can define it",
}
#: Operators of onnxruntime that are whole loops of text generation.
_GENERATION = ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")


def out_of_scope(domain: str, name: str) -> str | None:
    """The reason why vknn will not run an operator; None for others."""
    if domain == "com.microsoft" and name in _GENERATION:
        return "a whole loop of text generation: export the network alone and loop in Python"
    return DOMAINS.get(domain)
