"""Sources of records: what a folder, pattern, list of files or address holds."""

from __future__ import annotations

import fnmatch
import glob
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from vknn.errors import InputError
from vknn.pictures import is_picture
from vknn.scale.optional import arrow, arrow_part

PICTURES, PARQUET, ARRAYS, TARS = "pictures", "parquet", "arrays", "tars"
_ENDINGS = {".parquet": PARQUET, ".npy": ARRAYS, ".npz": ARRAYS, ".tar": TARS}
_PACKED_TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
#: Column that names the records of a kind by itself; Parquet's user names one.
OWN_ID = {PICTURES: "path", ARRAYS: "row", TARS: "__key__"}
#: Column of a picture's bytes, as Ray Data calls it, and of a .npy's rows.
BYTES, DATA = "bytes", "data"
_PATTERN = frozenset("*?[")
_EXPECTED = "expected a folder, a pattern, a file or an address, or a list of these"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class RecordSource:
    """Files of one kind that hold records; can be pickled.

    Attributes:
        kind: "pictures", "parquet", "arrays" (.npy and .npz) or "tars" (WebDataset).
        given: What the user gave.
        paths: The files, by name.
        sizes: Their bytes.
        filesystem: Where they lie, of pyarrow.fs.
        root: The folder that relative paths begin at: processes of Ray have folders of their own.
    """

    kind: str
    given: tuple[str, ...]
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    filesystem: Any
    root: str = ""

    def place(self, path: str) -> str:
        """The path of a file in the filesystem, whatever folder a process works in."""
        return os.path.join(self.root, path) if self.is_local else path

    @property
    def is_local(self) -> bool:
        """Whether the files lie in this machine's own filesystem."""
        return bool(self.filesystem.type_name == "local")

    @property
    def id(self) -> str | None:
        """Column that names records by itself; None where the user has to name one."""
        return OWN_ID.get(self.kind)


def find_source(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> RecordSource:
    """The source that is meant by a folder, a pattern, a file, an address or a list of these.

    Of folders all files of the kind that they hold count, in folders within them, too; names that
    begin with a dot or an underscore do not. Raises InputError.
    """
    items = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(items, Iterable) or isinstance(items, bytes | Mapping):
        raise InputError(f"source {given!r}: {_EXPECTED}")
    items = list(items)
    if unlike := [item for item in items if not isinstance(item, str | os.PathLike)]:
        raise InputError(f"source {unlike[0]!r}: {_EXPECTED}")
    texts = [os.fspath(item) for item in items]
    if not texts:
        raise InputError("the source is an empty list: give files, a folder or a pattern")
    found: dict[str, int] = {}
    filesystem = None
    for text in texts:
        place, path = place_of(text)
        if filesystem is not None and not filesystem.equals(place):
            raise InputError(f"{text} lies elsewhere than {texts[0]}: one job reads from one place")
        filesystem = place
        found.update(_files(place, path, text))
    for path in found:
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            raise InputError(f"{path!r}: its name is no text (UTF-8), and names are ids: rename it")
    kinds = {_kind(path) for path in found}
    if len(kinds) != 1:
        raise InputError(
            f"{texts[0]} holds {' and '.join(sorted(map(str, kinds)))}: a job reads files of one "
            "kind; a pattern such as '*.jpg' says which"
        )
    kind = kinds.pop()
    assert kind is not None
    ordered = tuple(sorted(found))
    sizes = tuple(found[path] for path in ordered)
    return RecordSource(kind, tuple(texts), ordered, sizes, filesystem, os.getcwd())


def opened(source: RecordSource, path: str) -> Any:
    """A file of a source, open for reading at any place."""
    try:
        return source.filesystem.open_input_file(source.place(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def check_apart(source: RecordSource, filesystem: Any, path: str, text: str) -> None:
    """Check that answers do not go where a later run would read them. Raises InputError."""
    fs = arrow_part("fs")
    for given in source.given:
        place, folder = place_of(given)
        if not place.equals(filesystem) or (_PATTERN & set(given) and not os.path.exists(given)):
            continue
        if place.type_name == "local":
            folder, inside = os.path.realpath(folder), os.path.realpath(path)
        else:
            folder, inside = folder.rstrip("/"), path
        if f"{inside}/".startswith(f"{folder}/") and (
            place.get_file_info(folder).type == fs.FileType.Directory
        ):
            raise InputError(f"{text} lies in the source {given}: answers need another folder")


def place_of(text: str) -> tuple[Any, str]:
    """The filesystem and the path in it of what a user gave."""
    fs = arrow_part("fs")
    if not _ADDRESS.match(text):
        return fs.LocalFileSystem(), text
    try:
        place, path = fs.FileSystem.from_uri(text)
    except (arrow().ArrowException, OSError, ValueError) as error:
        raise InputError(f"{text} cannot be opened: {error}") from None
    return place, path


def _files(place: Any, path: str, text: str) -> dict[str, int]:
    """Files and their bytes, of a file, a folder or a pattern."""
    if place.type_name == "local":
        return _local_files(path)
    fs = arrow_part("fs")
    base = path
    while _PATTERN & set(base):
        base = posixpath.dirname(base)
    try:
        info = place.get_file_info(base)
        if info.type == fs.FileType.File:
            return {path: info.size}
        found = place.get_file_info(fs.FileSelector(base, recursive=True))
    except OSError as error:
        raise InputError(f"{text} cannot be listed: {error}") from None
    files = {f.path: f.size for f in found if f.type == fs.FileType.File}
    if base != path:
        return _some({p: s for p, s in files.items() if fnmatch.fnmatch(p, path)}, text)
    inside = {p: s for p, s in files.items() if _is_meant(posixpath.relpath(p, base))}
    return _some(inside, text)


def _local_files(path: str) -> dict[str, int]:
    if _PATTERN & set(path) and not os.path.exists(path):
        found = [p for p in glob.glob(path, recursive=True) if os.path.isfile(p)]
        return _some({p: os.path.getsize(p) for p in found}, path)
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file or folder")
    if not os.path.isdir(path):
        if _kind(path) is None:
            raise InputError(f"{path} is no picture, .parquet, .npy, .npz or .tar by its name")
        if not os.path.isfile(path):  # such as a pipe, at which reading would wait for ever
            raise InputError(f"{path} is neither a file nor a folder")
        return {path: os.path.getsize(path)}
    inside: dict[str, int] = {}
    for folder, folders, names in os.walk(path, onerror=_unlisted):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in names:
            file = os.path.join(folder, name)
            if not _is_meant(name):
                continue
            if os.path.isfile(file):
                inside[file] = os.path.getsize(file)
            elif os.path.islink(file):  # to nothing: a record that cannot be read
                inside[file] = 0
    return _some(inside, path)


def _unlisted(error: OSError) -> NoReturn:
    raise InputError(f"{error.filename} cannot be listed: {error.strerror}") from None


def _is_meant(path: str) -> bool:
    """Whether a file of a folder is one of its records: of a known kind, and not hidden."""
    hidden = any(part.startswith((".", "_")) for part in path.split("/"))
    return not hidden and _kind(path) is not None


def _some(files: dict[str, int], text: str) -> dict[str, int]:
    if not files:
        raise InputError(
            f"{text}: there are no pictures, .parquet, .npy, .npz or .tar files in this place"
        )
    return files


def _kind(path: str) -> str | None:
    """The kind of a file by its name."""
    known = _ENDINGS.get(posixpath.splitext(path)[1].lower())
    if path.lower().endswith(_PACKED_TARS):
        return TARS
    return known or (PICTURES if is_picture(Path(path)) else None)
