"""Networks of int16 data, and softmax from 8 bits to int16, against TensorFlow Lite's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.tflite.test_operators import check
from tests.peers.tflite.test_products import codes
from tests.tflite_writer import Net

from vknn.errors import ShapeError
from vknn.session import Session

Shape = tuple[int, ...]
Place = tuple[int, Shape]
#: The options' number of each type of bias.
KINDS = {"int32": 2, "int64": 4}
SCALE = 2e-4


class UNet:
    """A network of two levels: convolutions down, transposed ones up, sums with those skipped."""

    def __init__(self, kind: str, biased_up: bool) -> None:
        self.net, self.kind, self.biased_up = Net(), kind, biased_up
        given = self.tensor((1, 7, 6, 3))
        first = self.conv("CONV_2D", given, 5, 1)
        skipped = self.conv("CONV_2D", first, 7, 2)
        deep = self.conv("CONV_2D", skipped, 11, 2)
        risen = self.add(self.conv("TRANSPOSE_CONV", deep, 7, 2, skipped[1]), skipped)
        last = self.add(self.conv("TRANSPOSE_CONV", risen, 5, 2, first[1]), first)
        self.net.inputs, self.net.outputs = [given[0]], [last[0]]

    def tensor(self, shape: Shape) -> Place:
        count = len(self.net.tensors)
        scale = SCALE * (1 + count % 7 / 9)
        return self.net.tensor(f"t{count}", shape, "int16", scale=scale), shape

    def conv(self, name: str, x: Place, outputs: int, step: int, shape: Shape = ()) -> Place:
        """A convolution of 3 x 3; a transposed one to ``shape``."""
        net, (number, dims), seed = self.net, x, len(self.net.tensors)
        weights = codes((outputs, 3, 3, dims[3]), "int8", seed)
        scales = np.random.default_rng(seed).uniform(0.001, 0.002, outputs)
        w = net.tensor(f"w{seed}", data=weights, dtype="int8", scale=scales)
        operands = [number, w]
        options = {"stride_h": step, "stride_w": step, "quantized_bias_type": KINDS[self.kind]}
        if name == "TRANSPOSE_CONV":
            operands = [net.tensor(f"s{seed}", data=shape, dtype="int32"), w, number]
        else:
            shape = (1, -(-dims[1] // step), -(-dims[2] // step), outputs)
            options["fused_activation_function"] = seed % 2
        if name == "CONV_2D" or self.biased_up:
            values = np.random.default_rng(seed).integers(-9999, 9999, outputs)
            operands.append(net.tensor(f"b{seed}", data=values, dtype=self.kind, scale=1e-6))
        y = self.tensor(shape)
        net.add(name, operands, [y[0]], options)
        return y

    def add(self, a: Place, b: Place) -> Place:
        y = self.tensor(a[1])
        self.net.add("ADD", [a[0], b[0]], [y[0]], {"fused_activation_function": len(a[1]) % 2})
        return y


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("biased_up", [True, False], ids=["biased", "without"])
def test_a_u_net(kind: str, biased_up: bool, tmp_path: Path, backend: str) -> None:
    """A transposed convolution without a bias has sums of the type that its options state."""
    net = UNet(kind, biased_up).net
    check(net, {"t0": codes((1, 7, 6, 3), "int16")}, tmp_path, backend)


@pytest.mark.parametrize("name", ["CONV_2D", "TRANSPOSE_CONV"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_bias_of_another_type_than_stated(name: str, kind: str, tmp_path: Path) -> None:
    unet = UNet(kind, True)
    other = {"int32": 4, "int64": 2}[kind]
    for operator in unet.net.operators:
        options = operator.fields["builtin_options"]
        if options.kind.startswith(name.replace("_2D", "2D").title().replace("_", "")):
            options.fields["quantized_bias_type"] = other
    path = tmp_path / "model.tflite"
    path.write_bytes(unet.net.file())
    said = f"a bias of {kind}, and states"
    with Session(path, device="numpy") as session, pytest.raises(ShapeError, match=said):
        session.run({"t0": codes((1, 7, 6, 3), "int16")})


@pytest.mark.parametrize("weights", ["int8", "int4", "int16"])
@pytest.mark.parametrize("kind", [None, *sorted(KINDS)])
def test_products_beyond_32_bits(
    weights: str, kind: str | None, tmp_path: Path, backend: str
) -> None:
    """Sums have 64 bits unless a bias of int32 is stated, which lets them wrap around."""
    most, depth = {"int8": 127, "int4": 7, "int16": 32767}[weights], 9001
    scale = np.array([0.1, 0.17, 0.13])
    x, w = np.full((2, depth), 32767, np.int16), np.full((3, depth), most, np.int16)
    x[1], w[2] = np.arange(depth) % 32749, -most
    net = Net()
    given = net.tensor("x", x.shape, "int16", scale=SCALE)
    operands = [given, net.tensor("w", data=w, dtype=weights, scale=scale)]
    if kind:
        values = [1 << 20, -(1 << 30), 7] if kind == "int32" else [1 << 40, -(1 << 36), 1 << 33]
        operands.append(net.tensor("b", data=values, dtype=kind, scale=SCALE * scale))
    step = most * depth * 1.7 * SCALE * (4 if kind == "int64" and most < 9 else 1)
    y = net.tensor("y", (2, 3), "int16", scale=step)
    net.add("FULLY_CONNECTED", operands, [y], {"quantized_bias_type": KINDS.get(kind or "", 0)})
    net.inputs, net.outputs = [given], [y]
    check(net, {"x": x}, tmp_path, backend)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("made", ["the same", "int16"])
@pytest.mark.parametrize(("scale", "beta"), [(0.11, 1.0), (0.9, 1.3), (0.0044, 0.3)])
def test_softmax(
    dtype: str, made: str, scale: float, beta: float, tmp_path: Path, backend: str
) -> None:
    """Rows of one number and of many; with the largest scale most of them count nothing."""
    kind = dtype if made == "the same" else made
    info = np.iinfo(kind)
    for width in (1, 3, 70, 301):
        net, x = Net(), codes((97, width), dtype, width)
        given = net.tensor("x", x.shape, dtype, scale=scale, zero_point=5)
        low = {"scale": 2.0**-info.bits, "zero_point": int(info.min)}
        y = net.tensor("y", x.shape, kind, **low)
        net.add("SOFTMAX", [given], [y], {"beta": beta})
        net.inputs, net.outputs = [given], [y]
        check(net, {"x": x}, tmp_path, backend)
