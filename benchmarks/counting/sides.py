"""An engine's side of a comparison: a run's counts, its dispatches, its time by fitted costs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vknn.profiling.modelled import ASSUMPTIONS as MODEL
from vknn.profiling.static import NAMES

from .cards import ON_THE_PROCESSOR
from .code_model import SCALED, CodeTimes, code_times
from .fit import NAMES as COST_NAMES
from .fit import Costs, Workload
from .log import LoggedPipeline, LoggedRun, group_lanes
from .work import Work, ncnn_work, vknn_work

#: What is assumed where times are modelled; printed with them.
ASSUMPTIONS = (
    "counted: all but times; compiler, limits and memory types are the driver's own",
    "host: the least of several runs without the layer, on a device that takes no time",
    "by code: dispatches alone, without gaps, by machine code as vknn profile --static models it",
    f"by code, {MODEL}",
    "by code: without dispatches whose loops end by what buffers hold, which read as zeros",
    "us of a card: costs of docs/gpu.md; kernels are taken to be as good as ncnn's of their kind",
    "bytes: all that is bound, once a dispatch; no cache keeps any from one dispatch to the next",
    "no us for networks with layers that ncnn has on the processor, now or then",
)
#: Networks with matrix products of ncnn that its kernels' parameters do not tell of.
UNTOLD = ("vision_transformer",)
#: Statistics of a pipeline that are kept, by vknn's names for them.
STATISTICS = ("registers", "spills", "scratch", "shared", "code", "instructions", "waves")
COLUMNS = (
    *("kernel", "kind", "groups", "lanes", "kmacs", "kbytes", *STATISTICS, "us"),
    *("share", "bound", "times"),
)


def costs_of(path: Path, null: str) -> dict[str, Costs]:
    """Cards whose costs are kept that were counted on a null device, with their costs."""
    if not path.exists():
        return {}
    cards = json.loads(path.read_text(encoding="utf-8"))["cards"]
    return {
        label: Costs(**{name: card[name] for name in COST_NAMES})
        for label, card in cards.items()
        if card["null"] == null
    }


def side(
    engine: str,
    network: str,
    run: LoggedRun,
    texts: Path,
    host: Sequence[float],
    costs: Mapping[str, Costs],
) -> dict[str, Any]:
    """Counts of a network's run, to be kept. Times are microseconds."""
    lanes = group_lanes(run, texts)
    works = _works(engine, network, run, lanes)
    pipelines = {d.pipeline.number: d.pipeline for d in run.dispatches}
    found: dict[str, Any] = {
        "dispatches": len(run.dispatches),
        "barriers": run.barriers,
        "waiting": run.waiting,
        "copies": run.copies,
        "submits": run.submits,
        "peak_mb": round(run.peak / 1e6, 1),
        "pipelines": len(pipelines),
        "pipelines_made": run.pipelines,
        "host_us": round(min(host) * 1e6) if host else None,
        **_compiler(list(pipelines.values())),
    }
    if works is not None:
        found["macs"] = sum(work.macs for work in works)
        found["mbytes"] = round(sum(work.nbytes for work in works) / 1e6, 1)
    if works is not None and network not in ON_THE_PROCESSOR:
        workload = Workload({"": works})
        found["us"] = {name: round(float(workload.times(c)[0])) for name, c in costs.items()}
    times = code_times(run, texts)
    found |= _code(times)
    found["rows"] = _rows(engine, run, works, lanes, times)
    return found


def _works(
    engine: str, network: str, run: LoggedRun, lanes: Mapping[int, int]
) -> list[Work] | None:
    if engine == "vknn":
        return vknn_work(run, lanes)
    return None if network in UNTOLD else ncnn_work(run, lanes, run.notes.get("version", ""))


def _compiler(pipelines: Sequence[LoggedPipeline]) -> dict[str, Any]:
    """What the driver says: pipelines that spill, most registers, most code, fewest waves."""
    values = {
        name: [v for p in pipelines if (v := statistic(p, name)) is not None] for name in NAMES
    }
    spilling = [p for p in pipelines if statistic(p, "spills") or statistic(p, "scratch")]
    return {
        "spilling": len(spilling),
        "most_registers": max(values["registers"], default=None),
        "most_code": max(values["code"], default=None),
        "fewest_waves": min(values["waves"], default=None),
    }


def statistic(pipeline: LoggedPipeline, name: str) -> int | None:
    """A number of the driver by vknn's name for it; None where the driver does not say."""
    found = [pipeline.statistics[n] for n in NAMES[name] if n in pipeline.statistics]
    return int(found[0]) if found else None


def _code(times: Sequence[CodeTimes | None]) -> dict[str, Any]:
    """Sums over a run, the latencies as assumed and scaled; None where a dispatch has no time.

    Dispatches whose time hangs on data have a sum of their own.
    """
    known = [t for t in times if t is not None]
    if not times or len(known) < len(times):
        return {"code_us": None}
    sure = [t for t in known if not t.by_data]
    scaled = {
        f"{factor:g}": round(sum(t.scaled[n] for t in sure), 1) for n, factor in enumerate(SCALED)
    }
    found = {"code_us": round(sum(t.time for t in sure), 1), "code_scaled_us": scaled}
    by_data = [t.time for t in known if t.by_data]
    return found | ({"by_data_us": round(sum(by_data), 1)} if by_data else {})


def _rows(
    engine: str,
    run: LoggedRun,
    works: Sequence[Work] | None,
    lanes: Mapping[int, int],
    times: Sequence[CodeTimes | None],
) -> list[list[Any]]:
    """Rows of COLUMNS, equal dispatches as one. ncnn's kernels are named by their modules."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for number, dispatch in enumerate(run.dispatches):
        pipeline, work = dispatch.pipeline, works[number] if works else None
        time = times[number]
        name = run.notes["dispatches"][number][0] if engine == "vknn" else pipeline.module[:6]
        row = (
            name,
            work.kind if work else "",
            "x".join(map(str, dispatch.groups)),
            lanes[pipeline.number],
            round(work.macs / 1e3) if work else None,
            round((work.nbytes if work else dispatch.nbytes) / 1e3),
            *(statistic(pipeline, wanted) for wanted in STATISTICS),
            *((None, None, None) if time is None else _modelled(time)),
        )
        counts[row] += 1
    return [[*row, count] for row, count in counts.items()]


def _modelled(time: CodeTimes) -> tuple[float, float | None, str]:
    """Microseconds, share and bound as rows have them."""
    return round(time.time, 1), None if time.share is None else round(time.share, 2), time.bound
