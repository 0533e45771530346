"""Verdicts on a lab's outputs: what is right, read from the folder, and what a run gave."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from vknn.kernel_lab.arrays import floats, read_array, storage
from vknn.kernel_lab.comparison import Expected, OutputCheck, check_output
from vknn.kernel_lab.description import LabDescription, LabOutput, packed_count
from vknn.kernel_lab.lab_plan import POISON, LabPlan


class Verdicts:
    """The checks of a lab's outputs; what is expected is read once, when it is needed."""

    def __init__(self, folder: Path, description: LabDescription) -> None:
        self.folder, self.description = folder, description
        self._expected: dict[int, Expected] = {}

    def checks(
        self, plan: LabPlan, results: dict[int, np.ndarray], tolerance: float | None
    ) -> tuple[OutputCheck, ...]:
        """The check of each output. ``results``: bytes by binding, with those watched behind.

        ``tolerance``: a share of each output's largest number, in place of what is allowed.
        """
        return tuple(
            self._check(output, plan, results[output.binding], tolerance)
            for output in self.description.outputs
        )

    def _check(
        self, output: LabOutput, plan: LabPlan, raw: np.ndarray, tolerance: float | None
    ) -> OutputCheck:
        number = output.binding
        binding = self.description.bindings[number]
        behind = raw[binding.nbytes :]
        fill = np.full(len(behind) // 4, POISON, np.uint32).view(np.uint8)
        sentinels = int((behind != fill).sum()) if plan.watched[number] else None
        kind, end = storage(binding.dtype), self._end(output)
        actual = raw[: binding.nbytes].view(kind)[:end]
        untouched = None
        if number in plan.filled:
            poison = np.full(binding.nbytes // 4, POISON, np.uint32).view(kind)[:end]
            untouched = _same_bytes(actual, poison)
        expected = self._expectation(output, tolerance)
        return check_output(number, binding.name, actual, expected, untouched, sentinels)

    def _end(self, output: LabOutput) -> int:
        """Elements that are compared: those of the tensor, or of the whole buffer."""
        if output.tensor is not None:
            return packed_count(output.tensor)
        binding = self.description.bindings[output.binding]
        return binding.nbytes // storage(binding.dtype).itemsize

    def _expectation(self, output: LabOutput, tolerance: float | None) -> Expected:
        if output.binding not in self._expected:
            self._expected[output.binding] = self._read(output)
        found = self._expected[output.binding]
        if tolerance is None:
            return found
        return dataclasses.replace(found, allowed=_share(found.right, tolerance))

    def _read(self, output: LabOutput) -> Expected:
        binding = self.description.bindings[output.binding]
        kind, end = storage(binding.dtype), self._end(output)
        count = binding.nbytes // kind.itemsize
        device = read_array(self.folder, output.device, kind, count)[:end]
        if output.reference is not None and output.allowed is not None:
            of = np.dtype("float32" if kind.kind == "f" or binding.dtype == "bfloat16" else "int32")
            right = read_array(self.folder, output.reference, of, end)
            allowed = read_array(self.folder, output.allowed, np.dtype("float32"), end)
            against = "numpy"
        else:
            right, against = floats(device, binding.dtype), "device"
            allowed = _share(right, output.tolerance)
        written = None
        if output.written is not None:
            written = read_array(self.folder, output.written, np.dtype(bool), count)[:end]
        return Expected(right, allowed, device, against, written, output.tensor, binding.dtype)


def _share(right: np.ndarray, share: float) -> np.ndarray:
    """An allowance for all elements: a share of the largest finite number; none for integers."""
    if right.dtype.kind != "f":
        return np.zeros(1, np.float32)
    size = np.abs(right.astype(np.float64))
    return np.array([share * float(np.max(size, initial=0.0, where=np.isfinite(size)))])


def _same_bytes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = a.dtype.itemsize
    left, right = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (a, b))
    return np.asarray((left == right).all(axis=1))
