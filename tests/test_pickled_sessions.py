"""Pickled sessions: opened again from the same file, in this process or another."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model
from tests.training import models
from tests.training.examples import points

import vknn

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]
X = {"data": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}


def run(session: vknn.Session) -> tuple[str, np.ndarray]:
    with session:
        return session.precision, session.run(X)["out"]


@pytest.mark.long
@pytest.mark.parametrize("device", BACKENDS)
def test_a_session_in_another_process(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    with vknn.Session("small.param", "small.bin", device=device, disable=["fusion"]) as session:
        expected = session.run(X)["out"]
        monkeypatch.chdir("/")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            precision, found = pool.submit(run, session).result()
        assert precision == session.precision
        assert np.array_equal(found, expected)
        assert np.array_equal(session.run(X)["out"], expected)


@pytest.mark.device
def test_its_device_goes_along_by_the_name_that_lasts(tmp_path: Path) -> None:
    with vknn.open_device() as device:
        uuid = device.snapshot.uuid_name
    assert uuid
    with (
        vknn.Session(write_small_model(tmp_path), device=uuid) as session,
        pickle.loads(pickle.dumps(session)) as copy,
    ):
        assert copy.device is not None and session.device is not None
        assert copy.device.snapshot == session.device.snapshot
        assert copy.device.snapshot.uuid_name == uuid
        assert np.array_equal(copy.run(X)["out"], session.run(X)["out"])


def test_options_go_along(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    with vknn.Session(path, device="numpy", memory_limit=1000, disable="winograd") as session:
        copy = pickle.loads(pickle.dumps(session))
    with copy, pytest.raises(vknn.OutOfMemoryError, match="limit of 1000"):
        copy.run(X)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    with vknn.Session(path, device="numpy") as session:
        data = pickle.dumps(session)
    path.unlink()
    with pytest.raises(vknn.ModelFormatError, match=r"small\.param: no such file"):
        pickle.loads(data)


def test_a_trained_session(tmp_path: Path) -> None:
    """What it learnt is in its memory only."""
    path = models.written(models.regressor(), tmp_path)
    with vknn.Session(path, device="numpy") as session:
        pickle.dumps(session)
        session.update(points(), epochs=1)
        with pytest.raises(vknn.VknnError, match="a trained session cannot be pickled"):
            pickle.dumps(session)
        session.save(tmp_path / "trained.mlmodel")
    with vknn.Session(tmp_path / "trained.mlmodel", device="numpy") as session:
        pickle.loads(pickle.dumps(session)).close()


@pytest.mark.device
def test_what_is_not_pickled(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    with (
        vknn.open_device() as device,
        vknn.Session(path, device=device) as session,
        pytest.raises(vknn.VknnError, match="on an open Device cannot be pickled: open it by name"),
    ):
        pickle.dumps(session)
