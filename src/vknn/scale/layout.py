"""Layout of a job: which columns feed which inputs, and which columns answers have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vknn.answers import Answer, Recipe
from vknn.answers.looking import PictureInput
from vknn.errors import InputError
from vknn.formats import TensorSpec
from vknn.scale.columns import OutputColumn
from vknn.scale.optional import arrow
from vknn.scale.options import (
    BATCH,
    CLASSES,
    DEVICE,
    ERROR,
    FOUND,
    LABEL,
    PROBABILITY,
    Predictor,
)
from vknn.scale.outcome import error_type
from vknn.scale.records import InputColumn, is_list, shape_of_one
from vknn.scale.sources import BYTES, DATA, RecordSource
from vknn.session import Session
from vknn.tool_inputs import needed_inputs

#: Names of columns that hold encoded pictures in archives and tables, the likeliest first.
_PICTURE_COLUMNS = ("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", BYTES)


@dataclass(frozen=True)
class JobLayout:
    """Columns that go in and out; can be pickled.

    Attributes:
        inputs: The columns that are read.
        kept: Names of the columns that are kept, the id first.
        outputs: The columns of outputs.
        task: What the answers are about ("classification", ...); None: nothing says it.
        fills: Whether tensors of rows with errors are NaN (0 where that is none), and not null:
            Ray Data cannot give rows with null tensors to anyone.
    """

    inputs: tuple[InputColumn, ...]
    kept: tuple[str, ...]
    outputs: tuple[OutputColumn, ...] = ()
    task: str | None = None
    fills: bool = False

    @property
    def read(self) -> tuple[str, ...]:
        """Names of the columns that are needed of the source, the kept ones first."""
        return tuple(dict.fromkeys([*self.kept, *(i.column for i in self.inputs)]))

    def answer_types(self) -> dict[str, Any]:
        """Names and Arrow types of what answers tell besides outputs."""
        pa = arrow()
        name = pa.string()
        if self.task == "classification":
            return {LABEL: name, PROBABILITY: pa.float64()}
        number, score = pa.field("class", pa.int64()), pa.field("score", pa.float64())
        label = pa.field("label", name)
        if self.task in ("detection", "keypoints"):
            point = pa.struct(
                [("name", name), ("x", pa.float64()), ("y", pa.float64()), ("score", pa.float64())]
            )
            box, points = pa.list_(pa.float64()), pa.list_(point)
            thing = [number, label, score, pa.field("box", box), pa.field("points", points)]
            return {FOUND: pa.list_(pa.struct(thing))}
        if self.task == "segmentation":
            pixels, share = pa.field("pixels", pa.int64()), pa.field("share", pa.float64())
            return {CLASSES: pa.list_(pa.struct([number, label, pixels, share]))}
        return {}

    def told(self, answer: Answer | None) -> dict[str, Any]:
        """The values of :meth:`answer_types` for an answer."""
        if answer is None:
            return {}
        if self.task == "classification":
            best = answer.scores[0] if answer.scores else None
            return {
                LABEL: None if best is None else best.text,
                PROBABILITY: None if best is None else best.score,
            }
        document = answer.to_json()
        if self.task in ("detection", "keypoints"):
            return {FOUND: document["found"]}
        return {CLASSES: document["classes"]} if self.task == "segmentation" else {}

    def table(
        self,
        source: Any,
        cells: Sequence[Mapping[str, Any]],
        errors: Sequence[dict[str, Any] | None],
        devices: Sequence[str],
        batch: str,
    ) -> Any:
        """The answers of some rows as an Arrow table.

        Args:
            source: Their rows in the source, with the columns that are kept.
            cells: Outputs and what answers tell, by column; empty where there is an error.
            errors: Type, message and attempts; None where there is none.
            devices: Names of the devices that computed them.
            batch: Name of the batch.
        """
        pa = arrow()
        made = {name: source.column(name) for name in self.kept}
        for column in self.outputs:
            made[column.name] = column.array([row.get(column.name) for row in cells], self.fills)
        for name, type_ in self.answer_types().items():
            made[name] = pa.array([row.get(name) for row in cells], type_)
        made[DEVICE] = pa.array(devices, pa.string())
        made[BATCH] = pa.array([batch] * len(cells), pa.string())
        made[ERROR] = pa.array(errors, error_type())
        return pa.table(made)

    def to_json(self) -> dict[str, Any]:
        """Document that lets a later run write columns of the same types."""
        return {"outputs": [asdict(column) for column in self.outputs], "task": self.task}

    def outputs_of(self, document: Mapping[str, Any]) -> JobLayout:
        """This layout with the outputs that :meth:`to_json` wrote."""
        columns = tuple(
            OutputColumn(
                c["name"],
                c["output"],
                c["dtype"],
                None if c["shape"] is None else tuple(c["shape"]),
            )
            for c in document["outputs"]
        )
        return JobLayout(self.inputs, self.kept, columns, document["task"])


def input_layout(
    session: Session, predictor: Predictor, schema: Mapping[str, Any], recipe: Recipe | None
) -> JobLayout:
    """The layout of a source with these columns, as far as its inputs go. Raises InputError."""
    if missing := [name for name in predictor.kept if name not in schema]:
        raise _no_column(missing[0], schema)
    columns = _columns(session, predictor, schema)
    specs = {spec.name: spec for spec in session.inputs}
    asked = None if recipe is None else recipe.input
    inputs = []
    for name, column in columns.items():
        own = recipe is not None and asked in (None, name)
        options = predictor.image_options(recipe.options if own and recipe is not None else None)
        form = PictureInput.of(session, specs[name])
        picture = specs[name].dtype.kind != "O" and _may_be_bytes(schema[column])
        inputs.append(InputColumn(column, form, options, asked in (None, name), picture))
    return JobLayout(tuple(inputs), predictor.kept)


def is_known(column: Any, schema: dict[str, Any], source: RecordSource | None) -> bool:
    """Whether all records have inputs of one shape in a column.

    ``source``: None in pipelines, where the type is that of the first rows.
    """
    spec, type_ = column.form.spec, schema.get(column.column)
    if spec.fixed is not None:
        return True
    shape = getattr(type_, "shape", None)
    if shape is not None:  # None in it: Ray's tensors of different shapes
        if source is None:  # later tensors may be of other shapes: the model has to say it
            return None not in shape and shape_of_one(spec) is not None
        return None not in shape and column.column not in source.mixed
    if _is_of_bytes(type_):
        hint = column.form.hint
        sized = column.options.size is not None or (hint is not None and None not in hint[-3:])
        return bool(sized and not column.options.own_size)
    return False


def _is_of_bytes(type_: Any) -> bool:
    """Whether an Arrow type is one of bytes, or of files as Hugging Face's tables hold them."""
    types = arrow().types
    if type_ is not None and types.is_struct(type_) and type_.get_field_index("bytes") >= 0:
        type_ = type_.field("bytes").type
    return str(type_) in ("binary", "large_binary")


def _may_be_bytes(type_: Any) -> bool:
    """Whether a column of an Arrow type may hold bytes; None: its type is not known."""
    pa = arrow()
    if type_ is None:
        return True
    numbers = isinstance(type_, pa.BaseExtensionType) or is_list(type_)
    return not (numbers or pa.types.is_primitive(type_))


def _holds_arrays(type_: Any) -> bool:
    """Whether rows of an Arrow type are pictures, lists or tensors; None: its type is not known."""
    tensors = isinstance(type_, arrow().BaseExtensionType)
    return type_ is not None and (tensors or is_list(type_) or _is_of_bytes(type_))


def _takes_arrays(spec: TensorSpec) -> bool:
    """Whether an input is one of numbers, and not of a single one."""
    return spec.dtype.kind != "O" and (spec.fixed is None or math.prod(spec.fixed) != 1)


def _columns(session: Session, predictor: Predictor, schema: Mapping[str, Any]) -> dict[str, str]:
    """Input -> column, for all inputs that the model needs."""
    names = [spec.name for spec in session.inputs]
    found: dict[str, str] = {}
    for name, column in predictor.columns.items():
        if name not in names:
            raise InputError(f"there is no input {name!r}; the inputs are {', '.join(names)}")
        if column not in schema:
            raise _no_column(column, schema)
        found[name] = column
    for spec in needed_inputs(session, found):
        left = len(needed_inputs(session, found)) == 1
        found[spec.name] = _likely(spec, left, predictor, schema, found)
    return found


def _likely(
    spec: TensorSpec,
    only: bool,
    predictor: Predictor,
    schema: Mapping[str, Any],
    found: Mapping[str, str],
) -> str:
    """The column that is meant for an input of which nothing is said. Raises InputError.

    For the ``only`` one that is left: a column whose name says it, the only one, or else the only
    one of bytes, lists or tensors, beside text and numbers; one that is kept where no other fits.
    """
    name = spec.name
    own = [column for column in schema if column not in (*found.values(), predictor.id)]
    if name in own:
        return name
    free = [column for column in own if column not in predictor.kept]
    if only:
        likely = (*_PICTURE_COLUMNS, "npy", DATA)
        if found_one := [column for column in likely if column in free]:
            return found_one[0]
        arrays = [c for c in own if _holds_arrays(schema[c]) and _takes_arrays(spec)]
        if len(free) == 1 and (free[0] in arrays or not arrays):
            return free[0]
        for some in ([column for column in arrays if column in free], arrays):
            if len(some) == 1:
                return some[0]
        if kept := [column for column in likely if column in own]:  # it may be read as well
            return kept[0]
    raise InputError(
        f"nothing says which column input {name!r} is read from: --input {name}=COLUMN does "
        f"(columns={{{name!r}: COLUMN}}); there are {', '.join(schema)}"
    )


def _no_column(name: str, schema: Mapping[str, Any]) -> InputError:
    return InputError(f"the source has no column {name!r}; it has {', '.join(schema)}")
