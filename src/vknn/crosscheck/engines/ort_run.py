"""ONNX Runtime on the CPU: every value that a node of the main graph makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vknn.formats.onnx import onnx_pb2 as pb

#: Where ONNX Runtime looks for external data of a model that it gets as bytes.
_EXTERNAL = "session.model_external_initializers_file_folder_path"


def run(
    model: str, weights: str | None, feeds: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, np.ndarray]]:
    """Name and version of the engine, and its tensors by name, from a copy of the model in memory.

    Nothing is optimized, as fused nodes would compute some values no more.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry(_EXTERNAL, str(Path(model).resolve().parent))
    session = onnxruntime.InferenceSession(
        _all_values(Path(model)), options, providers=["CPUExecutionProvider"]
    )
    taken = {i.name for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    found = session.run(names, {n: a for n, a in feeds.items() if n in taken})
    arrays = {n: a for n, a in zip(names, found, strict=True) if isinstance(a, np.ndarray)}
    return f"ONNX Runtime {onnxruntime.__version__}", arrays


def _all_values(path: Path) -> bytes:
    """The model with all that its nodes make as outputs; ONNX Runtime finds their types."""
    model = pb.Model()
    model.ParseFromString(path.read_bytes())
    known = {output.name for output in model.graph.output}
    made = [name for node in model.graph.node for name in node.output if name]
    for name in dict.fromkeys(made):
        if name not in known:
            model.graph.output.add().name = name
    return bytes(model.SerializeToString())
