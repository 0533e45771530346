"""Export: models become bundles, without a device, or every reason is told why they cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.bundle.sections import OPEN_SHAPES, read_sections
from tests.small_model import SHAPE, write_small_model

import vknn
import vknn.bundle
from vknn.bundle import Bundle, schema
from vknn.cli.main import main
from vknn.errors import ExportError, InputError, VknnError
from vknn.formats.ncnn.random_weights import write_random_weights

pytestmark = pytest.mark.glsl
SHARED = Path(__file__).resolve().parents[2].parent / "shared"
NETWORKS = SHARED / "benchmark" / "ncnn"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


def test_a_bundle_without_vulkan(model: Path, tmp_path: Path) -> None:
    """No device, no loader: the binding itself cannot be imported."""
    out = tmp_path / "net.vkb"
    code = (
        "import sys; sys.modules['vulkan'] = None\n"
        "from vknn.cli.main import main\n"
        f"sys.exit(main(['export', {str(model)!r}, '-o', {str(out)!r}, '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["nbytes"] == out.stat().st_size
    assert read_sections(out).header["sha256"].tobytes().hex() == told["sha256"]


def test_plans_are_targets_by_shapes(model: Path, tmp_path: Path) -> None:
    shapes = [{"data": SHAPE}, {"data": (3, 16, 12)}]
    out = tmp_path / "net.vkb"
    told = vknn.export(model, out, shapes=shapes, targets=["llvmpipe", "generic"], example=False)
    read = read_sections(out)
    plans = [
        (read.string(row["target"]), read.string(row["shapes"])) for row in read.tables["plan"]
    ]
    assert plans == [
        ("llvmpipe", "data=3,8,8"),
        ("llvmpipe", "data=3,16,12"),
        ("generic", "data=3,8,8"),
        ("generic", "data=3,16,12"),
    ]
    assert [(p.target, p.shapes) for p in told.plans] == plans
    names = {read.string(row["name"]) for row in read.tables["port"]}
    assert names == {"data", "out"}


def test_weights_are_stored_once(model: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.vkb", tmp_path / "two.vkb"
    vknn.export(model, one, shapes={"data": SHAPE}, example=False)
    vknn.export(model, two, shapes=[{"data": SHAPE}, {"data": (3, 9, 8)}], example=False)
    first, both = read_sections(one), read_sections(two)
    assert len(first.tables["blob"]) > 2
    assert [first.blob(n) for n in range(len(first.tables["blob"]))] == [
        both.blob(n) for n in range(len(first.tables["blob"]))
    ]
    assert len(both.parts["data"]) < 1.3 * len(first.parts["data"])


def test_the_same_model_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    for name in ("a.vkb", "b.vkb"):
        vknn.export(model, tmp_path / name, targets=["generic", "apple"])
    assert (tmp_path / "a.vkb").read_bytes() == (tmp_path / "b.vkb").read_bytes()


def test_an_example_that_is_given(model: Path, tmp_path: Path) -> None:
    given = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    np.save(tmp_path / "in.npy", given)
    out = tmp_path / "net.vkb"
    options = ["--example", str(tmp_path / "in.npy"), "--outputs", "fc"]
    assert main(["export", str(model), "-o", str(out), *options]) == 0
    read = read_sections(out)
    ports = read.tables["port"]
    arrays = {
        read.string(ports[row["port"]]["name"]): read.blob(row["blob"])
        for row in read.tables["example"]
    }
    assert np.array_equal(np.frombuffer(arrays["data"], np.float32), given.ravel())
    with vknn.Session(model, device="cpu") as session:
        expected = session.run({"data": given}, ["fc"])["fc"]
    [bounds] = [row for row in read.tables["example"] if ports[row["port"]]["direction"] == 1]
    off = np.abs(np.frombuffer(arrays["fc"], np.float32) - expected.ravel())
    assert (off <= 1e-6).all()
    assert 0 < bounds["absolute"] + bounds["relative"] < 1e-3


def test_examples_are_arrays(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-o", str(tmp_path / "net.vkb"), "--example", "cat.png"]
    assert main(["export", str(model), *options]) == 2
    assert "an example is a .npy or a .npz file" in capsys.readouterr().err


def test_no_example(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    assert main(["export", str(model), "-o", str(out), "--no-example"]) == 0
    assert not len(read_sections(out).tables["example"])


def test_a_network_cut_behind_a_blob(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    vknn.export(model, out, outputs=["pool"], example=False)
    read = read_sections(out)
    [port] = [row for row in read.tables["port"] if row["direction"] == 1]
    assert read.string(port["name"]) == "pool"
    ops = {read.string(row["op"]).partition(" ")[0] for row in read.tables["step"]}
    assert "Softmax" not in ops and "Conv" in ops
    with pytest.raises(InputError, match="no output and no blob 'pol'; like it are .*'pool'"):
        vknn.export(model, out, outputs="pol")


@pytest.mark.parametrize(
    "options",
    [["--outputs", "pool,conv1"], ["--outputs", "pool", "--outputs", "conv1"]],
)
def test_several_outputs(options: list[str], model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    assert main(["export", str(model), "-o", str(out), "--no-example", *options]) == 0
    read = read_sections(out)
    names = [read.string(p["name"]) for p in read.tables["port"] if p["direction"] == 1]
    assert names == ["pool", "conv1"]


def test_bounds_behind_a_chain_of_layers(model: Path, tmp_path: Path) -> None:
    """One dispatch pools, multiplies and takes the softmax: its errors are still roundings."""
    out = tmp_path / "net.vkb"
    vknn.export(model, out)
    read = read_sections(out)
    assert any("+" in read.string(step["label"]) for step in read.tables["step"])
    assert 0 < read.tables["example"][1]["absolute"] < 1e-4


def test_steps_as_the_plan_has_them(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    told = vknn.export(model, out, example=False)
    read = read_sections(out)
    [plan] = read.tables["plan"]
    assert told.plans[0].steps == plan["steps"] == len(read.tables["step"])
    assert read.tables["submit"][-1]["end"] == plan["steps"]
    for row in read.tables["step"]:
        if row["kind"] == schema.StepKind.DISPATCH:
            pipeline = read.tables["pipeline"][row["pipeline"]]
            assert pipeline["slots"] == row["bindings"]
    assert {read.string(row["label"]) for row in read.tables["step"]} >= {"conv1"}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"targets": "fantasy"}, VknnError, "no target 'fantasy'; there are generic, adreno-6xx"),
        ({"targets": "adreno"}, VknnError, "did you mean 'adreno-"),
        ({"targets": ()}, VknnError, "there are no targets"),
        ({"targets": ["generic", "generic"]}, VknnError, "'generic' is given twice"),
        ({"targets": 7}, VknnError, "a target is a name, a file or limits, not int"),
        ({"shapes": {"data": ()}}, InputError, "has no axes .rank 0.; .*--shape data="),
        ({"shapes": {"data": (3, -8, 8)}}, InputError, "sizes are 1 to 2,147,483,647"),
        ({"shapes": {"data": (1 << 31,)}}, InputError, "sizes are 1 to 2,147,483,647"),
        ({"shapes": {"data": (3, 8.5, 8)}}, InputError, "not whole numbers"),
        ({"shapes": {"data": (3, True, 8)}}, InputError, "not whole numbers"),
        ({"shapes": [{}, {"data": SHAPE}]}, InputError, "two sets of shapes are alike: data=3,8,8"),
        ({"shapes": {"dato": (3, 8, 8)}}, InputError, "'dato': there is no such input"),
        ({"shapes": []}, InputError, "no set of shapes"),
        ({"shapes": [{"data": SHAPE}] * 2}, InputError, "two sets of shapes are alike"),
        ({"shapes": {"data": (3, 8192, 8192)}}, ExportError, "805,306,368 bytes is longer than"),
        ({"fixed": {"x": 1}}, InputError, "array for 'x': there is no such input"),
        ({"precision": "fp16"}, ExportError, "'generic' has no 16-bit storage.*--precision fp32"),
        ({"precision": "fp16", "arithmetic": "fp16", "targets": ["mali-g7xx", "generic"]},
         ExportError, "'mali-g7xx' has no 16-bit arithmetic.*--arithmetic fp16 needs; leave it"),
        ({"precision": "fp64"}, VknnError, "precision 'fp64' is not supported"),
        ({"disable": "nothing-such"}, VknnError, "nothing-such"),
        ({"outputs": []}, InputError, "no outputs are asked for: name one"),
        ({"outputs": "pool,pol"}, InputError, "no output and no blob 'pol'; like it"),
        ({"example": {"data": np.zeros((1, 2, 3), "f4")}, "shapes": {"data": SHAPE}},
         InputError, "shapes of none of the sets"),
    ],
)  # fmt: skip
def test_bad_input(
    options: dict[str, object], error: type[Exception], text: str, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "net.vkb"
    out.write_bytes(b"what was there")
    with pytest.raises(error, match=text):
        vknn.export(model, out, **options)  # type: ignore[arg-type]
    assert out.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [out]


def test_targets_are_told_apart(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        vknn.export(
            model, tmp_path / "n.vkb", targets=["generic", "adreno-6xx"], precision="fp16",
        )  # fmt: skip
    assert len(caught.value.reasons) == 2
    assert "generic" in caught.value.reasons[0] and "adreno-6xx" in caught.value.reasons[1]
    assert all("beside which it gets fp32" in reason for reason in caught.value.reasons)
    told = vknn.export(
        model, tmp_path / "n.vkb", targets=["generic", "llvmpipe", "adreno-6xx"], precision="fp16",
        example=False,
    )  # fmt: skip
    assert [plan.precision for plan in told.plans] == ["fp32", "fp16", "fp32"]


def test_a_target_gets_the_precision_that_it_has(model: Path, tmp_path: Path) -> None:
    """The command of the handbook: fp16 for the phone, and fp32 for all others."""
    out = tmp_path / "net.vkb"
    targets = ["mali-g7xx", "adreno-7xx", "generic"]
    options = [part for target in targets for part in ("--target", target)]
    options += ["--precision", "fp16", "--arithmetic", "fp16"]
    assert main(["export", str(model), "-o", str(out), *options]) == 0
    read = read_sections(out)
    wanted = [("mali-g7xx", "fp16"), ("adreno-7xx", "fp16"), ("generic", "fp32")]
    plans = read.tables["plan"]
    assert [(read.string(p["target"]), read.string(p["precision"])) for p in plans] == wanted
    has_half = [bool(p["features"] & schema.Feature.STORAGE_16BIT.value) for p in plans]
    assert has_half == [True, True, False]
    document = json.loads(bytes(read.parts["meta"]))
    told = [(p["target"], p["precision"], p["arithmetic"]) for p in document["plans"]]
    assert told == [
        ("mali-g7xx", "fp16", "fp32"), ("adreno-7xx", "fp16", "fp16"), ("generic", "fp32", "fp32"),
    ]  # fmt: skip
    assert (document["precision"], document["arithmetic"]) == ("fp16", "fp16")


def test_each_precision_has_its_own_bounds(model: Path, tmp_path: Path) -> None:
    """Those of fp32 are tight behind a plan in fp16, and as if that were not there."""
    both, alone = tmp_path / "both.vkb", tmp_path / "alone.vkb"
    layers = {"fc": "fp32", "*": "fp16"}
    vknn.export(model, both, targets=["apple", "generic"], precision=layers)
    vknn.export(model, alone, targets="generic")
    bounds = [
        [row["absolute"] + row["relative"] for row in read_sections(path).tables["example"]]
        for path in (both, alone)
    ]
    assert bounds[0][2:] == bounds[1]
    assert bounds[0][1] > 10 * bounds[0][3] > 0


@pytest.mark.parametrize("place", ["missing/net.vkb", "folder"])
def test_a_file_that_cannot_be_written(place: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=place):
        vknn.export(model, tmp_path / place, example=False)
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(model), "-o", "/dev/full", "--no-example"]) == 2
    assert "/dev/full" in capsys.readouterr().err


def test_sets_of_shapes_on_the_command_line(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    options = ["--shape", "data=3,8,8", "--shape", "3,9,9", "--target", "apple", "--no-example"]
    assert main(["export", str(model), "-o", str(out), *options]) == 0
    read = read_sections(out)
    shapes = [read.string(row["shapes"]) for row in read.tables["plan"]]
    assert shapes == ["data=3,8,8", "data=3,9,9"]


def test_precisions_by_layer(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    told = vknn.export(
        model, out, targets="apple", precision={"fc": "fp32", "*": "fp16"}, example=False
    )
    assert told.plans[0].precision == "fp16"
    assert "storage_16bit" in told.plans[0].needs["features"]
    with pytest.raises(InputError, match="no layer is called 'nix'"):
        vknn.export(model, out, targets="apple", precision={"nix": "fp32", "*": "fp16"})


def test_what_is_switched_off_counts(model: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a.vkb", tmp_path / "b.vkb"
    vknn.export(model, a, targets="llvmpipe", example=False)
    vknn.export(model, b, targets="llvmpipe", example=False, disable="texel,subgroup")
    [first], [second] = read_sections(a).tables["plan"], read_sections(b).tables["plan"]
    assert first["storage_texel_buffers"] and not second["storage_texel_buffers"]
    assert not second["subgroup_size"]


def overhead(told: vknn.bundle.Exported) -> int:
    """Bytes of a bundle beside its weights."""
    return told.nbytes - sum(plan.weights for plan in told.plans)


@pytest.mark.skipif(not (SHARED / "models").is_dir(), reason="needs the models of ../shared")
@pytest.mark.parametrize("target", ["generic", "llvmpipe"])
def test_a_bundle_is_hardly_larger_than_its_weights(target: str, tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    told = vknn.export(
        SHARED / "models" / "ncnn" / "squeezenet_v1.1.param", out, targets=target,
        shapes={"data": (3, 227, 227)}, example=False,
    )  # fmt: skip
    assert overhead(told) <= 400_000
    read = read_sections(out)
    weights = sum(int(row["nbytes"]) for row in read.tables["blob"])
    assert weights == told.plans[0].weights
    rest = out.read_bytes()[: -len(read.parts["data"])]
    assert len(zlib.compress(rest, 9)) <= 100_000


@pytest.mark.slow
@pytest.mark.skipif(not NETWORKS.is_dir(), reason="needs the networks of the benchmarks")
@pytest.mark.parametrize("name", [p.stem for p in sorted(NETWORKS.glob("*.param"))])
def test_sizes_of_the_benchmarks(name: str, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    write_random_weights(NETWORKS / f"{name}.param", weights)
    for target in ("generic", "llvmpipe", "adreno-7xx"):
        told = vknn.export(
            NETWORKS / f"{name}.param", tmp_path / "net.vkb", weights=weights, targets=target,
            shapes=OPEN_SHAPES.get(name), example=False,
        )  # fmt: skip
        assert overhead(told) <= 1_000_000
        assert len(Bundle.open(tmp_path / "net.vkb").plans) == 1  # no rule is broken
