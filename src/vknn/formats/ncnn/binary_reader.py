"""Reader of .param.bin, the binary form of a .param -> records.

The file consists of little-endian 32-bit words: magic number, layer count, blob count; then, for
each layer, the index of its type, the numbers of inputs and outputs, the indices of those blobs,
and the parameters, which end with -233. There are no names: blobs are named by their indices ("0",
"1", ...), layers by type and position ("Convolution_3").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from vknn.errors import ModelFormatError
from vknn.formats.ncnn.reader import (
    ARRAY_KEY,
    MAGIC,
    MAX_BLOBS,
    MAX_NAME,
    check_names_fit,
)
from vknn.formats.ncnn.records import MAX_PARAM_ID, Bits, LayerRecord, NetRecord, ParamValue
from vknn.formats.ncnn.type_indices import type_named

STRING_KEY = -23400
END = -233
#: Bytes of a layer without blobs and parameters: type, two counts and the end of the parameters.
_MIN_LAYER_BYTES = 16
_WORD = struct.Struct("<i")


def parse_param_bin(data: bytes, file: str | None = None) -> NetRecord:
    """Records of a .param.bin. Raises ModelFormatError with file and byte offset."""
    return _Parser(data, file).net()


class _Parser:
    """One pass over the words, whose ``position`` is a byte offset."""

    def __init__(self, data: bytes, file: str | None) -> None:
        self.data = data
        self.file = file
        self.position = 0

    def net(self) -> NetRecord:
        """The network; checks the header and the end of the file."""
        if self.word("magic number") != MAGIC:
            raise self.error(f"not an ncnn .param.bin: it does not start with {MAGIC}", 0)
        layers, blobs = self.word("layer count"), self.word("blob count")
        if layers <= 0 or blobs <= 0:
            raise self.error(f"{layers} layers and {blobs} blobs: both must be positive", 4)
        if layers > len(self.data) // _MIN_LAYER_BYTES:
            raise self.error(f"{layers} layers cannot stand in {len(self.data)} bytes", 4)
        if blobs > MAX_BLOBS:
            raise self.error(f"absurd blob count {blobs}", 8)
        net = NetRecord(tuple(self.layer(i, blobs) for i in range(layers)))
        check_names_fit(net, blobs, self.file)
        if self.position != len(self.data):
            rest = len(self.data) - self.position
            raise self.error(f"{rest} bytes follow the {layers} layers that the header counts")
        return net

    def layer(self, number: int, blobs: int) -> LayerRecord:
        """The next layer."""
        offset = self.position
        index = self.word(f"type of layer {number}")
        type_ = type_named(index)
        if type_ is None:
            raise self.error(f"layer {number}: there is no layer type {index}", offset)
        name = f"{type_}_{number}"
        bottoms = self.count(f"number of inputs of {name}")
        tops = self.count(f"number of outputs of {name}")
        inputs = tuple(self.blob(f"input of layer {name!r}", blobs) for _ in range(bottoms))
        outputs = tuple(self.blob(f"output of layer {name!r}", blobs) for _ in range(tops))
        return LayerRecord(type_, name, inputs, outputs, dict(self.params(name)), offset)

    def params(self, layer: str) -> Iterator[tuple[int, ParamValue]]:
        """Id and value of each parameter up to the end mark."""
        while True:
            start = self.position
            key = self.word(f"parameters of layer {layer!r}")
            if key == END:
                return
            string, array = key <= STRING_KEY, key <= ARRAY_KEY
            id_ = STRING_KEY - key if string else ARRAY_KEY - key if array else key
            if not 0 <= id_ <= MAX_PARAM_ID:
                raise self.error(f"parameter id {key} is out of range", start, layer)
            what = f"parameter {id_}"
            if string:
                yield id_, self.string(what, layer)
            elif array:
                yield id_, self.array(what, layer)
            else:
                yield id_, Bits(self.word(what))

    def string(self, what: str, layer: str) -> str:
        """The value of a string parameter."""
        start = self.position
        length = self.word(f"length of {what}")
        if not 0 <= length <= MAX_NAME:
            message = f"{what} has {length} bytes, which is negative or more than {MAX_NAME}"
            raise self.error(message, start, layer)
        text = self.take(-(-length // 4) * 4, what)[:length]
        return text.partition(b"\0")[0].decode("utf-8", "backslashreplace")

    def array(self, what: str, layer: str) -> tuple[Bits, ...]:
        """The value of an array parameter."""
        start = self.position
        length = self.word(f"length of {what}")
        if not 0 <= length <= self.room():
            message = f"{what} has {length} elements, which is negative or more than the file holds"
            raise self.error(message, start, layer)
        return tuple(Bits(n) for n in struct.unpack(f"<{length}i", self.take(length * 4, what)))

    def blob(self, what: str, blobs: int) -> str:
        """Name of the next blob, from its checked index."""
        start = self.position
        index = self.word(what)
        if not 0 <= index < blobs:
            raise self.error(f"{what}: there is no blob {index} among {blobs}", start)
        return str(index)

    def count(self, what: str) -> int:
        """A count of words; an error where the rest of the file is shorter."""
        start = self.position
        value = self.word(what)
        if not 0 <= value <= self.room():
            raise self.error(f"{what}: {value} is negative or more than the file can hold", start)
        return value

    def word(self, what: str) -> int:
        """The next word; errors call it ``what``."""
        return int(_WORD.unpack(self.take(4, what))[0])

    def take(self, count: int, what: str) -> bytes:
        """The next ``count`` bytes; errors call them ``what``."""
        end = self.position + count
        if end > len(self.data):
            raise self.error(f"the file ends where the {what} should stand", len(self.data))
        data = self.data[self.position : end]
        self.position = end
        return data

    def room(self) -> int:
        """Number of words from here to the end of the file."""
        return (len(self.data) - self.position) // 4

    def error(
        self, message: str, offset: int | None = None, layer: str | None = None
    ) -> ModelFormatError:
        """The error for this position, or for ``offset``."""
        offset = self.position if offset is None else offset
        return ModelFormatError(message, file=self.file, offset=offset, layer=layer)
