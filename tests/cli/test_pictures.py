"""Pictures of all kinds, as users have them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cli.test_cli import run

from vknn.answers.looking import input_hint
from vknn.errors import InputError
from vknn.formats import TensorSpec
from vknn.pictures import (
    ImageOptions,
    UnreadableFileError,
    open_picture,
    open_pictures,
    picture_array,
    placed,
)

Image = pytest.importorskip("PIL.Image")

#: Copies its input: what a picture becomes is the output.
PARAM = "7767517\n2 2\nInput data 0 1 data\nNoop out 1 1 data out\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "copy.param"
    path.write_text(PARAM)
    path.with_suffix(".bin").write_bytes(b"")
    return path


def array_of(path: Path, **options: object) -> np.ndarray:
    return picture_array(open_picture(path), None, ImageOptions(**options))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "P"])
def test_what_is_transparent_lies_on_white(mode: str, tmp_path: Path) -> None:
    pixels = np.zeros((3, 5, 4), np.uint8)
    pixels[:, :2] = (10, 10, 10, 255)
    pixels[:, 2:] = (99, 0, 0, 0)  # whatever colour is below, nobody sees it
    path = tmp_path / "picture.png"
    Image.fromarray(pixels, "RGBA").convert(mode if mode != "PA" else "RGBA").save(path)
    found = array_of(path)
    assert found.shape == (3, 3, 5)
    assert found[:, :, 2:].min() == 255
    assert abs(found[:, :, :2] - 10).max() <= 1
    assert array_of(path, order="gray")[0, 0].tolist() == pytest.approx([10, 10, 255, 255, 255])


def test_pixels_of_16_bits_are_scaled(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.array([[0, 257 * 7, 65535]], np.uint16)).save(path)
    assert array_of(path)[0].tolist() == [[0, 7, 255]]


@pytest.mark.parametrize("mode", ["1", "L", "CMYK", "YCbCr"])
def test_other_modes(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.tiff"
    Image.new("RGB", (4, 3), (255, 255, 255)).convert(mode).save(path)
    found = array_of(path)
    assert found.shape == (3, 3, 4)
    assert found.min() >= 254


def test_floating_point_pixels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "float.tiff"
    Image.fromarray(np.ones((3, 2), np.float32)).save(path)
    with pytest.raises(UnreadableFileError, match=r"float\.tiff: .* floating-point .* \.npy"):
        open_picture(path)


def test_pictures_are_turned_as_exif_says(tmp_path: Path) -> None:
    picture = Image.new("RGB", (5, 3), (0, 0, 0))
    picture.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    path = tmp_path / "turned.png"
    picture.save(path, exif=exif)
    found = array_of(path)
    assert found.shape == (3, 5, 3)
    assert found[0, 0].tolist() == [0, 0, 255]


def animated(path: Path, count: int = 3) -> Path:
    frames = [Image.new("RGB", (4, 3), (40 * n, 0, 0)) for n in range(count)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=50)
    return path


@pytest.mark.parametrize("ending", ["gif", "png", "webp", "tiff"])
def test_frames_come_one_by_one(ending: str, tmp_path: Path) -> None:
    path = animated(tmp_path / f"moving.{ending}")
    found = [np.asarray(p.convert("RGB"))[0, 0, 0] for p in open_pictures(path)]
    assert np.abs(np.array(found, int) - [0, 40, 80]).max() <= 3
    with pytest.raises(InputError, match="several pictures: vknn run MODEL"):
        open_picture(path)


def test_a_telephones_pictures_are_one(tmp_path: Path) -> None:
    path = tmp_path / "phone.jpg"
    frames = [Image.new("RGB", (4, 3), (n, 0, 0)) for n in (200, 0)]
    frames[0].save(path, format="MPO", save_all=True, append_images=frames[1:])
    with Image.open(path) as file:
        assert file.n_frames == 2
    assert open_picture(path).getpixel((0, 0))[0] > 190


@pytest.mark.parametrize("size", [(1, 1), (7, 2), (2, 7), (301, 1)])
@pytest.mark.parametrize("how", ["stretch", "crop", "pad"])
def test_places_lead_back(how: str, size: tuple[int, int]) -> None:
    """The corners of the picture, from the input to the picture and back."""
    place = placed(size, (13, 11), how)
    corners = np.array([(0.0, 0.0), size])
    there = place.to_input(corners)
    assert np.allclose(place.to_picture(there), corners)
    inner = there.clip(0, (13, 11))
    if how == "crop":
        assert np.allclose(inner, [(0, 0), (13, 11)])
    else:
        assert np.allclose(inner, there)
    array, found = picture_array(
        Image.new("RGB", size, (9, 9, 9)), None, ImageOptions(size=(13, 11), resize=how)
    )
    assert array.shape == (3, 11, 13)
    assert found == place


def test_pad_puts_the_picture_where_it_says() -> None:
    array, place = picture_array(
        Image.new("RGB", (10, 5), (200, 0, 0)), None, ImageOptions(size=(20, 20), resize="pad")
    )
    assert (place.scale, place.offset) == ((2, 2), (0, 5))
    assert array[0, 5:15].min() == 200
    assert array[0, :5].max() == array[0, 15:].max() == 0


def test_border_multiple_and_longest() -> None:
    picture = Image.new("RGB", (50, 20), (3, 4, 5))
    array, place = picture_array(picture, None, ImageOptions(multiple=16, longest=40))
    assert array.shape == (3, 16, 48)
    assert place.size == (48, 16)
    array, place = picture_array(picture, (3, 9, 9), ImageOptions(own_size=True))
    assert array.shape == (3, 20, 50)
    array, place = picture_array(picture, None, ImageOptions(border=2))
    assert array.shape == (3, 24, 54)
    assert place.size == (50, 20)


def test_a_line_for_each_frame_and_for_each_picture(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    animated(folder / "b.gif")
    Image.new("RGB", (4, 3), (7, 7, 7)).save(folder / "A.PNG")
    (folder / "a.svg").write_text("<svg/>")
    (folder / "notes.txt").write_text("none")
    (folder / ".hidden.png").write_text("none")
    (folder / "inner").mkdir()
    code, out, err = run(capsys, "run", model, folder, "--device", "cpu", "--json")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(Path(e["file"]).name, e.get("frame")) for e in found] == [
        ("A.PNG", None), ("b.gif", 0), ("b.gif", 1), ("b.gif", 2),
    ]  # fmt: skip
    assert [e["outputs"][0]["max"] for e in found] == pytest.approx([7, 0, 40, 80], abs=3)
    _, out, _ = run(capsys, "run", model, folder, "--device", "cpu")
    assert out.splitlines()[2].startswith(f"{folder / 'b.gif'}#1: out float32[3, 3, 4]")


def test_a_damaged_one_of_several_is_told(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    for name in ("a.png", "c.png"):
        Image.new("RGB", (4, 3)).save(tmp_path / name)
    bad = tmp_path / "b.png"
    bad.write_bytes((tmp_path / "a.png").read_bytes()[:40])
    code, out, err = run(capsys, "run", model, tmp_path, "--device", "cpu")
    assert code == 2
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        str(tmp_path / "a.png"), str(tmp_path / "c.png"),
    ]  # fmt: skip
    assert err.startswith(f"vknn: error: {bad} is neither .npy, .npz nor a picture")
    assert len(err.splitlines()) == 1
    code, out, err = run(capsys, "run", model, bad, "--device", "cpu")
    assert (code, out) == (2, "")


def test_videos_are_told_what_to_do(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cat.mp4"
    path.write_bytes(b"\0\0\0\x18ftypmp42")
    code, _, err = run(capsys, "run", model, path, "--device", "cpu")
    assert code == 2
    assert "is a video" in err
    assert "ffmpeg -i cat.mp4 FOLDER/%05d.png" in err


def test_means_stds_and_bgr(
    capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (2, 3), (10, 20, 30)).save(path)
    target = tmp_path / "out.npz"
    options = ("--mean", "1,2,3", "--std", "1,2,4", "--channels", "bgr")
    argv = ("run", model, "--input", path, "--device", "cpu", "--output", target, *options)
    assert run(capsys, *argv)[0] == 0
    with np.load(target) as found:
        assert found["out"][:, 0, 0].tolist() == [29, 9, 1.75]


@pytest.mark.parametrize(
    "shape, hint, expected",
    [
        ((None, None, None, 3), (1, 1, 1, 3), (None, None, None, 3)),  # TensorFlow Lite, all free
        ((1, None, None, 1), (1, 1, 1, 1), (1, None, None, 1)),
        ((None, 6, 8, 3), (1, 6, 8, 3), (None, 6, 8, 3)),
        ((None, None, 3), (20, 30, 3), (20, 30, 3)),  # Core ML's default size
        (None, (3, 227, 227), (3, 227, 227)),  # ncnn
    ],
)
def test_free_sides_are_those_of_the_picture(
    shape: tuple[int | None, ...] | None, hint: tuple[int, ...], expected: tuple[int | None, ...]
) -> None:
    spec = TensorSpec("x", shape, np.dtype(np.float32))
    session = SimpleNamespace(model=SimpleNamespace(shape_hints={"x": hint}))
    found = input_hint(session, spec)  # type: ignore[arg-type]
    assert found == expected
    if shape is not None and shape[-1] == 3 and None in expected[1:]:
        array, _ = picture_array(Image.new("RGB", (7, 5)), found, ImageOptions())
        assert array.shape == (5, 7, 3)  # channels last, in the picture's own size
