"""The reader of bundles: it gives what the writer took, and refuses what is not as it should be."""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle.rebuilt import DIGITS, digits, rebuilt, with_example, with_field

import vknn
from vknn.bundle import schema
from vknn.bundle.reader import Bundle
from vknn.bundle.restored import RestoredPlan
from vknn.bundle.schema import BufferRole, StepKind
from vknn.bundle.suitability import lacking
from vknn.errors import InputError, ModelFormatError, VknnError
from vknn.runtime import open_device

pytestmark = pytest.mark.glsl


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return Bundle.of(digits("generic", "llvmpipe"), "digits.vkb")


def image() -> np.ndarray:
    return np.random.default_rng(3).random((1, 8, 8), np.float32)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.vkb"
    exported = vknn.export(DIGITS, path, targets=("generic", "llvmpipe"), example=False)
    bundle = Bundle.open(path)
    assert (bundle.nbytes, bundle.sha256) == (exported.nbytes, exported.sha256)
    owner: Any = bundle.sections["data"]
    while not isinstance(owner, mmap.mmap):  # weights are mapped
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    bundle.check_data()
    assert bundle.meta["vknn"] == vknn.__version__
    assert [plan.target for plan in bundle.plans] == ["generic", "llvmpipe"]
    for plan, told in zip(bundle.plans, exported.plans, strict=True):
        assert (plan.shapes, plan.precision) == (told.shapes, "fp32")
        assert (len(plan.steps), plan.weight_bytes) == (told.steps, told.weights)
        assert plan.needs.storage_range == told.needs["storage_range"]
        assert plan.needs.group_size == tuple(told.needs["group_size"])
        assert [port.name for port in plan.inputs] == ["image"]
        assert [port.dtype for port in plan.ports] == [np.float32] * 2
        assert not plan.states and not plan.examples


def test_texts_blobs_and_modules(bundle: Bundle) -> None:
    plan = bundle.plans[0]
    assert {bundle.string(row["label"]) for row in plan.steps} >= {"convolution1+relu1", "pooling1"}
    assert bundle.string(0) == ""
    words = np.frombuffer(bundle.module(0), np.uint32)
    assert words[0] == 0x07230203
    row = bundle.tables[schema.BLOB][0]
    assert bundle.blob(0).nbytes == row["nbytes"]


def test_the_hash_is_of_the_file_with_zeros_in_its_place(bundle: Bundle) -> None:
    whole = bytearray(digits("generic", "llvmpipe"))
    offset = schema.HEADER.dtype.fields["sha256"][1]  # type: ignore[index]
    whole[offset : offset + 32] = bytes(32)
    assert bundle.sha256 == hashlib.sha256(whole).hexdigest()


def test_a_changed_file_has_another_hash_and_a_damaged_blob(bundle: Bundle) -> None:
    whole = bytearray(digits("generic", "llvmpipe"))
    whole[-1] ^= 1
    changed = Bundle.of(bytes(whole), "net.vkb")  # the data are not read to open it
    with pytest.raises(ModelFormatError, match=r"net\.vkb.*SHA-256.*export it again"):
        _ = changed.sha256
    last = len(bundle.tables[schema.BLOB]) - 1
    with pytest.raises(ModelFormatError, match=rf"section data: blob {last} is damaged"):
        changed.check_data()


def test_an_example_is_read(bundle: Bundle) -> None:
    made = Bundle.of(
        with_example(bundle, {"image": image()}, {"probabilities": np.ones(10)}, 0.5, 0.25)
    )
    first, second = made.plans[1].examples
    assert first.port.name == "image" and np.array_equal(first.array.ravel(), image().ravel())
    assert second.array.shape == second.port.shape
    assert (second.absolute, second.relative) == (0.5, 0.25)


def dispatch(bundle: Bundle, place: int = 0) -> int:
    """Number of a dispatch among all steps."""
    kinds = bundle.tables[schema.STEP]["kind"]
    return int(np.flatnonzero(kinds == StepKind.DISPATCH)[place])


def weight(bundle: Bundle) -> int:
    """Number of a weight among all buffers."""
    return int(np.flatnonzero(bundle.tables[schema.BUFFER]["role"] == BufferRole.WEIGHT)[0])


HUGE = (1 << 64) - 4
#: Record, field, value, and what the error has to say.
WRONG: list[tuple[Any, str, Any, str]] = [
    (schema.PLAN, "name", 1 << 31, "section plan: record 0: name is no text"),
    (schema.PLAN, "steps", 1 << 31, "section plan: record 0: there are not so many steps"),
    (schema.PLAN, "first_steps", 0xFFFFFFFF, "there are not so many steps"),
    (schema.PLAN, "arenas", [16, 16, 16], "section buffer: .*outside its arena"),
    (schema.PLAN, "push_bytes", 0, "more push constants than told"),
    (schema.BUFFER, "role", 9, "section buffer: record 0: its role is unknown"),
    (schema.BUFFER, "nbytes", HUGE, "its size is absurd"),
    (schema.BUFFER, "offset", HUGE, "its offset is absurd"),
    (schema.BUFFER, "offset", 2, "not a multiple of 4"),
    (schema.BUFFER, "blob", 0, "an activation has a blob"),
    (schema.MODULE, "offset", 2, "no multiple of 4"),
    (schema.MODULE, "nbytes", HUGE, "outside its section"),
    (schema.BLOB, "offset", 1 << 63, "section blob: .*outside its section"),
    (schema.BLOB, "offset", 4, "no multiple of 256"),
    (schema.PIPELINE, "module", 99, "there is no such module"),
    (schema.PIPELINE, "slots", 9999, "there are not so many slots"),
    (schema.PIPELINE, "push_bytes", 1 << 30, "section step: "),
    (schema.PIPELINE, "flags", 8, "unknown flags"),
    (schema.SLOT, "view", 3, "descriptor type is unknown"),
    (schema.SLOT, "access", 0, "its access is unknown"),
    (schema.BINDING, "buffer", 9999, "section binding: .*there is no such buffer"),
    (schema.BINDING, "format", 7, "its format does not suit"),
    (schema.PORT, "rank", 9, "more than 8 axes"),
    (schema.PORT, "type", 12, "its type is unknown"),
    (schema.PORT, "dims", [1 << 33] * 3 + [1] * 5, "larger than its buffer"),
    (schema.PORT, "dims", [1, 1, 8, 8, 2, 1, 1, 1], "axes behind its last"),
    (schema.PORT, "buffer", 9999, "there is no such buffer"),
    (schema.PORT, "scale", 1e30, "its scale is no number from 0 to 1e30"),
    (schema.PORT, "quantized", 2, "its scale is no number from 0 to 1e30"),
    (schema.PORT, "count", 9999, "an input with a count"),
    (schema.SUBMIT, "end", 3, "section submit: submits do not ascend to the last step"),
]


@pytest.mark.parametrize("record, field, value, text", WRONG)
def test_a_wrong_record_is_refused(
    bundle: Bundle, record: Any, field: str, value: Any, text: str
) -> None:
    with pytest.raises(ModelFormatError, match=rf"net\.vkb: {'.*' + text}.*export the bundle"):
        Bundle.of(with_field(bundle, record, field, value), "net.vkb")


def test_wrong_steps_are_refused(bundle: Bundle) -> None:
    place = dispatch(bundle)
    for field, value, text in [
        ("kind", 7, "its kind is unknown"),
        ("pipeline", 9999, "there is no such pipeline"),
        ("bindings", 1, "its bindings are not its pipeline's"),
        ("push", 1 << 31, "push constants are outside"),
        ("groups", [1, 0, 1], "no workgroups"),
    ]:
        with pytest.raises(ModelFormatError, match=f"section step: .*{text}"):
            Bundle.of(with_field(bundle, schema.STEP, field, value, place))


def test_a_weight_that_is_written_is_refused(bundle: Bundle) -> None:
    rows = bundle.tables[schema.STEP].copy()
    rows[dispatch(bundle)]["kind"] = StepKind.FILL
    rows[dispatch(bundle)]["target"] = weight(bundle)
    with pytest.raises(ModelFormatError, match="section step: .*it writes a weight"):
        Bundle.of(rebuilt(bundle, {"step": rows.tobytes()}))


def copying(bundle: Bundle, **fields: int) -> bytes:
    """The file with the first dispatch made a copy within its first buffer."""
    rows = bundle.tables[schema.STEP].copy()
    row = rows[dispatch(bundle)]
    row["kind"], row["source"], row["target"], row["nbytes"] = StepKind.COPY, 0, 0, 16
    row["target_offset"] = 64
    for name, value in fields.items():
        row[name] = value
    return rebuilt(bundle, {"step": rows.tobytes()})


def test_copies(bundle: Bundle) -> None:
    Bundle.of(copying(bundle))
    Bundle.of(copying(bundle, source_offset=2, target_offset=66, nbytes=6))  # float16s
    for fields, text in [
        ({"target_offset": 8}, "overlaps itself"),
        ({"source_offset": 256}, "leaves its buffer"),
        ({"source_offset": HUGE}, "absurd"),
        ({"nbytes": 0}, "a copy of nothing"),
        ({"source": 999}, "reads no buffer"),
    ]:
        with pytest.raises(ModelFormatError, match=f"section step: .*{text}"):
            Bundle.of(copying(bundle, **fields))


def test_plans_do_not_share_steps(bundle: Bundle) -> None:
    rows = bundle.tables[schema.PLAN].copy()
    rows[1]["first_steps"], rows[1]["steps"] = rows[0]["first_steps"], rows[0]["steps"]
    rows[0]["steps"] += 8
    with pytest.raises(ModelFormatError, match="section plan: plans share steps"):
        Bundle.of(rebuilt(bundle, {"plan": rows.tobytes()}))


def test_wrong_examples_and_states_are_refused(bundle: Bundle) -> None:
    made = Bundle.of(with_example(bundle, {"image": image()}, {"probabilities": np.ones(10)}))
    for field, value, text in [
        ("port", 99, "there is no such port"),
        ("blob", 999, "there is no such blob"),
        ("blob", 0, "its size is not its port's"),
        ("relative", np.nan, "tolerance is no number"),
        ("absolute", 1e30, "tolerance is no number from 0 to 1e30"),
    ]:
        with pytest.raises(ModelFormatError, match=f"section example: .*{text}"):
            Bundle.of(with_field(made, schema.EXAMPLE, field, value))
    plans = bundle.tables[schema.PLAN].copy()
    plans[0]["states"] = plans[1]["first_states"] = 1
    ends = bundle.plans[0].inputs[0].buffer, bundle.plans[0].outputs[0].buffer
    for state, text in [
        ((0, ends[0], 999, schema.NONE, 16), "its output is no buffer"),
        ((0, *ends, schema.NONE, 1 << 40), "larger than its buffer"),
        ((0, *ends, 999, 16), "first value is no blob"),
        ((0, *ends[::-1], schema.NONE, 16), "its input is a buffer of another role"),
        ((0, *ends, schema.NONE, 0), "empty, or larger than its buffer"),
        ((0, weight(bundle), 1, schema.NONE, 16), "its input is a buffer of another role"),
    ]:
        rows = np.array([state], schema.STATE.dtype).tobytes()
        with pytest.raises(ModelFormatError, match=text):
            Bundle.of(rebuilt(bundle, {"plan": plans.tobytes(), "state": rows}))


def test_a_file_cut_off_anywhere_is_refused(bundle: Bundle) -> None:
    whole = digits("generic", "llvmpipe")
    table = np.frombuffer(whole, schema.SECTION.dtype, int(whole[24]), 128)
    ends = {0, 7, 8, 127, 128, 200, len(whole) - 1}
    ends |= {int(n) + k for row in table for n in (row["offset"],) for k in (0, 1)}
    for end in sorted(ends):
        with pytest.raises(ModelFormatError, match="section header"):
            Bundle.of(whole[:end])


def test_a_damaged_byte_is_found(bundle: Bundle) -> None:
    """All but those of the data, of zeros between sections, and of the hashes."""
    whole = digits("generic", "llvmpipe")
    table = np.frombuffer(whole, schema.SECTION.dtype, int(whole[24]), 128)
    places = [8, 12, 16, 24, 28, 128, 140, 150]
    places += [int(r["offset"]) for r in table if r["kind"] != schema.DATA.section]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 0x40
        with pytest.raises(ModelFormatError, match="section "):
            Bundle.of(bytes(changed))


def test_other_files_and_newer_versions(tmp_path: Path, bundle: Bundle) -> None:
    path = tmp_path / "net.vkb"
    path.write_bytes(b"")
    with pytest.raises(ModelFormatError, match=r"net\.vkb.*this is no bundle.*vknn export"):
        Bundle.open(path)
    with pytest.raises(OSError, match="No such file"):
        Bundle.open(tmp_path / "none.vkb")
    with pytest.raises(ModelFormatError, match="no plain file"):
        Bundle.open("/dev/zero")
    newer = bytearray(digits("generic", "llvmpipe"))
    newer[8] = schema.VERSION + 1
    with pytest.raises(ModelFormatError, match=r"version 2 .* is newer.*reads up to 1: upgrade"):
        Bundle.of(bytes(newer))


@pytest.mark.device
def test_plans_made_back_compute_what_the_model_does(bundle: Bundle) -> None:
    with open_device("auto") as device, vknn.Session(DIGITS, device="cpu") as session:
        expected = session.run({"image": image()})["probabilities"]
        for plan in bundle.plans:
            if lacking(plan, device.snapshot):
                with pytest.raises(VknnError, match=f"plan {plan.index} .* which lacks "):
                    RestoredPlan(bundle, plan, device)
                continue
            [port] = plan.inputs
            with RestoredPlan(bundle, plan, device) as restored:
                for _ in range(2):
                    outputs = restored.run({"image": image().reshape(port.shape)})
                with pytest.raises(InputError, match=r"'image' is float64\[8, 8\], expected"):
                    restored.run({"image": np.zeros((8, 8))})
                with pytest.raises(InputError, match="missing input 'image'"):
                    restored.run({})
                with pytest.raises(InputError, match="no input 'picture'"):
                    restored.run({"picture": image()})
            got = outputs["probabilities"].reshape(expected.shape)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.device
def test_state_goes_from_run_to_run(bundle: Bundle) -> None:
    """The image's buffer is a state that the probabilities fill: they begin it in the next run."""
    plans = bundle.tables[schema.PLAN].copy()
    for number, plan in enumerate(plans):
        plan["first_states"], plan["states"] = number, 1
    rows = [(0, p.inputs[0].buffer, p.outputs[0].buffer, schema.NONE, 40) for p in bundle.plans]
    states = np.array(rows, schema.STATE.dtype).tobytes()
    made = Bundle.of(rebuilt(bundle, {"plan": plans.tobytes(), "state": states}))
    first = np.zeros(made.plans[0].inputs[0].shape, np.float32)
    with open_device("auto") as device:
        with RestoredPlan(made, made.plans[0], device) as restored:
            outputs = [restored.run({})["probabilities"].ravel() for _ in range(2)]
            restored.reset()
            again = restored.run({})["probabilities"].ravel()
        second = first.copy()
        second.reshape(-1)[:10] = outputs[0]
        with RestoredPlan(bundle, bundle.plans[0], device) as plain:
            expected = [plain.run({"image": x})["probabilities"].ravel() for x in (first, second)]
    assert np.array_equal(outputs, expected) and np.array_equal(again, expected[0])
    assert not np.array_equal(*expected)
