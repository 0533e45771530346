#!/usr/bin/env python3
"""Page docs/reduce.md, with what its commands printed when it was written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reduce.md"
TUTORIAL = ROOT / "docs" / "tutorials" / "find-a-wrong-layer.md"
CHECK = """#!/bin/sh
# 1 where an element of the results is above 0.2, 0 where none is
vknn run "$1" --layers layers.py --output out.npz > /dev/null || exit 2
python -c 'import numpy as np; r = np.load("out.npz")
raise SystemExit(any((r[n] > 0.2).any() for n in r.files))'
"""

TEXT = """# A small case, and the switch that decides

<!-- Made by tools/reduce_page.py. -->

`vknn verify` says which operator of a network is wrong. Two commands go on from there. `vknn
reduce` makes the least case of it that still fails: what goes into a bug report. `vknn bisect`
finds what in vknn has to be switched off so that it does not fail: what helps until it is
mended.

Both try the network in other processes, with a limit to the time that a run may take
(`--timeout`, 60 seconds): a case may crash the process, hang the driver or lose the device, and
that can be the failure which is looked into. Their exit code is 1 where something fails, and 0
where nothing does.

The network on this page is that of [Find a wrong layer](tutorials/find-a-wrong-layer.md): the
digits of the demo with a layer of one's own whose shader is wrong.

## Reduce

{reduce}

First, nodes are left out: the layer that is wrong by itself is tried alone, with what NumPy
computed before it as its inputs; where that does not fail, or no layer is known (a crash), parts
are left out by [delta debugging](https://doi.org/10.1109/32.988498). Then each axis of inputs
and weights is made as short as it can be, together with all the sizes that have to follow. At
last values become zeros, ones or powers of two. A candidate counts where it fails as the network
did: the same layer out of tolerance, the same error, the same signal, or again no end.

The result is a folder that is a model: every command opens it, and inputs that are not given are
those that were recorded.

{verify}

`graph.json` holds the operators of the graph as it was read, before any pass, `arrays.npz`
inputs and weights. Neither holds anything that is executed, and both are checked when they are
read, so that they can be passed on. Files of `--layers` are copied beside them, and are not run
unless one says so. The `README.md` in it says what fails, where, and how to see it:

{readme}

`--input bad.npz` gives the inputs with which it fails. `--limit` is the time after which the
best case so far is the result (600 seconds), as it is after Ctrl-C. Networks with loops and
branches come apart into the graphs that they come to, with NumPy's values between them; a
failure that takes several of these is not reproduced.

### By a command of one's own

With `--check` a command decides. It is given the folder of a candidate as its last argument; its
exit code is 0 where nothing fails. Any other is a failure, and only candidates with the same one
count. This one looks for results above 0.2:

{check}

In Python it is {{py:func}}`vknn.reduction.reduce`, and `--json` prints
{{py:meth}}`vknn.reduction.ReductionReport.to_json`.

## Bisect

{bisect}

What can be switched off has a name in [`VKNN_DISABLE`](environment.md): passes, abilities of the
device, and parts of lowering; besides these each kernel that the network uses
(`kernel:Conv/winograd43`, as `vknn profile` shows them) and each choice that `vknn tune` made
for it (`tuned:5f0a91c2`). `vknn bisect` switches off the first half of them, then a quarter more
or less, and so on, until a single one makes the difference: 6 runs for 60 names, of the part of
the network that fails where that is known, and one of the whole network at the end. Single
choices and kernels come first, so that of several that help the narrowest is found. Where one
alone does not help, it goes on and names those that do together, and says so; where none does,
whether it is right on the host.

A pass that computes something else does so on the device and with NumPy, so that `vknn verify`
cannot see it. `vknn bisect` and `vknn reduce` therefore also hold the rewritten graph against
the graph as it was read, with NumPy; not where quantized operators became integer kernels, which
round otherwise.

Nothing fails here:

{clean}

The last lines say whether vknn has an entry for this driver among its quirks
(`src/vknn/runtime/quirks.py`), the faults of drivers that it works around by itself. A fault of
a driver that a feature's name helps against belongs there.

In Python it is {{py:func}}`vknn.reduction.bisect`, and `--json` prints
{{py:meth}}`vknn.reduction.BisectReport.to_json`.
"""


def page() -> str:
    """The page, with what the commands print now."""
    with tempfile.TemporaryDirectory(prefix="vknn-page-") as name:
        folder = Path(name)
        _prepare(folder)
        clean = "vknn bisect tools/demo_model/digits.param"
        return TEXT.format(
            reduce=_shown(folder, "vknn reduce net.param --layers layers.py -o small"),
            verify=_shown(
                folder, "vknn verify small --layers small/layers.py --failures", wide=True
            ),
            readme=_indented((folder / "small" / "README.md").read_text()),
            check=_indented(CHECK)
            + "\n\n"
            + _shown(
                folder, "vknn reduce net.param --layers layers.py -o other --check ./check.sh"
            ),
            bisect=_shown(folder, "vknn bisect net.param --layers layers.py"),
            clean=_shown(folder, clean),
        )


def _prepare(folder: Path) -> None:
    """The tutorial's network, and commands that run this vknn."""
    shutil.copytree(ROOT / "tools" / "demo_model", folder / "tools" / "demo_model")
    for block in re.findall(
        r"^```python\n(.*?)^```$", TUTORIAL.read_text(), re.DOTALL | re.MULTILINE
    ):
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            (folder / named[1]).write_text(block)
    scripts = folder / "bin"
    scripts.mkdir()
    for name, arguments in {"python": "", "vknn": "-m vknn "}.items():
        _script(scripts / name, f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
    _script(folder / "check.sh", CHECK)
    _run(folder, "python network.py")


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _run(folder: Path, command: str) -> str:
    done = subprocess.run(
        shlex.split(command),
        executable=str(folder / "bin" / shlex.split(command)[0]),
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {done.stdout}")
    return done.stdout


def _shown(folder: Path, command: str, *, wide: bool = False) -> str:
    output = _run(folder, command)
    if wide:
        output = output.splitlines()[-1]  # the verdict; tables are on other pages
    return _indented(f"$ {command}\n{output}")


def _indented(text: str) -> str:
    lines = [f"    {line}".rstrip() for line in text.strip().splitlines()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(pages.main(PAGE, "tools/reduce_page.py", page))
