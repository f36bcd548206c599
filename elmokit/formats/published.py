"""Published models by name: their URLs, sizes and checksums, and their download.

AI2's four models of English, and ELMoForManyLangs' 44 languages and simplified Chinese. The URLs
are those that were published; whether each still answers was not tried. Models of the Hugging Face
Hub are `hf://user/name`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tqdm import tqdm

from elmokit.errors import CutShortError, FetchError, InputError
from elmokit.io.fetch import Progress, cache_path, local_path
from elmokit.system import import_extra

HOSTS = (
    "https://allennlp.s3.amazonaws.com/models/elmo",
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
)
"""Two names of one bucket, tried in this order: the present one, and the one first published."""


@dataclass(frozen=True)
class PublishedModel:
    """A model on AllenNLP's server: an options file and a weights file, some with a softmax."""

    name: str
    architecture: str  # as in its URLs: LSTM layers x cells, token size, filters, highways
    millions: float  # of parameters, as its authors count them
    description: str
    sha256: str | None = None  # of its weights, where it is known
    softmax_words: int = 0  # of the softmax that is published beside the weights; 0 without one
    vocabulary: str = ""  # the file of the softmax's words, in the folder of the model

    def urls(self, ending: str) -> tuple[str, ...]:
        """URLs of the file that ends in "options.json" or "weights.hdf5", in the order to try."""
        architecture = self.architecture
        return tuple(f"{host}/{architecture}/elmo_{architecture}_{ending}" for host in HOSTS)

    @property
    def softmax_urls(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """URLs of the softmax, and of its words."""
        if not self.softmax_words:
            raise InputError(
                f"the softmax of {self.name} was published in its TensorFlow checkpoint alone: "
                "fetch it (docs/reference/published-models.md), then name the folder it is in"
            )
        words = tuple(f"{host}/{self.architecture}/{self.vocabulary}" for host in HOSTS)
        return self.urls("softmax_weights.hdf5"), words

    def megabytes(self, softmax: bool = False) -> int:
        """About how much is fetched."""
        numbers = self.softmax_words * 513 if softmax else 0  # each has 512 weights and a bias
        return round((self.millions * 1e6 + numbers) * 4 / 1e6)


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
        softmax_words=793_471,
        vocabulary="vocab-2016-09-10.txt",
    ),
    PublishedModel(
        name="original-5.5b",
        architecture="2x4096_512_2048cnn_2xhighway_5.5B",
        millions=93.6,
        description="as original, but trained on 5.5 billion tokens of Wikipedia and news",
        softmax_words=500_000,
        vocabulary="tf_checkpoint/vocab-enwiki-news-500000.txt",
    ),
)
ALIASES = {"5.5b": "original-5.5b"}

EFML = "efml-"
EFML_LANGUAGES = """
    arabic bulgarian catalan czech old-church-slavonic danish german greek english spanish estonian
    basque persian finnish french irish galician ancient-greek hebrew hindi croatian hungarian
    indonesian italian japanese korean latin latvian dutch norwegian-bokmal norwegian-nynorsk polish
    portuguese romanian russian slovak slovene swedish turkish uyghur ukrainian urdu vietnamese
    chinese-traditional
""".split()  # noqa: SIM905
"""In the order of their numbers in NLPL's repository 11."""
EFML_URLS = {
    EFML + language: f"http://vectors.nlpl.eu/repository/11/{number}.zip"
    for number, language in enumerate(EFML_LANGUAGES, 136)
}
EFML_URLS["efml-chinese-simplified"] = "http://39.96.43.154/zhs.model.tar.bz2"


def published_names() -> list[str]:
    """Every name that `elmo download` knows."""
    return [*(model.name for model in PUBLISHED_MODELS), *ALIASES, *EFML_URLS]


def find_published(name: str) -> PublishedModel:
    """Find one of AI2's models by its name, however it is capitalised.

    >>> find_published("5.5B").name
    'original-5.5b'
    """
    models = {model.name: model for model in PUBLISHED_MODELS}
    wanted = ALIASES.get(name.lower(), name.lower())
    if wanted not in models:
        raise InputError(f"no published model is named {name!r}; {near(name, published_names())}")
    return models[wanted]


def near(name: str, names: list[str]) -> str:
    """The nearest of some names, if there is one, and those of the published models."""
    found = get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {found[0]!r}? " if found else ""
    known = ", ".join(model.name for model in PUBLISHED_MODELS)
    return f"{hint}there are: {known}, {EFML}LANGUAGE (published)"


def download(name: str, progress: Progress | None = None) -> tuple[Path, Path]:
    """Options and weights of a published model, fetched once; `progress` follows the weights."""
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


def download_softmax(name: str, progress: Progress | None = None) -> tuple[Path, Path]:
    """The softmax of a published model and its words, fetched once."""
    softmax, words = find_published(name).softmax_urls
    vocabulary = _first_that_answers(words)
    return _first_that_answers(softmax, None, progress), vocabulary


def fetch(name: str, softmax: bool = False, progress: Progress | None = None) -> tuple[Path, ...]:
    """The files of any published model, fetched once."""
    url = EFML_URLS.get(name.lower())
    if url is None:
        extra = find_published(name).softmax_urls if softmax else None
        paths = download(name, progress)
        return paths if extra is None else paths + download_softmax(name, progress)
    if softmax:
        raise InputError(f"{name}: was published without its softmax; leave out --softmax")
    return (local_path(url, progress=progress),)


def size_of(name: str, softmax: bool = False) -> str:
    """About how much is fetched, in words."""
    if name.lower() in EFML_URLS:
        return f"an archive from {EFML_URLS[name.lower()]}, of a size that its server has to say"
    return f"about {find_published(name).megabytes(softmax):,} MB"


def softmax_fetched(name: str) -> tuple[Path, Path] | None:
    """The softmax of a published model and its words, if both were fetched before."""
    model = find_published(name)
    if not model.softmax_words or not all(map(_cached, model.softmax_urls)):
        return None
    return download_softmax(name)


def check_fetched(location: str, what: str, remedy: str) -> None:
    """Raise where a name or URL, in a file that may be anybody's, was not fetched before."""
    name, files = location.lower(), ("options.json", "weights.hdf5")
    if "://" not in name and (name not in published_names() or os.path.exists(location)):
        return
    here = cache_path(EFML_URLS.get(name, location)).exists()
    if location.startswith(HF_PREFIX):
        with suppress(FetchError):
            here = from_hub(location, local=True).is_dir()
    elif "://" not in name and name not in EFML_URLS:
        here = all(map(_cached, map(find_published(name).urls, files)))
    if not here:
        raise InputError(f"{what} is {location}, which was not fetched here before; {remedy}")


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


HF_PREFIX = "hf://"
"""Begins the names of models on the Hugging Face Hub: `hf://user/name`, then maybe `@revision`."""
HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@(.+))?", re.ASCII)
HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.txt.gz", "*.h*5", "*.model", "*.md"]
HUB_FILES += ["*.index", "*.data-*-of-*", "*checkpoint"]  # of TensorFlow; pickles are not fetched


def from_hub(location: str, progress: Progress | None = None, *, local: bool = False) -> Path:
    """The folder of a model on the Hub, fetched once into its own cache; if `local`, before."""
    name = HUB_NAME.fullmatch(location.removeprefix(HF_PREFIX))
    if name is None:
        raise InputError(f"{location}: must be hf://user/name, or hf://user/name@revision")
    hub = import_extra("huggingface_hub", "hub")

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            # None: shown on a terminal alone
            super().__init__(*arguments, **settings | {"disable": progress is None or None})

    try:
        place = {"repo_id": name[1], "revision": name[2], "allow_patterns": HUB_FILES}
        settings = {"library_name": "elmokit", "tqdm_class": Bar, "local_files_only": local}
        return Path(hub.snapshot_download(**place, **settings))
    except Exception as error:  # its errors have no base but this one
        why = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        advice = "see that the name and the network are right; private ones need `hf auth login`"
        raise FetchError(f"{location}: cannot be fetched ({why}); {advice}") from error
