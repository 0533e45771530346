"""Reading ahead: items made by a thread while others are worked on."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


def read_ahead(items: Iterable[_T], count: int) -> Generator[_T, None, None]:
    """The items, made by a thread that is so many ahead; its error comes in its place."""
    made: queue.Queue[tuple[str, Any]] = queue.Queue(count)
    stop = threading.Event()

    def put(entry: tuple[str, Any]) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                made.put(entry, timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                put(("item", item))
                if stop.is_set():
                    return
            put(("end", None))
        except BaseException as error:
            put(("error", error))

    thread = threading.Thread(target=work, name="vknn-read", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = made.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stop.set()
        thread.join()
