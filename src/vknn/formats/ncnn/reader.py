"""Reader of .param files (text) -> records.

The syntax is a stream of tokens; line breaks are ordinary white space. Numbers are checked here for
size, range and finiteness; their meaning is checked by the layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from vknn.errors import ModelFormatError
from vknn.formats.ncnn.records import MAX_PARAM_ID, LayerRecord, NetRecord, ParamValue

MAGIC = 7767517
MAX_NAME = 255
_MAX_VALUE = 64  # characters of a number; ncnn once took 15
MAX_BLOBS = 1 << 24
ARRAY_KEY = -23300
#: Length of "T n 0 0" with a line break, the shortest layer.
_MIN_LAYER_BYTES = 8

_WORD = re.compile(r"\s*(\S+)", re.ASCII)
_NOT_SPACE = re.compile(r"\S", re.ASCII)
_KEY = re.compile(r"\s*([+-]?\d+)=", re.ASCII)
_QUOTED = re.compile(r'"([^"\n]*)"?')
_BARE = re.compile(r"\S*", re.ASCII)
#: An operator that every network of pnnx has and none of ncnn: both start with the same number.
_PNNX = re.compile(r"^[ \t]*(pnnx\.(?:Input|Output))\s", re.ASCII | re.MULTILINE)
_INT = re.compile(r"[+-]?\d+\Z", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def looks_like_param(head: bytes) -> bool:
    """True where ``head``, the first bytes of a file, is that of a text .param."""
    words = head.split(None, 1)
    return bool(words) and words[0] == str(MAGIC).encode()


def looks_like_param_bin(head: bytes) -> bool:
    """True where ``head``, the first bytes of a file, is that of a .param.bin."""
    return head[:4] == MAGIC.to_bytes(4, "little")


def parse_param(data: bytes, file: str | None = None) -> NetRecord:
    """Records of a .param file. Raises ModelFormatError with file and byte offset."""
    return _Parser(data, file).net()


class _Parser:
    """One pass over the text, decoded as Latin-1 so that positions are byte offsets."""

    def __init__(self, data: bytes, file: str | None) -> None:
        self.text = data.decode("latin-1")
        self.file = file
        self.position = 0

    def net(self) -> NetRecord:
        """The network; checks the header and the end of the file."""
        if self.integer("magic number") != MAGIC:
            raise self.error(f"not an ncnn .param file: it does not start with {MAGIC}", 0)
        if found := _PNNX.search(self.text):
            raise self.error(
                "this is pnnx's own network (.pnnx.param), not ncnn's: open the .ncnn.param that "
                "pnnx writes beside it",
                found.start(1),
            )
        layer_count = self.integer("layer count")
        blob_count = self.integer("blob count")
        if layer_count <= 0 or blob_count <= 0:
            raise self.error(f"{layer_count} layers and {blob_count} blobs: both must be positive")
        if layer_count > len(self.text) // _MIN_LAYER_BYTES:
            raise self.error(f"{layer_count} layers cannot stand in {len(self.text)} bytes")
        if blob_count > MAX_BLOBS:
            raise self.error(f"absurd blob count {blob_count}")
        layers = tuple(self.layer(f"layer {i + 1} of {layer_count}") for i in range(layer_count))
        net = NetRecord(layers)
        check_names_fit(net, blob_count, self.file)
        self.check_end(layer_count)
        return net

    def check_end(self, layer_count: int) -> None:
        """Raises ModelFormatError for layers beyond the header's count, which ncnn would ignore.

        Noop layers, which compute nothing, are accepted: files with one too many are in use.
        """
        while rest := _NOT_SPACE.search(self.text, self.position):
            surplus = self.layer(f"what follows layer {layer_count}, the last by the header")
            if surplus.type != "Noop":
                raise self.error(
                    f"the header says {layer_count} layers but more follow: "
                    f"{surplus.type} {surplus.name!r}",
                    rest.start(),
                )

    def layer(self, which: str) -> LayerRecord:
        """The next layer."""
        type_ = self.name(f"type of {which}")
        offset = self.position - len(type_.encode())
        name = self.name(f"name of {which}")
        bottoms = self.count(f"number of inputs of {which} ({type_} {name!r})")
        tops = self.count(f"number of outputs of {which} ({type_} {name!r})")
        inputs = tuple(self.name(f"input of layer {name!r}") for _ in range(bottoms))
        outputs = tuple(self.name(f"output of layer {name!r}") for _ in range(tops))
        return LayerRecord(type_, name, inputs, outputs, dict(self.params(name)), offset)

    def params(self, layer: str) -> Iterator[tuple[int, ParamValue]]:
        """Id and value of each parameter in order; ids may repeat."""
        while key := _KEY.match(self.text, self.position):
            start = key.start(1)
            number = self.to_int(key[1], "parameter id", start, layer)
            self.position = key.end()
            array = number <= ARRAY_KEY
            id_ = ARRAY_KEY - number if array else number
            if not 0 <= id_ <= MAX_PARAM_ID:
                raise self.error(f"parameter id {number} is out of range", start, layer)
            yield id_, self.value(f"parameter {id_}", array, layer)

    def value(self, what: str, array: bool, layer: str) -> ParamValue:
        """The next value of a parameter; ``array``: in the old syntax of arrays."""
        start = self.position
        if (quoted := _QUOTED.match(self.text, start)) and not array:
            self.position = quoted.end()
            return self.string(quoted[1], what, start, layer)
        match = _BARE.match(self.text, start)
        assert match is not None
        self.position = match.end()
        text = match[0]
        if not text:
            raise self.error(f"{what} has no value", start, layer)
        if array:
            return self.old_array(text.split(","), what, start, layer)
        if text[0].isalpha():
            return self.string(text, what, start, layer)
        if "," not in text:
            return self.number(text, what, start, layer)
        parts = text.split(",")
        return tuple(
            self.number(part, what, start, layer) for part in (parts if parts[-1] else parts[:-1])
        )

    def old_array(self, parts: list[str], what: str, start: int, layer: str) -> ParamValue:
        """An array in the old syntax, which starts with its length."""
        length = self.to_int(parts[0], f"length of {what}", start, layer)
        if length != len(parts) - 1:
            message = f"{what} says {length} elements and has {len(parts) - 1}"
            raise self.error(message, start, layer)
        return tuple(self.number(part, what, start, layer) for part in parts[1:])

    def string(self, text: str, what: str, start: int, layer: str) -> str:
        """The value of a string parameter."""
        if len(text) > MAX_NAME:
            raise self.error(f"{what} is longer than {MAX_NAME} characters", start, layer)
        return _unicode(text)

    def number(self, text: str, what: str, start: int, layer: str) -> int | float:
        """An int, or a finite float32 where the text has a point or an exponent."""
        if _INT.match(text):
            return self.to_int(text, what, start, layer)
        if len(text) > _MAX_VALUE or not _FLOAT.match(text):
            raise self.error(f"{what}: {text[:40]!r} is not a finite number", start, layer)
        with np.errstate(all="ignore"):
            value = float(np.float32(float(text)))
        if not np.isfinite(value):
            raise self.error(f"{what}: {text} does not fit into a float", start, layer)
        return value

    def to_int(self, text: str, what: str, start: int, layer: str | None = None) -> int:
        """``text`` as an int of 32 bits."""
        if len(text) > _MAX_VALUE or not _INT.match(text):
            raise self.error(f"{what}: {text[:40]!r} is not a whole number", start, layer)
        if not -(1 << 31) <= int(text) < 1 << 31:
            raise self.error(f"{what}: {text} does not fit into 32 bits", start, layer)
        return int(text)

    def word(self, what: str) -> tuple[str, int]:
        """The next token and its offset; errors call it ``what``."""
        match = _WORD.match(self.text, self.position)
        if not match:
            raise self.error(f"the file ends where the {what} should stand", len(self.text))
        self.position = match.end()
        return match[1], match.start(1)

    def name(self, what: str) -> str:
        """The next token as a name."""
        text, start = self.word(what)
        if len(text) > MAX_NAME:
            raise self.error(f"the {what} is longer than {MAX_NAME} characters", start)
        if "\0" in text:
            raise self.error(f"the {what} holds a zero byte: this is not text", start)
        return _unicode(text)

    def integer(self, what: str) -> int:
        """The next token as an int of 32 bits."""
        text, start = self.word(what)
        return self.to_int(text, what, start)

    def count(self, what: str) -> int:
        """A count of names; an error where the rest of the file is shorter."""
        value = self.integer(what)
        room = (len(self.text) - self.position) // 2
        if not 0 <= value <= room:
            raise self.error(f"{what}: {value} is negative or more than the file can hold")
        return value

    def error(
        self, message: str, offset: int | None = None, layer: str | None = None
    ) -> ModelFormatError:
        """The error for this position, or for ``offset``."""
        offset = self.position if offset is None else offset
        return ModelFormatError(message, file=self.file, offset=offset, layer=layer)


def check_names_fit(net: NetRecord, blob_count: int, file: str | None) -> None:
    """Check: ModelFormatError where there are more blobs than the header says."""
    distinct = len(set(net.blobs()).union(*(layer.bottoms for layer in net.layers)))
    if distinct > blob_count:
        message = f"{distinct} blobs are named but the header says {blob_count}"
        raise ModelFormatError(message, file=file, offset=0)


def _unicode(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "backslashreplace")
