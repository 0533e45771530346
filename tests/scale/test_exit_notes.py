"""Notes of how a worker's process ended: of signals, of a reason that it gives, of nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vknn.scale.exit_note import KILLED, ExitNote

CODE = """
import os, signal, sys
from pathlib import Path
from vknn.scale.exit_note import ExitNote
note = ExitNote("a/worker", Path(sys.argv[1]))
assert not note.last
{end}
"""


@pytest.mark.parametrize(
    "end, told",
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Segmentation fault"),
        ("os.abort()", "Aborted"),
        ("os.kill(os.getpid(), signal.SIGKILL)", KILLED),
        ("note.say('DeviceLostError: gone'); os._exit(1)", "DeviceLostError: gone"),
        ("note.close(); note.close()", ""),
    ],
)
def test_ends(end: str, told: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", CODE.format(end=end), str(tmp_path)], capture_output=True, timeout=60
    )
    code = "import sys; from pathlib import Path; from vknn.scale.exit_note import ExitNote; "
    code += "note = ExitNote('a/worker', Path(sys.argv[1])); print(note.last); note.close()"
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == told, found.stderr
    assert not list(tmp_path.iterdir()), "nothing stays behind"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "vknn-exit-w").symlink_to(tmp_path / "secret")
    note = ExitNote("w", tmp_path)
    assert note.last == ""
    note.say("x")
    note.close()
    assert (tmp_path / "secret").read_text() == "secret"
