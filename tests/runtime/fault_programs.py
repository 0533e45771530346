"""What the child process of test_faults.py does with native calls: programs, by name.

Each opens what it needs by the function that it is given (device and sessions, on one memory path),
closes it, and gives all its results, which are the same ones each time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from tests.small_model import SHAPE, write_small_model
from tests.training import models
from tests.training.examples import points, stored

import vknn
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.plan import Role

#: Opens a model's file.
Opener = Callable[[Path], AbstractContextManager[vknn.Session]]
FEEDS = {"data": np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)}
#: Takes what the small network computes in its middle, "sum".
BEHIND = """7767517
3 3
Input   data 0 1 data 0=8 1=8 2=6
Pooling pool 1 1 data pool 0=1 4=1
Softmax prob 1 1 pool prob 0=0
"""
#: As few operators as have all that a check goes through.
CHECKED = """7767517
3 3
Input       data 0 1 data 0=8 1=8 2=3
Convolution conv 1 1 data conv 0=5 1=3 5=1 6=135
Softmax     prob 1 1 conv prob 0=0
"""


def write_models(folder: Path) -> None:
    """Writes the files that the programs open."""
    write_small_model(folder)
    for name, text in (("behind", BEHIND), ("checked", CHECKED)):
        path = folder / f"{name}.param"
        path.write_text(text)
        write_random_weights(path, path.with_suffix(".bin"))
    models.written(models.regressor(), folder, "trained")


def session(folder: Path, opened: Opener) -> list[np.ndarray]:
    """A run, a stream, a profile, and reads of buffers and of the guards between them."""
    with opened(folder / "small.param") as small:
        results = [small.run(FEEDS)["out"]]
        results += [found["out"] for found in small.stream([FEEDS] * 3, errors="raise")]
        [executable] = small._engine.program(FEEDS).executables
        profile = executable.profile(small._engine.encode(FEEDS))
        executable.check_guards()
        [output] = [n for n, b in enumerate(executable.plan.buffers) if b.role is Role.OUTPUT]
        read = executable.read(output).view(np.float32)[: results[0].size]
        results.append(read.reshape(results[0].shape))
        return [*results, next(iter(profile.outputs.values())).reshape(results[0].shape)]


def tensors(folder: Path, opened: Opener) -> list[np.ndarray]:
    """Device tensors from one session to another and through DLPack; one outlives both."""
    with opened(folder / "small.param") as small, opened(folder / "behind.param") as behind:
        kept = small.run(FEEDS, ["sum"], on_device=True)["sum"]
        given = [{"data": kept}] * 2
        results = [found["prob"] for found in behind.stream(given, errors="raise")]
        last = behind.run({"data": kept}, on_device=True)["prob"]
        results += [kept.numpy(), np.from_dlpack(kept)]
        kept.close()
        results.append(np.asarray(small.run(FEEDS, on_device=True)["out"]))
        alone = small.device is not behind.device
        results += [] if alone else [last.numpy()]
    if alone:  # the device goes with its last tensor
        results.append(last.numpy())
        last.close()
    return results


def verify(folder: Path, opened: Opener) -> list[np.ndarray]:
    """Verification of a network, each operator by itself and all in a row."""
    with opened(folder / "checked.param") as checked:
        report = vknn.verify(checked, seed=3)
    if not (report.ok and report.checked):
        raise AssertionError(report.summary())
    return list(report.arrays.values())


def training(folder: Path, opened: Opener) -> list[np.ndarray]:
    """Two steps of training, and a run with what was learned; all is as before if they fail."""
    data = points(4)
    with opened(folder / "trained.mlmodel") as trained:
        before = stored(trained)
        try:
            losses = trained.update(data, epochs=1, mini_batch_size=2).losses
        except vknn.VknnError:
            if not all(np.array_equal(array, before[n]) for n, array in stored(trained).items()):
                raise AssertionError("the model was changed by half a training") from None
            raise
        results = trained.run({"x": data["x"][0]})
        return [np.array(losses), results["y"], *stored(trained).values()]


PROGRAMS = {made.__name__: made for made in (session, tensors, verify, training)}
