"""Session.stream: as many runs, in order; errors in their place; closed early; several shapes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import skip_without_half

import vknn
from vknn import engine
from vknn.formats.ncnn.random_weights import write_random_weights

pytestmark = pytest.mark.device

NET = """7767517
4 4
Input       data  0 1 data 0=11 1=7 2=3
Convolution conv  1 1 data mid 0=5 1=3 4=1 5=1 6=135 9=1
Pooling     pool  1 1 mid pooled 0=1 4=1
Softmax     prob  1 1 pooled prob
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.param"
    path.write_text(NET)
    write_random_weights(path, path.with_suffix(".bin"))
    return path


def feeds(count: int, first: int = 0, size: int = 7) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(first)
    return [{"data": rng.standard_normal((3, size, 11), np.float32)} for _ in range(count)]


def held(session: vknn.Session) -> int:
    """Bytes of memory on the session's device."""
    assert session.device is not None
    return session.device.memory_allocated


def check(session: vknn.Session, given: list[dict[str, np.ndarray]]) -> None:
    expected = [session.run(x)["prob"] for x in given]
    found = [outputs["prob"] for outputs in session.stream(given)]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("disabled", ["", "unified"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_results_are_those_of_runs(
    net: Path, disabled: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if precision == "fp16":
        skip_without_half()
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    with vknn.Session(net, precision=precision) as session:
        for count in (0, 1, 2, 7):
            check(session, feeds(count, first=count))


def test_without_a_device(net: Path) -> None:
    with vknn.Session(net, device="numpy") as session:
        check(session, feeds(3))


def test_shapes_that_change(net: Path) -> None:
    with vknn.Session(net) as session:
        check(session, [*feeds(2), *feeds(1, size=5), *feeds(3), *feeds(2, size=13)])


def test_an_array_may_be_used_again(net: Path) -> None:
    with vknn.Session(net) as session:
        given = feeds(5)
        expected = [session.run(x)["prob"] for x in given]
        array = np.empty_like(given[0]["data"])

        def source() -> Iterator[dict[str, np.ndarray]]:
            for x in given:
                array[...] = x["data"]
                yield {"data": array}

        for a, b in zip(session.stream(source()), expected, strict=True):
            np.testing.assert_array_equal(a["prob"], b)


@pytest.mark.parametrize(
    "bad", [{}, {"data": np.zeros((3, 7), np.float32)}, {"data": np.zeros((4, 7, 11), np.float32)}]
)
@pytest.mark.parametrize("place", [0, 1, 3, 6])
def test_an_error_comes_in_its_place(net: Path, bad: dict[str, np.ndarray], place: int) -> None:
    with vknn.Session(net) as session:
        given = feeds(6)
        expected = [session.run(x)["prob"] for x in given]
        stream = session.stream([*given[:place], bad, *given[place:]], errors="raise")
        for want in expected[:place]:
            np.testing.assert_array_equal(next(stream)["prob"], want)
        with pytest.raises(vknn.VknnError):
            next(stream)
        assert next(stream, None) is None
        check(session, given)


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_errors_of_the_source(net: Path, kind: type[BaseException]) -> None:
    def source() -> Iterator[dict[str, np.ndarray]]:
        yield from feeds(3)
        raise kind

    with vknn.Session(net) as session:
        session.run(feeds(1)[0])
        before = held(session)
        stream = session.stream(source())
        # An interrupt does not wait for what is under way.
        for _ in range(3 if kind is ZeroDivisionError else 2):
            next(stream)
        with pytest.raises(kind):
            next(stream)
        assert held(session) == before
        check(session, feeds(3))


def test_closed_early(net: Path) -> None:
    with vknn.Session(net) as session:
        session.run(feeds(1)[0])
        before = held(session)
        stream = session.stream(feeds(9))
        for _ in range(2):  # the first runs by itself
            next(stream)
        assert held(session) != before
        stream.close()
        assert held(session) == before
        for _ in session.stream(feeds(9)):
            break  # dropped
        assert held(session) == before
        assert not session._engine._streamed


def test_a_closed_session(net: Path) -> None:
    with vknn.Session(net) as session:
        stream = session.stream(feeds(9))
        next(stream)
    with pytest.raises(vknn.VknnError, match="closed"):
        list(stream)


def test_programs_in_use_stay(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_PROGRAMS", 2)
    with vknn.Session(net) as session:
        given = feeds(5)
        expected = [session.run(x)["prob"] for x in given]
        stream = session.stream(given)
        found = [next(stream)["prob"]]
        for size in (5, 13, 17, 19):
            session.run(feeds(1, size=size)[0])
        assert len(session._engine._programs) == 2
        found += [outputs["prob"] for outputs in stream]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_several_threads(net: Path) -> None:
    with vknn.Session(net) as session:

        def work(number: int) -> None:
            check(session, feeds(7, first=number, size=7 + number % 2))

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
