"""Steps of the kit: what is run, in which order, and for how long at most."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from processes import Task

#: Files of op tests that say most about a GPU's kernels, run before the others.
FIRST = ("convolution", "matmul", "attention", "elementwise", "pooling", "reduction")
PRECISIONS = ("fp32", "fp16")
CORES = os.cpu_count() or 1
#: Seconds of a short step, where time is parted.
SMALL = 30.0


@dataclass(frozen=True)
class Kit:
    """The unpacked kit, a folder for temporary files, and what was asked for."""

    folder: Path
    work: Path
    device: str
    networks: tuple[str, ...]
    environment: Mapping[str, str]

    def param(self, network: str) -> str:
        """The path of a network's layers."""
        return str(self.folder / "networks" / f"{network}.param")

    def weights(self, network: str) -> str:
        """The path of its weights, which the step "weights" makes up."""
        return str(self.work / f"{network}.bin")

    def child(self, module: str, *arguments: str) -> tuple[str, ...]:
        """Python's arguments that run a module of children/."""
        return (str(self.folder / "children" / f"{module}.py"), *arguments)

    def vknn(self, *arguments: str) -> tuple[str, ...]:
        """Python's arguments that run vknn with JSON as its answer."""
        return ("-m", "vknn", *arguments, "--json")

    def network(self, name: str) -> tuple[str, ...]:
        """vknn's arguments for a network."""
        shape = ",".join(map(str, network_shapes()[name]))
        model = (self.param(name), "--weights", self.weights(name), "--shape", shape)
        return (*model, "--device", self.device)


@dataclass(frozen=True)
class Step:
    """Tasks that belong together. ``seconds``: of all of them at most; ``least``: that those before
    leave to them; ``jobs``: at a time; ``weights``: whether they need those of the networks."""

    name: str
    what: str
    seconds: float
    tasks: Callable[[Kit], list[Task]]
    jobs: int = 1
    weights: bool = False
    least: float = 0.0


def network_shapes() -> dict[str, list[int]]:
    """The networks of the kit and the shapes of their inputs."""
    path = Path(__file__).resolve().parent / "networks" / "shapes.json"
    return dict(json.loads(path.read_text()))


def chosen(names: Sequence[str] | None) -> list[Step]:
    """The steps with these names (None: all), and that which makes up weights where needed."""
    found = [step for step in STEPS if names is None or step.name in names]
    return [*([WEIGHTS] if any(step.weights for step in found) else []), *found]


def seconds_for(step: Step, later: Sequence[Step], remaining: float) -> float:
    """Seconds that a step may take of those that remain, ``later`` steps being left their least,
    or where there is too little for all a part of it."""
    wanted = sum(other.least for other in later)
    own = max(step.least, SMALL)
    left = min(wanted, max(0.0, remaining) * wanted / (wanted + own))
    return min(step.seconds, remaining - left)


def _weights(kit: Kit) -> list[Task]:
    command = {n: kit.child("weights", kit.param(n), kit.weights(n)) for n in kit.networks}
    return [Task(name, command[name], 90) for name in kit.networks]


def _machine(kit: Kit) -> list[Task]:
    return [Task("machine", kit.child("report_machine"), 30)]


def _devices(kit: Kit) -> list[Task]:
    # A driver that hangs is waited for twice, and is to be told within the time of this task.
    return [Task("vknn devices", kit.vknn("devices", "--time-limit", "15"), 60)]


def _limits(kit: Kit) -> list[Task]:
    return [Task("limits", kit.vknn("bench", "--device-limits", "--device", kit.device), 60)]


def _verify(kit: Kit) -> list[Task]:
    threads = {"OPENBLAS_NUM_THREADS": str(max(1, CORES // VERIFY_JOBS))}
    return [
        Task(
            f"{n} {p}", kit.vknn("verify", *kit.network(n), "--precision", p), 90, variables=threads
        )
        for p in PRECISIONS
        for n in kit.networks
    ]


def _compare(kit: Kit) -> list[Task]:
    shapes = network_shapes()
    return [
        Task(
            name,
            kit.child(
                "compare",
                *(kit.param(name), kit.weights(name), json.dumps(shapes[name]), kit.device),
            ),
            60,
            variables={"OPENBLAS_NUM_THREADS": "1"},
        )
        for name in kit.networks
    ]


def _profile(kit: Kit) -> list[Task]:
    shapes = network_shapes()
    files = {n: (kit.param(n), kit.weights(n), json.dumps(shapes[n])) for n in kit.networks}
    return [
        Task(f"{n} {p}", kit.child("dispatches", *files[n], kit.device, p), 60)
        for p in PRECISIONS
        for n in kit.networks
    ]


def _operators(kit: Kit) -> list[Task]:
    return [
        Task(mode, kit.child("operators", kit.device, mode), 60)
        for mode in ("fp32", "fp16", "fp16-arithmetic")
    ]


def _torch(kit: Kit) -> list[Task]:
    return [Task("torch", kit.child("torch_bound"), 90, bare=True)]


def _tune(kit: Kit) -> list[Task]:
    name = "squeezenet" if "squeezenet" in kit.networks else kit.networks[0]
    apart = {"VKNN_CACHE_DIR": str(kit.work / "tuned")}
    command = kit.vknn("tune", *kit.network(name), "--runs", "3", "--timeout", "10")
    return [Task(name, command, 60, variables=apart)]


def _tests(kit: Kit) -> list[Task]:
    folder = kit.folder / "tests" / "ops"
    paths = sorted(folder.rglob("test_*.py"), key=lambda p: (p.parent.name not in FIRST, p))
    options = ("-q", "-rf", "--tb=short", "--maxfail=10", "-p", "no:cacheprovider")
    start = ("-m", "pytest", "-c", str(kit.folder / "pytest.ini"), "--rootdir", str(kit.folder))
    selected = ("-p", "pytest_timeout", "-m", "device and not slow")
    device = {} if kit.device == "auto" else {"VKNN_TEST_DEVICE": kit.device}
    return [
        Task(
            str(path.relative_to(folder)),
            (*start, *options, *selected, str(path)),
            150,
            text=True,
            variables={**device, "VKNN_TEST_REQUIRE_DEVICE": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        for path in paths
    ]


VERIFY_JOBS = max(1, min(4, CORES // 2))
WEIGHTS = Step("weights", "random weights", 120, _weights, min(4, CORES), least=120)
STEPS = (
    Step("machine", "processor, driver, versions", 30, _machine),
    Step("devices", "what vknn sees", 60, _devices),
    Step("limits", "the device's peaks", 60, _limits),
    Step("verify", "networks against NumPy", 150, _verify, VERIFY_JOBS, weights=True, least=80),
    Step("compare", "vknn and ncnn in turn", 150, _compare, weights=True, least=80),
    Step("profile", "dispatches, static beside measured", 120, _profile, weights=True, least=60),
    Step("operators", "convolutions and products alone", 90, _operators, least=40),
    Step("torch", "the same in torch with CUDA", 90, _torch, least=40),
    Step("tests", "the operators' tests", 900, _tests, max(1, min(8, CORES // 2)), least=90),
    Step("tune", "measuring the kernels", 60, _tune, weights=True, least=20),
)
