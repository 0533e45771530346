"""Every version of every operator that ONNX's schemas list is computed by some test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.onnx.version_cases import CASES, Case
from tests.helpers import shared_device
from tests.onnx_vectors import FOLDER, cases, unsupported
from tests.onnx_writer import graph, model, node, save, value

from vknn import Session
from vknn.errors import VknnError
from vknn.formats.onnx.custom import known_type
from vknn.formats.onnx.loader import reachable
from vknn.formats.onnx.reader import parse_model
from vknn.graph import DType


def _file(case: Case, folder: Path) -> tuple[Path, dict[str, np.ndarray], list[str]]:
    """A model of one node, what it is fed, and the names of its outputs."""
    given = {f"x{i}": np.asarray(array) for i, array in enumerate(case.inputs)}
    fixed = {f"x{i}": given[f"x{i}"] for i in case.fixed}
    fed = {name: array for name, array in given.items() if name not in fixed}
    ends = [f"y{i}" for i in range(max(len(case.wanted), 1))]
    names = "x1" if case.name == "If" else " ".join(given)
    one = node(case.name, names, " ".join(ends), **case.attributes)
    ports = [value(name, array.shape, DType.of(array)) for name, array in fed.items()]
    body = graph([one], ports, [value(name, None) for name in ends], fixed)
    return save(model(body, case.version), folder), fed, ends


@pytest.mark.parametrize("backend", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
@pytest.mark.parametrize("case", CASES, ids=[f"{c.name}-{c.version}" for c in CASES])
def test_version(case: Case, backend: str, tmp_path: Path) -> None:
    path, fed, ends = _file(case, tmp_path)
    assert {v for name, v in versions_in(path) if name == case.name} == {case.version}
    device = "numpy" if backend == "numpy" else shared_device()
    with Session(path, device=device) as session:
        found = session.run(fed)
    if case.check is not None:
        assert case.check(found[ends[0]])
        return
    for name, wanted in zip(ends, case.wanted, strict=True):
        wanted = np.asarray(wanted)
        if wanted.dtype == np.float64:
            wanted = wanted.astype(case.inputs[-1].dtype)
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in "biu" or wanted.dtype.itemsize == 1:
            assert (found[name] == wanted).all()
        else:
            real = wanted.astype(float)
            np.testing.assert_allclose(
                found[name].astype(float), real, rtol=0, atol=case.share * abs(real).max()
            )


def versions_in(path: Path) -> set[tuple[str, int]]:
    """The operators of ONNX's own domain that a model may run, with their versions."""
    record = parse_model(path.read_bytes(), str(path))
    found = set()
    for one, imports in reachable(record):
        kind = None if one.key in record.functions else known_type(one, imports)
        if kind is not None and not kind.domain:
            found.add((one.key[1], kind.version))
    return found


@pytest.mark.long
def test_all_versions_of_the_catalogue_are_reached(shared: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    path = shared / "catalog" / "onnx.yaml"
    if not path.exists() or not cases():
        pytest.skip("no ../shared/catalog/onnx.yaml or no test vectors")
    operators = yaml.safe_load(path.read_text(encoding="utf-8"))["operators"]
    wanted = {(name, v) for name, entry in operators.items() for v in entry["versions"]}
    reached = {(c.name, c.version) for c in CASES}
    for one in cases():
        if one["id"] in unsupported():
            continue
        try:
            reached |= versions_in(FOLDER / one["id"] / "model.onnx")
        except VknnError:
            continue  # Made to be refused.
    assert len(wanted) > 600
    assert not wanted - reached
