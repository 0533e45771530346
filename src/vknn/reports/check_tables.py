"""Tables on the page of a cross-check: operators, outputs, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vknn.reports.texts import figure, shortened

Table = dict[str, Any]
_WORST = (("worst at", "text"), ("right", "number"), ("found", "number"), ("", "text"))
_OUTPUT = (
    *(("output", "text"), ("max abs", "number"), ("max rel", "number")),
    *(("of limit", "number"), *_WORST),
)
_OPERATOR = (
    *(("layer", "text"), ("operator", "text"), ("where", "text"), ("of limit", "number")),
    *(("of limit, cumulative", "number"), *_WORST),
)
_CLASSES = (
    *(("output", "text"), ("examples", "number")),
    *(("top-1 agreement", "number"), ("top-5 agreement", "number")),
)
_BOXES = tuple((name, "number") for name in (
    "boxes", "on the device", "matched", "mean IoU", "least IoU", "score error", "missed", "extra"
))  # fmt: skip


def shown(table: Mapping[str, Any]) -> Table:
    """A table with texts that are not too long. Raises ValueError where it has holes."""
    columns = [[shortened(str(name)), str(kind)] for name, kind in table["columns"]]
    rows = [[shortened(str(cell)) for cell in row] for row in table["rows"]]
    wrong = [bool(each) for each in table["wrong"]]
    if len(wrong) != len(rows) or any(len(row) != len(columns) for row in rows):
        raise ValueError(f"no whole table: {table['title']}")
    about = {"title": shortened(str(table["title"])), "of": table.get("of")}
    return {**about, "columns": columns, "rows": rows, "wrong": wrong}


def outputs(found: Sequence[Mapping[str, Any]]) -> Table | None:
    """Outputs of a plain run, None without one."""
    if not found:
        return None
    names = ("max_abs", "max_rel", "excess")
    rows = [[o["name"], *(_number(o.get(name)) for name in names), *_worst(o)] for o in found]
    return _table("Outputs of a plain run", _OUTPUT, rows, [not o["ok"] for o in found], "outputs")


def operators(found: Sequence[Mapping[str, Any]]) -> Table:
    """Operators with the error of each as a part of what is allowed."""
    rows = []
    for row in found:
        alone, after = row.get("isolated"), row.get("cumulative")
        told = alone if after is None or (alone is not None and not alone["ok"]) else after
        errors = [_number((side or {}).get("excess")) for side in (alone, after)]
        names = [row["layer"], row["op"], row["placement"]]
        rows.append([*names, *errors, *_worst({**(told or {}), "ok": row["ok"]})])
    return _table("Operators", _OPERATOR, rows, [not row["ok"] for row in found], "rows")


def answers(agreement: Mapping[str, Any] | None) -> Table | None:
    """Agreement of classes or of boxes; None where there is none."""
    if not agreement:
        return None
    boxes = agreement.get("boxes")
    if boxes:
        names = ("expected", "actual", "matched", "mean_iou", "least_iou", "score_error")
        missed, extra = (len(boxes.get(name) or ()) for name in ("missed", "extra"))
        cells = [*(_number(boxes[name]) for name in names), str(missed), str(extra)]
        return _table("Boxes", _BOXES, [cells], [bool(missed or extra)], None)
    classes = agreement.get("classes") or ()
    rows = [
        [each["output"], str(each["examples"]), *(f"{each[n]:.2%}" for n in ("top1", "top5"))]
        for each in classes
    ]
    wrong = [each["top1"] < 1 for each in classes]
    return _table("Answers", _CLASSES, rows, wrong, None) if rows else None


def lines(verify: Mapping[str, Any]) -> list[str]:
    """The operator that makes the first NaN or infinity, and boxes of one side alone."""
    found = []
    if source := verify.get("first_not_finite"):
        first = "" if source.get("first") is None else f", first at {figure(source['first'])}"
        who = "by itself" if source["alone"] else "after the operators before it"
        if source["side"] == "both":
            who = "the model itself makes it"
        count = f"{source['count']} element{'' if source['count'] == 1 else 's'}"
        place = f"{source['op']} {source['layer']} ({count}{first})"
        found.append(f"First {source['kind']}: {place}, {who}.")
    boxes = (verify.get("agreement") or {}).get("boxes") or {}
    for side in ("missed", "extra"):
        found += [f"Box {side}: {text}" for text in boxes.get(side) or ()]
    return found


def _table(
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: list[list[str]],
    wrong: list[bool],
    of: str | None,
) -> Table:
    return {"title": title, "columns": columns, "rows": rows, "wrong": wrong, "of": of}


def _worst(found: Mapping[str, Any]) -> list[str]:
    """Index of the worst element and both numbers there, or why there is none; the verdict."""
    verdict = "ok" if found["ok"] else "FAIL"
    if found.get("problem"):
        return [str(found["problem"]), "", "", verdict]
    told = (found.get(name) for name in ("worst", "expected", "actual"))
    return [*("" if value is None else figure(value) for value in told), verdict]


def _number(value: Any) -> str:
    """A number with three digits; infinities are text."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | str) else f"{value:.3g}"
