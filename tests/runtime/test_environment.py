"""The environment switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from vknn import environment
from vknn.errors import VknnError
from vknn.passes import PASSES


def test_defaults() -> None:
    found = environment.read({})
    assert found == environment.Environment()
    assert found.cache_path().name == "vknn"


def test_all_set() -> None:
    found = environment.read(
        {
            "VKNN_DEVICE": "vulkan:1",
            "VKNN_DEBUG": "3",
            "VKNN_VALIDATE": "1",
            "VKNN_DISABLE": " texel, fusion,,",
            "VKNN_TIMEOUT": "2.5",
            "VKNN_CACHE_DIR": "/somewhere",
        }
    )
    assert (found.device, found.debug, found.validate, found.timeout) == ("vulkan:1", 3, 1, 2.5)
    assert found.disabled == {"texel", "fusion"}
    assert found.cache_path() == Path("/somewhere")


def test_empty_counts_as_unset() -> None:
    assert environment.read(dict.fromkeys((s.name for s in environment.SWITCHES), "")) == (
        environment.Environment()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VKNN_DEBUG", "5"),
        ("VKNN_DEBUG", "yes"),
        ("VKNN_VALIDATE", "-1"),
        ("VKNN_TIMEOUT", "0"),
        ("VKNN_TIMEOUT", "nan"),
        ("VKNN_TIMEOUT", "soon"),
        ("VKNN_DISABLE", "texel,everything"),
    ],
)
def test_bad_value_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(VknnError, match=name):
        environment.read({name: value})


def test_every_pass_can_be_disabled() -> None:
    assert {name for name, _ in PASSES} <= environment.PARTS.keys()


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "environment.md"
    assert page.read_text() == environment.markdown()
