"""This package's own format: a folder with config, weights, vocabulary and model card."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.config import (
    CharacterEncoderConfig,
    Count,
    LexiconEncoderConfig,
    ModelConfig,
    checked,
    naming,
)
from elmokit.errors import ConfigError, ElmoWarning, FormatError, InputError, MissingFileError
from elmokit.io.files import (
    read_object,
    read_text,
    sha256_of,
    write_folder_atomically,
    write_object,
)
from elmokit.model.bilm import BiLM
from elmokit.model.weights import without_values
from elmokit.system import counted
from elmokit.text.korean import versions
from elmokit.text.scripts import SeenScripts
from elmokit.text.vocabulary import Lexicon, Vocabulary, read_vocabulary, write_vocabulary

Shape = tuple[int, ...]

SOFTMAX = "softmax."
"""Begins the names of tensors that predict words, and that no vector depends on."""
FLOATING = ("F16", "BF16", "F32", "F64")  # what safetensors calls the numbers that weights may be
CHECKED_AT_ONCE = 1 << 24
SHOWN = 5  # findings that one message names: options of another model differ in every shape


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The shape of every tensor in the state_dict of a model of this config, by name."""
    try:
        with without_values():
            bilm = BiLM(config)
    except (RuntimeError, TypeError) as error:  # more numbers than torch can count
        raise ConfigError(f"the model is too large ({str(error).splitlines()[0]})") from error
    return {name: tuple(value.shape) for name, value in bilm.state_dict().items()}


def misfit(expected: Mapping[str, Shape], found: Mapping[str, Shape]) -> str:
    """Say what is missing, of another shape, or not expected; empty if everything fits."""
    findings = [f"missing {name}" for name in expected if name not in found]
    findings += [
        f"{name} is {found[name]} instead of {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    findings += [f"unexpected {name}" for name in found if name not in expected]
    if len(findings) > SHOWN:
        findings[SHOWN:] = [f"{len(findings) - SHOWN} more"]
    return "; ".join(findings)


def state_dict_misfit(state_dict: Mapping[str, Tensor], config: ModelConfig) -> str:
    """Say what keeps these weights from being a model of this config; empty if nothing does."""
    found = {name: tuple(tensor.shape) for name, tensor in state_dict.items()}
    return misfit(expected_shapes(config), found)


def check_finite(values: Tensor, place: str) -> None:
    """Raise for NaN and infinity: one such weight makes every vector NaN."""
    # In parts: of a large softmax at once it would take as much memory again.
    parts = torch.split(values.flatten(), CHECKED_AT_ONCE)
    if not all(bool(torch.isfinite(part).all()) for part in parts):
        raise FormatError(
            f"{place} holds NaN or infinite values; it is damaged, or its training diverged"
        )


FORMAT = "elmokit-bilm"
VERSION = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
OLD_WEIGHTS = "weights.safetensors"  # what the first folders called it
VOCABULARY = "vocabulary.txt"
CHARACTERS = "characters.txt"
CARD = "README.md"
CARD_HEADER = """---
library_name: elmokit
pipeline_tag: feature-extraction
tags:
- elmo
- word-embeddings
---

"""
"""What the Hugging Face Hub reads of a card; language and licence are for the author to add."""


class SavedModel(NamedTuple):
    """Everything that a model folder holds."""

    config: ModelConfig
    weights: dict[str, Tensor]  # the state_dict, float32
    tokenizer: str  # the name of the tokenizer the model was trained with
    vocabulary: Vocabulary | None = None  # of the softmax, or of a word-input model
    card: str = ""  # README.md; a short one is made where this is empty
    tokenizer_versions: Mapping[str, str] = {}  # of libraries that decide about words
    scripts: SeenScripts | None = None  # of the vocabulary, whether it is read or not
    version: str = ""  # of a bundled model: "english-small 2"


def is_native(folder: str | Path) -> bool:
    """Whether this is a model folder of ours, be it a damaged one; opens no large file."""
    config = Path(folder) / CONFIG
    if not config.is_file():
        return False
    if weights_file(config.parent).is_file():
        return True
    try:
        return read_object(config).get("format") == FORMAT
    except FormatError:
        return False


def weights_file(folder: Path) -> Path:
    """The file of weights, by its name of today unless only the old one is there."""
    old, new = folder / OLD_WEIGHTS, folder / WEIGHTS
    return old if old.is_file() and not new.is_file() else new


def read_model(folder: str | Path, *, softmax: bool = True) -> SavedModel:
    """Read a model folder, its weights as float32 whatever they are stored as.

    Without its softmax, a model that reads characters has no vocabulary either.
    """
    folder = Path(folder)
    values = _read_config(folder / CONFIG)
    with naming(folder / CONFIG):
        config = ModelConfig.from_dict(checked("model", values.get("model"), Mapping[str, Any]))
        stored = checked("weights", values.get("weights"), Mapping[str, Any])
        checksum = checked("sha256", stored.get("sha256"), str)
        tokenizer = checked("tokenizer", values.get("tokenizer"), str)
        version = checked("model_version", values.get("model_version", ""), str)
        made_with = checked(
            "tokenizer_versions", values.get("tokenizer_versions", {}), Mapping[str, str]
        )
    _compare_versions(folder, made_with)
    words = folder / VOCABULARY
    return SavedModel(
        config=config,
        weights=_read_weights(weights_file(folder), checksum, config, softmax),
        tokenizer=tokenizer,
        vocabulary=(
            _read_vocabulary(words, config)
            if softmax or not isinstance(config.encoder, CharacterEncoderConfig)
            else None
        ),
        card=_read_card(folder),
        tokenizer_versions=made_with,
        scripts=SeenScripts(folder, words) if words.exists() else None,
        version=version,
    )


def _read_card(folder: Path) -> str:
    """The model card; a link that leads out of the folder is passed over, as cards are copied."""
    card, home = folder / CARD, folder.resolve()
    # In the Hub's cache all files of snapshots/REVISION are links into blobs, beside snapshots.
    blobs = [above.with_name("blobs") for above in home.parents[:2] if above.name == "snapshots"]
    inside = card.is_file() and any(map(card.resolve().is_relative_to, [home, *blobs]))
    if card.is_symlink() and not inside:
        message = f"{card}: is a link to another place; the model is read without its card"
        warnings.warn(message, ElmoWarning, stacklevel=3)
    return read_text(card) if inside else ""


def _compare_versions(folder: Path, made_with: Mapping[str, str]) -> None:
    """Warn where the libraries that split a model's text are others than it was made with."""
    installed = versions()
    changed = [name for name in made_with if made_with[name] != installed.get(name)]
    if installed and changed:
        warnings.warn(
            f"{folder}: was made with {_listed(made_with, changed)}; here is "
            f"{_listed(installed, changed)}, which may split text into other words",
            ElmoWarning,
            stacklevel=3,
        )


def _listed(versions: Mapping[str, str], names: Iterable[str]) -> str:
    return ", ".join(f"{name} {versions.get(name, '(none)')}" for name in names)


def write_model(
    folder: str | Path, saved: SavedModel, *, half: bool = False, force: bool = False
) -> None:
    """Write a model folder; it appears complete or not at all.

    A folder that holds files is replaced only with `force`. `half` stores the weights as float16,
    in half the space, with three digits of each.
    """
    if wrong := state_dict_misfit(saved.weights, saved.config):
        raise InputError(f"the weights do not fit the config: {wrong}")
    if wrong := vocabulary_misfit(saved.vocabulary, saved.config):
        raise InputError(wrong)
    made_with = (saved.tokenizer_versions or versions()) if saved.tokenizer == "kiwi" else {}
    dtype = torch.float16 if half else torch.float32
    weights = {name: _stored(name, value, dtype) for name, value in saved.weights.items()}
    with write_folder_atomically(folder, force=force) as temporary:
        save_file(weights, temporary / WEIGHTS, metadata={"format": "pt"})
        if saved.vocabulary is not None:
            write_vocabulary(saved.vocabulary, temporary / VOCABULARY)
        if isinstance(saved.vocabulary, Lexicon) and saved.vocabulary.characters:
            write_vocabulary(Vocabulary(saved.vocabulary.characters), temporary / CHARACTERS)
        card = saved.card or model_card(saved)
        header = "" if card.startswith("---\n") else CARD_HEADER
        (temporary / CARD).write_text(header + card, encoding="utf-8")
        # safetensors lets only the owner read its file; models are for whoever may read the rest.
        (temporary / WEIGHTS).chmod((temporary / CARD).stat().st_mode)
        contents = {
            "format": FORMAT,
            "version": VERSION,
            **({"model_version": saved.version} if saved.version else {}),
            "model": saved.config.to_dict(),
            "tokenizer": saved.tokenizer,
            **({"tokenizer_versions": dict(made_with)} if made_with else {}),
            "weights": {
                "sha256": sha256_of(temporary / WEIGHTS),
                "dtype": str(dtype).removeprefix("torch."),
            },
        }
        write_object(contents, temporary / CONFIG)


def model_card(saved: SavedModel, example: Sequence[str] = ("The", "river", "bank")) -> str:
    """A short README: what the model is; how to load it, with a sentence of its language."""
    rows = (
        f"| {name} | {f'{value:,}' if type(value) is int else value} |"
        for name, value in describe(saved).items()
    )
    return f"""# A bidirectional language model

| | |
|---|---|
{chr(10).join(rows)}

```python
from elmokit import Embedder

elmo = Embedder.load("path/to/this/folder")
elmo.embed([{json.dumps(list(example), ensure_ascii=False)}])
```
"""


def describe(saved: SavedModel) -> dict[str, Any]:
    """What a model is, as plain values for people and programs."""
    config = saved.config
    encoder = config.encoder
    if isinstance(encoder, LexiconEncoderConfig):
        kinds = [f"{encoder.words:,} words"] if encoder.word_size else []
        kinds += [f"{encoder.characters:,} characters"] if encoder.character_size else []
    reads = (
        f"characters, {encoder.max_characters} per word, {encoder.filter_count:,} filters, "
        f"{counted(encoder.highways, 'highway')}, {encoder.activation}"
        if isinstance(encoder, CharacterEncoderConfig)
        else " and ".join(kinds)
        if isinstance(encoder, LexiconEncoderConfig)
        else f"words, a table of {encoder.words:,}"
    )
    return {
        **({"version": saved.version} if saved.version else {}),
        "input": reads,
        "layers": config.layer_count,
        "vector size": config.vector_size,
        "LSTM layers": config.lstm_layers,
        "LSTM cells": config.cell_size,
        "cell clip": config.cell_clip,
        "projection clip": config.projection_clip,
        "skip connections": config.skip_connections,
        "softmax words": config.softmax_words,
        "tokenizer": saved.tokenizer,
        "parameters": parameter_count(saved.weights),
    }


def parameter_count(weights: Mapping[str, Tensor]) -> int:
    """Numbers in the model; the row of zeros that stands for padding is not counted."""
    padded = ("encoder.characters.weight", "encoder.words.weight")
    return sum(
        value[1:].numel() if name in padded and not value[0].any() else value.numel()
        for name, value in weights.items()
    )


def _stored(name: str, value: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor ready for the file; safetensors wants each in memory of its own."""
    check_finite(value, name)
    stored = value.detach().to("cpu", dtype, copy=True).contiguous()
    if dtype == torch.float16 and not bool(torch.isfinite(stored).all()):
        raise InputError(f"{name} has values beyond float16's range; save it without half")
    return stored


def _read_config(path: Path) -> dict[str, Any]:
    """Read config.json; raises for other formats and newer versions of this one."""
    values = read_object(path)
    if values.get("format") == "elmokit-task":
        raise FormatError(f"{path.parent}: is a trained task, not a biLM; use elmo task predict")
    if values.get("format") != FORMAT:
        raise FormatError(f"{path}: format is {values.get('format')!r}; it must be {FORMAT!r}")
    with naming(path):
        version = checked("version", values.get("version"), Count)
    if version > VERSION:
        raise FormatError(
            f"{path}: is of version {version}, this elmokit reads up to {VERSION}; "
            "install a newer elmokit"
        )
    return values


def _read_weights(
    path: Path, checksum: str, config: ModelConfig, softmax: bool
) -> dict[str, Tensor]:
    """Read the weights as float32, after checking that they are what was written."""
    if not path.is_file():
        raise MissingFileError(f"{path}: is missing; copy or download the folder again")
    if sha256_of(path) != checksum:
        raise FormatError(
            f"{path}: is damaged: its SHA-256 is not the one in {CONFIG}; "
            "copy or download the folder again"
        )
    try:
        with safe_open(path, framework="pt") as file:
            return _read_tensors(file, path, config, softmax)
    except SafetensorError as error:
        raise FormatError(f"{path}: is not a safetensors file ({error})") from error


def _read_tensors(file: Any, path: Path, config: ModelConfig, softmax: bool) -> dict[str, Tensor]:
    """Check the shapes of all tensors, then read them, those of the softmax if they are wanted."""
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    found = {name: tuple(one.get_shape()) for name, one in slices.items()}
    wrong = "; ".join(n for n, one in slices.items() if one.get_dtype() not in FLOATING)
    if wrong:
        raise FormatError(f"{path}: {wrong} must hold floating-point numbers")
    wrong = misfit(expected_shapes(config), found)
    if wrong:
        raise FormatError(f"{path}: does not fit {CONFIG}: {wrong}")
    weights = {}
    for name in found:
        if name.startswith(SOFTMAX) and not softmax:
            continue
        # A copy, since safetensors gives a view of the file, which may be replaced meanwhile.
        value = file.get_tensor(name).to(torch.float32, copy=True)
        check_finite(value, f"{path}: {name}")
        weights[name] = value
    return weights


def _read_vocabulary(path: Path, config: ModelConfig) -> Vocabulary | None:
    if not path.exists():
        return None
    vocabulary = read_vocabulary(path)
    encoder = config.encoder
    if isinstance(encoder, LexiconEncoderConfig):
        spelt = path.with_name(CHARACTERS)
        characters = read_vocabulary(spelt).words if encoder.character_size else ()
        if len(characters) != encoder.characters:
            raise FormatError(f"{spelt}: has {len(characters)} characters, not those of {CONFIG}")
        vocabulary = Lexicon(vocabulary.words, characters, encoder.max_characters)
    wrong = vocabulary_misfit(vocabulary, config)
    if wrong:
        raise FormatError(f"{path}: {wrong}")
    return vocabulary


def vocabulary_misfit(vocabulary: Vocabulary | None, config: ModelConfig) -> str:
    """Say that a vocabulary is of another size than the model's; empty if it is not."""
    sizes = [config.softmax_words] if config.softmax_words is not None else []
    if not isinstance(config.encoder, CharacterEncoderConfig):
        sizes.append(config.encoder.words)
    if vocabulary is None or not sizes or len(vocabulary) in sizes:
        return ""
    return f"the vocabulary has {len(vocabulary):,} words but the model has {sizes[0]:,}"
