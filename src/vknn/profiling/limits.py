"""Limits of a device (``vknn bench --device-limits``): its best speeds, to hold kernels against.

Arithmetic: multiply-adds in registers. Memory: a copy, read and written bytes together. Overheads:
a submit that is waited for, a dispatch, a workgroup. Each figure is the best of several runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import partial

from rich.console import Group, RenderableType
from rich.table import Table

from vknn.errors import NullDeviceError, VknnError
from vknn.plan import DeviceLimits, MeasuredSpeeds, Plan, View
from vknn.profiling import limit_plans as plans
from vknn.profiling.schema import Wrong
from vknn.profiling.vkprof.checks import check_limits
from vknn.rich_text import text_of
from vknn.runtime import Device, Executable
from vknn.tool_inputs import ProgressCallback

#: Bytes that are copied: beyond every cache, within the buffers of every device.
COPY_BYTES = {"cpu": 64 << 20}
COPY_BYTES_ELSEWHERE = 256 << 20
ITEMS = (1, 4, 16)
DISPATCHES = 200
GROUPS = 4096
RUNS = 5


@dataclass(frozen=True)
class Limits:
    """Peaks of a device, as measured. ``print`` shows them as tables.

    Attributes:
        device: Name of the device.
        driver: Name and version of its driver.
        fma: GFLOP/s of multiply-adds in registers, by form.
        copy: GB/s of copies, read and written together, by form.
        submit: Seconds of a submit that is waited for.
        dispatch: Seconds of a dispatch.
        dispatch_barrier: Seconds of a dispatch and a barrier.
        group: Seconds of a workgroup.
        fp16: As ``fma``, of float16; empty where the device does not compute in it.
        integer_dot: GOP/s of dot products of four bytes, by form, each product and each sum
            counted; empty where the device has none.
    """

    device: str
    driver: str
    fma: dict[str, float] = field(default_factory=dict)
    copy: dict[str, float] = field(default_factory=dict)
    submit: float = 0.0
    dispatch: float = 0.0
    dispatch_barrier: float = 0.0
    group: float = 0.0
    fp16: dict[str, float] = field(default_factory=dict)
    integer_dot: dict[str, float] = field(default_factory=dict)

    @property
    def gflops(self) -> float:
        """The most GFLOP/s of any form; a multiply-add counts as two."""
        return max(self.fma.values(), default=0.0)

    @property
    def gbytes(self) -> float:
        """The most GB/s of any form of copy."""
        return max(self.copy.values(), default=0.0)

    @property
    def shader_gbytes(self) -> float:
        """The most GB/s of copies by a shader, which is what a kernel can reach."""
        forms = (v for k, v in self.copy.items() if k != plans.TRANSFER)
        return max(forms, default=0.0)

    @property
    def speeds(self) -> MeasuredSpeeds | None:
        """The figures that plans are estimated by; None where one of them came out as 0."""
        found = (self.gflops, self.shader_gbytes, self.dispatch_barrier)
        return MeasuredSpeeds(*found) if min(found) > 0 else None

    def to_json(self) -> str:
        """JSON of everything; times in seconds."""
        peaks = {"gflops": self.gflops, "gbytes": self.gbytes, "shader_gbytes": self.shader_gbytes}
        return json.dumps({**asdict(self), **peaks}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Limits:
        """The limits that :meth:`to_json` wrote. Raises VknnError for what is none."""
        try:
            document = json.loads(text)
            check_limits(document)
        except (ValueError, RecursionError, Wrong) as error:
            raise VknnError(f"no limits of a device as JSON: {str(error)[:200]}") from None
        return cls(**{f.name: document[f.name] for f in fields(cls) if f.name in document})

    def __rich__(self) -> RenderableType:
        title = f"{self.device} ({self.driver})"
        overheads = {
            "submit and wait": self.submit,
            "a dispatch": self.dispatch,
            "a dispatch and a barrier": self.dispatch_barrier,
            "a workgroup": self.group,
        }
        return Group(
            title,
            _table("multiply-adds in registers", "form", "GFLOP/s", self.fma, 1),
            *(
                _table(title, "form", unit, figures, 1)
                for title, unit, figures in (
                    ("multiply-adds of float16", "GFLOP/s", self.fp16),
                    ("dot products of four bytes", "GOP/s", self.integer_dot),
                )
                if figures
            ),
            _table("copy, read + write", "form", "GB/s", self.copy, 1),
            _table("overheads", "", "us", {k: 1e6 * v for k, v in overheads.items()}, 2),
        )

    def __str__(self) -> str:
        return text_of(self, 120)


def measure_limits(
    device: Device,
    *,
    runs: int = RUNS,
    seconds: float = 0.02,
    copy_bytes: int | None = None,
    progress: ProgressCallback | None = None,
) -> Limits:
    """Peaks of a device, for kernels to be measured against.

    Args:
        device: An open device.
        runs: How often each figure is measured; the best counts.
        seconds: How long one dispatch of the arithmetic is to take.
        copy_bytes: How much is copied; by default more than any cache holds.
        progress: Told the number of steps done, of all steps, and what is being done.

    Returns:
        GFLOP/s, GB/s, and the seconds that submits, dispatches and workgroups cost.

    Raises:
        vknn.DeviceError: The driver failed, or the device has no timestamps.
        vknn.NullDeviceError: The device computes nothing.
    """
    if device.snapshot.is_null:
        raise NullDeviceError(f"{device.name} computes nothing: it has no limits to measure")
    meter = _Meter(device, runs, progress)
    fma = {_form(*form): _fma(meter, *form, seconds) for form in plans.FMA_FORMS}
    nbytes = copy_bytes or COPY_BYTES.get(device.limits.kind, COPY_BYTES_ELSEWHERE)
    snapshot = device.snapshot
    return Limits(
        device=device.name,
        driver=f"{snapshot.driver_name} {snapshot.driver_info}".strip(),
        fma=fma,
        copy=_copies(meter, min(nbytes, device.limits.max_storage_buffer_range)),
        fp16=_narrow(meter, "fp16_arithmetic", plans.fma_half, seconds),
        integer_dot=_narrow(meter, "integer_dot", plans.dots, seconds),
        **_overheads(meter),
    )


class _Meter:
    """Times plans; counts the steps of the measurement."""

    def __init__(self, device: Device, runs: int, progress: ProgressCallback | None) -> None:
        self.device, self.limits, self.runs = device, device.limits, max(1, runs)
        self._progress, self._done = progress, 0
        narrow = 2 * len(plans.NARROW_CHAINS)
        self._total = len(plans.FMA_FORMS) + narrow + 1 + 3 * len(ITEMS) + 4

    def step(self, what: str) -> None:
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total, what)
        self._done += 1

    def command_seconds(self, plan: Plan, runs: int | None = None) -> float:
        """The device's time for the last command of a plan; the best of the runs."""
        with Executable(self.device, plan) as executable:
            executable.run({})
            spans = [executable.profile({}).spans[-1] for _ in range(runs or self.runs)]
        return min(float(end - begin) for begin, end in spans) * 1e-9

    def submit_seconds(self, plan: Plan) -> float:
        """From a submit to the end of the wait, as the host sees it; the best of the runs."""
        with Executable(self.device, plan) as executable:
            executable.run({})
            submits = [executable.profile({}).submits[0] for _ in range(4 * self.runs)]
        return min(float(end - begin) for begin, end in submits)

    def run_seconds(self, plan: Plan) -> float:
        """A whole run without timestamps; the best of the runs."""
        with Executable(self.device, plan) as executable:
            executable.run({})
            times = []
            for _ in range(4 * self.runs):
                begin = time.perf_counter()
                executable.run({})
                times.append(time.perf_counter() - begin)
        return min(times)


def _form(chains: int, steps: int) -> str:
    return f"{chains} vec4 a lane, {steps} steps a round"


def _fma(meter: _Meter, chains: int, steps: int, seconds: float) -> float:
    """GFLOP/s. The dispatch grows until it is long enough to be measured."""
    meter.step(f"multiply-adds, {_form(chains, steps)}")
    return _speed(meter, lambda groups: plans.fma(meter.limits, chains, steps, groups), seconds)


def _narrow(
    meter: _Meter,
    feature: str,
    made: Callable[[DeviceLimits, int, int], Plan],
    seconds: float,
) -> dict[str, float]:
    """Speeds of arithmetic that a device has only with a feature, by form."""
    found = {}
    for chains in plans.NARROW_CHAINS if feature in meter.limits.features else ():
        form = _form(chains, plans.NARROW_STEPS)
        meter.step(f"{feature}, {form}")
        found[form] = _speed(meter, partial(made, meter.limits, chains), seconds)
    return found


def _speed(meter: _Meter, made: Callable[[int], Plan], seconds: float) -> float:
    """Thousands of millions of operations a second of a plan of so many workgroups."""
    groups = 64
    while True:
        plan = made(groups)
        took = meter.command_seconds(plan, 1)
        if took >= seconds or groups * 4 > meter.limits.max_group_count[0]:
            break
        groups *= 4
    best = min(took, meter.command_seconds(plan))
    return plan.dispatches[0].flops / best / 1e9 if best else 0.0


def _copies(meter: _Meter, nbytes: int) -> dict[str, float]:
    """GB/s by form. Forms that a device cannot do, for the length of its texel buffers, are left
    out."""
    found = {}
    for view in View:
        if view is not View.STORAGE and nbytes // 16 > meter.limits.max_texel_buffer_elements:
            continue
        for items in ITEMS:
            name = f"{plans.FORMS[view]}, {items} vec4 a lane"
            meter.step(name)
            plan = plans.copy(meter.limits, view, items, nbytes)
            took = meter.command_seconds(plan)
            found[name] = plan.dispatches[0].nbytes / took / 1e9 if took else 0.0
    meter.step(plans.TRANSFER)
    took = meter.command_seconds(plans.transfer(nbytes))
    found[plans.TRANSFER] = 2 * nbytes / took / 1e9 if took else 0.0
    return found


def _overheads(meter: _Meter) -> dict[str, float]:
    """Times by differences of whole runs: timestamps would cost more than what they time."""
    meter.step("submit")
    limits = meter.limits
    submit = meter.submit_seconds(plans.fill())
    one = meter.run_seconds(plans.nothing(limits, 1))
    meter.step("dispatches")
    many = meter.run_seconds(plans.nothing(limits, DISPATCHES))
    meter.step("barriers")
    ordered = meter.run_seconds(plans.nothing(limits, DISPATCHES, barriers=True))
    meter.step("workgroups")
    wide = meter.run_seconds(plans.nothing(limits, 1, groups=GROUPS))
    return {
        "submit": submit,
        "dispatch": max(0.0, many - one) / (DISPATCHES - 1),
        "dispatch_barrier": max(0.0, ordered - one) / (DISPATCHES - 1),
        "group": max(0.0, wide - one) / (GROUPS - 1),
    }


def _table(title: str, what: str, unit: str, rows: dict[str, float], digits: int) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(what)
    table.add_column(unit, justify="right")
    for name, value in rows.items():
        table.add_row(name, f"{value:,.{digits}f}")
    return table
