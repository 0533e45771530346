"""Writer of docs/profiles.md. With --record the commands that it shows are run here, first."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "profiles.md"
RECORDED = Path(__file__).with_name("profiles_page.json")
MODEL = ROOT / "tools" / "demo_model" / "digits.param"
#: The commands whose output stands on the page, by the name of their place there.
COMMANDS = {
    "compiled": "tools/null_devices run navi31 vknn profile digits.param --device vulkan:0 "
    "--null-device --compiled --limit 4",
    "counter_list": "vknn profile digits.param --counters list",
    "counters": "vknn profile digits.param --counters dispatches,groups,busy --limit 4",
    "save": "vknn profile digits.param --runs 20 --limit 3 --save digits.vkprof",
    "report": "vknn report digits.vkprof --sort time --limit 4",
    "versus": 'vknn profile digits.param --versus "--disable fusion" --keep turns',
    "compare": "vknn compare turns/before turns/after --in-turn --sort time --limit 3",
    "files": "vknn compare turns/before turns/after --in-turn --sort time --limit 1 "
    "--markdown speed.md --junit speed.xml",
}
#: Files that these write, and how they are shown.
SHOWN = {"markdown": "cat speed.md", "junit": "head -5 speed.xml"}
#: Those that need RenderDoc (Debian: renderdoc); without it what was recorded last stays.
CAPTURE = "vknn profile digits.param --capture renderdoc"
CAPTURED = {
    "convert": "renderdoccmd convert -f digits_capture.rdc -c xml -o digits.xml",
    "labels": r"""sed -n 's/.*name="pLabelName"[^>]*>\(.*\)<.*/\1/p' digits.xml""",
}

#: The program whose output stands on the page, too.
TRACED = """import json
from collections import Counter

import numpy as np
import vknn

picture = {"image": np.zeros((1, 8, 8), np.float32)}
with vknn.profiling.trace("run.json"):
    for precision in ("fp32", "fp16"):
        with vknn.Session("digits.param", precision=precision) as session:
            session.run(picture)

events = json.load(open("run.json"))["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
for (pid, tid), count in Counter((e["pid"], e["tid"]) for e in events if e["ph"] == "X").items():
    print(f"{names[pid]}, {tracks[pid, tid]}: {count} slices")"""

TEMPLATE = Path(__file__).with_name("profiles_page.md")


def page() -> str:
    """The page, with the outputs that were recorded."""
    from vknn.profiling.comparison import compare, matching, statistics
    from vknn.profiling.comparison.versus import PAIRS, RUNS

    outputs = json.loads(RECORDED.read_text(encoding="utf-8"))
    module = sys.modules[compare.__module__]
    return TEMPLATE.read_text(encoding="utf-8").format(
        tool="tools/profiles_page.py",
        **COMMANDS,
        **SHOWN,
        capture=CAPTURE,
        **CAPTURED,
        traced=TRACED,
        **{f"{name}_output": text for name, text in outputs.items()},
        pairs=PAIRS,
        runs=RUNS,
        most=matching.MOST_ROWS,
        level=module.ROWS_LEVEL,
        whole=module.WHOLE_LEVEL,
        same=module.SAME_WITHIN,
        fewest=module.FEWEST_PROCESSES,
        between=module.BETWEEN_PROCESSES,
        resamples=statistics.RESAMPLES,
        **{name: _measured(name) for name in ("comparisons", "saving")},
    )


def _measured(name: str) -> dict[str, Any]:
    """Figures that a benchmark has kept."""
    file = ROOT / "benchmarks" / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def record() -> None:
    """The commands' outputs, on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".param", ".bin"):
            source = MODEL.with_suffix(suffix)
            (Path(folder) / source.name).write_bytes(source.read_bytes())
        outputs = {name: _output(command, folder) for name, command in COMMANDS.items()}
        for name, command in SHOWN.items():
            outputs[name] = _text(shlex.split(command), folder, dict(os.environ))
        outputs["traced"] = _text([sys.executable, "-c", TRACED], folder, dict(os.environ))
        outputs |= captured(folder)
    RECORDED.write_text(json.dumps(outputs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def captured(folder: str) -> dict[str, str]:
    """The outputs around a capture by RenderDoc, or where it is missing those of the last time."""
    if shutil.which("renderdoccmd") is None:
        before = json.loads(RECORDED.read_text(encoding="utf-8"))
        return {name: before[name] for name in ("capture", *CAPTURED)}
    outputs = {"capture": _output(CAPTURE, folder).replace(os.path.realpath(folder), "/work")}
    for name, command in CAPTURED.items():
        outputs[name] = _text(shlex.split(command), folder, dict(os.environ))
    return outputs


def _output(command: str, folder: str) -> str:
    front, _, rest = command.partition("vknn ")
    tool = [str(ROOT / word) if "/" in word else word for word in front.split()]
    words = [*tool, sys.executable, "-m", "vknn", *shlex.split(rest)]
    environment = {**os.environ, **(_counter_layer() if "--counters" in rest else {})}
    return _text(words, folder, environment)


def _text(words: list[str], folder: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=True, env=environment
    )
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())


def _counter_layer() -> dict[str, str]:
    """What puts the tests' layer of counters above the driver."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.counting.layer import Layer, built

    sources = ROOT / "tests" / "runtime" / "counter_layer"
    layer = Layer("VK_LAYER_VKNN_counters", sources, "offers counters with known numbers")
    return {
        "VK_ADD_LAYER_PATH": str(built(ROOT / ".cache", layer)),
        "VK_INSTANCE_LAYERS": layer.name,
    }


if __name__ == "__main__":
    sys.exit(pages.main(PAGE, "tools/profiles_page.py", page, record))
