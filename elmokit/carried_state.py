"""The state of a biLM as arrays by name, to be kept and continued later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.errors import InputError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMState

StateArrays = dict[str, NDArray[Any]]


def state_arrays(state: BiLMState) -> StateArrays:
    """The parts (layers, rows, size) of a state by name: `forward_cells` and the like."""
    return {name: as_array(part) for name, part in parts_by_name(state).items()}


def state_from_arrays(arrays: Mapping[str, NDArray[Any]], bilm: BiLM) -> BiLMState:
    """The state that `state_arrays` was given, if it is of a model of this shape."""
    rows = {array.shape[1] for array in arrays.values() if array.ndim == 3}
    if len(rows) != 1:
        raise InputError("the state to restore is not one that carried_state gave")
    expected = parts_by_name(bilm.state_of_rows(None, rows.pop(), torch.empty(0)))
    for name, part in expected.items():
        found = tuple(arrays[name].shape) if name in arrays else None
        if found != tuple(part.shape):
            raise InputError(
                f"{name} of the state to restore has shape {found}, this model's has "
                f"{tuple(part.shape)}; restore it into the model that it came from"
            )
    cells, outputs, *backward = (torch.tensor(arrays[name]) for name in expected)
    return BiLMState(LSTMState(cells, outputs), LSTMState(*backward))


def parts_by_name(state: BiLMState) -> dict[str, Tensor]:
    """Cells and outputs of both directions."""
    return {
        f"{direction}_{name}": part
        for direction, half in state._asdict().items()
        for name, part in half._asdict().items()
    }


def as_array(part: Tensor) -> NDArray[Any]:
    """A copy in NumPy, which has no bfloat16: widening it loses nothing."""
    return (part.float() if part.dtype == torch.bfloat16 else part).cpu().numpy().copy()
