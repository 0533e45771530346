"""Lists of labels: gaps in them, classes without a name, lists that do not fit."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.answers.readings import answered, recipe, same_place
from tests.small_model import write_small_model

from vknn.answers.labels import Labels, read_labels
from vknn.cli.main import main

GAPS = ["person", "n/a", "cat", "N/A", "dog"]


def names(labels: Labels, count: int) -> list[str | None]:
    return [labels.of(number) for number in range(count)]


def test_numbers_with_gaps() -> None:
    """A network that counts the numbers that a list leaves out, and one that does not."""
    assert names(Labels(GAPS).fitted(5), 5) == ["person", None, "cat", None, "dog"]
    assert names(Labels(GAPS).fitted(3), 3) == ["person", "cat", "dog"]
    assert names(Labels(["a", "", "b", "???"]).fitted(2), 2) == ["a", "b"]
    assert names(Labels(GAPS), 6) == ["person", None, "cat", None, "dog", None]


def test_a_background() -> None:
    """One that the list has and the network lacks, and the other way round."""
    assert names(Labels(["background", "a", "b"]).fitted(2), 2) == ["a", "b"]
    assert names(Labels(["background", "a", "b"]).fitted(3), 3) == ["background", "a", "b"]
    assert names(Labels(["a", "b"]).fitted(3, background=0), 3) == [None, "a", "b"]
    assert names(Labels(["a", "b"]).fitted(3, background=2), 3) == ["a", "b", None]
    assert names(Labels(GAPS).fitted(6, background=0), 6)[1:] == names(Labels(GAPS), 5)
    assert names(Labels(GAPS).fitted(4, background=0), 4) == [None, "person", "cat", "dog"]


def test_lists_that_do_not_fit() -> None:
    with pytest.warns(RuntimeWarning, match="2 labels, and the network has 4 classes$"):
        assert names(Labels(["a", "b"]).fitted(4), 3) == ["a", "b", None]
    with pytest.warns(RuntimeWarning, match='needs a first line "background"'):
        Labels(["a", "b"]).fitted(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not Labels().fitted(3)
        assert names(Labels({"o": ["a"], "p": ["b", "c"]}).fitted(2, "p"), 2) == ["b", "c"]


def test_every_task_fits_them() -> None:
    scores = np.float32([[0.1, 0.2, 0.9]])
    boxes = recipe("detection", boxes="b", scores="s", labels=GAPS)
    (thing,) = answered(boxes, {"b": [[0, 0, 1, 1]], "s": scores}).found
    assert thing.label == "dog"
    scored = recipe("classification", outputs=["s"], labels=GAPS)
    assert answered(scored, {"s": scores}).scores[0].label == "dog"
    mask = recipe("segmentation", map="s", labels=GAPS)
    found = answered(mask, {"s": scores.reshape(3, 1, 1)}, same_place(1, 1))
    assert found.shares[0].label == "dog"


@pytest.mark.parametrize("own", ["none", None])
def test_on_the_command_line(
    own: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_small_model(tmp_path)
    np.save(tmp_path / "x.npy", np.ones((3, 8, 8), np.float32))
    (tmp_path / "names.txt").write_text("a\nn/a\nb\nc\nn/a\nd\ne\n")
    options = ["--device", "cpu", "--labels", str(tmp_path / "names.txt"), "--json"]
    options += [] if own is None else ["--recipe", own]
    assert main(["run", str(model), str(tmp_path / "x.npy"), *options]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    assert {entry["index"]: entry["label"] for entry in output["top"]} == dict(enumerate("abcde"))


def test_cocos_list(shared: Path) -> None:
    """Of 90 numbers 80 have a name: networks count either."""
    coco = Labels(read_labels(shared / "images" / "labels" / "coco_labels_90.txt"))
    assert (coco.fitted(80).of(16), coco.fitted(90).of(17)) == ("dog", "dog")
    assert coco.fitted(91, background=0).of(18) == "dog"
