"""Arrays and pictures from files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from vknn.cli.inputs import ImageOptions, read_input
from vknn.errors import InputError, VknnError

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """4 wide, 2 high: red left, blue right."""
    pixels = np.zeros((2, 4, 3), np.uint8)
    pixels[:, :2, 0] = 200
    pixels[:, 2:, 2] = 100
    path = tmp_path / "picture.png"
    Image.fromarray(pixels).save(path)
    return path


def read(path: Path, hint: tuple[int, ...] | None = None, **options: object) -> np.ndarray:
    return read_input(path, "data", hint, ImageOptions(**options))  # type: ignore[arg-type]


def test_a_picture_is_channels_height_width_in_rgb(picture: Path) -> None:
    array = read(picture)
    assert array.shape == (3, 2, 4)
    assert array.dtype == np.float32
    assert array[:, 0, 0].tolist() == [200, 0, 0]
    assert array[:, 0, 3].tolist() == [0, 0, 100]


def test_mean_std_and_order(picture: Path) -> None:
    array = read(picture, order="bgr", mean=(10.0, 20.0, 30.0), std=(2.0, 1.0, 4.0))
    assert array[:, 0, 0].tolist() == [-5, -20, 42.5]
    one = read(picture, mean=(100.0,), std=(100.0,))
    assert one[:, 0, 0].tolist() == [1, -1, -1]
    assert read(picture, layout="hwc").shape == (2, 4, 3)


def test_gray_where_the_model_has_one_channel(picture: Path) -> None:
    assert read(picture, hint=(1, 2, 4)).shape == (1, 2, 4)
    assert read(picture, order="gray")[0, 0, 0] == pytest.approx(200 * 0.299, abs=1)


@pytest.mark.parametrize("hint", [(3, 6, 8), (1, 3, 6, 8)])
def test_the_size_that_the_model_asks_for(picture: Path, hint: tuple[int, ...]) -> None:
    assert read(picture, hint=hint).shape == (3, 6, 8)
    assert read(picture, hint=hint, size=(5, 4)).shape == (3, 4, 5)


def test_crop_and_pad_keep_proportions(picture: Path) -> None:
    crop = read(picture, size=(2, 2), resize="crop")
    assert crop[:, 0, 0].tolist() == [200, 0, 0]
    assert crop[:, 0, 1].tolist() == [0, 0, 100]
    mean = (7.0, 8.0, 9.0)
    pad = read(picture, size=(4, 4), resize="pad", mean=mean, order="bgr")
    assert pad[:, 0, :].tolist() == [[0] * 4] * 3  # the border is the mean
    assert pad[2, 1, 0] == 200 - 9


def test_arrays(tmp_path: Path) -> None:
    a, b = np.arange(6.0), np.arange(3)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "one.npz", whatever=b)
    np.savez(tmp_path / "two.npz", data=a, more=b)
    np.savez(tmp_path / "none.npz", x=a, y=b)
    assert read(tmp_path / "a.npy").tolist() == a.tolist()
    assert read(tmp_path / "one.npz").tolist() == b.tolist()
    assert read(tmp_path / "two.npz").tolist() == a.tolist()
    with pytest.raises(InputError, match="has no array 'data'; it has x, y"):
        read(tmp_path / "none.npz")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".png", ".txt"])
def test_files_that_are_something_else(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    with pytest.raises(InputError, match="no such file"):
        read(path)
    for content in (b"", b"PK\x03\x04 not a zip", b"\x93NUMPY\x01\x00", b"hello"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="file"):
            read(path)


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "evil.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match="no NumPy file"):
        read(path)
    archive = tmp_path / "evil.npz"
    np.savez(archive, data=np.array([{}], object))
    with pytest.raises(InputError, match="cannot be read"):
        read(archive)


def test_wrong_numbers_of_numbers(picture: Path) -> None:
    with pytest.raises(InputError, match="--mean takes 1 or 3 numbers, not 2"):
        read(picture, mean=(1.0, 2.0))
    with pytest.raises(InputError, match="--mean takes 1 number where the channels are gray"):
        read(picture, mean=(1.0, 2.0, 3.0), order="gray")
    assert read(picture, mean=(1.0,), order="gray").shape == (1, 2, 4)
    with pytest.raises(InputError, match="std must not be 0"):
        read(picture, std=(0.0,))


def test_pillow_missing(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(VknnError, match="pip install pillow"):
        read(picture)


def test_the_layout_is_that_of_the_input(picture: Path) -> None:
    assert read(picture, hint=(1, 6, 8, 3)).shape == (6, 8, 3)
    assert read(picture, hint=(6, 8, 1)).shape == (6, 8, 1)
    assert read(picture, hint=(1, None, None, 3)).shape == (2, 4, 3)
    assert read(picture, hint=(1, 3, 6, 8)).shape == (3, 6, 8)
    assert read(picture, hint=(1, 6, 8, 3), layout="chw", size=(4, 2)).shape == (3, 2, 4)


def test_pictures_for_integers(picture: Path) -> None:
    found = read(picture, hint=(1, 2, 4, 3), dtype=np.dtype(np.uint8))
    assert found.dtype == np.uint8
    assert found[0, 0].tolist() == [200, 0, 0]
    found = read(picture, dtype=np.dtype(np.int8), mean=(128.0,))
    assert found[:, 0, 0].tolist() == [72, -128, -128]
    with pytest.raises(InputError, match="takes int8 and the picture has values from 0 to 200"):
        read(picture, dtype=np.dtype(np.int8))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_pictures_for_floats_of_other_widths(name: str, picture: Path) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" else np.dtype(name)
    found = read(picture, hint=(1, 3, 2, 4), dtype=dtype)
    assert found.dtype == dtype and found[:, 0, 0].astype(float).tolist() == [200, 0, 0]


def test_videos_are_told(tmp_path: Path) -> None:
    path = tmp_path / "cat.mp4"
    path.write_bytes(b"\0\0\0\x18ftypmp42")
    with pytest.raises(InputError, match=r"cat\.mp4 is a video"):
        read(path)


@pytest.mark.timeout(60)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["pipe.png", "pipe.npy", "pipe.npz"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(VknnError, match=rf"{name}: this is a pipe or a device: save it to a file"):
        read(tmp_path / name)
