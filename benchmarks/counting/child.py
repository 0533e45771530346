"""Child process of engines.py: an engine's runs under the layer of benchmarks/vulkan_layer.

    python -m counting.child JOB

JOB is a JSON object: "engine" (ncnn or vknn), "mode", "networks" (name, param, weights or null,
shape), "log" (the layer's file, to which marks are appended) or null, "runs" (runs to time).
Prints a JSON object a network: name, seconds of runs where asked, or an error.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from .log import END, NETWORK, RUN

Job = dict[str, Any]
Run = Callable[[], Any]
Notes = Callable[[], dict[str, Any]]


def ncnn_run(job: Job, network: dict[str, Any], stack: ExitStack) -> tuple[Run, Notes]:
    """ncnn as benchncnn runs it: options as they come ("default") or fp32; no weights is zeros."""
    import ncnn

    net = ncnn.Net()
    stack.callback(net.clear)
    net.opt.use_vulkan_compute = True
    net.opt.num_threads = 1  # little is left for the processor, and threads that wait for it spin
    if job["mode"] == "fp32":
        for part in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
            if hasattr(net.opt, f"use_{part}"):
                setattr(net.opt, f"use_{part}", False)
    net.set_vulkan_device(0)
    weights = network["weights"]
    source = str(weights) if weights else ncnn.DataReaderFromEmpty()
    if net.load_param(str(network["param"])) or net.load_model(source):
        raise ValueError("ncnn does not load it")
    inputs, outputs = net.input_names(), net.output_names()
    array = np.full(network["shape"], 0.01, np.float32)

    def run() -> None:
        extractor = net.create_extractor()
        extractor.input(inputs[0], ncnn.Mat(array).clone())
        for name in outputs:
            extractor.extract(name)

    return run, lambda: {"version": ncnn.__version__}


def vknn_run(job: Job, network: dict[str, Any], stack: ExitStack) -> tuple[Run, Notes]:
    """A session in precision ``mode``, "fp16-arithmetic" to compute in it, too; its notes are the
    plan's dispatches in order."""
    from vknn import __version__
    from vknn.session import Session
    from vknn.tool_inputs import complete_feeds

    precision, _, arithmetic = job["mode"].partition("-")
    options = {"precision": precision, "arithmetic": "fp16" if arithmetic else "fp32"}
    session = stack.enter_context(
        Session(network["param"], network["weights"], device="vulkan:0", **options)
    )
    (spec,) = session.inputs
    feeds = complete_feeds(session, shapes={spec.name: tuple(network["shape"])})

    def notes() -> dict[str, Any]:
        program = session._engine.program(feeds)
        entries = [d for plan in program.plans for d in plan.dispatches]
        named = [(d.kernel, d.label, d.flops, d.nbytes) for d in entries]
        hosts = sorted(n.op.type_name for n, where in program.placement.items() if where == "host")
        return {"dispatches": named, "host": hosts, "version": __version__}

    return lambda: session.run(feeds), notes


ENGINES = {"ncnn": ncnn_run, "vknn": vknn_run}


def run_network(job: Job, network: dict[str, Any]) -> dict[str, Any]:
    """A first run, in which all is compiled, and the one that counts, or ``runs`` timed ones."""

    def mark(name: str, **more: Any) -> None:
        if job["log"]:
            record = {"what": "mark", "name": name, "network": network["name"], **more}
            with Path(job["log"]).open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")

    with ExitStack() as stack:
        mark(NETWORK)
        run, notes = ENGINES[job["engine"]](job, network, stack)
        run()
        mark(RUN)
        run()
        mark(END, notes=notes())
        seconds = [_timed(run) for _ in range(job["runs"])]
    return {"name": network["name"], "seconds": seconds}


def _timed(run: Run) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main() -> None:
    warnings.filterwarnings("ignore", message=".* is a null device")
    job = json.loads(sys.argv[1])
    for network in job["networks"]:
        print(f"start {network['name']}", flush=True)
        try:
            found = run_network(job, network)
        except Exception as error:
            found = {"name": network["name"], "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
