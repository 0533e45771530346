"""Archives of records: WebDataset tars, of which a damaged one keeps what stands before that."""

from __future__ import annotations

import contextlib
import itertools
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from vknn.errors import InputError, VknnError
from vknn.scale.sources import OWN_ID, TARS, RecordSource, opened

#: Bytes of a member of an archive, or of a picture, at most.
MOST_BYTES = 1 << 30
#: Column that names the records of archives.
KEY = OWN_ID[TARS]
#: Records that say which columns there are: the first one may lack some.
_FIRST = 32
#: Damaged files that an error names.
_SHOWN = 3
_T = TypeVar("_T")
#: What is told something that users are to know.
Note = Callable[[str], Any]


class UnreadError(VknnError):
    """Files of a source that cannot be read to their ends, told behind all records before that.

    Attributes:
        problems: File -> why.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        texts = [self.problems[path] for path in sorted(self.problems)]
        more = f"; and {len(texts) - _SHOWN} more files" if len(texts) > _SHOWN else ""
        super().__init__("; ".join(texts[:_SHOWN]) + more)

    def __reduce__(self) -> tuple[Any, ...]:
        return UnreadError, (self.problems,)


def readable(items: Iterable[_T]) -> Iterator[_T]:
    """The items that can be read; what is damaged is for those to tell who read for answers."""
    with contextlib.suppress(UnreadError):
        yield from items


def archive_columns(source: RecordSource) -> list[str]:
    """The columns of archives by the first records of one. Raises VknnError where none has any."""
    problems: dict[str, str] = {}
    for path in source.paths:
        names = {KEY: None}
        try:
            for row in itertools.islice(_records(source, path), _FIRST):
                names |= dict.fromkeys(row)
        except VknnError as error:
            problems[path] = str(error)
        if len(names) > 1:
            return list(names)
    if problems:
        raise UnreadError(problems)
    raise InputError(
        f"{source.paths[0]} has no files in it, nor has any other archive of this source"
    )


def archive_records(
    source: RecordSource,
    wanted: Callable[[Any], bool] | None = None,
    note: Note | None = None,
) -> Iterator[dict[str, Any]]:
    """The records of archives, column -> bytes, the key as text.

    Args:
        source: The archives.
        wanted: Told a key; of what it does not want no contents are read. None: all are wanted.
        note: Told of archives that may be cut off, and nothing says it.

    Raises InputError for a key that occurs twice and, behind all records that there are,
    UnreadError where archives are damaged.
    """
    seen: set[str] = set()
    problems: dict[str, str] = {}
    for path in source.paths:
        records = _records(source, path, wanted, note)
        while True:
            try:
                row = next(records, None)
            except VknnError as error:
                problems[path] = str(error)
                break
            if row is None:
                break
            if row[KEY] in seen:
                raise InputError(f"{path} has the key {row[KEY]!r} twice: keys name records")
            seen.add(row[KEY])
            if len(row) > 1:  # of one that is not wanted nothing was read
                yield row
    if problems:
        raise UnreadError(problems)


def _records(
    source: RecordSource,
    path: str,
    wanted: Callable[[Any], bool] | None = None,
    note: Note | None = None,
) -> Iterator[dict[str, Any]]:
    """The records of one archive: files of one name up to the first dot of its last part.

    Those that are not wanted have a key only. Raises VknnError where it is damaged; the record that
    is open then is not given.
    """
    row: dict[str, Any] = {}
    count, is_wanted = 0, True
    try:
        with opened(source, path) as file, tarfile.open(fileobj=file, mode="r:*") as archive:
            for member in archive:
                archive.members = []  # type: ignore[attr-defined]  # it would hold all
                if not member.isfile() and not member.issym() and not member.islnk():
                    continue
                folder, name = posixpath.split(member.name)
                if name.startswith("."):  # such as what macOS keeps beside each file
                    continue
                stem, _, ending = name.partition(".")
                key = _text(posixpath.join(folder, stem))
                if row and row[KEY] != key:
                    count += 1
                    yield row
                    row = {}
                if not row:
                    row, is_wanted = {KEY: key}, wanted is None or wanted(key)
                if is_wanted:
                    row[_column(ending, member.name, path)] = _contents(archive, member, path)
            if not _has_end(archive) and note is not None:
                note(
                    f"{path} has no mark at its end: it may be cut off behind its "
                    f"{count + bool(row)} records"
                )
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        behind = f" behind its first {count} records" if count else ""
        why = " ".join(str(error).split())
        raise VknnError(f"{path} cannot be read as an archive{behind}: {why}") from None
    if row:
        yield row


def _text(name: str) -> str:
    """A name whose bytes that are no UTF-8 are written out, as tables hold text only."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _column(ending: str, name: str, path: str) -> str:
    """The column of a member. Raises InputError where that is the one of keys."""
    if (column := _text(ending.lower())) == KEY:
        raise InputError(f"{path}: {name}: the column {KEY!r} names records: rename that file")
    return column


def _contents(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> bytes | None:
    """The bytes of a member; None for a link, which has none. Raises InputError."""
    if not member.isfile():
        return None
    if member.size > MOST_BYTES:
        raise InputError(f"{path}: {member.name} has {member.size} bytes, too many")
    held = archive.extractfile(member)
    return b"" if held is None else held.read()


def _has_end(archive: tarfile.TarFile) -> bool:
    """Whether zeros end an archive where tarfile stopped; False: its bytes end, too.

    Raises tarfile.ReadError for anything else: tarfile takes any header but the first that is cut
    off or damaged for the end.
    """
    file = archive.fileobj
    assert file is not None
    file.seek(archive.offset)
    block = file.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0") or len(block) not in (0, tarfile.BLOCKSIZE):
        raise tarfile.ReadError(f"it is cut off or damaged at byte {archive.offset}")
    return bool(block)
