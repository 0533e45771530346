"""Each operator against ONNX's own tests and what onnxruntime gave for further cases.

Cases that vknn does not support yet are listed in unsupported.txt, which tools/onnx_unsupported.py
writes; they have to raise UnsupportedLayerError, all others have to be right.
"""

from __future__ import annotations

import pytest
from tests.helpers import shared_device
from tests.onnx_vectors import FOLDER, cases, operators, problem, unsupported

from vknn.errors import UnsupportedLayerError

#: On a device every so many cases of an operator, all of them with --slow.
SAMPLED = 3


@pytest.mark.parametrize("operator", operators())
def test_operator(operator: str, backend: str, pytestconfig: pytest.Config) -> None:
    device = "numpy" if backend == "numpy" else shared_device()
    missing, problems = unsupported(), []
    own = [case for case in cases() if case["op"] == operator]
    whole = backend == "numpy" or pytestconfig.getoption("--slow")
    for case in own if whole else own[::SAMPLED]:
        try:
            text = problem(case, device)
        except UnsupportedLayerError as error:
            if case["id"] not in missing:
                problems.append(f"{case['id']}: {error}")
            continue
        if case["id"] in missing:
            text = "is supported by now: run tools/onnx_unsupported.py"
        if text:
            problems.append(f"{case['id']}: {text}")
    assert not problems, "\n".join(problems)


def test_the_vectors_are_there() -> None:
    if not cases():
        pytest.skip(f"needs the test vectors in {FOLDER}")
    assert len(cases()) > 2000
    assert unsupported() <= {case["id"] for case in cases()}
