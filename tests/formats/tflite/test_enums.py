"""Numbers that are no member of their enum, and decisions that are no bool: refused when opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tflite_writer import Net, Table

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.tflite import layers as _layers  # noqa: F401 (registers the operators)
from vknn.formats.tflite.generated.layout import ENUMS
from vknn.formats.tflite.options import options_table
from vknn.formats.tflite.registry import operator_types
from vknn.session import Session

Save = Callable[[bytes], Path]
#: Every operator that vknn has with each of its options that are members of an enum.
CHOICES = [
    (code, slot)
    for code in sorted(operator_types())
    for slot in ENUMS.get(options_table(code) or "", {})
]


def test_the_fields_that_are_known() -> None:
    slots = {slot for _, slot in CHOICES}
    assert {"padding", "fused_activation_function", "mode", "combiner", "kernel_type"} <= slots
    assert ("CONV_2D", "padding") in CHOICES and ("TRANSPOSE_CONV", "padding") in CHOICES


@pytest.mark.parametrize("number", [-1, 99])
@pytest.mark.parametrize("code, slot", CHOICES, ids=[" ".join(choice) for choice in CHOICES])
def test_no_member_of_the_enum(code: str, slot: str, number: int, save: Save) -> None:
    if code == "STABLEHLO_COMPARE":
        number = abs(number) + 97  # its enums have no sign
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 2))], [net.tensor("y", (1, 2))]
    net.add(code, net.inputs, net.outputs, {slot: number})
    message = rf"operator 0 \({code}\): its {slot} is {number}; \w+ has the members 0 to \d+"
    with pytest.raises(ModelFormatError, match=message):
        Session(save(net.file()), device="numpy")


def deciding(code: str, dtype: str, shape: tuple[int, ...] = (1,)) -> Net:
    """c, x -> y by an IF of c; or by a WHILE that goes on while c."""
    net = Net()
    given = [net.tensor("c", shape, dtype), net.tensor("x", (2,))]
    branches = [net.another(), net.another()]
    for number, branch in enumerate(branches):
        inner = [branch.tensor("c", shape, dtype), branch.tensor("x", (2,))]
        branch.inputs = branch.outputs = inner
        if code == "IF":
            branch.inputs = branch.outputs = inner[1:]
        elif number == 0:
            branch.outputs = inner[:1]
    net.inputs = given
    net.outputs = [net.tensor("d", shape, dtype)] if code == "WHILE" else []
    net.outputs = [*net.outputs, net.tensor("y", (2,))]
    keys = ("then", "else") if code == "IF" else ("cond", "body")
    net.add(code, given, net.outputs, {f"{k}_subgraph_index": n for n, k in enumerate(keys, 1)})
    return net


@pytest.mark.parametrize("code", ["IF", "WHILE"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_a_condition_that_is_no_bool(code: str, dtype: str, save: Save) -> None:
    message = rf"operator 0 \({code}\) of subgraph 0: its condition is {dtype}, not bool"
    with pytest.raises(ModelFormatError, match=message):
        Session(save(deciding(code, dtype).file()), device="numpy")


def test_an_if_without_condition(save: Save) -> None:
    net = deciding("IF", "bool")
    net.operators[0].fields["inputs"] = [-1, 1]
    with pytest.raises(ModelFormatError, match="lacks its input 0"):
        Session(save(net.file()), device="numpy")


@pytest.mark.parametrize("code", ["IF", "WHILE"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_numbers_of_conditions(code: str, count: int, save: Save) -> None:
    """One decides; none or several are an error, also where the first would do."""
    net, feeds = deciding(code, "bool", (count,)), {"c": np.zeros(count, bool)}
    feeds["x"] = np.float32([1, 2])
    with Session(save(net.file()), device="numpy") as session:
        if count == 1:
            assert np.array_equal(session.run(feeds)["y"], feeds["x"])
            return
        with pytest.raises(ShapeError, match=f"has {count} conditions of bool, not one of bool"):
            session.run(feeds)


def test_the_enum_of_a_table_that_is_not_read(save: Save) -> None:
    """The options of another operator are left aside, what they hold too."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (2,))], [net.tensor("y", (2,))]
    net.add("NEG", net.inputs, net.outputs)
    net.operators[0].fields["builtin_options"] = Table("Conv2DOptions", {"padding": 9})
    with Session(save(net.file()), device="numpy") as session:
        assert session.run({"x": np.float32([1, 2])})["y"].tolist() == [-1, -2]
