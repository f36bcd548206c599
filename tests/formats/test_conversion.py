from __future__ import annotations

import pytest
import torch
from helpers import error_of
from small_models import small_saved_model

from elmokit.config import WordEncoderConfig
from elmokit.errors import ConfigError, ElmoWarning, InputError
from elmokit.formats.convert import convert_model, token_vectors
from elmokit.formats.find import read_model
from elmokit.formats.native import write_model
from elmokit.text.vocabulary import Vocabulary


def test_the_other_format_is_the_default_target(tmp_path):
    write_model(tmp_path / "native", small_saved_model())
    written = convert_model([tmp_path / "native"], tmp_path / "pair")
    assert [path.name for path in written] == ["options.json", "weights.hdf5"]
    convert_model([tmp_path / "pair"], tmp_path / "again", tokenizer="whitespace")
    first, second = read_model(tmp_path / "native"), read_model(tmp_path / "again")
    assert first.config == second.config
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_a_misspelt_target_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="target is 'alennlp'"):
        convert_model([tmp_path], tmp_path / "out", target="alennlp")


def test_a_table_of_words_has_nothing_to_cache():
    with pytest.raises(InputError, match="its table is its vocabulary"):
        token_vectors(small_saved_model(encoder=WordEncoderConfig(9)), Vocabulary(["a"]))


def test_a_cached_word_that_is_cut_is_reported_and_a_marker_is_not():
    with pytest.warns(ElmoWarning, match="longer than the model reads") as reported:
        vectors = token_vectors(small_saved_model(), Vocabulary(["<S>", "</S>", "x" * 60]))
    assert len(reported) == 1
    assert vectors.shape == (3, 6)


def test_words_are_written_without_their_counts_for_other_programs(tmp_path):
    saved = small_saved_model(softmax_words=4)
    words = Vocabulary(["<S>", "</S>", "<UNK>", "the"], [2, 2, 0, 9])
    write_model(tmp_path / "native", saved._replace(vocabulary=words))
    convert_model([tmp_path / "native"], tmp_path / "pair")
    lines = (tmp_path / "pair" / "vocabulary.txt").read_text().splitlines()
    assert lines == ["<S>", "</S>", "<UNK>", "the"]


def test_an_adaptive_softmax_is_left_out_with_a_remark(tmp_path):
    write_model(tmp_path / "native", small_saved_model(softmax_words=9, softmax_cutoffs=(3,)))
    with pytest.warns(ElmoWarning, match="adaptive softmax has no place"):
        convert_model([tmp_path / "native"], tmp_path / "pair")
    assert read_model(tmp_path / "pair").config.softmax_words is None


@pytest.mark.parametrize(
    ("flag", "its", "target"),
    [("int8", "onnx", None), ("int8", "onnx", "native"), ("half", "native", "onnx"),
     ("half", "native", None), ("half", "native", "cached-vocabulary")],
)  # fmt: skip
def test_a_flag_of_another_target_is_refused(tmp_path, flag, its, target):
    path, arguments = tmp_path / "out", {flag: True, "target": target}
    message = error_of(convert_model, ["english-small"], path, **arguments, kind=InputError)
    assert f"--{flag} is for --to {its}, not {target or 'allennlp'}" in message
    assert not path.exists()


@pytest.mark.parametrize("target", [None, "native", "allennlp"])
def test_a_model_is_no_file(tmp_path, target):
    path = tmp_path / "model.h5"
    message = error_of(convert_model, ["english-small"], path, target=target, after=f"{path}: ")
    assert "give the name of a folder" in message
    assert not path.exists()
