"""Logs of the layer of benchmarks/vulkan_layer: the run of each network by dispatches."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Names of marks that the engine's process writes between the layer's lines.
NETWORK, RUN, END = "network", "run", "end"
WHOLE = -1  # VK_WHOLE_SIZE

_MAGIC = 0x07230203
_EXECUTION_MODE, _EXECUTION_MODE_ID, _DECORATE = 16, 331, 71
_CONSTANTS, _COMPOSITES = (43, 50), (44, 51)  # OpConstant and OpSpecConstant, and composites
_LOCAL_SIZE, _LOCAL_SIZE_ID, _SPEC_ID, _BUILTIN, _WORKGROUP_SIZE = 17, 38, 1, 11, 25


@dataclass(frozen=True)
class LoggedPipeline:
    """A pipeline: ``module`` names its SPIR-V file, ``number`` its compiled text, ``statistics``
    are the driver's, by its own names."""

    number: int
    module: str
    constants: Mapping[int, int]
    subgroup: int
    statistics: Mapping[str, float]


@dataclass(frozen=True)
class LoggedBuffer:
    """A bound part of a buffer; ``nbytes`` is WHOLE for what is left of it."""

    buffer: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class LoggedDispatch:
    """A dispatch as it was submitted. ``buffers``: by binding."""

    pipeline: LoggedPipeline
    groups: tuple[int, int, int]
    push: bytes
    buffers: Mapping[int, LoggedBuffer]

    @property
    def nbytes(self) -> int:
        """Bytes of all that is bound, a part that is bound twice counted once."""
        parts = {(b.buffer, b.offset): b.nbytes for b in self.buffers.values()}
        return sum(size for size in parts.values() if size != WHOLE)


@dataclass
class LoggedRun:
    """A network's run. ``peak``: the most bytes of device memory allocated at once, up to then;
    ``waiting``: dispatches that stand behind a barrier."""

    dispatches: list[LoggedDispatch] = field(default_factory=list)
    barriers: int = 0
    waiting: int = 0
    copies: int = 0
    copied: int = 0
    submits: int = 0
    peak: int = 0
    pipelines: int = 0
    device: str = ""
    #: What the engine's process wrote at the end of it.
    notes: dict[str, Any] = field(default_factory=dict)


def read_runs(path: Path) -> dict[str, LoggedRun]:
    """Network -> its run. Broken lines, of a process that fell over, are passed over."""
    reader = _Reader()
    for record in _records(path):
        reader.take(record)
    return reader.runs


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "what" in record:
                yield record


class _Reader:
    """The state of the log: what is bound and recorded, and the run that is being submitted."""

    def __init__(self) -> None:
        self.runs: dict[str, LoggedRun] = {}
        self._run = LoggedRun()
        self._counts = False
        self._pipelines: dict[str, LoggedPipeline] = {}
        self._made = 0
        self._device = ""
        self._sets: dict[str, dict[int, LoggedBuffer]] = {}
        self._commands: dict[str, _Commands] = {}
        self._memory: dict[str, int] = {}

    def take(self, record: dict[str, Any]) -> None:
        handler = getattr(self, f"_take_{record['what']}", None)
        if handler is not None:
            handler(record)
        elif "commands" in record:
            self._of(record["commands"]).take(record, self._pipelines, self._sets)

    def _of(self, commands: str) -> _Commands:
        return self._commands.setdefault(commands, _Commands())

    def _take_mark(self, record: dict[str, Any]) -> None:
        """NETWORK opens a network, RUN the run that counts, END closes it."""
        name = record["name"]
        if name == NETWORK:
            self._run = LoggedRun(device=self._device, peak=sum(self._memory.values()))
            self._made = 0
        elif name == END:
            self._run.notes = record.get("notes", {})
            self._run.pipelines = self._made
            self._run.device = self._device
            self.runs[record["network"]] = self._run
        self._counts = name == RUN

    def _take_device(self, record: dict[str, Any]) -> None:
        self._device = record["name"]

    def _take_pipeline(self, record: dict[str, Any]) -> None:
        self._made += 1
        statistics = {k: v for k, v in record.get("statistics", {}).items() if k}
        self._pipelines[record["pipeline"]] = LoggedPipeline(
            number=record["number"],
            module=record["module"],
            constants={int(k): v for k, v in record["constants"].items()},
            subgroup=record.get("subgroup", 0),
            statistics=statistics,
        )

    def _take_allocate(self, record: dict[str, Any]) -> None:
        self._memory[record["memory"]] = record["bytes"]
        self._run.peak = max(self._run.peak, sum(self._memory.values()))

    def _take_free(self, record: dict[str, Any]) -> None:
        self._memory.pop(record["memory"], None)

    def _take_begin(self, record: dict[str, Any]) -> None:
        self._commands[record["commands"]] = _Commands()

    def _take_set(self, record: dict[str, Any]) -> None:
        self._sets.setdefault(record["set"], {}).update(_buffers(record["buffers"]))

    def _take_submit(self, record: dict[str, Any]) -> None:
        if not self._counts:
            return
        self._run.submits += 1
        for commands in map(self._of, record["commands"]):
            self._run.dispatches += commands.dispatches
            self._run.barriers += commands.barriers
            self._run.waiting += commands.waiting
            self._run.copies += commands.copies
            self._run.copied += commands.copied


class _Commands:
    """What a command buffer holds."""

    def __init__(self) -> None:
        self.dispatches: list[LoggedDispatch] = []
        self.barriers = self.waiting = self.copies = self.copied = 0
        self._behind = False
        self._pipeline: LoggedPipeline | None = None
        self._push = b""
        self._fresh = True
        self._buffers: dict[int, LoggedBuffer] = {}

    def take(
        self,
        record: dict[str, Any],
        pipelines: Mapping[str, LoggedPipeline],
        sets: Mapping[str, dict[int, LoggedBuffer]],
    ) -> None:
        what = record["what"]
        if what == "bind":
            self._pipeline = pipelines.get(record["pipeline"])
            self._fresh = True
        elif what == "push":
            # An engine pushes all that a pipeline takes; what another one took is left behind.
            start, old = record["offset"], b"" if self._fresh else self._push
            self._push = old[:start].ljust(start, b"\0") + bytes.fromhex(record["bytes"])
            self._fresh = False
        elif what == "buffers" and "buffers" in record:
            self._buffers = _buffers(record["buffers"])
        elif what == "buffers":
            self._buffers = dict(sets.get(record["set"], {}))
        elif what == "barrier":
            self.barriers += 1
            self._behind = True
        elif what == "copy":
            self.copies += 1
            self.copied += record["bytes"]
        elif what == "dispatch" and self._pipeline is not None:
            self.waiting += self._behind
            self._behind = False
            groups = tuple(record["groups"])
            self.dispatches.append(
                LoggedDispatch(self._pipeline, groups, self._push, dict(self._buffers))
            )


def _buffers(found: list[list[Any]]) -> dict[int, LoggedBuffer]:
    return {number: LoggedBuffer(name, offset, size) for number, name, offset, size in found}


def local_size(spirv: bytes, constants: Mapping[int, int]) -> tuple[int, int, int]:
    """Lanes of a workgroup along x, y and z of a specialized module; ones for what is no SPIR-V."""
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv[: len(spirv) // 4 * 4])
    if len(words) < 5 or words[0] != _MAGIC:
        return 1, 1, 1
    values: dict[int, int] = {}
    numbers: dict[int, int] = {}
    composites: dict[int, tuple[int, ...]] = {}
    size: tuple[int, ...] = (1, 1, 1)
    ids: tuple[int, ...] = ()
    workgroup = None
    for opcode, o in _instructions(words):
        if opcode == _EXECUTION_MODE and o[1] == _LOCAL_SIZE:
            size = o[2:5]
        elif opcode == _EXECUTION_MODE_ID and o[1] == _LOCAL_SIZE_ID:
            ids = o[2:5]
        elif opcode == _DECORATE and o[1] == _SPEC_ID:
            numbers[o[0]] = o[2]
        elif opcode == _DECORATE and o[1] == _BUILTIN and o[2] == _WORKGROUP_SIZE:
            workgroup = o[0]
        elif opcode in _CONSTANTS:
            values[o[1]] = constants.get(numbers.get(o[1], -1), o[2])
        elif opcode in _COMPOSITES:
            composites[o[1]] = o[2:]
    ids = composites.get(workgroup, ids) if workgroup is not None else ids
    x, y, z = (values.get(i, 1) for i in ids) if len(ids) == 3 else size
    return x, y, z


def _instructions(words: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Opcode and operands, up to the first function."""
    place = 5
    while place < len(words):
        count, opcode = words[place] >> 16, words[place] & 0xFFFF
        if count == 0 or opcode == 54:  # OpFunction
            return
        yield opcode, words[place + 1 : place + count]
        place += count


def group_lanes(run: LoggedRun, texts: Path) -> dict[int, int]:
    """Number of each pipeline of a run -> lanes of its workgroups, by the modules in ``texts``."""
    found: dict[int, int] = {}
    for pipeline in (dispatch.pipeline for dispatch in run.dispatches):
        if pipeline.number not in found:
            spirv = (texts / f"{pipeline.module}.spv").read_bytes()
            found[pipeline.number] = math.prod(local_size(spirv, pipeline.constants))
    return found
