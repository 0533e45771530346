"""Sources of records: what a folder, pattern, list of files or address holds."""

from __future__ import annotations

import fnmatch
import glob
import os
import posixpath
import re
import stat
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.pictures import is_picture
from vknn.scale.optional import arrow, arrow_part

PICTURES, PARQUET, ARRAYS, TARS = "pictures", "parquet", "arrays", "tars"
_KINDS = frozenset((PICTURES, PARQUET, ARRAYS, TARS))
_ENDINGS = {".parquet": PARQUET, ".npy": ARRAYS, ".npz": ARRAYS, ".tar": TARS}
_PACKED_TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
#: Column that names the records of a kind by itself; Parquet's user names one.
OWN_ID = {PICTURES: "path", ARRAYS: "row", TARS: "__key__"}
#: Column of a picture's bytes, as Ray Data calls it, and of a .npy's rows.
BYTES, DATA = "bytes", "data"
_PATTERN = frozenset("*?[")
_EXPECTED = "expected a folder, a pattern, a file or an address, or a list of these"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
#: Key and secret, as in s3://KEY:SECRET@bucket.
_SECRET = re.compile(r"//[^/?]*@")
#: Scheme and host of an address, and what is behind them.
_PARTS = re.compile(r"([^:]+:(?://[^/?]*)?)(.*)", re.DOTALL)


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
        aside: What of the folders is no record, in words; empty where all of it is one.
        casts: Columns whose types differ from file to file -> the type that holds all of them.
        mixed: Columns whose types differ, and no type holds all of them.
        lacking: Columns that some files lack -> the first of these.
    """

    kind: str
    given: tuple[str, ...]
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    filesystem: Any
    root: str = ""
    aside: str = ""
    casts: Mapping[str, Any] = field(default_factory=dict)
    mixed: frozenset[str] = frozenset()
    lacking: Mapping[str, str] = field(default_factory=dict)

    def place(self, path: str) -> str:
        """The path of a file in the filesystem, whatever folder a process works in."""
        return os.path.join(self.root, path) if self.is_local else path

    def where(self, is_wanted: Callable[[str], bool]) -> RecordSource:
        """The source with some of its files."""
        pairs = zip(self.paths, self.sizes, strict=True)
        left = [(path, size) for path, size in pairs if is_wanted(path)]
        return replace(self, paths=tuple(p for p, _ in left), sizes=tuple(size for _, size in left))

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

    Of folders all files of the kind that they hold count, in folders within them, too, and behind
    links; names that begin with a dot do not, nor Parquet's that begin with an underscore. Raises
    InputError.
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
    if "" in texts:
        raise InputError("a source has no name: give files, a folder or a pattern")
    found: dict[str, int] = {}
    filesystem = None
    aside: list[str] = []
    for text in texts:
        place, path = place_of(text)
        if filesystem is not None and not filesystem.equals(place):
            raise InputError(f"{text} lies elsewhere than {texts[0]}: one job reads from one place")
        filesystem = place
        found.update(_files(place, path, text, aside))
    if len(texts) > 1 and filesystem is not None and filesystem.type_name == "local":
        found = _once(found)
    for path in found:
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            raise InputError(f"{path!r}: its name is no text (UTF-8), and names are ids: rename it")
    kinds = {_kind(path) or f"others ({path})": None for path in found}
    if len(kinds) != 1 or not kinds.keys() <= _KINDS:
        where = texts[0] if len(texts) == 1 else "the source"
        raise InputError(
            f"{where} holds {' and '.join(sorted(kinds)[:3])}: a job reads files of one "
            "kind; a pattern such as '*.jpg' says which"
        )
    (kind,) = kinds
    ordered = tuple(sorted(found))
    sizes = tuple(found[path] for path in ordered)
    told = _aside_text(aside)
    return RecordSource(kind, tuple(texts), ordered, sizes, filesystem, os.getcwd(), told)


def check_in_all(source: RecordSource, columns: Iterable[str]) -> None:
    """Check that no file lacks columns that are read, before a job begins. Raises InputError."""
    for name in columns:
        if name in source.lacking:
            raise InputError(
                f"{source.lacking[name]} has no column {name!r}, which other files have: a pattern "
                "such as 'a-*' says which ones are meant"
            )


def opened(source: RecordSource, path: str) -> Any:
    """A file of a source, open for reading at any place. Raises VknnError."""
    try:
        return source.filesystem.open_input_file(source.place(path))
    except OSError as error:
        raise VknnError(f"{path} cannot be read: {error}") from None


def check_apart(source: RecordSource, filesystem: Any, path: str, text: str) -> None:
    """Check that answers do not go where a later run would read them. Raises InputError."""
    fs = arrow_part("fs")
    for given in source.given:
        place, folder = place_of(given)
        if not place.equals(filesystem):
            continue
        if place.type_name == "local":
            folder, inside = os.path.realpath(folder), os.path.realpath(path)
        else:
            folder, inside = folder.rstrip("/"), path
        if f"{inside}/".startswith(f"{folder}/") and (
            place.get_file_info(folder).type == fs.FileType.Directory
        ):
            raise InputError(f"{text} lies in the source {given}: answers need another folder")


def without_answers(source: RecordSource, filesystem: Any, path: str) -> RecordSource:
    """A source without the answers' folder, which patterns and links may lead to.

    Raises InputError where nothing is left.
    """
    if source.kind != PARQUET or not source.filesystem.equals(filesystem):
        return source
    real = os.path.realpath if source.is_local else posixpath.normpath
    inside = f"{real(path)}/"
    folders = {os.path.dirname(source.place(path)) for path in source.paths}
    own = {folder for folder in folders if f"{real(folder)}/".startswith(inside)}
    if not own:
        return source
    left = source.where(lambda p: os.path.dirname(source.place(p)) not in own)
    if not left.paths:
        raise InputError(f"{source.given[0]} holds the answers' own files: give another folder")
    return left


def place_of(text: str) -> tuple[Any, str]:
    """The filesystem and the path in it of what a user gave.

    Local paths have this system's separators: file:///C:/a is C:\\a, the same job as that.
    """
    fs = arrow_part("fs")
    if not _ADDRESS.match(text):
        return fs.LocalFileSystem(), text.replace("/", os.sep)
    try:
        place, path = fs.FileSystem.from_uri(_escaped(text))
    except (arrow().ArrowException, OSError, ValueError) as error:
        raise InputError(f"{text} cannot be opened: {error}") from None
    return place, path.replace("/", os.sep) if place.type_name == "local" else path


def without_secret(address: str) -> str:
    """An address without the key and the secret that stand before its bucket, for files of a job.

    What is no address stays as it is.
    """
    return _SECRET.sub("//", address, count=1) if _ADDRESS.match(address) else address


def _escaped(address: str) -> str:
    """An address with the letters of names that addresses do not have, such as blanks, escaped.

    Escapes that there are stay, and so do options behind a question mark, which files have none of.
    """
    found = _PARTS.match(address)
    assert found is not None, "it is one of _ADDRESS"
    path, query = found[2], ""
    if not address.lower().startswith("file:"):
        path, mark, options = path.partition("?")
        query = mark + options
    return found[1] + urllib.parse.quote(path, safe="/%:@!$&'()*+,;=~") + query


def _files(place: Any, path: str, text: str, aside: list[str]) -> dict[str, int]:
    """Files and their bytes, of a file, a folder or a pattern; ``aside`` gets what is none."""
    if place.type_name == "local":
        return _local_files(path, aside)
    fs = arrow_part("fs")
    base = path
    try:
        if place.get_file_info(path).type == fs.FileType.NotFound:
            while _PATTERN & set(base):
                base = posixpath.dirname(base)
        info = place.get_file_info(base)
        if info.type == fs.FileType.File:
            return {path: info.size}
        found = place.get_file_info(fs.FileSelector(base, recursive=True))
    except OSError as error:
        raise InputError(f"{text} cannot be listed: {error}") from None
    files = {f.path: f.size for f in found if f.type == fs.FileType.File}
    if base != path:
        asked = posixpath.relpath(path, base).split("/")
        return _some(
            {p: s for p, s in files.items() if _fits(posixpath.relpath(p, base).split("/"), asked)},
            text,
        )
    inside = {p: s for p, s in files.items() if _is_meant(posixpath.relpath(p, base), aside)}
    return _some(inside, text)


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern, both as the names between slashes: as glob has it."""
    if not pattern or not names:
        return not pattern and not names
    first, seen = pattern[0], not names[0].startswith(".") or pattern[0].startswith(".")
    if first != "**":
        return seen and fnmatch.fnmatchcase(names[0], first) and _fits(names[1:], pattern[1:])
    if len(pattern) > 1 and _fits(names, pattern[1:]):
        return True
    return seen and (_fits(names[1:], pattern) or len(pattern) == len(names) == 1)


def _local_files(path: str, aside: list[str]) -> dict[str, int]:
    if _PATTERN & set(path) and not os.path.exists(path):
        found = [p for p in glob.iglob(path, recursive=True) if os.path.isfile(p)]
        if "**" in path:
            base = path[: path.index("**")]
            known: dict[str, bool] = {}
            found = [p for p in found if not _leads_round(os.path.dirname(p), base, known)]
        return _some({p: os.path.getsize(p) for p in found}, path)
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file or folder")
    if not os.path.isdir(path):
        if _kind(path) is None:
            raise InputError(f"{path} is no picture, .parquet, .npy, .npz or .tar by its name")
        if not os.path.isfile(path):  # such as a pipe, at which reading would wait for ever
            raise InputError(f"{path} is neither a file nor a folder")
        return {path: os.path.getsize(path)}
    inside = {}
    for place, size in _walked(path):
        name = place[len(path) :].lstrip("/")
        if not _is_meant(name, aside):
            continue
        if size is None:
            aside.append(name)
        else:
            inside[place] = size
    return _some(inside, path)


def _walked(folder: str) -> Iterator[tuple[str, int | None]]:
    """Files of a folder, of those in it and of those that links in it lead to, with their bytes.

    A link to nothing is a file of 0 bytes: a record that cannot be read. One to a folder that leads
    there is left out: it would go round for ever. What is no plain file, such as a pipe, has None.
    """
    left: list[tuple[str, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while left:
        path, above = left.pop()
        try:
            own = os.stat(path)
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be listed: {error.strerror}") from None
        above |= {(own.st_dev, own.st_ino)}
        for entry in entries:
            try:
                state = entry.stat()
            except OSError:  # else it went away since it was listed
                if entry.is_symlink():
                    yield entry.path, 0
                continue
            if stat.S_ISREG(state.st_mode):
                yield entry.path, state.st_size
            elif not stat.S_ISDIR(state.st_mode):
                yield entry.path, None
            elif entry.name.startswith("."):
                continue
            elif (state.st_dev, state.st_ino) not in above:
                left.append((entry.path, above))


def _leads_round(folder: str, base: str, known: dict[str, bool]) -> bool:
    """Whether a path goes through a folder twice behind its ``base``, by links.

    ``known``: what was found before.
    """
    if folder not in known:
        above: list[tuple[int, int]] = []
        path = folder
        while True:
            own = os.stat(path or ".")
            above.append((own.st_dev, own.st_ino))
            if len(path) <= len(base) or path == os.path.dirname(path):
                break
            path = os.path.dirname(path)
        known[folder] = len(set(above)) < len(above)
    return known[folder]


def _is_meant(path: str, aside: list[str]) -> bool:
    """Whether a file of a folder is one of its records: of a known kind, and not hidden.

    Names that begin with an underscore are cameras' as well; beside tables they are of programs
    that write these. ``aside`` gets files that are visible and no records.
    """
    kind = _kind(path)
    hidden = (".", "_") if kind == PARQUET else (".",)
    if any(part.startswith(hidden) for part in path.split("/")):
        return False
    if kind is None:
        aside.append(path)
    return kind is not None


def _aside_text(aside: Sequence[str]) -> str:
    if not aside:
        return ""
    others = "file is" if len(aside) == 1 else "files are"
    return (
        f"{len(aside)} {others} no record by the ending of the name, or no plain file, such as "
        f"{min(aside)!r}"
    )


def _once(files: Mapping[str, int]) -> dict[str, int]:
    """The files, each by the first of its names: a list may have a folder, and one in it."""
    names: dict[str, str] = {}
    for path in files:
        names.setdefault(os.path.abspath(path), path)
    return {path: files[path] for path in names.values()}


def _some(files: dict[str, int], text: str) -> dict[str, int]:
    if not files:
        raise InputError(
            f"{text}: there are no pictures, .parquet, .npy, .npz or .tar files in this place"
        )
    return files


def _kind(path: str) -> str | None:
    """The kind of a file by its name."""
    name = posixpath.basename(path).lower()
    return TARS if name.endswith(_PACKED_TARS) else _kind_of(posixpath.splitext(name)[1])


@lru_cache(1024)
def _kind_of(ending: str) -> str | None:
    """The kind of files with an ending, of which there may be millions."""
    return _ENDINGS.get(ending) or (PICTURES if is_picture(Path(f"a{ending}")) else None)
