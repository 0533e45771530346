"""A graph as text: one line a node, stable from run to run (golden tests read it)."""

from __future__ import annotations

from vknn.graph.graph import Graph, Value


def format_graph(graph: Graph) -> str:
    """The graph as text."""
    lines = [f"graph {graph.name}"]
    lines += [f"  input {v.name}: {v.type}" for v in graph.inputs]
    for node in graph.nodes:
        attributes = ", ".join(f"{k}={_short(v)}" for k, v in node.op.attributes().items())
        results = ", ".join(f"{v.name}: {v.type}" for v in node.outputs)
        operands = ", ".join(_operand(v) for v in node.inputs)
        lines.append(f"  {results} = {node.op.type_name}({attributes})({operands})")
    lines += [f"  output {name} = {value.name}" for name, value in graph.outputs.items()]
    return "\n".join(lines) + "\n"


def _operand(value: Value | None) -> str:
    if value is None:
        return "-"
    return value.name if value.constant is None else f"const {value.type}"


def _short(attribute: object) -> str:
    text = repr(attribute)
    return text if len(text) <= 60 else text[:57] + "..."
