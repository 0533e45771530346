"""The graph: what every format is read into and everything else works on."""

from vknn.graph.builder import GraphBuilder
from vknn.graph.graph import Graph, Node, Origin, Quantization, Value
from vknn.graph.op import Fusion, Op, op_classes
from vknn.graph.printing import format_graph
from vknn.graph.types import DType, Shape, TensorType
from vknn.graph.validation import validate

__all__ = [
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
    "format_graph",
    "op_classes",
    "validate",
]
