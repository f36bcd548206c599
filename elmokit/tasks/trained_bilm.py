"""The biLM of a trained task: found again, and checked to be the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from elmokit.embedder import Embedder
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.formats.fetch import Progress
from elmokit.tasks.bilm_reference import BilmReference
from elmokit.tasks.layer_store import facts_of_bilm
from elmokit.tasks.task_folder import BILM, CONFIG


class UsedBilm(NamedTuple):
    """The biLM of a task."""

    embedder: Embedder
    reference: BilmReference | None  # where it is; None where it was made in memory


def load_trained_bilm(
    stored: object,
    folder: Path,
    given: BilmReference | Embedder | None,
    device: str | torch.device | None,
    progress: Progress | None,
) -> UsedBilm | None:
    """The biLM that the task was trained with, checked to be the same."""
    if stored is None:
        if given is not None:
            raise InputError(f"{folder}: was trained without ELMo; give no model")
        return None
    about = cast(dict[str, Any], stored)
    if isinstance(given, Embedder):
        used = UsedBilm(given, None)
    elif given is not None:
        used = UsedBilm(given.load(device, progress, **_manner(about, folder)), given)
    else:
        used = _load_stored(about, folder, device, progress)
    found = facts_of_bilm(used.embedder)
    if found["model"] != about.get("sha256"):
        raise InputError(
            f"{folder}: was trained with another biLM than {_described(used.reference)}; "
            "name its own (--model)"
        )
    for name in ("state", "precision"):
        if found[name] != about.get(name):
            raise InputError(
                f"{folder}: was trained with a biLM whose {name} was {about.get(name)}, and "
                f"{_described(used.reference)} has {found[name]}; load it likewise"
            )
    return used


def _load_stored(
    about: Mapping[str, Any],
    folder: Path,
    device: str | torch.device | None,
    progress: Progress | None,
) -> UsedBilm:
    """The biLM from where it was in training."""
    reference = _stored_reference(about, folder)
    if reference.is_gone():
        raise InputError(
            f"{folder}: the biLM that it was trained with is no longer in {reference.model}; say "
            "where it is now (--model)"
        )
    return UsedBilm(reference.load(device, progress, **_manner(about, folder)), reference)


def _manner(about: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """How a biLM must read, beside what it is, for the same layers."""
    try:
        state, warm_runs = about["state"]
        return {"state": state, "warm_runs": warm_runs, "precision": about["precision"]}
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{folder / CONFIG}: does not say in which state and precision the biLM was read; "
            "train anew"
        ) from error


def _stored_reference(about: Mapping[str, Any], folder: Path) -> BilmReference:
    if about.get("inside"):
        return BilmReference(str(folder / BILM))
    if about.get("reference") is None:
        raise InputError(
            f"{folder}: its biLM was made in memory and not saved; "
            "give it again: TrainedTask.load(folder, bilm=embedder)"
        )
    try:
        return BilmReference.from_dict(about["reference"])
    except ConfigError as error:
        raise FormatError(f"{folder / CONFIG}: reference: {error}") from error


def _described(reference: BilmReference | None) -> str:
    if reference is None:
        return "the one given"
    return "the bundled one" if reference.model is None else reference.model
