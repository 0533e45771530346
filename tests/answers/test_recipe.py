"""Recipes: what is read, and what is refused with the file and the key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.small_model import SHAPE, write_small_model

from vknn import Session
from vknn.answers import Recipe, find_recipe
from vknn.answers.decoder import DECODERS
from vknn.answers.recipe import beside, built_in, read_recipe
from vknn.errors import VknnError
from vknn.json_file import MAX_BYTES

DETECTION = {"task": "detection", "decode": {"kind": "rows", "rows": "out"}}


def write(folder: Path, document: Any, name: str = "net.recipe.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_all_members(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat\n\ndög\n", encoding="utf-8")
    path = write(tmp_path, {
        **DETECTION, "threshold": 0.25, "iou": None, "most": 7, "labels": "names.txt",
        "input": {"name": "data", "size": [20, 10], "resize": "pad", "channels": "bgr",
                  "mean": [1, 2, 3], "std": [4], "layout": "hwc", "border": 2,
                  "multiple": 8, "longest": 99},
        "match": [{"inputs": {"data": [3, 4, 5]}, "outputs": {"out": None}, "layers": 3}],
    })  # fmt: skip
    found = Recipe.load(path)
    assert (found.name, found.task, found.threshold, found.iou, found.most) == (
        "net", "detection", 0.25, None, 7,
    )  # fmt: skip
    assert [found.labels.of(n) for n in (0, 1, 2, 3, -1)] == ["cat", None, "dög", None, None]
    options = found.options
    assert (found.input, options.size, options.resize, options.order) == (
        "data", (20, 10), "pad", "bgr",
    )  # fmt: skip
    assert (options.mean, options.std, options.layout) == ((1, 2, 3), (4,), "hwc")
    assert (options.border, options.multiple, options.longest) == (2, 8, 99)
    assert found.match[0].layers == 3
    again = Recipe.load(write(tmp_path, {**DETECTION, "input": {"size": "picture"}}))
    assert (again.options.size, again.options.own_size) == (None, True)


def test_doubles_are_removed_where_a_network_gives_them() -> None:
    def iou(**decode: Any) -> float | None:
        return read_recipe({"task": "detection", "decode": decode}, "f", Path(), "n").iou

    assert iou(kind="rows", rows="o") is None
    assert iou(kind="boxes", boxes="o") == 0.45


WRONG = [
    ({}, "task: is missing"),
    ([], "the recipe: is a list, not an object"),
    ({"task": "dance"}, "task: is 'dance', not one of"),
    ({"task": 3}, "task: is a number, not text"),
    ({"task": "detection"}, "decode.boxes: is missing"),
    ({**DETECTION, "treshold": 1}, "treshold: there is no such key here"),
    ({**DETECTION, "threshold": "high"}, "threshold: is text, not a number"),
    ({**DETECTION, "threshold": True}, "threshold: is true or false, not a number"),
    ({**DETECTION, "iou": 1.5}, "iou: is 1.5, not from 0 to 1"),
    ({**DETECTION, "most": 0}, "most: is 0, not from 1"),
    ({**DETECTION, "most": 2.5}, "most: is a number, not a whole number"),
    ({**DETECTION, "decode": {"kind": "rows"}}, "decode.rows: is missing"),
    ({**DETECTION, "decode": {"kind": "rows", "rows": ""}}, "decode.rows: is text"),
    ({**DETECTION, "decode": {"kind": "heatmaps"}}, "decode.kind: is 'heatmaps', not one of"),
    ({**DETECTION, "decode": {"kind": "rows", "rows": "o", "x": 1}}, "decode.x: there is no"),
    ({**DETECTION, "decode": None}, "decode: is null, not an object"),
    ({**DETECTION, "input": {"size": [3]}}, "size: has 1 items, not 2"),
    ({**DETECTION, "input": {"size": [3, 1e9]}}, "input.size: is"),
    ({**DETECTION, "input": {"size": [3, 2.5]}}, "input.size: is width and height"),
    ({**DETECTION, "input": {"size": [3, 0]}}, "input.size: is 0"),
    ({**DETECTION, "input": {"mean": [1, 2]}}, "input.mean: has 2 numbers, not 1 or 3"),
    ({**DETECTION, "input": {"std": [1, 0, 1]}}, "input.std: must not be 0"),
    ({**DETECTION, "input": {"resize": "squash"}}, "input.resize: is 'squash', not one of"),
    ({**DETECTION, "input": {"scale": 1}}, "input.scale: there is no such key"),
    ({**DETECTION, "labels": ["a", 3]}, "labels: is a number, not text"),
    ({**DETECTION, "labels": "../names.txt"}, r"labels: '../names.txt' leaves the folder"),
    ({**DETECTION, "labels": "/etc/passwd"}, "labels: '/etc/passwd' leaves the folder"),
    ({**DETECTION, "labels": "link.txt"}, "labels: 'link.txt' leaves the folder"),
    ({**DETECTION, "labels": "none.txt"}, "none.txt: no such file"),
    ({**DETECTION, "labels": "pipe"}, "pipe: this is no file"),
    ({**DETECTION, "labels": {"out": 3}}, "labels.out: is a number, not a list"),
    ({**DETECTION, "match": [{"inputs": {}}]}, r"match\[0\].outputs: is missing"),
    ({**DETECTION, "match": [{"inputs": [], "outputs": {}}]}, r"match\[0\].inputs: is a list"),
    ({"task": "keypoints", "decode": {"heatmaps": "o", "skeleton": [[1, 2, 3]]}},
     "skeleton: has 3 items, not 2"),
    ({"task": "keypoints", "decode": {"heatmaps": "o", "skeleton": [[1, "a"]]}},
     "skeleton: is text, not a whole number"),
    ({"task": "detection", "decode": {"kind": "priors", "boxes": "b", "scores": "s",
                                      "levels": [{"stride": 0, "sizes": [1]}]}},
     r"decode.levels\[0\].stride: is 0"),
    ({"task": "detection", "decode": {"kind": "priors", "boxes": "b", "scores": "s",
                                      "levels": [{"stride": 8, "sizes": [[1, 2, 3]]}]}},
     r"decode.levels\[0\].sizes: has 3 items"),
    ({"task": "detection", "decode": {"kind": "yolo", "coder": "v3", "outputs": ["a", "b"],
                                      "levels": [{"stride": 8, "anchors": [4]}]}},
     "decode.outputs: are 2 for 1 levels"),
    ({"task": "detection", "decode": {"kind": "post-process", "outputs": ["a"]}},
     "decode.outputs: are boxes, classes, scores and count"),
    ({"task": "detection", "decode": {"kind": "priors", "boxes": "b", "scores": "s",
                                      "levels": []}}, "decode.levels: is empty"),
    ({"task": "detection", "decode": {"kind": "yolo", "coder": "v5", "outputs": ["a"],
                                      "levels": [{"stride": 8}]}},
     r"decode.levels\[0\].anchors: is missing"),
    ({"task": "detection", "decode": {"kind": "yolo", "coder": "x", "outputs": ["a"],
                                      "levels": [{"stride": 8, "anchors": [4]}]}},
     r"decode.levels\[0\].anchors: there are none"),
    ({"task": "keypoints", "decode": {"kind": "limbs", "heatmaps": "o", "limbs": [[1, 2, 3]]}},
     "decode.limbs: has 3 items, not 4"),
    ('{"task": "detection", "task": "image"}', "two keys 'task' in an object"),
    ('{"task": ', "is no JSON"),
    ("[" * 200_000, "is no JSON"),
    ('{"task": NaN}', "task: is a number, not text"),
    (" " * (MAX_BYTES + 1), f"has more than {MAX_BYTES} bytes"),
]  # fmt: skip


@pytest.mark.parametrize("document, problem", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_with_file_and_key(
    document: Any, problem: str, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "names.txt").write_text("secret\n")
    (inside / "link.txt").symlink_to(tmp_path / "names.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(inside / "pipe")
    path = write(inside, document)
    with pytest.raises(VknnError, match=problem) as caught:
        Recipe.load(path)
    assert str(inside) in str(caught.value)


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    text = json.dumps({**DETECTION, "threshold": 1}).replace('"threshold": 1', '"threshold": NaN')
    with pytest.raises(VknnError, match="threshold: is nan"):
        Recipe.load(write(tmp_path, text))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(VknnError, match="no such file"):
        Recipe.load(tmp_path / "none.json")
    with pytest.raises(VknnError, match="this is no file"):
        Recipe.load(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VknnError, match=r"bytes\.json is no text in UTF-8"):
        Recipe.load(tmp_path / "bytes.json")


def test_recipes_lie_beside_models(tmp_path: Path) -> None:
    model = tmp_path / "net.v2-fp16.xml"
    assert beside(model) is None
    short = write(tmp_path, DETECTION, "net.v2-fp16.recipe.json")
    assert beside(model) == short
    long = write(tmp_path, DETECTION, "net.v2-fp16.xml.recipe.json")
    assert beside(model) == long
    assert beside(tmp_path / "net.param.bin") is None
    assert beside(tmp_path / "net.v2-fp16.param") == short


def test_the_recipe_beside_comes_first(tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    with Session(model, device="cpu") as session:
        found = find_recipe(session, model)
        assert found is not None
        assert (found[0].name, found[1]) == ("the model's own classification", False)
        write(tmp_path, {"task": "classification", "labels": ["a"]}, "small.recipe.json")
        found = find_recipe(session, model)
        assert found is not None
        assert (found[0].name, found[1]) == ("small", True)
        write(tmp_path, {"task": "classification", "lables": ["a"]}, "small.recipe.json")
        with pytest.raises(VknnError, match=r"small\.recipe\.json: lables: there is no such key"):
            find_recipe(session, model)


def test_signatures(tmp_path: Path) -> None:
    with Session(write_small_model(tmp_path), device="cpu") as session:

        def fits(inputs: Any, outputs: Any, layers: int | None = None) -> bool:
            document = {**DETECTION, "match": [{"inputs": inputs, "outputs": outputs}]}
            if layers is not None:
                document["match"][0]["layers"] = layers  # type: ignore[index]
            return read_recipe(document, "f", Path(), "n").match[0].fits(session.model)

        assert fits({"data": list(SHAPE)}, {"out": None}, 9)
        assert fits({"data": None}, {"out": [5]})  # nothing is known of the output's shape
        assert not fits({"data": [3, 8, 9]}, {"out": None})
        assert not fits({"data": None}, {"out": None}, 8)
        assert not fits({"data": None}, {"prob": None})
        assert not fits({"data": None, "more": None}, {"out": None})


def test_the_recipes_that_are_built_in() -> None:
    found = built_in()
    assert len({recipe.name for recipe in found}) == len(found) > 15
    assert {recipe.task for recipe in found} == set(DECODERS)
    assert all(recipe.match for recipe in found)
