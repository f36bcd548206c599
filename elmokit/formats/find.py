"""Any model a user can name: a bundled or published one, folders, archives, files, URLs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from elmokit.bundled import BUNDLED, BUNDLED_MODELS, ENGLISH_SMALL, is_bundled
from elmokit.config import ModelConfig, WordEncoderConfig
from elmokit.errors import FormatError, InputError, MissingFileError
from elmokit.formats import allennlp, efml, native
from elmokit.formats.native import SavedModel
from elmokit.formats.published import (
    EFML_URLS,
    HF_PREFIX,
    download,
    from_hub,
    near,
    published_names,
    softmax_fetched,
)
from elmokit.formats.published import find_published as find_published
from elmokit.formats.tf_checkpoint import is_checkpoint, newest_checkpoint, prefix_of
from elmokit.io.archives import Archive, is_archive
from elmokit.io.fetch import Progress, local_path
from elmokit.io.files import check_not_pointer
from elmokit.text.vocabulary import BEGIN, END, Vocabulary, read_vocabulary

Location = str | Path

WEIGHT_SUFFIXES = (".hdf5", ".h5")
MODEL_OF_RUN = "model"
"""Where the folder of a training run has its model; the run may be named in its place."""
FOLDERS_OF_CHECKPOINTS = ("variables", "saves")
"""Where TF-Hub modules, and DeepPavlov's models, have their checkpoint."""
PUBLISHED_TOKENIZER = "default"
"""AllenNLP's files do not say how their text was tokenized; it was much as in the treebank."""


class FoundModel(NamedTuple):
    """What a user has named."""

    name: str
    folder: Path | None = None  # a native one
    pair: tuple[Location | None, Location] | None = None  # options, weights
    softmax: Location | None = None  # the file that has it, where it is not the weights
    vocabulary: Location | None = None

    @property
    def format(self) -> str:
        """Whose files they are."""
        if self.pair is not None:
            checkpoint = is_checkpoint(self.pair[1])
            return "TensorFlow checkpoint" if checkpoint else "AllenNLP's options and weights"
        assert self.folder is not None  # there is one of the two
        return "model folder" if native.is_native(self.folder) else "ELMoForManyLangs"

    @property
    def path(self) -> str:
        """Where it is: the folder, or the two files."""
        places = [place for place in self.pair or (self.folder,) if place is not None]
        return " ".join(
            str(place) if "://" in str(place) else os.path.abspath(place) for place in places
        )


class ModelFiles(NamedTuple):
    """The files of a folder or an archive, by name."""

    place: Location
    names: list[str]
    get: Callable[[str], Path]  # the path of one, which an archive unpacks

    def matching(self, *patterns: str) -> list[str]:
        """The names that match one of some patterns, sorted."""
        return sorted(n for n in self.names if any(fnmatch(n.lower(), p) for p in patterns))


def read_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    vocabulary: Location | None = None,
    embedding: Location | None = None,
    progress: Progress | None = None,
    softmax: bool = True,
) -> SavedModel:
    """Read any model: a native folder, or options and weights, each a path or a URL.

    Args:
        model: A folder of a model or of a training run, an archive of one, a checkpoint, the
            options of an AllenNLP model, the name of a published or a bundled one, or
            `hf://user/name` on the Hugging Face Hub; None for the bundled model of English.
        weights: Its weights, where `model` is options.
        vocabulary: One word per line: the words of a word-input model, or of the softmax.
        embedding: A second file with the word vectors of a word-input model.
        progress: Told how far a download is.
        softmax: Read the softmax and its words too, which no vector depends on.
    """
    found = find_model(model, weights, progress=progress, softmax=softmax)
    if found.pair is not None:
        if vocabulary is not None:
            found = found._replace(vocabulary=local_path(vocabulary))
        return read_pair(found, embedding, progress, softmax)
    assert found.folder is not None  # there is one of the two
    if model is not None and (vocabulary is not None or embedding is not None):
        raise InputError(f"{model}: a model folder has its own words; give no others")
    read = native.read_model if native.is_native(found.folder) else efml.read_model
    return read(found.folder, softmax=softmax)


def find_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    progress: Progress | None = None,
    softmax: bool = False,
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
        return find_download(str(model).lower(), progress, softmax)
    if is_bundled(model):
        return FoundModel(str(model).lower(), BUNDLED / str(model).lower())
    check_known(model)
    name = Path(os.path.abspath(model)).name
    if "://" not in str(model) and is_checkpoint(model):
        prefix = prefix_of(model)
        above = prefix.parent.resolve().name in FOLDERS_OF_CHECKPOINTS
        files = files_of(prefix.parent.parent if above else prefix.parent)
        return find_in(files, softmax, prefix.name)._replace(name=name)
    hub = str(model).startswith(HF_PREFIX)
    path = from_hub(str(model), progress) if hub else local_path(model, progress=progress)
    return find_at(path, softmax)._replace(name=name)


def find_at(path: Path, softmax: bool) -> FoundModel:
    """The model in a folder or an archive."""
    folder = model_folder(path)
    if native.is_native(folder):
        return FoundModel(path.name, folder)
    if folder.is_dir():
        return find_in(files_of(folder), softmax)
    check_not_pointer(path)
    if not is_archive(path):
        raise InputError(f"{path}: give the weights too, or the folder of a model")
    archive = Archive(path)
    return find_in(ModelFiles(path, archive.names, archive.get), softmax)


def find_download(name: str, progress: Progress | None, softmax: bool) -> FoundModel:
    """A published model, fetched; with its softmax where that was fetched before."""
    if name in EFML_URLS:
        return find_at(local_path(EFML_URLS[name], progress=progress), softmax)._replace(name=name)
    pair = download(name, progress)
    extra = softmax_fetched(name) if softmax else None
    return FoundModel(name, None, pair, *(extra or ()))


def check_known(model: Location) -> None:
    """Raise for what is neither there nor the name of a model, telling the names there are."""
    checkpoint = is_checkpoint(model) and os.path.isdir(prefix_of(model).parent)
    if "://" in str(model) or os.path.exists(model) or checkpoint:
        return
    raise MissingFileError(
        f"{model}: there is no such file or folder, and no model of this name; "
        f"{near(str(model), [*published_names(), *BUNDLED_MODELS])}, "
        f"{', '.join(BUNDLED_MODELS)} (bundled)"
    )


def model_folder(folder: Path) -> Path:
    """The folder itself, or the model in it where it is that of a training run."""
    inside = folder / MODEL_OF_RUN
    return inside if native.is_native(inside) and not native.is_native(folder) else folder


def is_published(model: Location) -> bool:
    """Whether this is the name of a published model, and of nothing here."""
    return str(model).lower() in published_names() and not os.path.exists(model)


def files_of(folder: Path) -> ModelFiles:
    """The files of a folder, those in its folders of variables too, or of the one folder in it."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if len(inside) == 1 and inside[0].is_dir():
        folder, inside = inside[0], sorted(inside[0].iterdir())
    paths = {path.name: path for path in inside if path.is_file()}
    for name in FOLDERS_OF_CHECKPOINTS:
        paths |= {path.name: path for path in folder.glob(f"{name}/*") if path.is_file()}
    return ModelFiles(folder, list(paths), paths.__getitem__)


def find_in(files: ModelFiles, softmax: bool, checkpoint: str | None = None) -> FoundModel:
    """The model in a folder or an archive, which is unpacked; a checkpoint, if one is named."""
    named, is_efml = checkpoint is not None, efml.is_efml(files.names)
    is_native = native.CONFIG in files.names and bool(
        {native.WEIGHTS, native.OLD_WEIGHTS} & set(files.names)
    )
    if not named and (is_efml or is_native):
        if is_efml and (missing := efml.missing(files.names)):
            raise MissingFileError(
                f"{files.place}: {missing[0]} is missing, of ELMoForManyLangs' files"
            )
        for name in files.names:
            files.get(name)
        return FoundModel("", files.get(native.CONFIG).parent)
    weights, softmax_file = ([], None) if named else hdf5_files(files)
    options = files.matching("*options*.json")
    words = files.matching("*vocab*.txt", "*vocab*.txt.gz")
    if checkpoint is None:  # the newest, or the one that the file `checkpoint` chooses
        chosen = [files.get(name) for name in files.matching("checkpoint")]
        told = "".join(path.read_bytes()[:4096].decode(errors="replace") for path in chosen)
        checkpoint = newest_checkpoint(files.names, told)
    if len(options) > 1 or len(weights) > 1 or not (weights or checkpoint):
        raise nothing_found(files, options, weights)
    if weights and not options:
        raise MissingFileError(f"{files.place}: options.json is missing; name it: OPTIONS WEIGHTS")
    if checkpoint is not None and (not weights or (softmax and softmax_file is None)):
        softmax_file = unpacked(files, checkpoint)
    return FoundModel(
        "",
        pair=(
            files.get(options[0]) if options else None,
            files.get(weights[0]) if weights else softmax_file or "",
        ),
        softmax=softmax_file if weights else None,
        vocabulary=files.get(words[0]) if len(words) == 1 else None,
    )


def hdf5_files(files: ModelFiles) -> tuple[list[str], Path | None]:
    """The files of weights, and the one of a softmax: where there are many, by what they hold."""
    names = files.matching("*.hdf5", "*.h5") or files.matching("*.model")
    if len(names) < 2:
        return names, None
    held = {name: allennlp.contents_of(files.get(name)) for name in names}
    softmax = [name for name in names if held[name] == "softmax"]
    weights = [name for name in names if held[name] == "weights"]
    return weights, files.get(softmax[0]) if len(softmax) == 1 else None


def unpacked(files: ModelFiles, checkpoint: str | None) -> Path:
    """A checkpoint by its index, with its data beside it."""
    index = f"{checkpoint}.index"
    for name in files.matching(f"{checkpoint}.data-*".lower()):
        files.get(name)
    if index in files.names:
        return files.get(index)
    if checkpoint in files.names:
        return files.get(checkpoint)  # in the old format
    raise MissingFileError(
        f"{files.place}: {index} is missing; get the files of the checkpoint again"
    )


def nothing_found(files: ModelFiles, options: list[str], weights: list[str]) -> InputError:
    """The error that says what is missing of a model, or that there is none, or more than one."""
    if "elmokit.json" in files.names:
        return InputError(
            f"{files.place}: is a graph for ONNX Runtime; read it with "
            "elmokit.adaptors.onnx.OnnxEmbedder (docs/how-to/use-without-torch.md)"
        )
    if data := files.matching("*.data-?????-of-?????"):
        return MissingFileError(f"{files.place}: {prefix_of(data[0]).name}.index is missing")
    if len(options) == 1 and not weights:
        return MissingFileError(
            f"{files.place}: has {options[0]}, but the weights are missing: one .hdf5 file, or a "
            "checkpoint's .index and .data"
        )
    return InputError(
        f"{files.place}: holds neither {native.CONFIG} nor one options.json with one .hdf5 file; "
        "name the two files"
    )


def read_pair(
    found: FoundModel, embedding: Location | None, progress: Progress | None, softmax: bool
) -> SavedModel:
    """Read options and weights, and the words that go with them."""
    assert found.pair is not None
    options, weights = found.pair
    config, tensors = allennlp.read_model(
        None if options is None else local_path(options, progress=progress),
        weights if is_checkpoint(weights) else local_path(weights, progress=progress),
        None if embedding is None else local_path(embedding, progress=progress),
        softmax=softmax,
        softmax_weights=found.softmax,
    )
    words = None
    if found.vocabulary is not None and (softmax or isinstance(config.encoder, WordEncoderConfig)):
        words = read_vocabulary(found.vocabulary)
        wrong = native.vocabulary_misfit(words, config)
        if wrong:
            raise FormatError(f"{found.vocabulary}: {wrong}")
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
