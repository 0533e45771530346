"""Graph: every format is read into it, and everything else works on it."""

from vknn.graph.attributes import Attributes, attributes
from vknn.graph.builder import GraphBuilder
from vknn.graph.graph import (
    Arrays,
    Call,
    Continuation,
    Graph,
    Node,
    Origin,
    Quantization,
    Value,
)
from vknn.graph.op import Fusion, Op, op_classes
from vknn.graph.printing import format_graph
from vknn.graph.types import DType, Shape, TensorType
from vknn.graph.validation import validate

__all__ = [
    "Arrays",
    "Attributes",
    "Call",
    "Continuation",
    "DType",
    "Fusion",
    "Graph",
    "GraphBuilder",
    "Node",
    "Op",
    "Origin",
    "Quantization",
    "Shape",
    "TensorType",
    "Value",
    "attributes",
    "format_graph",
    "op_classes",
    "validate",
]
