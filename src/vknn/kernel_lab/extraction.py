"""Extraction (``vknn.kernel_lab.extract``): one dispatch of a model written as a folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn import __version__
from vknn.errors import InputError, NullDeviceError
from vknn.kernel_lab import parameters
from vknn.kernel_lab.arrays import storage, write_array
from vknn.kernel_lab.capture import Captured, capture
from vknn.kernel_lab.checks import features_missing
from vknn.kernel_lab.choices import DispatchChoice, all_choices, chosen, runs_of
from vknn.kernel_lab.description import (
    LabBinding,
    LabDescription,
    LabDevice,
    LabMemory,
    LabOutput,
    LabTensor,
)
from vknn.kernel_lab.expectation import Expectations, Reference, element_type, packed
from vknn.kernel_lab.kernel_source import FOLDER, KernelSource, shipped_source
from vknn.kernel_lab.lab import Lab
from vknn.kernel_lab.readme import readme
from vknn.kernel_lab.workbench import DESCRIPTION
from vknn.kernel_lab.written import written_elements
from vknn.precision import CUMULATIVE, Precision
from vknn.runtime import Device
from vknn.runtime.spirv.specialize import specialized
from vknn.session import Session, engine_of
from vknn.tool_inputs import Shapes, complete_feeds, opened


def extract(
    model: str | os.PathLike[str] | Session,
    folder: str | os.PathLike[str],
    *,
    layer: str | None = None,
    dispatch: int | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    seed: int = 0,
) -> Lab:
    """One dispatch of a model, taken from a run on the device and written to a folder.

    The folder holds GLSL, constants, the bytes of all buffers, what the device gave and, where the
    dispatch ends an operator, what NumPy gives for the same inputs. It needs no model any more.

    Args:
        model: A model file or an open session.
        folder: The folder to write; it must be new, or empty.
        layer: Name of a layer that the dispatch computes.
        dispatch: Number of the dispatch, in the order of a run, from 0 on; needed where the layer
            has several.
        inputs: Arrays by name; random ones stand in for missing ones.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used where ``model`` is a session. So are
            ``precision`` and ``arithmetic``.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.

    Returns:
        The lab, opened.

    Raises:
        vknn.InputError: There is no such dispatch, or several are; the text lists them. Or there is
            something in the folder.
        vknn.DeviceError: There is no Vulkan device.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: there is something already: give a new folder")
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        feeds = complete_feeds(session, inputs, shapes, seed)
        choice = chosen(all_choices(runs_of(session, feeds)), layer, dispatch)
        if session.device is not None and session.device.snapshot.is_null:
            raise NullDeviceError(f"{session.device.name} computes nothing that could be extracted")
        made = not target.exists()
        target.mkdir(parents=True, exist_ok=True)
        try:
            _Writer(session, choice, target).write()
        except BaseException:
            for path in [target] if made else list(target.iterdir()):
                shutil.rmtree(path, ignore_errors=True)
            raise
    return Lab.open(target)


class _Writer:
    """The files of a lab."""

    def __init__(self, session: Session, choice: DispatchChoice, folder: Path) -> None:
        assert session.device is not None
        self.session, self.choice, self.folder = session, choice, folder
        self.device: Device = session.device
        self.precision, self.arithmetic = session.precision, session.arithmetic
        if session.layer_precisions and "HALF" not in dict(choice.dispatch.variant):
            self.precision = self.arithmetic = "fp32"
        self.expectations = Expectations(choice, self.precision, self.arithmetic)

    def write(self) -> None:
        choice, dispatch = self.choice, self.choice.dispatch
        source = shipped_source(_file_name(dispatch.kernel), dispatch.source)
        self._write_source(source)
        variant = dict(dispatch.variant)
        compiled = source.compile(self.folder / FOLDER, variant)
        features_missing(compiled.declared, (), self.device.limits)
        pool = engine_of(self.session).target.pool
        captured = capture(choice, self.expectations.wanted(), self.device, pool)
        memories, bindings = self._memories(captured)
        constants = dict(dispatch.specialization)
        by_id = {c.id: name for name, c in compiled.declared.constants.items()}
        local = tuple(int(constants.get(axis, 1)) for axis in range(3))
        base = LabDescription(
            kernel=source.kernel,
            own=dispatch.source is not None,
            layers=dispatch.nodes,
            label=dispatch.label,
            model=_model_name(self.session),
            precision=self.precision,
            vknn=__version__,
            variant=variant,
            constants={by_id[i]: v for i, v in constants.items() if i in by_id},
            local=(local[0], local[1], local[2]),
            groups=dispatch.groups,
            push=parameters.read_push(compiled.declared.push, dispatch.push),
            sources={p: _hash(text) for p, text in source.texts.items()},
            needs=tuple(sorted(compiled.declared.features)),
            memories=memories,
            bindings=bindings,
            outputs=(),
            device=_described(self.device),
            flops=dispatch.flops,
            nbytes=dispatch.nbytes,
        )
        outputs = self._outputs(base, captured)
        description = LabDescription(**{**vars(base), "outputs": outputs})
        spirv = specialized(compiled.spirv, dispatch.specialization)
        (self.folder / "extracted.spv").write_bytes(spirv)
        text = json.dumps(description.document(), indent=1, allow_nan=False)
        (self.folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        (self.folder / "README.md").write_text(readme(description), encoding="utf-8")

    def _write_source(self, source: KernelSource) -> None:
        for path, text in source.texts.items():
            file = self.folder / FOLDER / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _memories(self, captured: Captured) -> tuple[tuple[LabMemory, ...], tuple[LabBinding, ...]]:
        """Memories with their files, and the bindings in them."""
        bound, plan = self.choice.dispatch.bindings, self.choice.run.plan
        memories, homes = [], {}
        for number, region in enumerate(captured.regions):
            homes.update({i: (number, offset) for i, offset in region.buffers.items()})
            file = None
            if region.before is not None:
                first = min(i for i, b in enumerate(bound) if b.buffer in region.buffers)
                kind = storage(self._dtype(first))
                file = f"inputs/{first}-{_plain(plan.buffers[bound[first].buffer].name)}.npy"
                write_array(self.folder / file, region.before.view(kind))
            memories.append(LabMemory(region.nbytes, file))
        bindings = tuple(
            LabBinding(
                name=plan.buffers[b.buffer].name,
                role=plan.buffers[b.buffer].role.value,
                access=b.access,
                view=b.view,
                format=b.format,
                dtype=self._dtype(number),
                memory=homes[b.buffer][0],
                offset=homes[b.buffer][1],
                nbytes=plan.buffers[b.buffer].nbytes,
            )
            for number, b in enumerate(bound)
        )
        return tuple(memories), bindings

    def _dtype(self, binding: int) -> str:
        bound = self.choice.dispatch.bindings[binding]
        return element_type(bound, self.expectations.placed.get(bound.buffer))

    def _outputs(self, base: LabDescription, captured: Captured) -> tuple[LabOutput, ...]:
        data = self._bytes(captured)
        references = self.expectations.references({**data, **captured.others})
        masks = written_elements(base, self.folder, self.device)
        after = {
            i: region.after[offset : offset + self.choice.run.plan.buffers[i].nbytes]
            for region in captured.regions
            if region.after is not None
            for i, offset in region.buffers.items()
        }
        outputs = []
        for number, b in enumerate(self.choice.dispatch.bindings):
            if b.access.writes:
                raw = after[b.buffer].view(storage(base.bindings[number].dtype))
                reference = references.get(b.buffer)
                outputs.append(self._output(number, raw, reference, masks.get(number)))
        return tuple(outputs)

    def _bytes(self, captured: Captured) -> dict[int, np.ndarray]:
        """Bytes of the dispatch's buffers beforehand, by index."""
        sizes = self.choice.run.plan.buffers
        return {
            i: region.before[offset : offset + sizes[i].nbytes]
            for region in captured.regions
            if region.before is not None
            for i, offset in region.buffers.items()
        }

    def _output(
        self, number: int, raw: np.ndarray, reference: Reference | None, mask: np.ndarray | None
    ) -> LabOutput:
        bound = self.choice.dispatch.bindings[number]
        placed = self.expectations.placed.get(bound.buffer)
        stem = f"expected/{number}"
        write_array(self.folder / f"{stem}-device.npy", raw)
        if reference is not None and placed is not None:
            right, allowed = packed(reference.right, placed), packed(reference.allowed, placed)
            write_array(self.folder / f"{stem}-numpy.npy", right)
            above = np.nextafter(allowed.astype(np.float32), np.float32(np.inf))
            bound_ = np.where(allowed > 0, above, np.float32(0))
            write_array(self.folder / f"{stem}-allowed.npy", bound_.astype(np.float32))
        if mask is not None:
            write_array(self.folder / f"{stem}-written.npy", mask)
        tensor = None
        if placed is not None:
            type_ = placed.value.type
            tensor = LabTensor(type_.dtype.value, type_.dims, placed.layout.value)
        return LabOutput(
            binding=number,
            device=f"{stem}-device.npy",
            reference=None if reference is None else f"{stem}-numpy.npy",
            allowed=None if reference is None else f"{stem}-allowed.npy",
            written=None if mask is None else f"{stem}-written.npy",
            tensor=tensor,
            tolerance=CUMULATIVE[self.precision, self.arithmetic],
        )


def _described(device: Device) -> LabDevice:
    snapshot, limits = device.snapshot, device.limits
    names = (
        "max_group_count", "max_group_size", "max_group_invocations", "shared_memory",
        "max_push_constants", "max_storage_buffers", "max_storage_buffer_range",
        "max_texel_buffer_elements", "storage_alignment", "texel_alignment",
    )  # fmt: skip
    return LabDevice(
        name=snapshot.name,
        kind=snapshot.kind,
        driver=f"{snapshot.driver_name} {snapshot.driver_info}".strip(),
        uuid=snapshot.uuid.hex(),
        subgroup_size=limits.subgroup_size,
        features=tuple(sorted(limits.features)),
        limits={name: getattr(limits, name) for name in names},
    )


def _model_name(session: Session) -> str:
    """The model's file without its folder: folders of ours are nobody else's business."""
    file: Any = session.model.file
    return "" if file is None else os.path.basename(str(file))


def _file_name(kernel: str) -> str:
    """A kernel's name as a path: those of a user's own layers may have any letters."""
    return "/".join(_plain(part) for part in kernel.split("/"))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:80].strip("_") or "buffer"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
