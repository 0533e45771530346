"""The table of layer types, and numbers of inputs and outputs."""

from __future__ import annotations

import pytest

from vknn.formats.layer_context import LayerContext
from vknn.formats.layer_table import LayerTable, LayerType
from vknn.graph import Value


def first(c: LayerContext) -> Value:
    return c.x


def test_names_and_aliases() -> None:
    table: LayerTable[LayerType[LayerContext]] = LayerTable(ignore_case=True)
    assert table.register("ReLU", "Relu6", inputs=2)(first) is first
    for name in ("relu", "RELU6"):
        found = table.get(name)
        assert found is not None and found.name == "ReLU" and found.inputs == (2, 2)
    assert table.get("elu") is None
    assert list(table.all()) == ["ReLU"]
    with pytest.raises(ValueError, match="layer relu6 is registered twice"):
        table.register("Elu", "relu6")(first)


def test_case_matters_by_default() -> None:
    table: LayerTable[LayerType[LayerContext]] = LayerTable()
    table.register("add")(first)
    table.register("Add")(first)
    assert set(table.all()) == {"add", "Add"}
    assert table.get("ADD") is None


@pytest.mark.parametrize(
    ("inputs", "outputs", "problem"),
    [
        (1, 1, None),
        (3, 5, None),
        (0, 1, "takes 1 to 3 inputs, not 0"),
        (4, 1, "takes 1 to 3 inputs, not 4"),
        (1, 0, "takes 1 or more outputs, not 0"),
    ],
)
def test_arity(inputs: int, outputs: int, problem: str | None) -> None:
    table: LayerTable[LayerType[LayerContext]] = LayerTable()
    table.register("a", inputs=(1, 3), outputs=(1, None))(first)
    found = table.get("a")
    assert found is not None and found.arity_problem(inputs, outputs) == problem
