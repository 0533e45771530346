"""Records of one shape in one run: what each gets, errors, lost devices, and what jobs keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from tests.scale.jobs import (
    ANY_SQUARES,
    PROBE,
    SQUARES,
    answers,
    batch,
    by_id,
    document,
    fixed_net,
    job,
    picture_net,
    pictures,
    same,
    table,
    vectors,
    write_net,
)

from vknn import scale
from vknn.batching import Stacker
from vknn.errors import DeviceLostError, InputError, OutOfMemoryError, VknnError
from vknn.scale.packs import Packs
from vknn.scale.records import Record
from vknn.scale.stacked import filled_by
from vknn.scale.worker import Worker

DEVICES = ["numpy", pytest.param("vulkan", marks=pytest.mark.device)]
MODELS = (
    "tflite/hello_world_float.tflite",
    "tflite/micro_speech_quantized.tflite",
    "coreml/mnistCNN.mlmodel",
)


def records(values: Any) -> list[Record]:
    return [Record(feeds={"data": np.asarray(v, np.float32)}) for v in values]


def worker(net: Path, stacked: int | None = 4, device: str = "numpy", **options: Any) -> Worker:
    return Worker(scale.Predictor(net, device=device, stacked=stacked, **options))


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the packs that stacked runs compute."""
    sizes: list[int] = []
    stream = Stacker.stream

    def noted(self: Stacker, packs: Any) -> Iterator[Any]:
        def each() -> Iterator[Any]:
            for pack in packs:
                sizes.append(len(pack))
                yield pack

        yield from stream(self, each())

    monkeypatch.setattr(Stacker, "stream", noted)
    return sizes


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_in_every_place(name: str, device: str, shared: Path) -> None:
    """What a record gets does not depend on its group, its place, or those beside it."""
    from vknn.tool_inputs import complete_feeds

    with worker(shared / "models" / name, 4, device) as own:
        given = [Record(feeds=complete_feeds(own.session, seed=n)) for n in range(7)]
        found = [made for _, made in own.results(given)]
        turned = [made for _, made in own.results([*given[3:], *given[:3]])]
        alone = [made for record in given for _, made in own.results([record])]
        assert own._stacker is not None and all(own._shapes_stacked.values())
        for one, two, three, record in zip(
            found, [*turned[4:], *turned[:4]], alone, given, strict=True
        ):
            again = own.again(record.feeds)
            for key, value in one.items():
                for other in (two[key], three[key], again[key]):
                    assert np.asarray(value).tobytes() == np.asarray(other).tobytes() or (
                        value == other
                    )


def test_packs_and_order(stacks: list[int], tmp_path: Path) -> None:
    """Shapes by turns: each gets packs of its own, and answers come in the records' order."""
    values = [np.full(4 + n % 2, n, np.float32) for n in range(10)]
    with worker(write_net(tmp_path, ANY_SQUARES), 4, batch_size=10) as own:
        found = list(own.results(records(values)))
    assert stacks == [4, 4, 1, 1]
    for value, (record, made) in zip(values, found, strict=True):
        assert record.feeds["data"] is value
        np.testing.assert_array_equal(made["out"], value**2)


def test_a_shape_that_is_rare_does_not_wait_for_ever(stacks: list[int], tmp_path: Path) -> None:
    """No more than a batch of records is read before the first is computed."""
    read = []

    def source() -> Iterator[Record]:
        for number in range(40):
            read.append(number)
            yield records([np.zeros(4 if number else 5)])[0]

    with worker(write_net(tmp_path, ANY_SQUARES), 4, batch_size=8) as own:
        results = own.results(source())
        next(results)
        assert len(read) <= 24
        assert len(list(results)) == 39


def test_records_with_errors_keep_their_places(tmp_path: Path) -> None:
    given = records(vectors(9))
    given[4] = Record(error=InputError("nothing"))
    with worker(write_net(tmp_path)) as own:
        found = list(own.results(given))
        assert [type(made) for _, made in found].count(InputError) == 1
        assert found[4][1] is given[4].error
        only = list(own.results([given[4]] * 3))
        assert [record.error for record, _ in only] == [given[4].error] * 3


def test_records_that_fail_get_their_own_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stacked run that fails is followed by one for each of its records."""

    def failing(self: Stacker, packs: Any) -> Iterator[Any]:
        for pack in packs:
            bad = any(feeds["data"][0] == 5 for feeds in pack)
            yield OutOfMemoryError("full") if bad else self.run(pack)

    monkeypatch.setattr(Stacker, "stream", failing)
    values = vectors(10)
    with worker(write_net(tmp_path)) as own:
        for value, (_, made) in zip(values, own.results(records(values)), strict=True):
            np.testing.assert_array_equal(made["out"], np.square(value))


@pytest.mark.parametrize("losses", [1, 2])
def test_a_device_that_is_lost(
    losses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records under way are tried again once; those that only wait are not counted."""
    stream, left = Stacker.stream, [losses]

    def lost(self: Stacker, packs: Any) -> Iterator[Any]:
        for number, found in enumerate(stream(self, packs)):
            if number == 1 and left[0]:
                left[0] -= 1
                raise DeviceLostError("vkWaitForFences: VK_ERROR_DEVICE_LOST")
            yield found

    monkeypatch.setattr(Stacker, "stream", lost)
    values = vectors(30)
    given = records(values)
    with worker(write_net(tmp_path), batch_size=32) as own:
        if losses == 2:
            with pytest.raises(DeviceLostError):
                list(own.results(given))
            return
        found = list(own.results(given))
    assert [record for record, _ in found] == given
    for value, (_, made) in zip(values, found, strict=True):
        np.testing.assert_array_equal(made["out"], np.square(value))
    tries = [record.attempts for record in given]
    assert tries[:4] == [0] * 4 and tries[4:8] == [1] * 4 and tries[20:] == [0] * 10


def test_a_failing_source_ends_behind_its_records(tmp_path: Path) -> None:
    def source() -> Iterator[Record]:
        yield from records(vectors(5))
        raise VknnError("cut off")

    with worker(write_net(tmp_path)) as own:
        found: list[Any] = []
        with pytest.raises(VknnError, match="cut off"):
            found.extend(own.results(source()))
        assert len(found) == 5


def test_layers_of_users_run_singly(tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", vectors(1000))
    layers = Path(__file__).with_name("probe.py")
    words = (write_net(tmp_path, PROBE), source, "--output", tmp_path / "out", "--id", "id")
    done = batch(*words, "--layers", layers)
    assert done.returncode == 0, done.stderr
    assert document(tmp_path / "out")["stacked"] == {"NumPy": 1}
    assert len(by_id(tmp_path / "out")) == 1000


def test_other_bits_in_other_places_run_singly(stacks: list[int], tmp_path: Path) -> None:
    with worker(write_net(tmp_path)) as own:
        run = Stacker.run
        calls = []

        def drifting(self: Stacker, feeds: Any) -> Any:
            calls.append(1)
            made = run(self, feeds)
            made[len(calls) % 4]["out"] = made[len(calls) % 4]["out"] + np.float32(1e-6)
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stacker, "run", drifting)
            list(own.results(records(vectors(8))))
    assert stacks == [] and len(calls) == 2


def test_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record decides; too little gain, memory, or a device that is lost: 1."""
    record = records(vectors(1))[0]
    for seconds, fill, found in (
        ({1: 1.0, 8: 2.0}, 1.0, 8), ({1: 1.0, 8: 7.0}, 1.0, 1), ({1: 1.0, 8: 2.0}, 0.25, 1),
    ):  # fmt: skip
        times = iter([seconds[1], seconds[8]] * 3)
        waits = iter([0.01, 0.0])
        monkeypatch.setattr("vknn.batching.stacker.seconds_of", lambda _, t=waits: next(t))
        monkeypatch.setattr("vknn.batching.stacker._seconds_each", lambda _, t=times: next(t))
        with worker(write_net(tmp_path), None) as own:
            assert own.measure_stacked(record, fill) == found
            assert own.stacked == 1
    for waits in ([1.0, 0.0], [0.01, 0.07]):  # a long run; no gain even with all waits
        times = iter(waits)
        monkeypatch.setattr("vknn.batching.stacker.seconds_of", lambda _, t=times: next(t, 0.01))
        monkeypatch.setattr(
            "vknn.batching.stacker._seconds_each", lambda _: pytest.fail("measured")
        )
        with worker(write_net(tmp_path), None) as own:
            assert own.measure_stacked(record) == 1
    for error in (OutOfMemoryError("full"), DeviceLostError("lost")):
        with worker(write_net(tmp_path), None) as own, pytest.MonkeyPatch.context() as patch:

            def failing(self: Stacker, *_: Any, e: Exception = error) -> Any:
                raise e

            patch.setattr(Stacker, "run", failing)
            assert own.measure_stacked(record) == 1
            (pair,) = own.results([record])
            assert not isinstance(pair[1], Exception)
    with worker(write_net(tmp_path), None, batch_size=1) as own:
        assert own.measure_stacked(record) == 1
    with worker(write_net(tmp_path), 6) as own:
        assert own.measure_stacked(record) == own.stacked == 6
    with worker(fixed_net(tmp_path, 4), None) as own, pytest.raises(InputError):
        own.measure_stacked(Record(feeds={"x": np.zeros(5, np.float32)}))


def test_how_full_runs_are() -> None:
    four, five = records([np.zeros(4)])[0], records([np.zeros(5)])[0]
    assert filled_by([four] * 8, 8) == 1.0
    assert filled_by([four] * 9, 8) == 9 / 16
    assert filled_by([four, five] * 2, 8) == 4 / 16
    assert filled_by([], 8) == 1.0


def test_packs_of_one_are_not_read_ahead() -> None:
    packs = Packs(records(vectors(3)), 1, 32, lambda _: False)
    for _ in range(3):
        assert packs.head() is not None
        assert len(packs.begin().entries) == 1
    assert packs.head() is None


def test_a_job_keeps_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is in job.json: a job that is taken up again is not measured again."""
    source = table(tmp_path / "t.parquet", vectors(1000))
    net = write_net(tmp_path)
    monkeypatch.setattr(Stacker, "pays", lambda *_: True)
    report = job(source, net, tmp_path / "out", id="id")
    assert report.devices["numpy"].stacked == 8 and "8 records a run" in str(report)
    assert document(tmp_path / "out")["stacked"] == {"NumPy": 8}
    table(source, vectors(1100))
    monkeypatch.setattr(Stacker, "pays", lambda *_: pytest.fail("measured again"))
    assert job(source, net, tmp_path / "out", id="id").devices["numpy"].stacked == 8
    assert document(tmp_path / "out")["stacked"] == {"NumPy": 8}
    assert len(by_id(tmp_path / "out")) == 1100
    monkeypatch.setattr(Stacker, "pays", lambda *_: False)
    job(source, net, tmp_path / "one", id="id")
    assert document(tmp_path / "one")["stacked"] == {"NumPy": 1}
    assert same(tmp_path / "out", tmp_path / "one")
    monkeypatch.setattr(Stacker, "pays", lambda *_: pytest.fail("for few records"))
    few = table(tmp_path / "few.parquet", vectors(20))
    assert job(few, net, tmp_path / "few", id="id").devices["numpy"].stacked == 1


def test_what_users_say(tmp_path: Path, stacks: list[int]) -> None:
    source = table(tmp_path / "t.parquet", vectors(10))
    net = write_net(tmp_path, SQUARES)
    job(source, net, tmp_path / "out", id="id", stacked=5)
    assert stacks == [5, 5] and document(tmp_path / "out")["stacked"] == {}
    with pytest.raises(VknnError, match="stacked=5, not 1"):
        job(source, net, tmp_path / "out", id="id", stacked=1)
    for bad in (0, -1, 257, True, 2.0):
        with pytest.raises(InputError, match="stacked="):
            scale.Predictor(net, stacked=bad)  # type: ignore[arg-type]
    plan = scale.plan(source, net, tmp_path / "new", id="id", device="numpy", stacked=3)
    assert plan.stacked == 3 and "3 records a run" in str(plan)
    assert "one record a run" in str(
        scale.plan(source, net, tmp_path / "new", id="id", device="numpy", stacked=1)
    )


@pytest.mark.parametrize("device", DEVICES)
def test_pictures(device: str, tmp_path: Path) -> None:
    """Answers of stacked runs are those of single ones, within rounding."""
    pytest.importorskip("PIL")
    pictures(tmp_path / "in", 20)
    net = picture_net(tmp_path)
    job(tmp_path / "in", net, tmp_path / "one", device=device, stacked=1)
    job(tmp_path / "in", net, tmp_path / "many", device=device, stacked=8)
    for one, many in zip(answers(tmp_path / "one"), answers(tmp_path / "many"), strict=True):
        assert one["path"] == many["path"]
        np.testing.assert_allclose(one["out"], many["out"], rtol=1e-3, atol=1e-6)
