"""Stages of a Ray Data pipeline: records decoded on processors, and computed on devices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.scale.accelerators import offered_here
from vknn.scale.checking import Checker
from vknn.scale.cluster import Pool, check_schedulable, pool_for, survey
from vknn.scale.first_record import FirstRecord, first_record
from vknn.scale.job_run import NONE_COMPUTED
from vknn.scale.keeper import Keeper
from vknn.scale.layout import JobLayout, is_known
from vknn.scale.lease import Leases
from vknn.scale.model_files import contents_of
from vknn.scale.optional import arrow, ray_module
from vknn.scale.options import NUMPY, Predictor, predictor_of
from vknn.scale.portions import USUAL, most_bytes, portions_of
from vknn.scale.ray_decoding import decode_stage
from vknn.scale.ray_worker import BatchActor, Setup
from vknn.scale.reading import Rows
from vknn.scale.shares import ErrorBound
from vknn.scale.sources import RecordSource, check_in_all
from vknn.scale.worker import Worker, run_layers

#: Rows among which a first one is looked for that can be computed, before a job begins.
FIRST_ROWS = 256
#: Seconds of a first record that are not for what is done but once.
_LONG = 2.0


def predict(
    dataset: Any,
    model: str | os.PathLike[str] | Predictor,
    weights: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Any:
    """A dataset with the answers of a model: a stage in a pipeline of one's own.

    Rows that cannot be computed have an error and no outputs; none is lost. Where an output is a
    tensor of fixed shape, which Ray Data cannot have null, it is NaN then, of integers 0. Encoded
    pictures are decoded by a stage before it, on processors beside the devices.

    Args:
        dataset: A ``ray.data.Dataset``.
        model: The model file, or a :class:`Predictor`.
        weights: The model's second file, where it does not lie beside it.
        options: Those of :class:`Predictor`.

    Returns:
        A ``ray.data.Dataset`` with the columns that are kept, the outputs, what they mean where
        that is known, ``device``, ``batch`` and ``error``.

    Raises:
        vknn.VknnError: Columns do not fit the model, none of the first rows can be computed, or the
            cluster lacks what is asked for.
    """
    predictor = predictor_of(model, weights, options)
    setup, pool = prepared(predictor, dataset)
    return staged(dataset, setup, pool)


def staged(dataset: Any, setup: Setup, pool: Pool) -> Any:
    """The dataset behind the stages of a setup."""
    layout = setup.layout
    if any(column.may_be_picture for column in layout.inputs):
        dataset = dataset.map_batches(
            decode_stage,
            fn_kwargs={"layout": layout, "id_column": setup.predictor.id, "keeper": setup.keeper},
            batch_format="pyarrow",
            batch_size=setup.predictor.batch_size,
            # Ray makes one stage of two that ask for the same: pictures would wait for the device.
            num_cpus=0.5 if pool.num_cpus else 1,
        )
    return dataset.map_batches(BatchActor, **stage_options(setup, pool))


def stage_options(setup: Setup, pool: Pool) -> dict[str, Any]:
    """Arguments of ``Dataset.map_batches`` for the stage that computes."""
    # While one batch is computed another thread reads the next one, and writes what came before.
    strategy = ray_module("ray.data").ActorPoolStrategy(
        size=pool.size, max_concurrent_calls_per_actor=2, enable_true_multi_threading=True
    )
    return {
        "fn_constructor_args": (setup,),
        "batch_format": "pyarrow",
        "batch_size": setup.predictor.batch_size,
        "compute": strategy,
        **pool.remote_arguments(),
    }


def actor_options(predictor: Predictor, dataset: Any) -> dict[str, Any]:
    """Arguments as of :meth:`Predictor.map_batches_options`."""
    setup, pool = prepared(predictor, dataset)
    return stage_options(setup, pool)


def prepared(
    predictor: Predictor,
    dataset: Any,
    *,
    source: RecordSource | None = None,
    stored: Mapping[str, Any] | None = None,
    singly: Callable[[JobLayout], Iterable[Rows]] | None = None,
    begin: Callable[[Rows | None, bool], None] | None = None,
    schema: Mapping[str, Any] | None = None,
    bound: ErrorBound | None = None,
    counts: tuple[int | None, int, int] = (None, 0, 0),
    stacked: Mapping[str, int] | None = None,
    is_resumed: bool = False,
    notes: list[str] | None = None,
) -> tuple[Setup, Pool]:
    """The setup of workers, and how many there are. Ray is initialized.

    Args:
        predictor: What is computed.
        dataset: The records.
        source: Where they come from, where that is known.
        stored: The outputs' columns as an earlier run wrote them.
        singly: Gives the rows with some columns, each by itself, for a first record to be found;
            None: the first ones of the dataset.
        begin: Told of these, as of :func:`first_record`.
        schema: The columns of the records; None: those of the first rows.
        bound: How many records may fail.
        counts: Records of the source (None: not known), those that have rows, and their errors.
        stacked: Name of a device -> records that one run computes on it, as was measured before.
        is_resumed: Whether Ray filters out records that are done.
        notes: Told that no record can be computed; None: an error says so.
    """
    ray = ray_module()
    if singly is None and not hasattr(dataset, "map_batches"):
        raise InputError(f"{type(dataset).__name__} is no dataset of Ray's: ray.data reads them")
    offers = ray.cluster_resources()
    pool = pool_for(predictor, offers)
    check_schedulable(pool, offers, is_resumed)
    survey(ray, pool.mode, predictor.device)
    if singly is None or schema is None:
        table = first_rows(dataset)
        schema = {name: table.schema.field(name).type for name in table.schema.names}
        singly = partial(_singly, table)
    with Worker(predictor, NUMPY) as worker:
        layout = worker.layout(schema)
        if source is not None:
            check_in_all(source, layout.read)
        example: tuple[dict[str, Any], dict[str, Any] | None] | None = None
        fixed = all(is_known(column, dict(schema), source) for column in layout.inputs)
        found = first_record(worker, layout, singly(layout), fixed, begin)
        portions = USUAL
        if isinstance(found, FirstRecord):
            layout = found.layout
            if source is not None:
                seconds = _seconds(worker, found)
                on_host = predictor.device == NUMPY
                most = most_bytes(offers.get("object_store_memory", 0.0), pool.size)
                portions = portions_of(found, seconds, predictor.batch_size, on_host, most)
            example = found.record.feeds, None if predictor.checked is None else found.outputs
        elif stored is None and found is not None:
            if notes is None:
                raise VknnError(f"none of the first records can be computed: {found}")
            notes.append(NONE_COMPUTED.format(found))
    layout = replace(layout, fills=source is None)
    if stored is not None:
        layout = layout.outputs_of(stored)
    keeper = _keeper(ray).remote(predictor.per_device, bound or ErrorBound(), *counts, stacked)
    held, copy = contents_of(predictor)
    files = ray.put(held)
    copy = replace(copy, fetch=_Fetch(files))
    expected = _Expected(predictor, copy) if predictor.checked else None
    return Setup(predictor, layout, copy, pool.mode, keeper, expected, example, portions), pool


def _seconds(worker: Worker, first: FirstRecord) -> float:
    """Seconds for a record like the first one, without what is done but once."""
    if first.seconds > _LONG:
        return first.seconds
    begin = time.perf_counter()
    worker.answer(first.record.feeds)
    return time.perf_counter() - begin


def first_rows(dataset: Any) -> Any:
    """The first rows of a dataset as a table. Raises InputError where it has none."""
    tables = list(
        dataset.limit(FIRST_ROWS).iter_batches(batch_size=FIRST_ROWS, batch_format="pyarrow")
    )
    if not tables or not sum(table.num_rows for table in tables):
        raise InputError("the dataset has no rows")
    return arrow().concat_tables(tables, promote_options="default")


def _singly(table: Any, layout: JobLayout) -> Iterator[Rows]:
    """The rows of a table, each by itself, with the columns that are read."""
    own = table.select(list(layout.read))
    return (Rows(own.slice(number, 1)) for number in range(table.num_rows))


class _Fetch:
    """Contents of a model's files, out of Ray's store."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def __call__(self) -> dict[str, bytes]:
        found: dict[str, bytes] = ray_module().get(self._reference)
        return found


class _Expected:
    """Computing of records with NumPy by Ray's tasks, each on a processor of the cluster."""

    def __init__(self, predictor: Predictor, copy: Any) -> None:
        self._predictor, self._copy = predictor, copy

    def __call__(self, feeds: dict[str, Any]) -> Any:
        task = ray_module().remote(num_cpus=1, max_retries=2)(_expected)
        return task.remote(self._predictor, self._copy, feeds)


_checkers: dict[str, Checker] = {}


def _expected(predictor: Predictor, copy: Any, feeds: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a record by NumPy; a process keeps the model for the next one."""
    if copy.name not in _checkers:
        own = copy.predictor(predictor)
        run_layers(own)
        _checkers[copy.name] = Checker(own)
    return _checkers[copy.name].expected(feeds)


class RayKeeper(Keeper):
    """A keeper as an actor of Ray's, which gives out leases as well."""

    def __init__(self, per_device: int, *account: Any) -> None:
        super().__init__(*account)
        self._per_device = per_device
        self._leases: dict[str, Any] = {}

    def lease(self, node: str) -> Any:
        """The actor that gives out the devices of a machine; it runs there."""
        if node not in self._leases:
            # Begun anew, it may give one device to two workers: slower, and as right.
            options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
            actor = ray_module().remote(**options, scheduling_strategy=_on(node))(MachineLeases)
            self._leases[node] = actor.remote(self._per_device)
        return self._leases[node]

    def leases(self) -> list[Any]:
        """The actors that give out devices."""
        return list(self._leases.values())


class MachineLeases(Leases):
    """The leases of the machine that it is made on."""

    def __init__(self, per_device: int) -> None:
        super().__init__(offered_here(), per_device)


def _keeper(ray: Any) -> Any:
    """The actor class of keepers."""
    # Beside the one who began the job: it is lost with this machine only, as the job is.
    here = _on(ray.get_runtime_context().get_node_id())
    return ray.remote(num_cpus=0, scheduling_strategy=here)(RayKeeper)


def end_keeper(ray: Any, keeper: Any) -> None:
    """End of a keeper and of what it began: Ray Data may hold a job's workers for long."""
    for actor in (*ray.get(keeper.leases.remote(), timeout=30), keeper):
        ray.kill(actor)


def _on(node: str) -> Any:
    """The strategy of actors that run on a machine.

    A soft one is no preference: Ray 2.60 puts actors that hold no resource on other machines then.
    """
    strategies = ray_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=False)
