"""The English models that AllenNLP published, by name."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import CutShortError, FetchError, InputError
from elmokit.formats.fetch import Progress, cache_path, local_path

HOSTS = (
    "https://allennlp.s3.amazonaws.com/models/elmo",
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
)
"""Two names of one bucket, tried in this order: the present one, and the one first published."""


@dataclass(frozen=True)
class PublishedModel:
    """A model on AllenNLP's server: an options file and a weights file."""

    name: str
    architecture: str
    """As in its addresses: LSTM layers x cells, token size, filters, highways."""
    millions: float
    """Parameters in millions, as its authors count them."""
    description: str

    @property
    def options(self) -> tuple[str, ...]:
        """Addresses of the options file, in the order to try."""
        return self._addresses("options.json")

    @property
    def weights(self) -> tuple[str, ...]:
        """Addresses of the weights file, in the order to try."""
        return self._addresses("weights.hdf5")

    def _addresses(self, ending: str) -> tuple[str, ...]:
        architecture = self.architecture
        return tuple(f"{host}/{architecture}/elmo_{architecture}_{ending}" for host in HOSTS)


class ModelFiles(NamedTuple):
    """Where a fetched model is on this machine."""

    options: Path
    weights: Path


PUBLISHED_MODELS = (
    PublishedModel(
        name="small",
        architecture="2x1024_128_2048cnn_1xhighway",
        millions=13.6,
        description="256 numbers per word and layer; trained on the 1 Billion Word Benchmark",
    ),
    PublishedModel(
        name="medium",
        architecture="2x2048_256_2048cnn_1xhighway",
        millions=28.0,
        description="512 numbers per word and layer; trained on the 1 Billion Word Benchmark",
    ),
    PublishedModel(
        name="original",
        architecture="2x4096_512_2048cnn_2xhighway",
        millions=93.6,
        description="the paper's, 1024 numbers per word and layer; 1 Billion Word Benchmark",
    ),
    PublishedModel(
        name="original-5.5b",
        architecture="2x4096_512_2048cnn_2xhighway_5.5B",
        millions=93.6,
        description="as original, but trained on 5.5 billion tokens of Wikipedia and news",
    ),
)


def find_published(name: str) -> PublishedModel:
    """Find a model by its name, however it is capitalised.

    >>> find_published("5.5B").name
    'original-5.5b'
    """
    models = {model.name: model for model in PUBLISHED_MODELS}
    models["5.5b"] = models["original-5.5b"]
    wanted = name.lower()
    if wanted not in models:
        near = get_close_matches(wanted, models, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(model.name for model in PUBLISHED_MODELS)
        raise InputError(f"no published model is named {name!r}; {hint}there are: {known}")
    return models[wanted]


def download(name: str, progress: Progress | None = None) -> ModelFiles:
    """Fetch a published model once; `progress` follows its weights, nearly all of the bytes."""
    model = find_published(name)
    try:
        options = _first_that_answers(model.options, None)
    except CutShortError:
        raise
    except FetchError as error:
        if _cached(model.weights):
            raise
        # Whoever has to fetch by hand wants to know of both files at once.
        weights = f"{model.weights[0]} at {cache_path(model.weights[0])}"
        raise FetchError(f"{error}; put {weights} too") from error
    return ModelFiles(options, _first_that_answers(model.weights, progress))


def _cached(addresses: tuple[str, ...]) -> Path | None:
    """The file if it was fetched from any of its addresses before."""
    paths = [cache_path(address) for address in addresses]
    return next((path for path in paths if path.exists()), None)


def _first_that_answers(addresses: tuple[str, ...], progress: Progress | None) -> Path:
    """Fetch a file from the first address that has it, or say why the first one did not."""
    if cached := _cached(addresses):
        return cached
    errors = []
    for address in addresses:
        try:
            return local_path(address, progress=progress)
        except CutShortError:
            # Running again continues here; another address would begin anew.
            raise
        except FetchError as error:
            errors.append(error)
    raise errors[0]
