"""Custom layers that users have registered (vknn.formats.custom), as layer types of ncnn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vknn.formats.custom import Registration, custom_layer, custom_layers
from vknn.formats.ncnn.context import Context, shape
from vknn.formats.ncnn.layers import layer_type, layer_types
from vknn.formats.ncnn.params import Params, param
from vknn.formats.ncnn.records import LayerRecord
from vknn.formats.ncnn.registry import ANY, NcnnLayerType, Result
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import attributes
from vknn.ops.custom import Custom

_MAX_RANK = 4


@attributes
class RawParams(Params):
    """Parameters by id as the file has them, of a layer whose registration declares none."""

    options: Mapping[int, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, record: LayerRecord) -> RawParams:
        return cls(dict(record.params))


def known_type(name: str) -> NcnnLayerType | None:
    """Layer type of this name: a user's, else vknn's own, else None."""
    found = custom_layer("ncnn", name)
    return layer_type(name) if found is None else custom_type(found)


def known_types() -> dict[str, NcnnLayerType]:
    """All layer types by name, those of users included."""
    own = {name: custom_type(found) for name, found in custom_layers("ncnn").items()}
    return layer_types() | own


def custom_type(found: Registration) -> NcnnLayerType:
    """Layer type of a registration."""
    layer = found.layer
    return NcnnLayerType(
        layer.name,
        _converter(found),
        found.inputs,
        found.outputs,
        params=_params(found.parameters),
        weights=_weights(found.weights),
        accepts=ANY,
        result=lambda params, dtype: layer.dtype,
        index=found.index,
    )


def _params(declared: Mapping[str, tuple[Any, Any]] | None) -> type[Params]:
    """A class of parameters with these names, ids and defaults."""
    if declared is None:
        return RawParams
    fields = [(n, _kind(default), param(id_, default)) for n, (id_, default) in declared.items()]
    return dataclasses.make_dataclass("CustomParams", fields, bases=(Params,), repr=False, eq=False)


def _kind(default: Any) -> Any:
    if isinstance(default, tuple):
        floats = any(isinstance(v, float) for v in default)
        return tuple[float, ...] if floats else tuple[int, ...]
    return int if isinstance(default, bool) else type(default)


def _options(params: Params) -> dict[Any, Any]:
    if isinstance(params, RawParams):
        return dict(params.options)
    return {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}


def _weights(
    rule: Callable[[Any], Mapping[str, tuple[int, ...]]] | None,
) -> Callable[[Any], Sequence[WeightSpec]]:
    def specs(params: Params) -> list[WeightSpec]:
        if rule is None:
            return []
        return [WeightSpec(n, tuple(s)) for n, s in rule(_options(params)).items()]

    return specs


def _converter(found: Registration) -> Callable[[Context[Any]], Result]:
    def convert(c: Context[Params]) -> Result:
        """Adds a Custom op, whose arrays lack the leading axis of the graph's values."""
        options, names = tuple(_options(c.params).items()), tuple(c.weights)
        op = Custom(found.layer, options, names, len(c.record.tops))
        blobs = [c.reshape(x, shape(x)) for x in c.inputs]
        weights = [c.weight_value(name) for name in names]
        parts = [str(number) for number in range(len(c.record.tops))]
        values = c.add_many(op, *blobs, *weights, parts=parts)
        for value in values:
            rank = value.type.rank
            c.require(1 <= rank <= _MAX_RANK, f"gives {value.type}: blobs have 1 to 4 axes")
        return [c.reshape(value, (1, *value.type.dims)) for value in values]

    return convert
