"""Identity of a job: what a folder of answers is of, and what a run would do differently."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.model_files import digest, model_files
from vknn.scale.options import Predictor
from vknn.scale.sources import RecordSource, place_of, without_secret
from vknn.scale.versions import versions


def document_of(predictor: Predictor, source: RecordSource, folder: Folder) -> dict[str, Any]:
    """The document that says what a job is. Raises ModelFormatError where the model is missing."""
    files = model_files(predictor.model, predictor.weights)
    return {
        "versions": versions(),
        "model": {"name": Path(predictor.model).name, "sha256": digest(files)},
        "options": predictor.identity(),
        "source": [_source_text(text, source.is_local) for text in source.given],
        "place": _place(source, folder),
    }


def _source_text(text: str, is_local: bool) -> str:
    """A source as job.json has it: without a secret and slashes at its end, before options, too."""
    address, mark, options = without_secret(text), "", ""
    if not is_local:  # of local names a question mark is a letter, or one of a pattern
        address, mark, options = address.partition("?")
    return f"{address.rstrip('/')}{mark}{options}" or text


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two documents of :func:`document_of`, in words."""
    found = []
    if before.get("model") != now["model"]:
        found.append(f"model {_model_text(before.get('model'))}, not {_model_text(now['model'])}")
    if before.get("source") != now["source"]:
        found.append(f"source {short(before.get('source'))}, not {short(now['source'])}")
    old, new = before.get("place"), now["place"]
    if not found and old and new and all(old.get(key) != new[key] for key in new):
        found.append(f"source {short(old.get('full'))}, not {short(new['full'])}")
    own, others = now["options"], before.get("options", {})
    return found + [
        f"{key}={short(others.get(key))}, not {short(own[key])}"
        for key in own
        if others.get(key) != own[key]
    ]


def _model_text(model: Any) -> str:
    """A model by its name and the beginning of its hash; whatever else a damaged job.json says."""
    if not isinstance(model, Mapping):
        return short(model)
    return f"{short(model.get('name'))} (sha256 {str(model.get('sha256'))[:12]})"


def short(value: Any) -> str:
    """A value in some hundred letters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def _place(source: RecordSource, folder: Folder) -> dict[str, list[str]] | None:
    """Where the source is, and where from the answers: one is the same when both are moved."""
    if not source.is_local:
        return None
    paths = [place_of(text)[1] for text in source.given]  # of file:///a that is /a
    full = [os.path.normpath(os.path.join(source.root, path)) for path in paths]
    if not folder.is_local:
        return {"full": full}
    return {"full": full, "from_answers": [os.path.relpath(p, folder.path) for p in full]}
