"""Notes of how a worker's process ended: of signals, of a reason that it gives, of nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vknn.scale.exit_note import KILLED, ExitNote

CODE = """
import os, signal, sys
from pathlib import Path
from vknn.scale.exit_note import ExitNote
note = ExitNote("a/worker", Path(sys.argv[1]))
assert not note.last
{end}
"""
#: The process after it, once for each of several folders.
AFTER = """
import sys
from pathlib import Path
from vknn.scale.exit_note import ExitNote
for folder in map(Path, sys.argv[1:]):
    note = ExitNote("a/worker", folder)
    print(note.last)
    note.close()
"""
#: How a process ends -> what is told of it.
ENDS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "Segmentation fault",
    "os.abort()": "Aborted",
    "os.kill(os.getpid(), signal.SIGKILL)": KILLED,
    "note.say('DeviceLostError: gone'); os._exit(1)": "DeviceLostError: gone",
    "note.close(); note.close()": "",
}


def test_ends(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(len(ENDS))]
    begun = []
    for folder, end in zip(folders, ENDS, strict=True):
        folder.mkdir()
        words = [sys.executable, "-c", CODE.format(end=end), str(folder)]
        begun.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
    for process in begun:
        process.wait(60)
    found = subprocess.run(
        [sys.executable, "-c", AFTER, *folders], capture_output=True, text=True, timeout=60
    )
    assert dict(zip(ENDS, found.stdout.splitlines(), strict=True)) == ENDS, found.stderr
    assert not [path for folder in folders for path in folder.iterdir()], "nothing stays behind"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "vknn-exit-w").symlink_to(tmp_path / "secret")
    note = ExitNote("w", tmp_path)
    assert note.last == ""
    note.say("x")
    note.close()
    assert (tmp_path / "secret").read_text() == "secret"
