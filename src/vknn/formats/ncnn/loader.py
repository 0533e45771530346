"""Loading of ncnn models: reads the files and checks all that needs no inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vknn.errors import ModelFormatError, UnsupportedLayerError
from vknn.formats.custom import TO_REGISTER
from vknn.formats.layer_errors import Malformed, Unsupported
from vknn.formats.ncnn.binary_reader import parse_param_bin
from vknn.formats.ncnn.blobs import check_blobs
from vknn.formats.ncnn.custom import known_type
from vknn.formats.ncnn.model import BoundLayer, NcnnModel
from vknn.formats.ncnn.params import Params
from vknn.formats.ncnn.reader import looks_like_param_bin, parse_param
from vknn.formats.ncnn.records import LayerRecord, NetRecord
from vknn.formats.ncnn.registry import NcnnLayerType
from vknn.formats.ncnn.weights import BinReader, FileWeight

#: Far beyond any model: the largest text files have some thousand lines.
_MAX_PARAM_BYTES = 1 << 28


def load(path: Path, weights: Path | None = None) -> NcnnModel:
    """Model of a .param or .param.bin and its .bin (default: the one of the same stem).

    Raises ModelFormatError and UnsupportedLayerError.
    """
    file = str(path)
    net = read_net(path)
    layers = check_layers(net, file)
    required = weights is not None
    reader = BinReader(weights or default_weights(path), required=required)
    bound = [
        BoundLayer(record, type_, values, _read_weights(reader, record, type_, values))
        for record, (type_, values) in zip(net.layers, layers, strict=True)
    ]
    reader.check_end()
    return NcnnModel(net, bound, default_weights(path).stem, file)


def read_net(path: Path) -> NetRecord:
    """Records of a .param or .param.bin. Raises ModelFormatError."""
    file = str(path)
    try:
        if path.stat().st_size > _MAX_PARAM_BYTES:
            raise ModelFormatError(f"larger than {_MAX_PARAM_BYTES} bytes", file=file)
        data = path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error.strerror}", file=file) from error
    return parse_param_bin(data, file) if looks_like_param_bin(data) else parse_param(data, file)


def default_weights(path: Path) -> Path:
    """Path of the .bin that belongs to a .param or .param.bin.

    net.param and net.param.bin have net.bin; net.ncnn.param has net.ncnn.bin.
    """
    if path.name.lower().endswith(".param.bin"):
        return path.with_name(path.name[: -len(".param.bin")] + ".bin")
    # A .param.bin that is called net.bin, say, must not be taken for its own weights.
    beside = path.with_suffix(".bin")
    return beside if beside != path else path.with_name(path.name + ".bin")


def find_types(net: NetRecord, file: str | None = None) -> list[NcnnLayerType]:
    """Type of each layer. Raises UnsupportedLayerError listing all layers of unknown type."""
    types = [known_type(record.type) for record in net.layers]
    unknown = [
        f"{record.type} {record.name!r}"
        for record, type_ in zip(net.layers, types, strict=True)
        if type_ is None
    ]
    if unknown:
        raise UnsupportedLayerError(unknown, file=file, remedy=TO_REGISTER)
    return [type_ for type_ in types if type_ is not None]


def check_layers(net: NetRecord, file: str | None = None) -> list[tuple[NcnnLayerType, Params]]:
    """Type and checked parameters of each layer, without weights.

    Raises ModelFormatError and UnsupportedLayerError.
    """
    types = find_types(net, file)
    check_blobs(net, file)
    return list(zip(types, _read_params(net, types, file), strict=True))


def _read_params(net: NetRecord, types: list[NcnnLayerType], file: str | None) -> list[Params]:
    params: list[Params] = []
    unsupported: list[str] = []
    for record, type_ in zip(net.layers, types, strict=True):
        try:
            _check_arity(record, type_)
            params.append(type_.params.read(record))
        except Unsupported as problem:
            unsupported.append(f"{record.type} {record.name!r} with {problem}")
        except Malformed as problem:
            message = f"{record.type}: {problem}"
            raise ModelFormatError(
                message, file=file, offset=record.offset, layer=record.name
            ) from problem
    if unsupported:
        raise UnsupportedLayerError(unsupported, file=file)
    return params


def _check_arity(record: LayerRecord, type_: NcnnLayerType) -> None:
    problem = type_.arity_problem(len(record.bottoms), len(record.tops))
    if problem:
        raise Malformed(problem)


def _read_weights(
    reader: BinReader, record: LayerRecord, type_: NcnnLayerType, params: Params
) -> Mapping[str, FileWeight]:
    return {spec.name: reader.read(spec, record.name) for spec in type_.weights(params)}
