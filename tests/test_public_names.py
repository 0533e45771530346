"""The public names, listed so that a change of them is a decision, and their docstrings."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

import vknn

#: A copy by hand, so that a change of the public names needs a second one, here.
NAMES = {
    "Device",
    "DeviceError",
    "DeviceLostError",
    "DeviceTensor",
    "DeviceTimeoutError",
    "ExportError",
    "InputError",
    "ModelFormatError",
    "NullDeviceError",
    "OutOfMemoryError",
    "RunCancelledError",
    "RunTimeoutError",
    "Session",
    "Shader",
    "ShaderError",
    "ShapeError",
    "UnsupportedLayerError",
    "ValidationError",
    "VknnError",
    "devices",
    "export",
    "list_devices",
    "open_device",
    "profile",
    "register_layer",
    "tune",
    "unregister_layer",
    "verify",
}
SESSION_METHODS = {"cancel", "close", "reset_state", "run", "run_many", "save", "stream", "update"}
SESSION_PROPERTIES = {"inputs", "outputs", "placement"}
SESSION_ATTRIBUTES = {"arithmetic", "device", "layer_precisions", "model", "precision"}


def public(names: object) -> set[str]:
    return {str(name) for name in names if not str(name).startswith("_")}  # type: ignore[attr-defined]


def test_names_of_the_package() -> None:
    assert set(vknn.__all__) == NAMES
    assert len(vknn.__all__) == len(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_of_the_package_is_found_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(vknn, name))
    home = import_module(vknn._HOMES.get(name, "vknn.errors"))
    assert getattr(home, name) is getattr(vknn, name)


@pytest.mark.parametrize("name", sorted(vknn._PACKAGES))
def test_a_package_needs_no_import_of_its_own(name: str) -> None:
    """``import vknn`` alone is enough for ``vknn.profiling.trace``."""
    assert vknn.__getattr__(name) is import_module(f"vknn.{name}")
    assert inspect.getdoc(getattr(vknn, name))


def test_other_names_are_not_found() -> None:
    with pytest.raises(AttributeError, match="no attribute 'session_of_yesterday'"):
        _ = vknn.session_of_yesterday


def test_names_of_a_session() -> None:
    assert public(dir(vknn.Session)) == SESSION_METHODS | SESSION_PROPERTIES
    assert public(vknn.Session.__annotations__) == SESSION_ATTRIBUTES


def test_an_open_session_has_no_others(tmp_path) -> None:
    path = tmp_path / "n.param"
    path.write_text("7767517\n2 2\nInput in 0 1 a\nReLU r 1 1 a b\n")
    path.with_suffix(".bin").write_bytes(b"")
    with vknn.Session(path, device="numpy") as session:
        assert public(vars(session)) == SESSION_ATTRIBUTES


@pytest.mark.parametrize("name", sorted(SESSION_METHODS | SESSION_PROPERTIES))
def test_a_sessions_members_are_documented(name: str) -> None:
    assert inspect.getdoc(inspect.getattr_static(vknn.Session, name))


@pytest.mark.parametrize("name", sorted(SESSION_ATTRIBUTES))
def test_a_sessions_attributes_are_documented(name: str) -> None:
    source = inspect.getsource(vknn.Session)
    assert re.search(rf"^    #: \w.*\n    {name}: ", source, re.MULTILINE)
