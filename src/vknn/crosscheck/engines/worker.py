"""The process in which another engine runs: a request in its argument, answers in a folder.

The request is a JSON object: "engine", "model", "weights" (or null), "folder", which has
"inputs.npz". It writes "outputs.npz" and "answer.json" there: {"title": ...} or {"failed": ...}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from vknn.crosscheck.engines import litert_run, mac_run, ncnn_run, ort_run
from vknn.crosscheck.kept_inputs import write_npz
from vknn.crosscheck.npz_files import load_npz
from vknn.printable import one_line

Arrays = Mapping[str, np.ndarray]
#: Title and tensors by name, of a model, its weights file and its inputs.
Run = Callable[[str, str | None, Arrays], tuple[str, dict[str, np.ndarray]]]
_RUNS: dict[str, Run] = {
    "ncnn": ncnn_run.run,
    "litert": litert_run.run,
    "onnxruntime": ort_run.run,
    "coremltools": mac_run.run,
}
_LONGEST = 1000


def main() -> None:
    """Work of the process."""
    request = json.loads(sys.argv[1])
    folder = Path(request["folder"])
    try:
        run = _RUNS[request["engine"]]
        title, found = run(request["model"], request["weights"], load_npz(folder / "inputs.npz"))
        numbers = {n: a for n, a in found.items() if np.asarray(a).dtype.kind in "fiub"}
        with open(folder / "outputs.npz", "wb") as file:
            write_npz(file, numbers)
        answer = {"title": title}
    except Exception as error:  # whatever the engine raises is the answer
        answer = {"failed": f"{type(error).__name__}: {one_line(str(error))[:_LONGEST]}"}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
