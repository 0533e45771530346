"""Child: the worker process, seen from its parent."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

from vknn.tuning.worker import HEAD

#: Seconds that a worker has to end by itself.
EXIT_SECONDS = 10.0


class ChildError(Exception):
    """The worker died or did not answer; the text says which.

    ``code``: its exit code as of subprocess, None where it did not answer.
    """

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class Child:
    """A worker. Not usable any more once :meth:`ask` has raised.

    ``module``: its ``main`` is what the process does. ``variables``: of its environment, besides
    those of this process.
    """

    def __init__(
        self, module: str = "vknn.tuning.worker", variables: Mapping[str, str] | None = None
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        # The parent's own path, so that classes of its modules can be unpickled.
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {module} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **(variables or {}), "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        )
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, request: Any, timeout: float) -> dict[str, Any]:
        """The answer; raises ChildError where none comes within ``timeout`` seconds."""
        assert self._process.stdin is not None
        try:
            raw = pickle.dumps(request)
        except Exception as error:  # an op of the user's own may be of any kind
            return {"failed": f"the problem cannot be handed over: {error}"}
        try:
            self._process.stdin.write(HEAD.pack(len(raw)) + raw)
            self._process.stdin.flush()
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise ChildError(f"no answer within {timeout:g} s") from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise ChildError(self._exit_report(), self._process.returncode)
        return dict(json.loads(line))

    def close(self) -> None:
        """End of the process; it writes its pipeline cache on the way out."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End of the process now."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._errors):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put(None)

    def _exit_report(self) -> str:
        """How the process ended, with the last line that it printed."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self.kill()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        with contextlib.suppress(ValueError):
            how = signal.Signals(-code).name
        return f"the process died: {how}" + (f" ({lines[-1].strip()})" if lines else "")
