"""Child of a program that runs a job on Ray: Ray ends processes that are joined to what is gone."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from typing import Any

from vknn.errors import VknnError
from vknn.forked_work import end_with_parent, signal_name
from vknn.host_memory import peak_memory
from vknn.scale.job_run import TELL_SECONDS
from vknn.scale.layout import JobLayout
from vknn.scale.on_ray import RayRun
from vknn.scale.outcome import JobError, Outcome

#: What a child does first: it finds modules where its parent finds them.
_BEGIN = (
    "import sys; from multiprocessing.connection import Connection; "
    "pipe = Connection(int(sys.argv[1])); sys.path[:] = pipe.recv(); "
    "from vknn.scale.ray_child import be; be(pipe)"
)
_AGAIN = "run it again, which takes it up where it was"
#: What Ray ends a process for without a word.
_GONE = "Ray's own processes on this machine or the head of its cluster are gone"
#: Seconds in which a job that is told to ends in order.
_STOP_SECONDS = 30.0
_LAYOUT, _TOLD, _ERROR, _DONE = "layout", "told", "error", "done"
#: What a process does that tells of another's end: it waits for a letter.
_WITNESS = "import sys; sys.stdin.read(1) or sys.stderr.write(sys.argv[1] + chr(10))"


def run_beside(run: RayRun, remember: Callable[[JobLayout], None]) -> None:
    """:meth:`RayRun.run` in a child, whose mute end is a JobError here.

    Where this process is joined to Ray already, Ray ends it: then another one says so.
    """
    ray = sys.modules.get("ray")
    is_joined = ray is not None and ray.is_initialized()
    if os.name != "posix" or not sys.executable:
        run.run(remember)
    elif is_joined:
        with _witnessed():
            run.run(remember)
    else:
        with _Child(run, remember) as child:
            child.follow()


class _Child:
    """A child that does a run. A context manager, at whose end there is none."""

    def __init__(self, run: RayRun, remember: Callable[[JobLayout], None]) -> None:
        self._run, self._remember = run, remember

    def __enter__(self) -> _Child:
        self._pipe, there = Pipe()
        with there:
            # Ctrl-C comes to this process alone, which tells the child.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN, str(there.fileno())],
                stdin=subprocess.DEVNULL, pass_fds=(there.fileno(),), start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
                with contextlib.suppress(EOFError, OSError):
                    while self._pipe.poll(_STOP_SECONDS):
                        self._take()
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:  # a second Ctrl-C leaves at once
            self._process.kill()
            self._process.wait()
            self._pipe.close()

    def follow(self) -> None:
        """What the child tells, up to its end. Raises its error, and JobError where it had none."""
        self._send(sys.path)
        self._send(replace(self._run, tell=None))
        while True:
            kind, told = self._next()
            if kind == _LAYOUT:
                self._remember(told)
            elif kind == _ERROR:
                raise told from None
            elif kind == _DONE:
                return
            elif self._run.tell is not None:
                with contextlib.suppress(Exception):
                    self._run.tell(self._run.outcome)

    def _send(self, what: Any) -> None:
        try:
            self._pipe.send(what)
        except OSError:
            raise self._mute_end() from None

    def _next(self) -> tuple[str, Any]:
        """The next message; the folder may be another job's before there is one."""
        try:
            while not self._pipe.poll(TELL_SECONDS):
                if self._run.folder.lost:
                    raise JobError(self._run.folder.lost)
            return self._take()
        except (EOFError, OSError):
            raise self._mute_end() from None

    def _take(self) -> tuple[str, Any]:
        """A message of the child's; what it knows of the job is known here then."""
        kind, told, outcome, stacked = self._pipe.recv()
        vars(self._run.outcome).update(vars(outcome))
        self._run.stacked.update(stacked)
        if kind in (_ERROR, _DONE):
            self._process.wait()
        return kind, told

    def _mute_end(self) -> JobError:
        """The error of a child that ended without one. What was written counts."""
        code = self._process.wait()
        with contextlib.suppress(VknnError):
            self._run.recount()
        if code >= 0:
            return JobError(f"Ray ended the process of the job: {_GONE}; {_AGAIN}")
        return JobError(f"the process of the job was ended by {signal_name(code)}; {_AGAIN}")


def be(pipe: Connection) -> None:
    """The work of a child, which ends with its parent."""
    end_with_parent()
    # A shell's background begins programs deaf to it; here it is the parent's word.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout = sys.stderr  # Ray tells there of workers that died
    run: RayRun = pipe.recv()

    def tell(kind: str, told: Any) -> None:
        run.outcome.peak = max(run.outcome.peak, peak_memory())
        pipe.send((kind, told, run.outcome, run.stacked))

    def tell_progress(_: Outcome) -> None:
        tell(_TOLD, None)

    run.tell = tell_progress
    try:
        run.run(lambda layout: tell(_LAYOUT, layout))
    except BaseException as error:
        tell(_ERROR, _portable(error))
    else:
        tell(_DONE, None)


def _portable(error: BaseException) -> BaseException:
    """The error, or one of its text where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # some take other arguments than they keep
        text = " ".join(str(error).split())
        kind = "" if isinstance(error, VknnError) else f"{type(error).__name__}: "
        return VknnError(f"{kind}{text}")
    return error


@contextlib.contextmanager
def _witnessed() -> Iterator[None]:
    """Block of which another process tells on stderr if this one ends in it."""
    text = (
        "vknn: the process of the job ended before the job did. Ray ends it so where "
        f"{_GONE}: {_AGAIN}"
    )
    witness = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WITNESS, text],
        stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            witness.communicate(b".")
