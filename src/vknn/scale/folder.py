"""Folder of a job's answers: Parquet files, and beside them what the job knows of itself."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import posixpath
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.scale.claim import Claim
from vknn.scale.job_form import is_job
from vknn.scale.optional import arrow, arrow_part
from vknn.scale.sources import place_of, without_secret

#: Folder within the answers' that readers of Parquet leave aside.
OWN = "_vknn"
JOB, RUNNING, SUSPECT, LOCK = "job.json", "running.json", "suspect.parquet", "lock"
_ENDING = ".parquet"
#: Begin of the names of folders of Ray's notes, which say what is done.
_NOTES = "vknn-"
#: Errors of filesystems that lock no files.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


class Folder:
    """The folder, on any filesystem of pyarrow.fs. A context manager holds it for one job.

    Answers are ``*.parquet`` in it. ``_vknn/job.json`` says what job it holds,
    ``_vknn/running.json`` which records are being computed, ``_vknn/suspect.parquet`` which rows a
    device wrote that disagreed later.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        if not isinstance(target, str | os.PathLike):
            raise InputError(f"output {target!r}: expected a folder or an address")
        self.text = os.fspath(target)
        if not self.text:
            raise InputError("the folder for answers has no name")
        self.filesystem, self.path = place_of(self.text)
        self.text = without_secret(self.text)
        if self.is_local:  # processes of Ray work in folders of their own
            self.path = os.path.join(os.getcwd(), self.path)
        self.path = self.path.rstrip("/") or "/"
        self._claim: Claim | None = None

    def __getstate__(self) -> dict[str, Any]:
        # It is this process that holds it.
        return {**self.__dict__, "_claim": None}

    @property
    def is_local(self) -> bool:
        """Whether it lies in this machine's own filesystem."""
        return bool(self.filesystem.type_name == "local")

    def check_own(self) -> None:
        """Check that Parquet files in it are answers. Raises VknnError where nothing says so."""
        if self.is_local and os.path.exists(self.path) and not os.path.isdir(self.path):
            raise InputError(f"{self.text} is a file: answers need a folder")
        if self.parts() and not self._info(self._own(JOB)):
            raise VknnError(f"{self.text} has Parquet files of others: give another folder")

    def create(self) -> None:
        """Making of the folder. Raises VknnError where nothing can be written in it."""
        with self._told("cannot be written"):
            self.filesystem.create_dir(self._own(""), recursive=True)
            self._write(self._own("probe"), b"")
            self.filesystem.delete_file(self._own("probe"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Block in which no other process works in the folder, be it of another machine.

        Raises VknnError where one does.
        """
        with contextlib.ExitStack() as undo:
            with self._told("cannot be written"):
                if self.is_local:
                    undo.enter_context(self._locked())
                claim = Claim(self.filesystem, self._own(""), self.text, self._write)
                self._claim = undo.enter_context(claim)
            yield

    @property
    def lost(self) -> str:
        """The reason why a folder that is held is another job's now; empty while it is not."""
        return "" if self._claim is None else self._claim.lost

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Block in which a file in the folder is locked, where the system and filesystem can."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        with open(self._own(LOCK), "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise VknnError(f"{self.text}: another job works in this folder now") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            yield

    def job(self) -> dict[str, Any] | None:
        """Contents of job.json; None where there is none."""
        text = self._read(self._own(JOB))
        if text is None:
            return None
        with contextlib.suppress(ValueError, RecursionError):
            found: dict[str, Any] = json.loads(text)
            if is_job(found):
                return found
        raise VknnError(f"{self._own(JOB)} is damaged: --restart begins the job anew")

    def write_job(self, document: dict[str, Any]) -> None:
        """Writing of job.json as a whole."""
        self._write(self._own(JOB), json.dumps(document, indent=2).encode())

    def running(self) -> dict[str, Any]:
        """Note of what was computed when the last process ended; empty where it ended well."""
        text = self._read(self._own(RUNNING))
        with contextlib.suppress(ValueError):
            found = json.loads(text or "{}")
            return found if isinstance(found, dict) else {}
        return {}

    def write_running(self, document: dict[str, Any]) -> None:
        """Note of what is being computed; an empty one takes it away."""
        if document:
            self._write(self._own(RUNNING), json.dumps(document).encode())
        elif self._info(self._own(RUNNING)):
            self.filesystem.delete_file(self._own(RUNNING))

    def parts(self) -> list[str]:
        """The Parquet files with answers, by name."""
        fs = arrow_part("fs")
        selector = fs.FileSelector(self.path, allow_not_found=True)
        with self._told("cannot be listed"):
            found = self.filesystem.get_file_info(selector)
        own = (f for f in found if f.type == fs.FileType.File and f.path.endswith(_ENDING))
        return sorted(f.path for f in own if not posixpath.basename(f.path).startswith((".", "_")))

    def new_part(self) -> str:
        """The path of a further Parquet file."""
        return posixpath.join(
            self.path, f"part-{len(self.parts()):06d}-{secrets.token_hex(4)}{_ENDING}"
        )

    def write_part(self, table: Any, path: str) -> None:
        """Writing of a Parquet file as a whole; what was there is replaced."""
        parquet = arrow_part("parquet")
        if self.lost:
            raise VknnError(self.lost)
        with self._told("cannot be written"):
            temporary = posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.tmp")
            try:
                parquet.write_table(table, temporary, filesystem=self.filesystem)
                self.filesystem.move(temporary, path)
            except BaseException:
                with contextlib.suppress(Exception):
                    self.filesystem.delete_file(temporary)
                raise

    def remove_part(self, path: str) -> None:
        """Removal of a Parquet file with answers."""
        with self._told("cannot be written"):
            self.filesystem.delete_file(path)

    def read_part(self, path: str, columns: Sequence[str] | None = None) -> Any:
        """The table of a Parquet file with answers."""
        parquet = arrow_part("parquet")
        with self._told("cannot be read"):
            return parquet.read_table(path, columns=columns, filesystem=self.filesystem)

    def read_answers(self, path: str, columns: Sequence[str]) -> Any:
        """:meth:`read_part` for a job that is taken up again. Raises VknnError that says how."""
        try:
            return self.read_part(path, columns)
        except VknnError as error:
            raise VknnError(f"{error}; without this file its records are computed again") from None

    def suspects(self) -> Any:
        """The rows that a device wrote which disagreed later, a table; None: there are none."""
        path = self._own(SUSPECT)
        return self.read_part(path) if self._info(path) else None

    def add_suspects(self, table: Any) -> int:
        """Note of rows that a device wrote which disagreed later. Tells how many are new."""
        before = self.suspects()
        if before is not None:
            known = set(_keys(before))
            table = table.filter(arrow().array([key not in known for key in _keys(table)]))
        found = table if before is None else arrow().concat_tables([before, table])
        self.write_part(found, self._own(SUSPECT))
        return int(table.num_rows)

    def clear_suspects(self) -> None:
        """Removal of the note of suspect rows."""
        with self._told("cannot be written"):
            if self._info(self._own(SUSPECT)):
                self.filesystem.delete_file(self._own(SUSPECT))

    def clear(self) -> None:
        """Removal of all answers, and of what the job knew; other files stay.

        Raises VknnError where there are Parquet files, and nothing says that they are answers.
        """
        self.check_own()
        with self._told("cannot be written"):
            for path in self.parts():
                self.filesystem.delete_file(path)
            for name in (JOB, RUNNING, SUSPECT):
                if self._info(self._own(name)):
                    self.filesystem.delete_file(self._own(name))
        self.remove_notes()

    def sweep(self) -> None:
        """Removal of files that an ended process left half-written."""
        fs = arrow_part("fs")
        for found in self.filesystem.get_file_info(
            fs.FileSelector(self.path, allow_not_found=True)
        ):
            name = posixpath.basename(found.path)
            if name.startswith(".part-") and name.endswith(".tmp"):
                self.filesystem.delete_file(found.path)

    @property
    def checkpoint(self) -> str:
        """The folder beside this one that Ray keeps what is done in."""
        return f"{self.path}.checkpoint"

    def notes(self, run: str) -> str:
        """The folder of Ray's notes of a run."""
        return posixpath.join(self.checkpoint, f"{_NOTES}{run}")

    def all_notes(self) -> list[str]:
        """The folders of Ray's notes; others' files beside them are none."""
        fs = arrow_part("fs")
        with self._told("cannot be read"):
            if self.filesystem.get_file_info(self.checkpoint).type != fs.FileType.Directory:
                return []
            found = self.filesystem.get_file_info(fs.FileSelector(self.checkpoint))
        own = (f.path for f in found if f.type == fs.FileType.Directory)
        return sorted(path for path in own if posixpath.basename(path).startswith(_NOTES))

    def remove_notes(self) -> None:
        """Removal of Ray's notes, and of their folder where nothing of others is in it."""
        fs, own = arrow_part("fs"), self.all_notes()
        with self._told("cannot be written"):
            for path in own:
                self.filesystem.delete_dir(path)
            place = fs.FileSelector(self.checkpoint, allow_not_found=True)
            if own and not self.filesystem.get_file_info(place) and self._info(self.checkpoint):
                self.filesystem.delete_dir(self.checkpoint)

    def _own(self, name: str) -> str:
        return posixpath.join(self.path, OWN, name) if name else posixpath.join(self.path, OWN)

    def _info(self, path: str) -> bool:
        fs = arrow_part("fs")
        with self._told("cannot be read"):
            return bool(self.filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def _read(self, path: str) -> bytes | None:
        if not self._info(path):
            return None
        with self._told("cannot be read"), self.filesystem.open_input_stream(path) as file:
            return bytes(file.read())

    def _write(self, path: str, data: bytes) -> None:
        with self._told("cannot be written"):
            temporary = f"{path}.tmp"
            with self.filesystem.open_output_stream(temporary) as file:
                file.write(data)
            self.filesystem.move(temporary, path)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of files as VknnError with the folder's name."""
        try:
            yield
        except (OSError, arrow().ArrowException) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise VknnError(f"{self.text} {what}: {reason}") from None


def _keys(suspects: Any) -> Iterator[tuple[Any, ...]]:
    """What tells suspect rows apart: all but the file."""
    names = [name for name in suspects.column_names if name != "file"]
    return zip(*(suspects.column(name).to_pylist() for name in names), strict=True)
