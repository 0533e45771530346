"""Cluster: Ray started or joined, what it offers, and how many workers that is."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vknn import __version__, environment
from vknn.errors import DeviceError, VknnError
from vknn.runtime import devices
from vknn.runtime.device_selection import choose, is_host
from vknn.scale.accelerators import offered_here
from vknn.scale.optional import ray_module
from vknn.scale.options import Predictor
from vknn.scale.ray_node import LEAST_CPUS, VULKAN
from vknn.scale.ray_noise import quiet_backend, quiet_end
from vknn.scale.ray_worker import GPU, LEASE, OWN

#: Processors of a job besides those of its workers, and of one that is taken up again.
_CPUS, _RESUMED_CPUS = 1, 3
#: Ray's own resource.
_GPU = "GPU"
#: Seconds in which the head of a cluster answers.
_ANSWER_SECONDS = 15.0
#: What a client of HTTP/2, gRPC's, says first, and the type of the frame that answers it.
_SETTINGS = b"\4"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)


@dataclass(frozen=True)
class Pool:
    """Workers of a job.

    Attributes:
        mode: How each finds its device: "gpu", "lease" or "own".
        size: How many there are.
        num_cpus: Of Ray's processors, that each holds.
        num_gpus: Of Ray's GPUs, that each holds.
        resources: Of other resources, that each holds.
    """

    mode: str
    size: int
    num_cpus: float
    num_gpus: float = 0.0
    resources: tuple[tuple[str, float], ...] = ()

    def remote_arguments(self) -> dict[str, Any]:
        """Arguments by which Ray is told of each worker."""
        found: dict[str, Any] = {"num_cpus": self.num_cpus}
        if self.num_gpus:
            found["num_gpus"] = self.num_gpus
        if self.resources:
            found["resources"] = dict(self.resources)
        return found

    def text(self, device: str) -> str:
        """The workers in words; ``device``: as asked for."""
        own = "NumPy" if is_host(device) else f"device {device!r} of its machine"
        where = {GPU: "a GPU of Ray's", LEASE: "a leased Vulkan device", OWN: own}
        share = self.num_gpus or dict(self.resources).get(VULKAN, 1.0)
        part = "" if share == 1.0 else f" ({share:g} of it each)"
        return f"{self.size} worker(s), each on {where[self.mode]}{part}"


@contextlib.contextmanager
def joined(address: str | None, is_resumed: bool = False) -> Iterator[Any]:
    """Ray, joined at an address, or started on this machine; what was started here is ended here.

    ``is_resumed``: what is started has the processors which only such a job needs besides: as many
    workers as at first find a place then. Raises VknnError.
    """
    ray = ray_module()
    if ray.is_initialized():
        if address is not None:
            raise VknnError("Ray is initialized already: leave the address out")
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with quiet_backend(), _own_answer():
            if address is not None:
                _check_answers(address)
                ray.init(address=address, logging_level="warning", log_to_driver=False)
            else:
                ray.init(
                    address="local",  # left out, it is any cluster that runs on this machine
                    num_cpus=max(LEAST_CPUS, os.cpu_count() or 1)
                    + (_RESUMED_CPUS - _CPUS if is_resumed else 0),
                    resources=local_resources(),
                    include_dashboard=False,
                    logging_level="warning",
                    log_to_driver=False,
                )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"the cluster at {address}" if address else "Ray on this machine"
        raise VknnError(f"{where} cannot be reached: {error}") from None
    with quiet_end():
        try:
            yield ray
        finally:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Check that a server of gRPC's answers at HOST:PORT, which Ray tries for minutes.

    Raises OSError for none, such as Ray's dashboard.
    """
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host or not port.isdecimal():
        return
    with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS) as there:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        there.sendall(_GREETING)
        with there.makefile("rb") as answer:
            kind = answer.read(4)[3:]
        if kind != _SETTINGS:
            raise OSError("what answers there is no head of a cluster (its port is 6379 by itself)")


@contextlib.contextmanager
def _own_answer() -> Iterator[None]:
    """Block that leaves the application's answer to SIGTERM, where there is one, as it is.

    Ray's, which it gives as it is begun, ends the process.
    """
    before = signal.getsignal(signal.SIGTERM)
    is_own = callable(before) and threading.current_thread() is threading.main_thread()
    try:
        yield
    except SystemExit as error:
        if callable(before) and is_own and error.code == signal.SIGTERM:  # Ray's answer
            before(signal.SIGTERM, None)
        raise
    finally:
        if is_own:
            signal.signal(signal.SIGTERM, before)


def local_resources() -> dict[str, float]:
    """The resource "vulkan" of this machine: how many devices it has."""
    try:
        count = len(offered_here())
    except DeviceError:  # there is no Vulkan here: workers compute with NumPy
        count = 0
    return {VULKAN: float(count)} if count else {}


def pool_for(predictor: Predictor, offers: dict[str, float]) -> Pool:
    """The workers of a predictor in a cluster.

    Args:
        predictor: What is computed.
        offers: The cluster's resources, name -> how many.

    Raises:
        vknn.DeviceError: The cluster does not offer what is asked for: the job would wait for ever.
    """
    gpus, leases = int(offers.get(_GPU, 0)), int(offers.get(VULKAN, 0))
    share = 1.0 / predictor.per_device
    if predictor.device == "gpu" or (predictor.device == "auto" and gpus):
        size = _size(predictor, gpus, "GPUs that Ray counts", 'device="vulkan" takes leased ones')
        return Pool(GPU, size, 0.0, num_gpus=share)
    if predictor.device == "vulkan" or (predictor.device == "auto" and leases):
        remedy = "`vknn batch-node` prints the options of ray start that offer them"
        size = _size(predictor, leases, 'devices as the resource "vulkan"', remedy)
        return Pool(LEASE, size, 0.0, resources=((VULKAN, share),))
    size = predictor.workers or predictor.per_device
    cpus = offers.get("CPU", 0.0)
    if size > cpus - 1:
        raise DeviceError(
            f"{size} worker(s) need a processor each and reading another one, and the cluster has "
            f"{cpus:g}: start it with more, or give fewer workers"
        )
    return Pool(OWN, size, 1.0)


def _size(predictor: Predictor, count: int, what: str, remedy: str) -> int:
    most = count * predictor.per_device
    if not count:
        raise DeviceError(f"the cluster has no {what}: {remedy}")
    if predictor.workers is not None and predictor.workers > most:
        raise DeviceError(
            f"{predictor.workers} workers are asked for, and the cluster has {count} {what}, "
            f"{predictor.per_device} worker(s) on each: {most} at most"
        )
    return predictor.workers or most


def check_schedulable(pool: Pool, offers: dict[str, float], is_resumed: bool) -> None:
    """Check that a job can go on; raises VknnError for one that would wait for ever.

    Reading, decoding and writing share a processor; a resumed job's filter holds another, and its
    listing of files a third.
    """
    cpus = offers.get("CPU", 0.0)
    least = math.ceil(pool.size * pool.num_cpus) + (_RESUMED_CPUS if is_resumed else _CPUS)
    if cpus < least:
        what = "a job that is taken up again" if is_resumed else "the job"
        raise VknnError(
            f"{what} needs {least} logical processors for its workers, reading and the filter, and "
            f"the cluster has {cpus:g}: start Ray with {least} or more (num_cpus)"
        )


@dataclass(frozen=True)
class ClusterNode:
    """A machine of the cluster as a job sees it.

    Attributes:
        name: Its host name.
        version: Version of vknn there.
        devices: Selectors of the Vulkan devices that it offers.
        error: Why there are none; empty where there are.
        missing: Why it has no device as asked for; empty where it has, or none is asked for.
    """

    name: str
    version: str
    devices: tuple[str, ...]
    error: str = ""
    missing: str = ""

    def text(self) -> str:
        """The machine in words."""
        return f"machine {self.name} ({', '.join(self.devices) or self.error})"


def look_here(selector: str = "") -> ClusterNode:
    """This machine, and whether it has the device of a selector."""
    missing = ""
    if selector:
        try:
            choose(devices(), selector, environment.read().null_device)
        except DeviceError as failed:
            missing = str(failed)
    try:
        found = offered_here()
        error = "" if found else "it has no Vulkan driver that can be used"
    except VknnError as failed:
        found, error = [], str(failed)
    return ClusterNode(platform.node(), __version__, tuple(found), error, missing)


def survey(ray: Any, mode: str, device: str) -> list[ClusterNode]:
    """The machines of the cluster that offer what workers hold. Raises VknnError for unfit ones.

    Unfit are those with another vknn, and those without a Vulkan driver. ``device``: as asked for;
    where workers look for it themselves, one machine at least has to have it.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    wanted = {GPU: _GPU, LEASE: VULKAN}.get(mode)
    alive = [node for node in ray.nodes() if node["Alive"]]
    able = [n for n in alive if wanted is None or n["Resources"].get(wanted, 0) > 0]
    look = ray.remote(num_cpus=0)(look_here)
    own = "" if mode != OWN or device == "auto" or is_host(device) else device
    asked = [
        look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(own)
        for node in able
    ]
    found = []
    for node, reference in zip(able, asked, strict=True):
        try:
            found.append(ray.get(reference))
        except ray.exceptions.TaskUnschedulableError:
            continue  # the machine went away since it was listed
        except Exception as error:  # vknn is missing there, or cannot be imported
            place = node.get("NodeManagerAddress", "?")
            text = str(error).strip().splitlines()[-1] if str(error).strip() else type(error)
            raise VknnError(f"machine {place} cannot run vknn: {text}") from None
    for machine in found:
        if machine.version != __version__:
            raise VknnError(
                f"machine {machine.name} has vknn {machine.version}, and this one {__version__}: "
                "install the same everywhere"
            )
        if mode != OWN and machine.error:
            raise DeviceError(
                f"machine {machine.name}: {machine.error}; install one there, or start its Ray "
                "without the resources that offer devices"
            )
    if found and all(machine.missing for machine in found):
        told = "; ".join(f"machine {machine.name}: {machine.missing}" for machine in found)
        raise DeviceError(f"no machine of the cluster has the device: {told}")
    return found
