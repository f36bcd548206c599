from __future__ import annotations

from pathlib import Path

import pytest
from small_models import small_bilm, small_saved_model

from elmokit.config import WordEncoderConfig
from elmokit.errors import ElmoError, InputError
from elmokit.formats.convert import write_pair
from elmokit.formats.find import read_model
from elmokit.formats.native import describe, write_model
from elmokit.text.vocabulary import Vocabulary, write_vocabulary


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    write_pair(small_saved_model(), tmp_path / "pair", force=False)
    return tmp_path / "pair"


@pytest.mark.parametrize("name", ["weights.hdf5", "elmo_2x4096_weights.hdf5", "model.hdf5"])
def test_a_folder_with_one_pair_of_files_is_a_model(pair, name):
    (pair / "weights.hdf5").rename(pair / name)
    assert read_model(pair).config == small_bilm().config


def test_the_folder_one_is_in_can_be_a_model(pair, monkeypatch):
    monkeypatch.chdir(pair)
    assert read_model(".").config == small_bilm().config


def test_a_folder_without_a_model_says_what_it_lacks(tmp_path):
    with pytest.raises(InputError, match=r"holds neither config\.json nor one options\.json"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "advice"),
    [
        ("elmokit.json", '{"format": "elmokit-onnx"}', r"ONNX Runtime; .*onnx\.OnnxEmbedder"),
        ("config.json", '{"format": "elmokit-task"}', "trained task, .*use elmo task predict"),
    ],
)
def test_a_folder_of_another_kind_says_what_reads_it(tmp_path, file, content, advice):
    (tmp_path / file).write_text(content)
    (tmp_path / "weights.safetensors").touch()
    with pytest.raises(ElmoError, match=advice):
        read_model(tmp_path)


def test_options_alone_need_their_weights(pair):
    with pytest.raises(InputError, match="give the weights too"):
        read_model(pair / "options.json")


def test_published_files_are_read_with_the_treebank_s_words(pair):
    assert read_model(pair).tokenizer == "default"


def test_a_model_folder_takes_no_other_words(tmp_path):
    write_model(tmp_path / "native", small_saved_model())
    with pytest.raises(InputError, match="has its own words"):
        read_model(tmp_path / "native", vocabulary=tmp_path / "words.txt")


def test_markers_of_word_input_are_found_in_its_vocabulary(tmp_path):
    write_pair(small_saved_model(encoder=WordEncoderConfig(4)), tmp_path / "pair", force=False)
    words = tmp_path / "words.txt"
    write_vocabulary(Vocabulary(["the", "<UNK>", "</S>", "<S>"]), words)
    encoder = read_model(tmp_path / "pair", vocabulary=words).config.encoder
    assert (encoder.begin_id, encoder.end_id) == (4, 3)
    write_vocabulary(Vocabulary(["the", "<UNK>", "</S>", "a"]), words)
    with pytest.raises(InputError, match="has no '<S>'"):
        read_model(tmp_path / "pair", vocabulary=words)


def test_a_description_counts_what_training_has_chosen():
    saved = small_saved_model()
    padding_row = 4
    expected = sum(tensor.numel() for tensor in saved.weights.values()) - padding_row
    facts = describe(saved)
    assert facts["parameters"] == expected
    assert facts["input"].startswith("characters, 50 per word, 18 filters")
    assert (
        describe(small_saved_model(encoder=WordEncoderConfig(9)))["input"] == "words, a table of 9"
    )


def test_the_name_of_a_published_model_fetches_it(pair, monkeypatch):
    asked = []

    def download(name, progress):
        asked.append(name)
        return pair / "options.json", pair / "weights.hdf5"

    monkeypatch.setattr("elmokit.formats.find.download", download)
    monkeypatch.chdir(pair)
    assert read_model("small").config == small_bilm().config
    assert asked == ["small"]
    (pair / "small").mkdir()
    with pytest.raises(InputError, match="small: holds neither"):
        read_model("small")  # what is here comes first
