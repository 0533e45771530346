"""What users may try with sessions and files: it works, or one VknnError says why not."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.endurance_run import write_models
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn import formats
from vknn.answers.looking import find_recipe
from vknn.answers.recipe import Recipe

ARRAY = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_small_model(tmp_path)


@pytest.mark.parametrize("device", ["auto", "numpy"])
def test_one_input_needs_no_name(path: Path, device: str) -> None:
    with vknn.Session(path, device=device) as session:
        expected = session.run({"data": ARRAY})["out"]
        np.testing.assert_array_equal(session.run(ARRAY)["out"], expected)
        for found in session.stream([ARRAY, ARRAY]):
            np.testing.assert_array_equal(found["out"], expected)


def test_lists_of_different_lengths_are_no_array(path: Path) -> None:
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.InputError, match="input 'data': this is no array: .*inhomogeneous"),
    ):
        session.run([[1.0], [1.0, 2.0]])  # type: ignore[arg-type]


def test_several_inputs_need_names(tmp_path: Path) -> None:
    path = tmp_path / "two.param"
    path.write_text(
        "7767517\n3 3\nInput a 0 1 a 0=3\nInput b 0 1 b 0=3\nBinaryOp s 2 1 a b y 0=0\n"
    )
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.InputError, match="by name, as a dict, not as a ndarray .*'a', 'b'"),
    ):
        session.run(np.zeros(3, np.float32))


@pytest.mark.parametrize("given", [5, None, "a\0b"], ids=repr)
def test_what_names_no_file(given: object) -> None:
    with pytest.raises(vknn.ModelFormatError, match="is not the path of a file"):
        vknn.Session(given, device="numpy")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe.param", "pipe.tflite", "pipe.mlmodel", "pipe.xml"])
def test_a_pipe_is_no_model(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(vknn.ModelFormatError, match=r"pipe\.\w+: this is a pipe"):
        vknn.Session(tmp_path / name, device="numpy")


@pytest.mark.parametrize("place", range(5))
def test_weights_that_are_not_there(place: int, tmp_path: Path) -> None:
    """Also of networks that need none: whoever names a file means it."""
    model = write_models(tmp_path)[place]
    with pytest.raises(vknn.ModelFormatError, match="nowhere.bin.*no such|is not needed|no such"):
        vknn.Session(model, tmp_path / "nowhere.bin", device="numpy")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.timeout(60)
def test_a_pipe_is_no_weights_file(path: Path) -> None:
    weights = path.with_suffix(".bin")
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(vknn.ModelFormatError, match=r"small\.bin: this is a pipe"):
        vknn.Session(path, device="numpy")


def test_a_model_beyond_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: Path) -> bytes:
        raise MemoryError

    monkeypatch.setattr(Path, "read_bytes", exhausted)
    with pytest.raises(vknn.OutOfMemoryError, match=r"small\.param: host memory is exhausted"):
        formats.load(path)


def test_names_too_long_for_files(path: Path, tmp_path: Path) -> None:
    long = "x" * 5000
    for given in ((long,), (path, long)):
        with pytest.raises(vknn.ModelFormatError, match="xxx: cannot be read: File name too long"):
            vknn.Session(*given, device="numpy")
    with pytest.raises(vknn.VknnError, match="xxx: no such file"):
        Recipe.load(long)
    whole = tmp_path / ("y" * 249 + ".param")  # none is left for ".recipe.json"
    path.rename(whole)
    with vknn.Session(whole, path.with_suffix(".bin"), device="numpy") as session:
        found = find_recipe(session, whole)
    assert found is not None
    assert not found[1]


@pytest.mark.parametrize("given", [None, 5, b"cpu", []], ids=repr)
def test_what_names_no_device(given: object, path: Path) -> None:
    with pytest.raises(vknn.DeviceError, match=r"device=.*: expected text, such as 'vulkan'"):
        vknn.Session(path, device=given)  # type: ignore[arg-type]
    with pytest.raises(vknn.DeviceError, match="expected text"):
        vknn.open_device(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, 5, "data", {"data": ARRAY}], ids=["None", "5", "s", "{}"])
def test_a_stream_of_one(given: object, path: Path) -> None:
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.InputError, match="a stream takes an iterable of inputs, a dict for"),
    ):
        list(session.stream(given))  # type: ignore[arg-type]


def test_only_updatable_models_are_trained(path: Path) -> None:
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.VknnError, match=r"small\.param: only updatable Core ML models"),
    ):
        session.update([])


def test_a_session_is_not_copied(path: Path) -> None:
    with vknn.Session(path) as session:
        for made in (copy.copy, copy.deepcopy):
            with pytest.raises(vknn.VknnError, match="a session cannot be copied: open another"):
                made(session)
            if session.device is not None:
                with pytest.raises(vknn.VknnError, match="a Device cannot be copied"):
                    made(session.device)
        session.run({"data": ARRAY})


def test_devices_are_not_pickled(path: Path) -> None:
    with vknn.Session(path) as session:
        if session.device is not None:
            with pytest.raises(vknn.VknnError, match="a Device cannot be pickled"):
                pickle.dumps(session.device)


def test_errors_come_from_other_processes_as_they_are(tmp_path: Path) -> None:
    unknown = tmp_path / "unknown.param"
    unknown.write_text("7767517\n2 2\nInput a 0 1 a\nMystery b 1 1 a b\n")
    for model, kind in ((unknown, vknn.UnsupportedLayerError), ("no", vknn.ModelFormatError)):
        with pytest.raises(kind) as caught:
            vknn.Session(model, device="numpy")
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is kind and str(again) == str(caught.value)
        assert vars(again) == vars(caught.value)


AT_EXIT = """
import atexit, sys
import numpy as np

def late():
    import vknn
    with vknn.Session(sys.argv[1]) as session:
        print(session.run({"data": np.zeros((3, 8, 8), np.float32)})["out"].size)

atexit.register(late)
import vknn
vknn.Session
"""


@pytest.mark.long
def test_a_session_at_the_end_of_the_process(path: Path) -> None:
    command = [sys.executable, "-c", AT_EXIT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.stdout, done.returncode) == ("5\n", 0), done.stderr
