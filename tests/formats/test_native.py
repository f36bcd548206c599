from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import assert_same_bits, error_of
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats import native
from elmokit.formats.native import (
    SavedModel,
    describe,
    expected_shapes,
    is_native,
    read_model,
    write_model,
)
from elmokit.text.vocabulary import Vocabulary

CHARACTERS = ModelConfig(
    CharacterEncoderConfig(filters=((1, 4), (2, 6)), character_size=3),
    token_size=8,
    cell_size=12,
    cell_clip=3.0,
    projection_clip=2.5,
    softmax_words=5,
)
WORDS = ModelConfig(
    WordEncoderConfig(words=6, begin_id=2, end_id=3), token_size=8, cell_size=8, lstm_layers=1
)
VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat"])


def random_weights(config: ModelConfig) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator)
        for name, shape in expected_shapes(config).items()
    }


def saved_model(config: ModelConfig = CHARACTERS) -> SavedModel:
    vocabulary = VOCABULARY if config.softmax_words == 5 else None
    return SavedModel(config, random_weights(config), "words", vocabulary, "# Mine\n")


def written(tmp_path: Path, saved: SavedModel | None = None, **how: bool) -> Path:
    folder = tmp_path / "model"
    write_model(folder, saved or saved_model(), **how)
    return folder


def change_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads((folder / "config.json").read_text())
    change(values)
    (folder / "config.json").write_text(json.dumps(values))


def replace_weights(folder: Path, weights: dict[str, Tensor]) -> None:
    """Other weights, with a checksum that agrees."""
    path = folder / "model.safetensors"
    save_file(weights, path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    change_config(folder, lambda values: values["weights"].update(sha256=checksum))


@pytest.mark.parametrize("config", [CHARACTERS, WORDS, replace(CHARACTERS, softmax_words=None)])
def test_saved_model_loads_with_the_same_bits(tmp_path: Path, config: ModelConfig) -> None:
    saved = saved_model(config)

    loaded = read_model(written(tmp_path, saved))

    card = native.CARD_HEADER + saved.card
    assert loaded._replace(weights={}, scripts=None) == saved._replace(weights={}, card=card)
    assert_same_bits(loaded.weights, saved.weights)


def test_folder_of_an_older_name_of_the_weights_opens(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "model.safetensors").rename(folder / "weights.safetensors")

    assert is_native(folder)
    assert_same_bits(read_model(folder).weights, saved_model().weights)


def test_version_of_a_model_is_in_its_config_and_its_card(tmp_path: Path) -> None:
    folder = written(tmp_path, saved_model()._replace(version="tiny 3", card=""))

    values = json.loads((folder / "config.json").read_text())
    assert (values["version"], values["model_version"]) == (1, "tiny 3")
    assert read_model(folder).version == "tiny 3"
    assert "| version | tiny 3 |\n" in (folder / "README.md").read_text()
    change_config(folder, lambda values: values.pop("model_version"))  # as folders of before
    assert read_model(folder).version == ""


def test_card_has_one_header_for_the_hub_and_keeps_its_own(tmp_path: Path) -> None:
    own = "---\nlicense: mit\n---\n# Mine\n"
    for number, card in enumerate(["", "# Mine\n", own]):
        saved = saved_model()._replace(card=card)
        write_model(tmp_path / "once", saved, force=True)
        write_model(tmp_path / "twice", read_model(tmp_path / "once"), force=True)

        once, twice = ((tmp_path / name / "README.md").read_text() for name in ("once", "twice"))

        assert once == twice
        assert once.count("\n---\n") == 1
        assert once == own if number == 2 else once.startswith("---\nlibrary_name: elmokit\n")


def test_half_precision_takes_half_the_space_and_loads_as_float32(tmp_path: Path) -> None:
    saved = saved_model()
    write_model(tmp_path / "half", saved, half=True)
    write_model(tmp_path / "full", saved)

    loaded = read_model(tmp_path / "half")

    stored = load_file(tmp_path / "half" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["weights"]["dtype"] == (
        "float16"
    )
    for name, value in saved.weights.items():
        assert loaded.weights[name].dtype == torch.float32
        assert torch.equal(loaded.weights[name], value.half().float()), name


def test_value_too_large_for_half_precision_is_refused(tmp_path: Path) -> None:
    saved = saved_model()
    saved.weights["softmax.bias"][2] = 1e6

    with pytest.raises(InputError, match=r"softmax\.bias has values beyond float16's range"):
        written(tmp_path, saved, half=True)

    assert list(tmp_path.iterdir()) == []


def test_tensors_that_share_memory_are_saved(tmp_path: Path) -> None:
    saved = saved_model()
    saved.weights["softmax.bias"] = saved.weights["softmax.weight"][:, 0]

    loaded = read_model(written(tmp_path, saved))

    assert torch.equal(loaded.weights["softmax.bias"], saved.weights["softmax.bias"])


def test_folder_holds_the_files_it_documents(tmp_path: Path) -> None:
    folder = written(tmp_path)

    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "vocabulary.txt",
    ]
    values = json.loads((folder / "config.json").read_text())
    assert values["format"] == "elmokit-bilm"
    assert values["version"] == 1
    assert values["tokenizer"] == "words"
    assert values["weights"]["dtype"] == "float32"
    assert ModelConfig.from_dict(values["model"]) == CHARACTERS


def test_all_files_of_a_folder_may_be_read_by_the_same_people(tmp_path: Path) -> None:
    folder = written(tmp_path)

    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_vocabulary_and_card_are_optional(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "vocabulary.txt").unlink()
    (folder / "README.md").unlink()

    loaded = read_model(folder)

    assert loaded.vocabulary is None
    assert loaded.card == ""


def test_card_made_for_a_model_tells_what_it_is(tmp_path: Path) -> None:
    folder = written(tmp_path, saved_model()._replace(card=""))

    card = read_model(folder).card

    for name, value in describe(saved_model()).items():
        assert f"| {name} | {f'{value:,}' if type(value) is int else value} |" in card
    assert "Embedder.load(" in card


def test_folder_that_holds_files_is_replaced_only_by_force(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "notes.txt").write_text("mine")

    with pytest.raises(InputError, match="already holds files"):
        write_model(folder, saved_model(WORDS))
    write_model(folder, saved_model(WORDS), force=True)

    assert read_model(folder).config == WORDS
    assert not (folder / "notes.txt").exists()


def test_loaded_weights_outlive_their_folder(tmp_path: Path) -> None:
    folder = written(tmp_path)
    loaded = read_model(folder)

    path = folder / "model.safetensors"
    path.write_bytes(bytes(path.stat().st_size))

    assert_same_bits(loaded.weights, saved_model().weights)


def test_native_folder_is_recognised_whole_or_damaged(tmp_path: Path) -> None:
    folder = written(tmp_path)
    assert is_native(folder)

    (folder / "model.safetensors").unlink()
    assert is_native(folder)

    for contents in ("{}", "{"):
        (folder / "config.json").write_text(contents)
        assert not is_native(folder)
    for other in (folder / "config.json", tmp_path, tmp_path / "nowhere"):
        assert not is_native(other)


def test_weights_that_do_not_fit_the_config_are_not_written(tmp_path: Path) -> None:
    saved = saved_model()
    del saved.weights["softmax.bias"]
    saved.weights["softmax.weight"] = torch.zeros(4, 8)
    saved.weights["other"] = torch.zeros(1)

    message = error_of(written, tmp_path, saved, kind=InputError)

    assert "missing softmax.bias" in message
    assert "softmax.weight is (4, 8) instead of (5, 8)" in message
    assert "unexpected other" in message
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    saved = saved_model()
    saved.weights["softmax.bias"][0] = torch.nan

    with pytest.raises(FormatError, match=r"softmax\.bias holds NaN or infinite values"):
        written(tmp_path, saved)


def test_vocabulary_of_another_size_is_neither_written_nor_read(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "vocabulary.txt").write_text("the\ncat\n")

    with pytest.raises(FormatError, match=r"vocabulary\.txt: the vocabulary has 2 words"):
        read_model(folder)
    with pytest.raises(InputError, match="vocabulary has 2 words but the model has 5"):
        write_model(folder, saved_model()._replace(vocabulary=Vocabulary(["the", "cat"])))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), "is damaged: its SHA-256"),
        (lambda path: path.unlink(), "is missing"),
    ],
)
def test_damaged_weights_are_refused(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = written(tmp_path)
    damage(folder / "model.safetensors")

    with pytest.raises(FormatError, match=rf"model\.safetensors: {message}"):
        read_model(folder)


def test_weights_of_another_model_are_refused_in_one_error(tmp_path: Path) -> None:
    folder = written(tmp_path)
    weights = random_weights(replace(CHARACTERS, cell_size=8, lstm_layers=3))
    replace_weights(folder, weights)

    message = error_of(read_model, folder, kind=FormatError)

    assert "does not fit config.json" in message
    assert "missing forward_lstm.layers.0.projection_weight" in message
    assert "forward_lstm.layers.0.input_weight is (32, 8) instead of (48, 8)" in message
    assert "; 17 more" in message


def test_stored_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    weights = random_weights(CHARACTERS)
    weights["softmax.bias"][0] = torch.inf
    replace_weights(folder, weights)

    with pytest.raises(FormatError, match=r"softmax\.bias holds NaN or infinite values"):
        read_model(folder)


def test_pickle_in_place_of_the_weights_is_never_unpickled(tmp_path: Path) -> None:
    folder = written(tmp_path)
    path = folder / "model.safetensors"
    torch.save(random_weights(CHARACTERS), path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    change_config(folder, lambda values: values["weights"].update(sha256=checksum))

    assert "is not a safetensors file" in error_of(read_model, folder, kind=FormatError)


def test_newer_version_asks_for_an_upgrade(tmp_path: Path) -> None:
    folder = written(tmp_path)
    change_config(folder, lambda values: values.update(version=2))

    with pytest.raises(FormatError, match=r"is of version 2.*install a newer elmokit"):
        read_model(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.update(format="other"), "format is 'other'"),
        (lambda values: values.update(model=5), "model is 5; it must be a table"),
        (lambda values: values["model"].update(cell_size=-1), "cell_size is -1"),
        (lambda values: values["model"].update(cellsize=1), "did you mean 'cell_size'"),
        (lambda values: values["model"].pop("token_size"), "token_size"),
        (lambda values: values.update(model_version=3), "model_version is 3; it must be a text"),
        (lambda values: values.pop("tokenizer"), "tokenizer is None; it must be a text"),
    ],
)
def test_wrong_setting_is_refused_with_its_name(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    folder = written(tmp_path)
    change_config(folder, change)

    after = folder / "config.json"
    assert message in error_of(read_model, folder, kind=FormatError, after=after)


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"config\.json: cannot be read"):
        read_model(tmp_path / "nowhere")


KIWI = {"kiwipiepy": "0.24.1", "kiwipiepy_model": "0.24.0"}


@pytest.fixture
def kiwi_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that was made with these versions of Kiwi, which are installed."""
    monkeypatch.setattr(native, "versions", lambda: KIWI)
    return written(tmp_path, saved_model()._replace(tokenizer="kiwi"))


def test_a_model_of_korean_knows_the_versions_that_split_its_text(kiwi_model: Path) -> None:
    assert read_model(kiwi_model).tokenizer_versions == KIWI
    change_config(kiwi_model, lambda config: config.pop("tokenizer_versions"))
    assert read_model(kiwi_model).tokenizer_versions == {}
    assert "tokenizer_versions" not in json.loads((written(kiwi_model) / "config.json").read_text())


def test_another_version_of_what_splits_text_is_warned_of(
    kiwi_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "versions", lambda: KIWI | {"kiwipiepy": "0.30.0"})
    with pytest.warns(ElmoWarning, match=r"made with kiwipiepy 0.24.1; here is kiwipiepy 0.30.0"):
        saved = read_model(kiwi_model)
    write_model(kiwi_model, saved, force=True)
    assert json.loads((kiwi_model / "config.json").read_text())["tokenizer_versions"] == KIWI


def test_versions_are_not_compared_where_kiwi_is_not_installed(
    kiwi_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "versions", dict)
    assert read_model(kiwi_model).tokenizer == "kiwi"
