"""Registered layers: shapes, NumPy, weights, shaders, and errors that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.ncnn.nets import net, run
from tests.helpers import single_op_graph, skip_without_half

import vknn
from vknn import formats
from vknn.cli import main
from vknn.crosscheck.storage import UNITS
from vknn.errors import ModelFormatError, ShaderError, ShapeError, UnsupportedLayerError, VknnError
from vknn.formats.custom import custom_layer
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.writer import format_bin, format_param_bin
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.ops.custom import Custom
from vknn.plan import DeviceLimits
from vknn.runtime.spirv import shaderc

SCALE = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
INPUT1F(1, factors);
OUTPUT1F(2, y);
layout(push_constant) uniform P { int count, inner; float alpha; } p;
void main() {
    int i = linear_lane();
    if (i >= p.count) return;
    STORE1(y, i, LOAD1(x, i) * LOAD1(factors, divide(i, p.inner)) + p.alpha);
}
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for name in ("Mine", "Halves", "Clip"):
        vknn.unregister_layer("ncnn", name)


def register(**changes: Any) -> None:
    """Mine: x * factor of the channel + alpha."""
    arguments: dict[str, Any] = {
        "shape": lambda shapes, options: shapes[0],
        "compute": lambda arrays, weights, options: (
            arrays[0] * weights["factors"][:, None, None] + options["alpha"]
        ),
        "parameters": {"channels": (0, 1), "alpha": (1, 0.0)},
        "weights": lambda options: {"factors": (options["channels"],)},
    }
    vknn.register_layer("ncnn", "Mine", **(arguments | changes))


def with_shader(text: str = SCALE, **changes: Any) -> vknn.Shader:
    def push(inputs: Any, outputs: Any, options: Any) -> list[float]:
        (c, h, w) = outputs[0]
        return [c * h * w, h * w, options["alpha"]]

    return vknn.Shader(text, **({"push": push} | changes))


def write_mine(folder: Path, params: str = "0=3 1=0.5") -> Path:
    path = folder / "net.param"
    layers = ["Input i 0 1 x", "ReLU r 1 1 x a", f"Mine m 1 1 a b {params}", "ReLU s 1 1 b y"]
    path.write_text(net(*layers))
    path.with_suffix(".bin").write_bytes(np.array([1, -2, 3], np.float32).tobytes())
    return path


X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
EXPECTED = np.maximum(np.maximum(X, 0) * np.array([1, -2, 3])[:, None, None] + 0.5, 0)


def test_by_numpy(tmp_path: Path) -> None:
    path = write_mine(tmp_path)
    with pytest.raises(UnsupportedLayerError, match=r"Mine 'm'; .*\(--layers, vknn.register_layer"):
        formats.load(path)
    register()
    np.testing.assert_allclose(run(path, {"x": X})["y"], EXPECTED, rtol=1e-6)


def test_binary_form_by_number(tmp_path: Path) -> None:
    register(index=5)
    record = parse_param(write_mine(tmp_path).read_bytes())
    path = tmp_path / "net.param.bin"
    path.write_bytes(format_param_bin(record))
    np.testing.assert_allclose(run(path, {"0": X})["3"], EXPECTED, rtol=1e-6)


def test_weights_can_be_written(tmp_path: Path) -> None:
    register()
    record = parse_param(write_mine(tmp_path).read_bytes())
    factors = np.array([1, -2, 3], np.float32)
    assert format_bin(record, {"m": {"factors": factors}}) == factors.tobytes()


def test_parameters_as_in_the_file(tmp_path: Path) -> None:
    """Without declared parameters the options are the file's own."""
    seen: list[Any] = []

    def compute(arrays: Any, weights: Any, options: Any) -> Any:
        seen.append(options)
        return arrays[0]

    register(compute=compute, parameters=None, weights=None)
    path = write_mine(tmp_path, "0=3 1=0.5 2=1,2 3=text")
    run(path, {"x": X})
    assert seen[-1] == {0: 3, 1: 0.5, 2: (1, 2), 3: "text"}


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    vknn.register_layer(
        "ncnn",
        "Halves",
        shape=lambda shapes, options: [(shapes[0][0] // 2,)] * 2,
        compute=lambda arrays, weights, options: np.split(arrays[0] + arrays[1], 2),
        inputs=2,
        outputs=2,
        dtype="int32",
    )
    path = tmp_path / "net.param"
    path.write_text(net("Input i 0 1 x", "Input j 0 1 w", "Halves h 2 2 x w a b"))
    x = np.arange(6, dtype=np.float32)
    results = run(path, {"x": x, "w": x})
    assert {n: (y.tolist(), y.dtype) for n, y in results.items()} == {
        "a": ([0, 2, 4], np.int32),
        "b": ([6, 8, 10], np.int32),
    }
    path.write_text(net("Input i 0 1 x", "Halves h 1 2 x a b"))
    with pytest.raises(ModelFormatError, match="takes 2 inputs, not 1"):
        formats.load(path)


def test_names_are_taken_once() -> None:
    register()
    with pytest.raises(ValueError, match="Mine is there already"):
        register()
    register(replace=True)
    with pytest.raises(ValueError, match="layer Clip is there already"):
        vknn.register_layer("ncnn", "Clip", shape=min, compute=max)
    with pytest.raises(ValueError, match="no format 'torch'"):
        vknn.register_layer("torch", "Mine", shape=min, compute=max)
    with pytest.raises(ValueError, match="layer Relu is there already"):
        vknn.register_layer("onnx", "Relu", shape=min, compute=max)


def test_a_layer_of_vknns_own_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(net("Input i 0 1 x", "Clip c 1 1 x y 0=-0.1 1=0.1"))
    clipped = run(path, {"x": X})["y"]
    vknn.register_layer(
        "ncnn",
        "Clip",
        shape=lambda shapes, options: shapes[0],
        compute=lambda arrays, weights, options: arrays[0] * 2,
        replace=True,
    )
    np.testing.assert_array_equal(run(path, {"x": X})["y"], X * 2)
    vknn.unregister_layer("ncnn", "Clip")
    assert custom_layer("ncnn", "Clip") is None
    np.testing.assert_array_equal(run(path, {"x": X})["y"], clipped)


def fail(*arguments: Any) -> Any:
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"shape": fail}, ShapeError, "layer Mine: its shape rule failed: KeyError: 'gone'"),
        ({"shape": lambda s, o: (-1, 2)}, ShapeError, "negative size"),
        ({"shape": lambda s, o: [s[0], s[0]]}, ShapeError, "gives 2 shapes for 1 outputs"),
        ({"shape": lambda s, o: (1, 2, 3, 4, 5)}, ShapeError, "'m'.*1 to 4 axes"),
        ({"compute": fail}, VknnError, "Mine: its NumPy function failed: KeyError: 'gone'"),
        ({"compute": lambda a, w, o: a[0][0]}, VknnError, r"gives \[\(4, 5\)\].*says \[\(3, 4, 5"),
    ],
    ids=["rule", "negative", "two", "rank", "compute", "other shape"],
)
def test_functions_that_go_wrong(
    changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    register(**changes)
    with pytest.raises(error, match=message):
        run(write_mine(tmp_path), {"x": X})


# --- on the device --------------------------------------------------------------------------------


@pytest.mark.device
def test_shader_and_numpy_agree(tmp_path: Path) -> None:
    register(shader=with_shader())
    with vknn.Session(write_mine(tmp_path)) as session:
        np.testing.assert_allclose(session.run({"x": X})["y"], EXPECTED, rtol=1e-5)
        assert set(session.placement.values()) == {"vulkan"}
        report = vknn.verify(session, {"x": X})
    assert report.ok
    assert ("Mine", "vulkan") in {(row.op, row.placement) for row in report.rows}


@pytest.mark.device
@pytest.mark.parametrize("half", ["fp16", "bf16"])
def test_in_16_bits(half: str, tmp_path: Path) -> None:
    """Shaders that use the macros store 16 bits; others are left to NumPy, in float32."""
    error = 4 * UNITS[half]
    skip_without_half()
    register(shader=with_shader())
    path = write_mine(tmp_path)
    with vknn.Session(path, precision=half) as session:
        np.testing.assert_allclose(session.run({"x": X})["y"], EXPECTED, rtol=error, atol=error)
        assert set(session.placement.values()) == {"vulkan"}
    plain = """#version 450
    layout(local_size_x_id = 0) in;
    layout(set = 0, binding = 0) readonly buffer X { float x[]; };
    layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };
    layout(push_constant) uniform P { int count; } p;
    void main() {
        uint i = gl_GlobalInvocationID.x;
        if (i < uint(p.count)) y[i] = x[i];
    }
    """
    register(shader=plain, compute=lambda a, w, o: a[0], replace=True)
    for precision, side in (("fp32", "vulkan"), (half, "host")):
        with vknn.Session(path, precision=precision) as session:
            y = session.run({"x": X})["y"]
            np.testing.assert_allclose(y, np.maximum(X, 0), rtol=error)
            assert side in session.placement.values()


@pytest.mark.device
def test_workgroups_by_hand(tmp_path: Path) -> None:
    """A workgroup of 4 x 4 lanes for each channel."""
    text = SCALE.replace(
        "int i = linear_lane();\n    if (i >= p.count) return;",
        "uvec3 l = gl_LocalInvocationID;\n"
        "    if (l.x >= 5u || l.y >= 4u) return;\n"
        "    int i = int((gl_WorkGroupID.z * 4u + l.y) * 5u + l.x);",
    )
    groups: Callable[..., tuple[int, int, int]] = lambda i, o, p: (1, 1, o[0][0])  # noqa: E731
    register(shader=with_shader(text, groups=groups, local=(5, 4, 1)))
    with vknn.Session(write_mine(tmp_path)) as session:
        np.testing.assert_allclose(session.run({"x": X})["y"], EXPECTED, rtol=1e-5)
        assert set(session.placement.values()) == {"vulkan"}
    # More lanes than any device has in a workgroup: computed on the host.
    register(shader=with_shader(text, groups=groups, local=(1 << 12, 4, 1)), replace=True)
    with vknn.Session(write_mine(tmp_path)) as session:
        np.testing.assert_allclose(session.run({"x": X})["y"], EXPECTED, rtol=1e-5)
        assert "host" in session.placement.values()


@pytest.mark.device
@pytest.mark.parametrize(
    ("shader", "error", "message"),
    [
        (with_shader(SCALE.replace("STORE1(y", "STOP1(y")), ShaderError, "custom/Mine.comp:13"),
        (with_shader(push=lambda i, o, p: [0] * 1000), ShapeError, "4000 bytes of push constants"),
        (with_shader(push=fail), ShapeError, "Mine: its functions for the shader failed: KeyErr"),
    ],
    ids=["compile", "push", "function"],
)
def test_shaders_that_go_wrong(
    shader: vknn.Shader, error: type[Exception], message: str, tmp_path: Path
) -> None:
    register(shader=shader)
    with vknn.Session(write_mine(tmp_path)) as session, pytest.raises(error, match=message):
        session.run({"x": X})


@pytest.mark.device
def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ShaderError(shaderc.MISSING)

    register(shader=with_shader(SCALE + "// never compiled before\n"))
    monkeypatch.setattr(shaderc, "compiler", missing)
    path = write_mine(tmp_path)
    path.write_text(net("Input i 0 1 x", "Mine m 1 1 x y 0=3"))
    wanted = "layer Mine.*needs shaderc.*glslc"
    with vknn.Session(path) as session, pytest.raises(ShaderError, match=wanted) as caught:
        session.run({"x": X})
    assert "register the layer without a shader" in str(caught.value)
    register(replace=True)
    with vknn.Session(path) as session:
        assert session.run({"x": X})["y"].shape == X.shape


def test_more_buffers_than_a_device_has() -> None:
    """Three inputs, a weight and an output are five: not for a device with four."""
    register(inputs=(1, None), shader=with_shader())
    found = custom_layer("ncnn", "Mine")
    assert found is not None
    arrays = [X, X, X, np.ones(3, np.float32)]
    op = Custom(found.layer, (("alpha", 0.5),), ("factors",))
    graph = single_op_graph(op, arrays, (3,))
    four, five = (DeviceLimits(max_storage_buffers=n) for n in (4, 5))
    assert not candidates(graph.nodes[0], four, LoweringOptions())
    (candidate,) = candidates(graph.nodes[0], five, LoweringOptions())
    plan = lower(graph, five, LoweringOptions())
    assert candidate.name == "shader"
    assert plan.dispatches[0].source == SCALE
    assert len(plan.dispatches[0].push) == 12


def test_layers_of_a_file_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_mine(tmp_path, "0=3")
    layers = tmp_path / "layers.py"
    layers.write_text(
        "import vknn\n"
        "vknn.register_layer('ncnn', 'Mine', shape=lambda s, o: s[0], replace=True,\n"
        "    compute=lambda a, w, o: a[0], weights=lambda o: {'f': (o[0],)})\n"
    )
    assert main(["info", str(path), "--shape", "3,4,5", "--layers", str(layers)]) == 0
    assert "Mine" in capsys.readouterr().out
    layers.write_text("import vknn\nvknn.nonsense\n")
    assert main(["info", str(path), "--layers", str(layers)]) == 2
    assert "AttributeError" in capsys.readouterr().err
    assert main(["info", str(path), "--layers", str(tmp_path / "none.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
