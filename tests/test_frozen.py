"""Modules without specialization constants compute what those with them do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests import frozen
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.runtime.spirv import words

SPECIAL = {
    *(words.SPEC_CONSTANT, words.SPEC_CONSTANT_TRUE, words.SPEC_CONSTANT_FALSE),
    *(words.SPEC_CONSTANT_OP, frozen.SPEC_CONSTANT_COMPOSITE),
}


def special(session: vknn.Session, x: np.ndarray) -> int:
    """Specialization constants in the modules of a session's pipelines."""
    program = session._engine.program({"data": x})
    modules = [m for s in program.segments for m in s.executable.modules()]
    code = [np.frombuffer(module, np.uint32).tolist() for module in modules]
    return sum(len([*words.instructions(each, SPECIAL)]) for each in code)


@pytest.mark.device
@pytest.mark.parametrize("disable", ["", "winograd"])
def test_the_same_results(disable: str, tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    with vknn.Session(model, device="vulkan", disable=disable) as session:
        wanted = session.run({"data": x})
        assert special(session, x) > 20
    with frozen.instead(), vknn.Session(model, device="vulkan", disable=disable) as session:
        found = session.run({"data": x})
        assert special(session, x) == 0
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
