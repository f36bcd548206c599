"""What a task has learnt, as text: the mix of ELMo's layers, and which classes it gets wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from elmokit.model.scalar_mix import ScalarMix
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.inputs import TaskInputs
from elmokit.tasks.scores import Accuracy

LARGEST_MATRIX = 20
"""Labels up to which a matrix of confusions is readable as text."""
MISTAKES_SHOWN = 10


class MixReport(NamedTuple):
    """What one mix has come to."""

    place: str  # "input" or "output" of the task's network
    layers: tuple[str, ...]
    weights: tuple[float, ...]  # one for each: shares that sum to one, unless per direction
    shares: bool
    gamma: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "place": self.place,
            "weights": dict(zip(self.layers, self.weights, strict=True)),
            "gamma": self.gamma,
        }

    def table(self) -> str:
        """A line for each layer."""
        width = max(map(len, self.layers))
        lines = [
            f"  {name:<{width}}  {f'{weight:6.1%}' if self.shares else f'{weight:6.3f}'}"
            for name, weight in zip(self.layers, self.weights, strict=True)
        ]
        return "\n".join([f"ELMo at the {self.place}: gamma {self.gamma:.3f}", *lines])


def mix_reports(inputs: TaskInputs) -> list[MixReport]:
    """What each mix has come to; none where there is no ELMo."""
    if inputs.elmo is None:
        return []
    places = ("input", "output") if inputs.place == "both" else (inputs.place,)
    names = [layer_name(number) for number in inputs.elmo.numbers]
    reports = []
    for place, mix in zip(places, inputs.mixes, strict=True):
        gamma = mix.gamma.item()
        if isinstance(mix, ScalarMix):
            shares = tuple(mix.shares().tolist())
            reports.append(MixReport(place, tuple(names), shares, True, gamma))
        else:
            weights = tuple(mix.weights.tolist())
            reports.append(MixReport(place, directed_names(names), weights, False, gamma))
    return reports


def layer_name(number: int) -> str:
    """What people call a layer.

    >>> layer_name(0), layer_name(2)
    ('token layer', 'layer 2')
    """
    return "token layer" if number == 0 else f"layer {number}"


def directed_names(names: Sequence[str]) -> tuple[str, ...]:
    """The weights of a mix per direction: the token layer's, then each direction's."""
    return (
        names[0],
        *(f"{name} {direction}" for direction in ("forward", "backward") for name in names[1:]),
    )


def errors_text(evaluation: Evaluation) -> str:
    """Precision and recall of each class, and what was taken for what."""
    confusion = evaluation.confusion
    parts = [evaluation.score.table()]
    if confusion is None:
        return parts[0]
    if len(confusion.names) <= LARGEST_MATRIX:
        parts.append(confusion.confusion_table())
    mistakes = mistakes_text(confusion)
    if mistakes:
        parts.append(mistakes)
    return "\n\n".join(parts)


def mistakes_text(confusion: Accuracy) -> str:
    """The most frequent mistakes, a line each."""
    return "\n".join(
        f"{each.expected} taken for {each.predicted}: {each.times:,}"
        for each in confusion.confusions()[:MISTAKES_SHOWN]
    )
