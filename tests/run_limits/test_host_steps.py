"""Runs that end within an operator of the host, be it one call of NumPy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ops.test_reference_blocks import BLOCK, LARGE, array

import vknn
from vknn import reference
from vknn.graph import GraphBuilder, Op, TensorType, attributes
from vknn.ops.common import blocks
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose
from vknn.ops.convolution.im2col import Col2Im
from vknn.ops.elementwise.activation import Relu
from vknn.ops.linear_algebra import Inverse
from vknn.ops.normalization import LRN
from vknn.ops.pooling.pool import AdaptiveAveragePool, MaxPool
from vknn.ops.pooling.roi_pooling import MaxRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool
from vknn.ops.text.matching import RegexFullMatch
from vknn.passes.constant_folding import fold_constants
from vknn.run_limits import RunLimit, current, waited, within

pytestmark = [pytest.mark.host, pytest.mark.long]

#: More than what is computed without a look at the limit; far less than a call takes below.
SOON, LONG = 5.0, 30.0


class _Counting(RunLimit):
    """A limit that counts how often it is looked at."""

    looks = 0

    def check(self) -> None:
        self.looks += 1
        super().check()


def _loops() -> list[Any]:
    """Operators that compute in loops of their own, with what takes each many rounds."""
    x, region = ("float32", (1, 1, 31, 37)), np.float32([[0, 0, 30, 30]])
    one = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    text = np.array([b"ab" * 50], object)
    return [
        (Conv(**one, group=2), [("float32", (1, 2, 31, 37)), ("float32", (2, 1, 11, 13)), None]),
        (ConvTranspose(**one), [x, ("float32", (1, 1, 11, 13)), None]),
        (Col2Im((11, 13), image=(31, 37)), [("float32", (1, 143, 525))]),
        (MaxPool((1, 31), (1, 1), (0, 0, 0, 0)), [x]),
        (AdaptiveAveragePool((29, 23)), [x]),
        (LRN((2, 3), (20, 20), (20, 20), 1.0, 0.75, 1.0), [x]),
        (RoiAlign((23, 19)), [x, region]),
        (RoiAlign((23, 19), mode="max"), [x, region]),
        (MaxRoiPool((23, 19)), [x, region]),
        (BilinearRoiPool((709, 719)), [x, region / 31]),
        (DeformableRoiPool((23, 19)), [x, region, None]),
        (DeformableRoiPool((1, 1), samples=(30011, 30013)), [x, region, None]),
        (Inverse(), [("float32", (41, 2, 2))]),
        (RegexFullMatch("(a|b)*"), [text]),
    ]


@pytest.mark.parametrize(("op", "inputs"), [*LARGE, *_loops()], ids=lambda v: type(v).__name__)
def test_operators_look_at_the_limit(
    op: Any, inputs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "ELEMENTS", BLOCK // 8)
    monkeypatch.setattr(blocks, "GATHERED", BLOCK)
    rng, limit = np.random.default_rng(1), _Counting()
    arrays = [i if i is None or isinstance(i, np.ndarray) else array(rng, *i) for i in inputs]
    with within(limit):
        op.reference(*arrays)
    assert limit.looks > 3  # the first is that of the block


@attributes
class _OneCall(Op):
    """One long call that sees no limit and leaves Python's lock alone, as NumPy's do."""

    seconds: float = LONG

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = inputs
        assert x is not None
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = inputs
        assert x is not None
        time.sleep(self.seconds)
        return (x / 0 if self.seconds < LONG else x,)  # little work for a thread that is left


def _graph(seconds: float, count: int = 1 << 21, constant: bool = False) -> Any:
    builder = GraphBuilder()
    zeros = np.zeros(count, np.float32)
    x = builder.constant(zeros, "x") if constant else builder.input("x", TensorType.of(zeros))
    return builder.finish({"y": builder.add(_OneCall(seconds), x)})


ZEROS = {"x": np.zeros(1 << 21, np.float32)}


def test_one_call_ends_in_time() -> None:
    limit, start = RunLimit(), time.monotonic()
    limit.start(0.1)
    with pytest.raises(vknn.RunTimeoutError), within(limit):
        reference.run(_graph(LONG), ZEROS)
    assert time.monotonic() - start < SOON


def test_one_call_is_cancelled() -> None:
    limit, start = RunLimit(), time.monotonic()
    timer = threading.Timer(0.1, lambda: setattr(limit, "cancelled", True))
    timer.start()
    with pytest.raises(vknn.RunCancelledError), within(limit):
        reference.run(_graph(LONG), ZEROS)
    timer.join()
    assert time.monotonic() - start < SOON


def test_a_constant_of_one_call_ends_in_time() -> None:
    limit, start = RunLimit(), time.monotonic()
    limit.start(0.1)
    with pytest.raises(vknn.RunTimeoutError), within(limit):
        fold_constants(_graph(LONG, constant=True))
    assert time.monotonic() - start < SOON


def test_results_and_errors_come_through() -> None:
    with within(RunLimit()):
        (found,) = reference.run(_graph(0.01), ZEROS).values()  # 0 / 0, and no warning
        assert np.isnan(found).all()
        with pytest.raises(vknn.VknnError, match="layer '_OneCall'.*_OneCall failed: sleep"):
            reference.run(_graph(-1.0), ZEROS)


def test_work_that_is_not_waited_for_ends_soon() -> None:
    """A thread whose run is over goes on to the next look at its limit."""
    seen, ended = threading.Event(), threading.Event()

    def rounds() -> None:
        try:
            while True:
                time.sleep(0.01)
                seen.set()
                vknn.run_limits.check()
        finally:
            ended.set()

    limit = RunLimit()
    timer = threading.Timer(0.1, lambda: setattr(limit, "cancelled", True))
    timer.start()
    with pytest.raises(vknn.RunCancelledError), within(limit):
        waited(rounds)
    assert seen.is_set() and ended.wait(SOON)
    timer.join()


def test_where_steps_run() -> None:
    """Small ones, all without other threads, and those of users in the thread of the run."""
    found = []

    class Told(Relu):
        def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
            found.append(threading.get_ident())
            return super().reference(*inputs)

    class Own(Told):
        any_thread = False

    here, large = threading.get_ident(), np.zeros(1 << 21, np.float32)
    with within(RunLimit()):
        Told().computed((large,), 0)
        Told().computed((large[:7],), 7)
        Own().computed((large,), 0)
    with within(RunLimit(threads=False)):
        Told().computed((large,), 0)
    Told().computed((large,), 0)
    assert [thread == here for thread in found] == [False, True, True, True, True]


#: Where what began the tests ignores Ctrl-C, as nohup does, so does Python unless told.
CHILD = """
    import signal
    import sys
    import numpy as np
    from tests.run_limits.test_host_steps import ZEROS, _graph
    from vknn import reference
    from vknn.run_limits import RunLimit, current, within
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with within(RunLimit()):
            print("ready", flush=True)
            reference.run(_graph(30.0), ZEROS)
    except KeyboardInterrupt:
        assert current.limit is None
        with within(RunLimit()):
            reference.run(_graph(0.01), ZEROS)
        print("again", flush=True)
"""


def test_ctrl_c_within_one_call(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(CHILD)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "again\n"
        assert time.monotonic() - start < SOON
    assert child.returncode == 0
    assert current.limit is None
