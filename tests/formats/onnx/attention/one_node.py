"""Models of one node, run; and attention worked out head by head, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.helpers import shared_device
from tests.onnx_writer import graph, model, node, save, value

from vknn import Session
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.graph import DType

MICROSOFT = "com.microsoft"
Arrays = Sequence[np.ndarray | None]


def floats(*shape: int) -> np.ndarray:
    """The same numbers for the same shape."""
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape).astype(np.float32)


def one_node(
    op: str, inputs: Arrays, outputs: str, opset: int = 25, domain: str = "", **attributes: Any
) -> Any:
    """A model of one node; outputs are names with spaces between, "-" for one that is left out.

    Attributes whose value is an array's dtype number or a list of names are given as they are.
    """
    names = " ".join("-" if x is None else f"x{i}" for i, x in enumerate(inputs))
    texts = {k: v for k, v in attributes.items() if isinstance(v, str)}
    made = node(
        op, names, outputs, domain, **{k: v for k, v in attributes.items() if k not in texts}
    )
    for name, text in texts.items():
        made.attribute.append(pb.Attribute(name=name, type=3, s=text.encode()))
    ins = [
        value(f"x{i}", (None,) * x.ndim, DType.of(x)) for i, x in enumerate(inputs) if x is not None
    ]
    outs = [value(name, None) for name in outputs.split() if name != "-"]
    found = model(graph([made], ins, outs), opset)
    if domain:
        found.opset_import.add(domain=domain, version=1)
    return found


def run_node(
    folder: Path, backend: str, op: str, inputs: Arrays, outputs: str = "y", **rest: Any
) -> list[np.ndarray]:
    """The outputs of a node."""
    path = save(one_node(op, inputs, outputs, **rest), folder)
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device) as session:
        found = session.run({f"x{i}": x for i, x in enumerate(inputs) if x is not None})
    return [found[name] for name in outputs.split() if name != "-"]


def expected(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | float = 0.0,
    scale: float | None = None,
    cap: float = 0.0,
    sink: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """Output, scaled, capped and biased scores, weights of q [B, H, S, D], k and v [B, G, T, ...].

    ``sink``: a further score of each head without a value.
    """
    (batch, heads, queries, depth), (_, groups, keys, _) = q.shape, k.shape
    scale = depth**-0.5 if scale is None else scale
    bias = np.broadcast_to(np.asarray(bias, np.float64), (batch, heads, queries, keys))
    y = np.zeros((batch, heads, queries, v.shape[3]))
    stages = [np.zeros((batch, heads, queries, keys)) for _ in range(4)]
    for b, h, s in np.ndindex(batch, heads, queries):
        group = h // (heads // groups)
        scores = scale * (k[b, group].astype(np.float64) @ q[b, h, s].astype(np.float64))
        capped = cap * np.tanh(scores / cap) if cap else scores
        biased = capped + bias[b, h, s]
        weights = np.zeros(keys)
        if not np.isneginf(biased).all():
            powers = np.exp(biased - biased.max())
            more = 0.0 if sink is None else np.exp(float(sink[h]) - biased.max())
            weights = powers / (powers.sum() + more)
        for stage, row in zip(stages, (scores, capped, biased, weights), strict=True):
            stage[b, h, s] = row
        y[b, h, s] = weights @ v[b, group].astype(np.float64)
    return (y, *stages)


def joined(x: np.ndarray) -> np.ndarray:
    """[B, heads, S, D] as [B, S, heads * D]."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def apart(x: np.ndarray, heads: int) -> np.ndarray:
    """[B, S, heads * D] as [B, heads, S, D]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, pairs: bool = False) -> np.ndarray:
    """[B, heads, S, D] turned by tables [B, S, width / 2], the elements behind ``width`` kept."""
    half, y = cos.shape[-1], x.astype(np.float64)
    first = np.arange(0, 2 * half, 2) if pairs else np.arange(half)
    second = first + 1 if pairs else first + half
    a, b = y[..., first], y[..., second]
    cos, sin = cos[:, None].astype(np.float64), sin[:, None].astype(np.float64)
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 2e-6) -> None:
    """Check of shapes and of values, relative to the largest finite one."""
    assert found.shape == wanted.shape
    finite = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(found), finite)
    assert np.array_equal(found[~finite], wanted[~finite].astype(found.dtype), equal_nan=True)
    largest = float(np.abs(wanted[finite]).max(initial=1e-6))
    far = np.abs(found[finite].astype(np.float64) - wanted[finite])
    assert far.max(initial=0.0) <= tolerance * largest
