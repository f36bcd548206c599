"""Any model a user can name: a bundled one, a native folder, or AllenNLP's files."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from elmokit.bundled import BUNDLED, BUNDLED_MODELS, ENGLISH_SMALL, is_bundled
from elmokit.config import ModelConfig, WordEncoderConfig
from elmokit.errors import CutShortError, FetchError, InputError, MissingFileError
from elmokit.formats import allennlp, native
from elmokit.formats.native import SavedModel
from elmokit.io.fetch import Progress, cache_path, local_path
from elmokit.text.vocabulary import BEGIN, END, Vocabulary, read_vocabulary

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
    """As in its URLs: LSTM layers x cells, token size, filters, highways."""
    millions: float
    """Parameters in millions, as its authors count them."""
    description: str
    sha256: str | None = None
    """Of its weights, where it is known."""

    def urls(self, ending: str) -> tuple[str, ...]:
        """URLs of the file that ends in "options.json" or "weights.hdf5", in the order to try."""
        architecture = self.architecture
        return tuple(f"{host}/{architecture}/elmo_{architecture}_{ending}" for host in HOSTS)


PUBLISHED_MODELS = (
    PublishedModel(
        name="small",
        architecture="2x1024_128_2048cnn_1xhighway",
        millions=13.6,
        description="256 numbers per word and layer; trained on the 1 Billion Word Benchmark",
        sha256="747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229",
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


def download(name: str, progress: Progress | None = None) -> tuple[Path, Path]:
    """Options and weights of a published model, fetched once.

    `progress` follows the weights, nearly all of the bytes.
    """
    model = find_published(name)
    weights = model.urls("weights.hdf5")
    try:
        options = _first_that_answers(model.urls("options.json"))
    except FetchError as error:
        if isinstance(error, CutShortError) or _cached(weights):
            raise
        # Whoever has to fetch by hand wants to know of both files at once.
        raise FetchError(f"{error}; put {weights[0]} at {cache_path(weights[0])} too") from error
    return options, _first_that_answers(weights, model.sha256, progress)


def _cached(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some URLs whose file is in the cache."""
    return tuple(url for url in urls if cache_path(url).exists())


def _first_that_answers(
    urls: tuple[str, ...], sha256: str | None = None, progress: Progress | None = None
) -> Path:
    """A file from the cache, or from the first URL that has it, or why the first one has not."""
    errors = []
    for url in _cached(urls)[:1] or urls:
        try:
            return local_path(url, sha256=sha256, progress=progress)
        except CutShortError:
            # Running again continues here; another URL would start again.
            raise
        except FetchError as error:
            errors.append(error)
    raise errors[0]


Location = str | Path

WEIGHT_SUFFIXES = (".hdf5", ".h5")
MODEL_OF_RUN = "model"
"""Where the folder of a training run has its model; the run may be named in its place."""
PUBLISHED_TOKENIZER = "default"
"""AllenNLP's files do not say how their text was tokenized; it was much as in the treebank."""


class FoundModel(NamedTuple):
    """What a user has named: a native folder, or AllenNLP's two files."""

    name: str
    folder: Path | None = None
    pair: tuple[Location, Location] | None = None

    @property
    def path(self) -> str:
        """Where it is: the folder, or the two files."""
        places = self.pair or (self.folder or "",)
        return " ".join(
            str(place) if "://" in str(place) else os.path.abspath(place) for place in places
        )


def read_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    vocabulary: Location | None = None,
    embedding: Location | None = None,
    progress: Progress | None = None,
    softmax: bool = True,
) -> SavedModel:
    """Read a native folder, or AllenNLP's options and weights, each a path or a URL.

    Args:
        model: A folder of a model or of a training run, the options of an AllenNLP model, or the
            name of a published or a bundled one; None for the bundled model of English.
        weights: Its weights, where `model` is options.
        vocabulary: One word per line: the words of a word-input model, or of the softmax.
        embedding: A second file with the word vectors of a word-input model.
        progress: Told how far a download is.
        softmax: Read the softmax and its words too, which no vector depends on.
    """
    found = find_model(model, weights, progress=progress)
    if found.pair is not None:
        return read_pair(*found.pair, vocabulary, embedding, progress, softmax)
    assert found.folder is not None  # there is one of the two
    if model is not None and (vocabulary is not None or embedding is not None):
        raise InputError(f"{model}: a model folder has its own words; give no others")
    return native.read_model(found.folder, softmax=softmax)


def find_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    progress: Progress | None = None,
) -> FoundModel:
    """Find what a user has named, fetching a published model; arguments as of `read_model`."""
    if model is None:
        if weights is not None:
            raise InputError(f"{weights}: weights come with their options; name both files")
        return FoundModel(ENGLISH_SMALL, BUNDLED / ENGLISH_SMALL)
    if str(model).endswith(WEIGHT_SUFFIXES):
        raise InputError(f"{model}: is a file of weights; the options come first, then the weights")
    if weights is not None:
        return FoundModel(Path(model).stem, pair=(model, weights))
    if is_published(model):
        return FoundModel(str(model).lower(), pair=download(str(model), progress))
    if is_bundled(model):
        return FoundModel(str(model).lower(), BUNDLED / str(model).lower())
    check_known(model)
    folder = model_folder(local_path(model, progress=progress))
    if not folder.is_dir():
        raise InputError(f"{model}: give the weights too, or the folder of a model")
    name = Path(os.path.abspath(model)).name
    if native.is_native(folder):
        return FoundModel(name, folder)
    return FoundModel(name, pair=find_pair(folder))


def check_known(model: Location) -> None:
    """Raise for what is neither there nor the name of a model, telling the names there are."""
    if "://" in str(model) or os.path.exists(model):
        return
    published = [one.name for one in PUBLISHED_MODELS]
    near = get_close_matches(str(model).lower(), [*published, *BUNDLED_MODELS], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise MissingFileError(
        f"{model}: there is no such file or folder, and no model of this name; {hint}there are: "
        f"{', '.join(published)} (published), {', '.join(BUNDLED_MODELS)} (bundled)"
    )


def model_folder(folder: Path) -> Path:
    """The folder itself, or the model in it where it is that of a training run."""
    inside = folder / MODEL_OF_RUN
    return inside if native.is_native(inside) and not native.is_native(folder) else folder


def is_published(model: Location) -> bool:
    """Whether this is the name of a published model, and of nothing here."""
    names = [published.name for published in PUBLISHED_MODELS]
    return str(model).lower() in names and not Path(model).exists()


def find_pair(folder: Path) -> tuple[Path, Path]:
    """The options and weights of an AllenNLP model in a folder that has one of each."""
    options = sorted(folder.glob("*options*.json"))
    weights = sorted(folder.glob("*weights*.hdf5")) or sorted(folder.glob("*.hdf5"))
    if len(options) != 1 or len(weights) != 1:
        raise InputError(
            f"{folder}: holds neither config.json nor one options.json with one .hdf5 file; "
            "name the two files"
        )
    return options[0], weights[0]


def read_pair(
    options: Location,
    weights: Location,
    vocabulary: Location | None,
    embedding: Location | None,
    progress: Progress | None,
    softmax: bool,
) -> SavedModel:
    """Read AllenNLP's two files, and the words that go with them."""
    config, tensors = allennlp.read_model(
        local_path(options, progress=progress),
        local_path(weights, progress=progress),
        None if embedding is None else local_path(embedding, progress=progress),
        softmax=softmax,
    )
    words = None if vocabulary is None else read_vocabulary(local_path(vocabulary))
    return SavedModel(
        config=config if words is None else with_markers(config, words),
        weights=tensors,
        tokenizer=PUBLISHED_TOKENIZER,
        vocabulary=words,
    )


def with_markers(config: ModelConfig, vocabulary: Vocabulary) -> ModelConfig:
    """The config of a word-input model, with its sentence markers found in the vocabulary."""
    if not isinstance(config.encoder, WordEncoderConfig):
        return config
    for marker in (BEGIN, END):
        if marker not in vocabulary:
            raise InputError(f"the vocabulary has no {marker!r}, which word input needs")
    encoder = replace(
        config.encoder, begin_id=vocabulary.id_of(BEGIN) + 1, end_id=vocabulary.id_of(END) + 1
    )
    return replace(config, encoder=encoder)
