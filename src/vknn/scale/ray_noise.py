"""Noise of Ray on stderr, which a job keeps to what its user can do something about."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator

from vknn.scale.optional import ray_module

_BACKEND = "RAY_BACKEND_LOG_LEVEL"
#: Where it is there, Ray logs no errors of tasks that nobody waits for any more.
_UNHANDLED = "RAY_IGNORE_UNHANDLED_ERRORS"
#: Says that there are no bars, as a warning.
_PROGRESS = "ray.data._internal.progress"
#: Says whether processes of others can get at Ray.
_TOKENS = "ray._private.authentication.authentication_token_setup"
#: Begin of a warning that a job is so small that not all workers have some of it.
_FEW = "The minimum number of concurrent actors"


@contextlib.contextmanager
def quiet_backend() -> Iterator[None]:
    """Block in which Ray is begun, without what it says of itself."""
    with _quiet_tokens(), _quiet_native():
        yield


@contextlib.contextmanager
def quiet_end() -> Iterator[None]:
    """Block in which Ray does not log the errors of tasks that a job which is stopped gave up."""
    if _UNHANDLED in os.environ:
        yield
        return
    os.environ[_UNHANDLED] = "1"
    try:
        yield
    finally:
        os.environ.pop(_UNHANDLED, None)


@contextlib.contextmanager
def _quiet_tokens() -> Iterator[None]:
    """Block in which Ray does not warn that it asks its own processes for a token."""
    log = logging.getLogger(_TOKENS)
    log.addFilter(_is_no_token)
    try:
        yield
    finally:
        log.removeFilter(_is_no_token)


@contextlib.contextmanager
def _quiet_native() -> Iterator[None]:
    """Block in which Ray's native part says fatal errors only, unless the user wants more.

    It calls it an error that each pool of actors has arguments in the object store, as Ray Data's
    always have. That it is to be quiet it says, too.
    """
    if _BACKEND in os.environ:
        yield
        return
    os.environ[_BACKEND] = "fatal"
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as told:
        os.dup2(told.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            os.environ.pop(_BACKEND, None)
            told.seek(0)
            os.write(2, b"".join(line for line in told if _BACKEND.encode() not in line))


@contextlib.contextmanager
def quiet_data() -> Iterator[None]:
    """Block in which Ray Data says warnings only, and draws its bars on terminals alone.

    What it writes to its log file stays. Its errors are tracebacks of what ends the job, which an
    exception tells, too.
    """
    context = ray_module("ray.data").DataContext.get_current()
    shown = [h for h in logging.getLogger("ray.data").handlers if _is_console(h)]
    log = logging.getLogger(_PROGRESS)
    levels = [handler.level for handler in shown]
    bars = context.enable_progress_bars
    for handler in shown:
        handler.setLevel(max(handler.level, logging.WARNING))
        handler.addFilter(_is_no_error)
    level = log.level
    log.setLevel(logging.ERROR)
    context.enable_progress_bars = bars and sys.stderr.isatty()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_FEW)
            yield
    finally:
        context.enable_progress_bars = bars
        log.setLevel(level)
        for handler, own in zip(shown, levels, strict=True):
            handler.setLevel(own)
            handler.removeFilter(_is_no_error)


def _is_console(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(
        handler, logging.FileHandler
    )


def _is_no_token(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Token authentication is enabled")


def _is_no_error(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR
