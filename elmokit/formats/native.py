"""This package's own format: a folder with config, weights, vocabulary and model card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmokit.config import ModelConfig, WordEncoderConfig
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.io.files import (
    read_object,
    read_text,
    sha256_of,
    write_folder_atomically,
    write_object,
)
from elmokit.model.bilm import BiLM
from elmokit.model.weights import without_values
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary

Shape = tuple[int, ...]

SHOWN = 5
"""Shapes that one message compares: options of another model differ in every one."""


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
    missing = [name for name in expected if name not in found]
    unexpected = [name for name in found if name not in expected]
    others = [
        f"{name} is {found[name]} instead of {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    findings = [f"missing {grouped(missing)}"] if missing else []
    findings += others[:SHOWN]
    if len(others) > SHOWN:
        findings.append(f"{len(others) - SHOWN} more are of another shape")
    if unexpected:
        findings.append(f"unexpected {grouped(unexpected)}")
    return "; ".join(findings)


def state_dict_misfit(state_dict: Mapping[str, Tensor], config: ModelConfig) -> str:
    """Say what keeps these weights from being a model of this config; empty if nothing does."""
    found = {name: tuple(tensor.shape) for name, tensor in state_dict.items()}
    return misfit(expected_shapes(config), found)


def check_finite(values: Tensor, place: str) -> None:
    """Refuse NaN and infinity: one such weight makes every vector NaN."""
    if not bool(torch.isfinite(values).all()):
        raise FormatError(
            f"{place} holds NaN or infinite values; it is damaged, or its training diverged"
        )


def grouped(names: Iterable[str]) -> str:
    """Write names shortly, their common folder once.

    >>> grouped(["CNN/W_cnn_0", "CNN/b_cnn_0", "char_embed"])
    'CNN/{W_cnn_0, b_cnn_0}, char_embed'
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        folder, separator, last = name.rpartition("/" if "/" in name else ".")
        groups.setdefault(folder + separator, []).append(last)
    return ", ".join(
        folder + (last[0] if len(last) == 1 else "{" + ", ".join(last) + "}")
        for folder, last in groups.items()
    )


FORMAT = "elmokit-bilm"
VERSION = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocabulary.txt"
CARD = "README.md"

Setting = TypeVar("Setting")
KINDS: dict[type, str] = {dict: "an object", str: "a text"}


class SavedModel(NamedTuple):
    """Everything that a model folder holds."""

    config: ModelConfig
    weights: dict[str, Tensor]  # the state_dict, float32
    tokenizer: str  # the name of the tokenizer the model was trained with
    vocabulary: Vocabulary | None = None  # of the softmax, or of a word-input model
    card: str = ""  # README.md; a short one is made where this is empty


def is_native(folder: str | Path) -> bool:
    """Whether this is a model folder of ours, be it a damaged one; opens no large file."""
    config = Path(folder) / CONFIG
    if not config.is_file():
        return False
    if (config.parent / WEIGHTS).is_file():
        return True
    try:
        return read_object(config).get("format") == FORMAT
    except FormatError:
        return False


def read_model(folder: str | Path) -> SavedModel:
    """Read a model folder, its weights as float32 whatever they are stored as."""
    folder = Path(folder)
    values = _read_config(folder / CONFIG)
    config = _model_config(values, folder / CONFIG)
    stored = _setting(values, "weights", dict, folder / CONFIG)
    checksum = _setting(stored, "sha256", str, folder / CONFIG)
    return SavedModel(
        config=config,
        weights=_read_weights(folder / WEIGHTS, checksum, config),
        tokenizer=_setting(values, "tokenizer", str, folder / CONFIG),
        vocabulary=_read_vocabulary(folder / VOCABULARY, config),
        card=_read_card(folder / CARD),
    )


def write_model(
    folder: str | Path, saved: SavedModel, *, half: bool = False, force: bool = False
) -> None:
    """Write a model folder; it appears whole or not at all.

    Args:
        folder: Its name. A folder that holds files is replaced only with `force`.
        saved: What to write.
        half: Store the weights as float16, in half the space, three digits of each kept.
        force: Replace what the folder holds.
    """
    _check_saved(saved)
    dtype = torch.float16 if half else torch.float32
    weights = {name: _stored(name, value, dtype) for name, value in saved.weights.items()}
    with write_folder_atomically(folder, force=force) as temporary:
        save_file(weights, temporary / WEIGHTS, metadata={"format": "pt"})
        if saved.vocabulary is not None:
            write_vocabulary(saved.vocabulary, temporary / VOCABULARY)
        card = saved.card or model_card(saved)
        (temporary / CARD).write_text(card, encoding="utf-8")
        # safetensors lets only the owner read its file; models are for whoever may read the rest.
        (temporary / WEIGHTS).chmod((temporary / CARD).stat().st_mode)
        contents = {
            "format": FORMAT,
            "version": VERSION,
            "model": saved.config.to_dict(),
            "tokenizer": saved.tokenizer,
            "weights": {
                "sha256": sha256_of(temporary / WEIGHTS),
                "dtype": str(dtype).removeprefix("torch."),
            },
        }
        write_object(contents, temporary / CONFIG)


def model_card(saved: SavedModel) -> str:
    """A short README: what the model is, and how to load it."""
    config = saved.config
    softmax = f"{config.softmax_words:,} words" if config.softmax_words else "not kept"
    return f"""# A bidirectional language model

| | |
|---|---|
| input | {_describe_encoder(config)} |
| LSTM | {config.lstm_layers} layers in each direction, {config.cell_size:,} cells |
| vectors | {config.layer_count} layers of {config.vector_size:,} numbers per word |
| softmax | {softmax} |
| parameters | {parameter_count(saved.weights):,} |
| tokenizer | {saved.tokenizer} |

```python
from elmokit import Embedder

elmo = Embedder.load("path/to/this/folder")
elmo.embed([["The", "river", "bank"]])
```
"""


def _describe_encoder(config: ModelConfig) -> str:
    if isinstance(config.encoder, WordEncoderConfig):
        return f"{config.encoder.words:,} words, token vectors of {config.token_size:,} numbers"
    filters = config.encoder.filter_count
    return f"characters, {filters:,} filters, token vectors of {config.token_size:,} numbers"


def parameter_count(weights: Mapping[str, Tensor]) -> int:
    """Numbers in the model; the row of zeros that stands for padding is not counted."""
    padded = ("encoder.characters.weight", "encoder.words.weight")
    return sum(
        value[1:].numel() if name in padded else value.numel() for name, value in weights.items()
    )


def _check_saved(saved: SavedModel) -> None:
    """Refuse, before anything is written, what could not be read back."""
    wrong = state_dict_misfit(saved.weights, saved.config)
    if wrong:
        raise InputError(f"the weights do not fit the config: {wrong}")
    wrong = _vocabulary_misfit(saved.vocabulary, saved.config)
    if wrong:
        raise InputError(wrong)


def _stored(name: str, value: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor ready for the file; safetensors wants each in memory of its own."""
    check_finite(value, name)
    stored = value.detach().to("cpu", dtype, copy=True).contiguous()
    if dtype == torch.float16 and not bool(torch.isfinite(stored).all()):
        raise InputError(f"{name} has values beyond float16's range; save it without half")
    return stored


def _read_config(path: Path) -> dict[str, Any]:
    """Read config.json, refusing other formats and newer versions of this one."""
    values = read_object(path)
    if values.get("format") != FORMAT:
        raise FormatError(f"{path}: format is {values.get('format')!r}; it must be {FORMAT!r}")
    version = values.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{path}: version is {version!r}; it must be a whole number from 1")
    if version > VERSION:
        raise FormatError(
            f"{path}: is of version {version}, this elmokit reads up to {VERSION}; "
            "upgrade it: pip install --upgrade elmokit"
        )
    return values


def _model_config(values: Mapping[str, Any], path: Path) -> ModelConfig:
    model = _setting(values, "model", dict, path)
    try:
        return ModelConfig.from_dict(model)
    except ConfigError as error:
        raise FormatError(f"{path}: model: {error}") from error


def _setting(values: Mapping[str, Any], name: str, kind: type[Setting], path: Path) -> Setting:
    """A setting that must be there and of this kind."""
    value = values.get(name)
    if not isinstance(value, kind):
        raise FormatError(f"{path}: {name} is {value!r}; it must be {KINDS[kind]}")
    return value


def _read_weights(path: Path, checksum: str, config: ModelConfig) -> dict[str, Tensor]:
    """Read the weights as float32, after checking that they are what was written."""
    if not path.is_file():
        raise FormatError(f"{path}: is missing; copy or download the folder again")
    if sha256_of(path) != checksum:
        raise FormatError(
            f"{path}: is damaged: its SHA-256 is not the one in {CONFIG}; "
            "copy or download the folder again"
        )
    try:
        with safe_open(path, framework="pt") as file:
            return _read_tensors(file, path, config)
    except SafetensorError as error:
        raise FormatError(f"{path}: is not a safetensors file ({error})") from error


def _read_tensors(file: Any, path: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Check the shapes of all tensors, then read them."""
    found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    wrong = misfit(expected_shapes(config), found)
    if wrong:
        raise FormatError(f"{path}: does not fit {CONFIG}: {wrong}")
    weights = {}
    for name in found:
        # A copy, since safetensors gives a view of the file, which may be replaced meanwhile.
        value = file.get_tensor(name).to(torch.float32, copy=True)
        check_finite(value, f"{path}: {name}")
        weights[name] = value
    return weights


def _read_vocabulary(path: Path, config: ModelConfig) -> Vocabulary | None:
    if not path.exists():
        return None
    vocabulary = read_vocabulary(path)
    wrong = _vocabulary_misfit(vocabulary, config)
    if wrong:
        raise FormatError(f"{path}: {wrong}")
    return vocabulary


def _vocabulary_misfit(vocabulary: Vocabulary | None, config: ModelConfig) -> str:
    """Say that a vocabulary is of another size than the model's; empty if it is not."""
    sizes = [config.softmax_words] if config.softmax_words is not None else []
    if isinstance(config.encoder, WordEncoderConfig):
        sizes.append(config.encoder.words)
    if vocabulary is None or not sizes or len(vocabulary) in sizes:
        return ""
    return f"the vocabulary has {len(vocabulary):,} words but the model has {sizes[0]:,}"


def _read_card(path: Path) -> str:
    return read_text(path) if path.exists() else ""
