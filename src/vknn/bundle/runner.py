"""Runner: bundles run by the C library ``vknn_run``, over ctypes. For tests, and where vknn's own
runtime is not wanted.

with Runner("net.vkb", library="libvknn_run.so") as runner:
    outputs = runner.run({"data": array})
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping

import numpy as np

from vknn import environment
from vknn.bundle import runner_options as options
from vknn.bundle.runner_library import (
    AXES,
    LOG,
    ContextOptions,
    Message,
    NetOptions,
    PortRecord,
    loaded,
    raise_status,
    taken,
)
from vknn.bundle.runner_port import RunnerPort, described
from vknn.bundle.schema import Direction
from vknn.errors import InputError, VknnError

_DIFFERS = 11
_MOST_RUNS = 1_000_000


class Runner:
    """A bundle opened by the C runner, with a context of its own. A context manager.

    One thread at a time may use it; :meth:`cancel` and :meth:`close`, which waits for a run, any.
    """

    def __init__(
        self,
        bundle: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | None = None,
        device: str | None = None,
        shapes: str | None = None,
        target: str | None = None,
        sha256: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        time_limit: float = 0.0,
        memory_limit: int = 0,
        robust: bool = False,
        staged: bool = False,
        threads: int = 0,
        log: Callable[[str], None] | None = None,
        beside: Runner | None = None,
    ) -> None:
        """Opening of a bundle.

        Args:
            bundle: The file, or its bytes.
            library: The library; where it is None VKNN_RUNNER names it.
            device: Its number, part of its name or its UUID in hexadecimal; None: the best.
            shapes: Which of the bundle's, "data=3,224,224"; None: the first.
            target: Which of the bundle's; None: the first that suits the device.
            sha256: In hexadecimal; another bundle is refused.
            cache: Folder for the driver's compiled pipelines; None: none is kept.
            time_limit: Seconds of a run; 0: 30.
            memory_limit: Bytes of device memory; 0: what the device says is free.
            robust: Whether shaders stay within whole arenas and blocks of weights.
            staged: Whether staging memory is used even where the device shares the host's.
            threads: That make pipelines; 0: up to four.
            log: Is told a line at a time, in any thread, what is used and what went wrong; it must
                not use the runner.
            beside: An open one, whose library, device, pipelines and equal weights are shared: then
                ``library``, ``device``, ``cache``, ``robust``, ``threads`` and ``log`` are unused.

        Raises:
            vknn.ModelFormatError: It is damaged, of a newer version, or not the one pinned.
            vknn.DeviceError: There is no driver, no such device, or none that suits.
            vknn.InputError: There are no such shapes or target, or an option is no such thing.
            vknn.VknnError: There is no library, or it is of another version, or the runner
                beside which this one is opened was closed.
        """
        self._net, self._context = ctypes.c_void_p(), ctypes.c_void_p()
        #: One call at a time, but for that of cancel(), which may not meet the net's end.
        self._lock, self._cancelling = threading.Lock(), threading.Lock()
        self._borrowed: set[str] = set()
        #: The bytes of a bundle in memory, which the net reads until it is closed.
        self._bytes = bytes(bundle) if isinstance(bundle, (bytes, bytearray, memoryview)) else None
        path = None if self._bytes is not None else options.text("bundle", bundle)
        if path == self._bytes:  # neither is there
            raise InputError("bundle=None: expected a file or its bytes")
        #: Called by the context as long as there is one, whoever opened it.
        self._log = LOG(lambda _, line: log and log(line.decode("utf-8", "replace")))
        self._is_owner = beside is None
        where = ContextOptions(
            device=options.text("device", device),
            cache=options.text("cache", cache),
            threads=options.whole("threads", threads, 1 << 31),
            robust=bool(robust),
            log=ctypes.cast(self._log, ctypes.c_void_p) if log else None,
        )
        digest = None if sha256 is None else options.digest(sha256)
        what = NetOptions(
            shapes=options.text("shapes", shapes),
            target=options.text("target", target),
            sha256=digest,
            time_limit=options.seconds(time_limit),
            memory_limit=options.whole("memory_limit", memory_limit, 1 << 63),
            staged=bool(staged),
            keeps_memory=1,
        )
        if beside is None:
            self._lib = loaded(library if library is not None else environment.runner())
            why = Message()
            create = self._lib.vknn_context_create
            code = create(ctypes.byref(where), ctypes.byref(self._context), ctypes.byref(why))
            raise_status(code, why.words)
            self._open_net(path, what)
        else:
            with beside._lock:
                beside._open()
                self._lib, self._log = beside._lib, beside._log
                self._context = ctypes.c_void_p(beside._context.value)
                self._open_net(path, what)
        self.inputs = self._ports(Direction.INPUT)
        self.outputs = self._ports(Direction.OUTPUT)

    @staticmethod
    def devices(library: str | os.PathLike[str] | None = None) -> str:
        """Devices, a line each: number, name, kind, UUID, driver.

        Raises DeviceError where there is no driver.
        """
        lib = loaded(library if library is not None else environment.runner())
        found, why = ctypes.c_void_p(), Message()
        raise_status(lib.vknn_devices(None, ctypes.byref(found), ctypes.byref(why)), why.words)
        return taken(lib, found)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lib"):
            self.close()

    @property
    def device(self) -> str:
        """Name of the device."""
        with self._lock:
            self._open()
            return str(self._lib.vknn_context_device(self._context).decode("utf-8", "replace"))

    @property
    def memory(self) -> int:
        """Bytes of device memory in use, weights among them."""
        with self._lock:
            self._open()
            return int(self._lib.vknn_net_memory(self._net))

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs for inputs, by name; an input that was borrowed may be left out.

        Raises InputError for inputs that are missing, unknown or do not fit, DeviceTimeoutError,
        DeviceLostError, OutOfMemoryError, RunCancelledError.
        """
        with self._lock:
            self._open()
            if not isinstance(feeds, Mapping):
                raise InputError(f"inputs are {type(feeds).__name__}, expected arrays by name")
            left = [n for n in self.inputs if n not in feeds and n not in self._borrowed]
            if left:
                raise InputError(f"missing input {', '.join(map(repr, left))}")
            for name, array in feeds.items():
                self._set(name, array)
            self._check(self._lib.vknn_run(self._net))
            return {name: self._get(port) for name, port in self.outputs.items()}

    def set(self, name: str, array: np.ndarray) -> None:
        """An input's elements, for :meth:`submit`. Raises InputError where they do not fit."""
        with self._lock:
            self._open()
            self._set(name, array)

    def get(self, name: str) -> np.ndarray:
        """An output of the last run. Raises InputError where there is no such output."""
        with self._lock:
            self._open()
            return self._get(self._port(name, Direction.OUTPUT))

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of an output: behind a run those that it had, where they depend on data.

        Raises InputError where there is no such output.
        """
        with self._lock:
            self._open()
            return self._shape(self._port(name, Direction.OUTPUT))

    def submit(self) -> None:
        """A run begun, with what the inputs hold; :meth:`wait` ends it."""
        self._call(self._lib.vknn_submit)

    def wait(self) -> None:
        """The end of a run. Raises as :meth:`run`."""
        self._call(self._lib.vknn_wait)

    def cancel(self) -> None:
        """A wait, in another thread, ended soon."""
        with self._cancelling:
            if self._net:
                self._lib.vknn_cancel(self._net)

    def reset(self) -> None:
        """State takes its first values again."""
        self._call(self._lib.vknn_reset)

    def borrow(self, name: str, side: str | None = None) -> np.ndarray:
        """The memory of an input or output itself, as an array of its shape.

        It must not be touched while a run is under way, or after :meth:`close`. It keeps the
        runner alive. ``side``: "input" or "output"; None: the input where there is one of that
        name. Raises InputError for another side, or where there is no such port.
        """
        if side not in (None, "input", "output"):
            raise InputError(f'side={side!r}: expected "input" or "output"')
        with self._lock:
            self._open()
            is_input = name in self.inputs if side is None else side == "input"
            direction = Direction.INPUT if is_input else Direction.OUTPUT
            port = self._port(name, direction)
            data, size = ctypes.c_void_p(), ctypes.c_size_t()
            ends = (ctypes.byref(data), ctypes.byref(size))
            code = self._lib.vknn_borrow(self._net, int(direction), name.encode(), *ends)
            self._check(code)
            if is_input:
                self._borrowed.add(name)
            if not size.value:
                return np.zeros(port.shape, port.dtype)
            assert data.value is not None
            raw = (ctypes.c_uint8 * size.value).from_address(data.value)
            raw.runner = self  # type: ignore[attr-defined]
            return np.frombuffer(memoryview(raw), port.dtype).reshape(port.shape)

    def test(self) -> tuple[bool, str]:
        """The bundle's example run: whether it is within its tolerances, and a line an output.

        Raises InputError where the bundle has none.
        """
        with self._lock:
            self._open()
            text = ctypes.c_void_p()
            code = self._lib.vknn_test(self._net, ctypes.byref(text))
            told = taken(self._lib, text)
            if code != _DIFFERS:
                self._check(code)
            return code == 0, told

    def test_json(self) -> str:
        """The same as :meth:`test` as JSON, with device, driver and plan (docs/files.md).

        That the example differs, or cannot run, stands in it and is not raised. Raises
        OutOfMemoryError where there is no memory for it.
        """
        with self._lock:
            self._open()
            text = ctypes.c_void_p()
            code = self._lib.vknn_test_json(self._net, ctypes.byref(text))
            told = taken(self._lib, text)
            if not told:
                self._check(code)
            return told

    def profile(self, runs: int = 10) -> str:
        """Times of each step as JSON, the means of so many runs, for ``vknn report``.

        Raises DeviceError where the device has no timestamps, InputError for no or absurd runs.
        """
        count = options.whole("runs", runs, _MOST_RUNS, least=1)
        with self._lock:
            self._open()
            text = ctypes.c_void_p()
            code = self._lib.vknn_profile(self._net, count, ctypes.byref(text))
            told = taken(self._lib, text)
            self._check(code)
            return told

    def entry(self, name: str) -> tuple[Callable[[ctypes.c_void_p], int], ctypes.c_void_p]:
        """A function of the library that takes a net alone, and the net: for measurements."""
        self._open()
        return getattr(self._lib, name), self._net

    def close(self) -> None:
        """Release of everything; may be called twice. Waits for a run in another thread."""
        with self._lock:
            with self._cancelling:
                net, self._net = self._net, ctypes.c_void_p()
            context, self._context = self._context, ctypes.c_void_p()
            if net:
                self._lib.vknn_net_close(net)
            if context and self._is_owner:
                self._lib.vknn_context_destroy(context)

    def _set(self, name: str, array: np.ndarray) -> None:
        dense = self._port(name, Direction.INPUT).encoded(array)
        source = dense.ctypes.data_as(ctypes.c_void_p)
        self._check(self._lib.vknn_set(self._net, name.encode(), source, dense.nbytes))

    def _get(self, port: RunnerPort) -> np.ndarray:
        array = np.empty(self._shape(port), port.dtype)
        target = array.ctypes.data_as(ctypes.c_void_p)
        self._check(self._lib.vknn_get(self._net, port.name.encode(), target, array.nbytes))
        return array

    def _shape(self, port: RunnerPort) -> tuple[int, ...]:
        if not port.is_open:
            return port.shape
        dims = (ctypes.c_uint64 * AXES)()
        self._check(self._lib.vknn_shape(self._net, port.name.encode(), dims))
        return tuple(dims[: len(port.shape)])

    def _port(self, name: str, direction: Direction) -> RunnerPort:
        ports = self.inputs if direction is Direction.INPUT else self.outputs
        if name not in ports:
            kind = direction.name.lower()
            raise InputError(f"there is no {kind} {name!r}; there are {', '.join(ports) or 'none'}")
        return ports[name]

    def _ports(self, direction: Direction) -> dict[str, RunnerPort]:
        found = {}
        for number in range(self._lib.vknn_ports(self._net, int(direction))):
            record = PortRecord()
            code = self._lib.vknn_describe(self._net, int(direction), number, ctypes.byref(record))
            self._check(code)
            port = described(self._lib, self._net, record)
            found[port.name] = port
        return found

    def _call(self, function: Callable[[ctypes.c_void_p], int]) -> None:
        with self._lock:
            self._open()
            self._check(function(self._net))

    def _check(self, code: int) -> None:
        if code:
            raise_status(code, self._lib.vknn_net_message(self._net).decode("utf-8", "replace"))

    def _open_net(self, path: bytes | None, what: NetOptions) -> None:
        """Opening of the file, or of the bytes, in the context."""
        why = Message()
        more = (ctypes.byref(what), ctypes.byref(self._net), ctypes.byref(why))
        if self._bytes is None:
            code = self._lib.vknn_net_open_file(self._context, path, *more)
        else:
            size = len(self._bytes)
            code = self._lib.vknn_net_open_memory(self._context, self._bytes, size, *more)
        if code:
            self.close()
        raise_status(code, why.words)

    def _open(self) -> None:
        if not self._net:
            raise VknnError("the runner was closed")
