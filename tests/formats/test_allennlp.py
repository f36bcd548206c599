from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from closeness import assert_close
from helpers import assert_same_bits, error_of
from random_models import Weights, random_options, random_weights, read_files, write_files
from torch import Tensor

from elmokit.config import ModelConfig, WordEncoderConfig
from elmokit.errors import ElmoWarning, FormatError
from elmokit.formats import allennlp
from elmokit.formats.allennlp import read_options, write_options
from elmokit.formats.native import expected_shapes
from elmokit.model.bilm import BiLM

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "data"
golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared")

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
VARIANTS: dict[str, dict[str, Any]] = {
    "two layers": {},
    "no skips": {"skip": False},
    "one layer": {"layers": 1},
    "three layers": {"layers": 3},
    "four layers": {"layers": 4},
    "no highway": {"highways": 0},
    "three highways": {"highways": 3},
    "tanh": {"activation": "tanh"},
    "no LSTM projection": {"cell": 8},
    "cells projected up": {"cell": 5},
    "no encoder projection": {"filters": [[1, 3], [2, 5]]},
    "encoder projected up": {"filters": [[1, 3]]},
    "widths unsorted": {"filters": [[3, 4], [1, 2], [3, 2]]},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "softmax": {"softmax_words": 11},
    "word input": {"word_input": True, "words": 7},
    "word input and softmax": {"word_input": True, "words": 7, "softmax_words": 7},
}


def files_of(folder: Path, **variant: Any) -> tuple[Path, Path]:
    sizes = {name: variant.pop(name, None) for name in ("words", "softmax_words")}
    options = random_options(**variant)
    return write_files(folder, options, random_weights(options, **sizes))


def changed_files(folder: Path, changes: Weights, **variant: Any) -> tuple[Path, Path]:
    """The files of a model, with some datasets replaced, added, or (None) removed."""
    options_path, weights_path = files_of(folder, **variant)
    with h5py.File(weights_path, "r+") as file:
        for name, values in changes.items():
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values
    return options_path, weights_path


def message_of(options: Path, weights: Path) -> str:
    return error_of(allennlp.read_model, options, weights, kind=FormatError, after=weights)


def write(folder: Path, config: ModelConfig, weights: dict[str, Tensor]) -> tuple[Path, Path]:
    write_options(config, folder / "o.json")
    allennlp.write_weights(weights, config, folder / "w.hdf5")
    return folder / "o.json", folder / "w.hdf5"


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_reading_and_writing_are_inverse_to_the_bit(
    tmp_path: Path, variant: dict[str, Any]
) -> None:
    paths = files_of(tmp_path / "theirs", **variant)

    config, weights = allennlp.read_model(*paths)
    ours = write(tmp_path, config, weights)
    config_again, weights_again = allennlp.read_model(*ours)

    options, datasets = read_files(*paths)
    options_again, datasets_again = read_files(*ours)
    assert_same_bits(datasets_again, datasets)
    assert options_again["lstm"] == options["lstm"]
    assert options_again.get("char_cnn") == options.get("char_cnn")
    assert config_again == config
    assert_same_bits(weights_again, weights)
    assert all(value.is_contiguous() for value in weights.values())
    BiLM(config).load_state_dict(weights)


@golden
@pytest.mark.parametrize("name", ["golden-allennlp", "golden-bilm-tf"])
def test_golden_model_read_and_written_again_has_the_same_bits(tmp_path: Path, name: str) -> None:
    paths = GOLDEN / name / "options.json", GOLDEN / name / "lm_weights.hdf5"

    ours = write(tmp_path, *allennlp.read_model(*paths))

    options, datasets = read_files(*paths)
    options_again, datasets_again = read_files(*ours)
    assert options_again == options
    assert_same_bits(datasets_again, datasets)


@golden
def test_golden_cached_vocabulary_is_written_with_the_same_bits(tmp_path: Path) -> None:
    path = GOLDEN / "golden-allennlp" / "elmo_token_embeddings.hdf5"

    with h5py.File(path) as before:
        vectors = torch.from_numpy(before["embedding"][...])
    allennlp.write_cached_vocabulary(vectors, tmp_path / "again.hdf5")

    assert vectors.shape == (458, 16)
    with h5py.File(path) as before, h5py.File(tmp_path / "again.hdf5") as after:
        assert list(after) == ["embedding"]
        assert after["embedding"][...].tobytes() == before["embedding"][...].tobytes()


def test_each_number_of_the_file_lands_where_the_paper_has_it(tmp_path: Path) -> None:
    paths = files_of(tmp_path, softmax_words=3)
    _, file = read_files(*paths)

    _, weights = allennlp.read_model(*paths)

    assert weights["encoder.characters.weight"][0].count_nonzero() == 0
    for ours, theirs in {
        "encoder.characters.weight": np.pad(file["char_embed"], ((1, 0), (0, 0))),
        "encoder.convolutions.2.weight": file["CNN/W_cnn_2"][0].T,
        "encoder.convolutions.2.bias": file["CNN/b_cnn_2"],
        "encoder.highways.1.gate.weight": file["CNN_high_1/W_carry"].T,
        "encoder.highways.1.gate.bias": file["CNN_high_1/b_carry"],
        "encoder.highways.1.transform.weight": file["CNN_high_1/W_transform"].T,
        "encoder.projection.weight": file["CNN_proj/W_proj"].T,
        "softmax.weight": file["softmax/W"],
        "softmax.bias": file["softmax/b"],
    }.items():
        np.testing.assert_array_equal(weights[ours], theirs, err_msg=ours)


def test_gates_are_reordered_and_the_kernel_is_split(tmp_path: Path) -> None:
    paths = files_of(tmp_path)
    _, file = read_files(*paths)
    name = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"

    _, weights = allennlp.read_model(*paths)

    layer = "backward_lstm.layers.1"
    i, j, f, o = np.split(file[f"{name}/W_0"].T, 4)
    kernel = np.concatenate([i, f, o, j])
    np.testing.assert_array_equal(weights[f"{layer}.input_weight"], kernel[:, :8])
    np.testing.assert_array_equal(weights[f"{layer}.recurrent_weight"], kernel[:, 8:])
    i, j, f, o = np.split(file[f"{name}/B"], 4)
    np.testing.assert_array_equal(weights[f"{layer}.bias"], np.concatenate([i, f, o, j]))
    np.testing.assert_array_equal(weights[f"{layer}.projection_weight"], file[f"{name}/W_P_0"].T)


def test_one_layer_dump_without_a_stack_is_read_like_one_with_it(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path, layers=1)
    _, expected = allennlp.read_model(options, weights)
    with h5py.File(weights, "r+") as file:
        for direction in ("RNN_0", "RNN_1"):
            file.move(f"{direction}/RNN/MultiRNNCell/Cell0/LSTMCell", f"{direction}/RNN/LSTMCell")
            del file[f"{direction}/RNN/MultiRNNCell"]

    _, found = allennlp.read_model(options, weights)

    assert_same_bits(found, expected)


def test_config_is_completed_from_the_weight_file(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path, word_input=True, words=7, softmax_words=9)

    config, _ = allennlp.read_model(options, weights)

    assert isinstance(config.encoder, WordEncoderConfig)
    assert config.encoder.words == 7
    assert config.softmax_words == 9
    assert read_options(options).softmax_words is None


def test_softmax_is_passed_over_where_the_config_has_none(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path, softmax_words=9)

    state_dict = allennlp.read_weights(weights, read_options(options))

    assert not any(name.startswith("softmax") for name in state_dict)


def test_word_vectors_may_be_in_a_second_file(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path, word_input=True, words=7)
    config, expected = allennlp.read_model(options, weights)
    with h5py.File(weights, "r+") as file:
        table = torch.from_numpy(file["embedding"][...])
        del file["embedding"]
    allennlp.write_cached_vocabulary(table, tmp_path / "table.hdf5")

    found_config, found = allennlp.read_model(options, weights, tmp_path / "table.hdf5")

    assert found_config == config
    assert_same_bits(found, expected)
    assert "missing embedding" in message_of(options, weights)


def test_embedding_file_turns_a_character_model_into_a_word_model(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path)
    table = torch.randn(5, 8)
    allennlp.write_cached_vocabulary(table, tmp_path / "table.hdf5")

    config, found = allennlp.read_model(options, weights, tmp_path / "table.hdf5")

    assert config.encoder == WordEncoderConfig(words=5)
    assert torch.equal(found["encoder.words.weight"][1:], table)
    assert found["encoder.words.weight"][0].count_nonzero() == 0
    BiLM(config).load_state_dict(found)


def test_error_in_the_second_file_names_the_second_file(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path)
    allennlp.write_cached_vocabulary(torch.randn(5, 9), tmp_path / "table.hdf5")

    with pytest.raises(FormatError, match=r"table\.hdf5: .*embedding is \(5, 9\) instead of"):
        allennlp.read_model(options, weights, tmp_path / "table.hdf5")


@pytest.mark.parametrize("dtype", ["float64", "float16", ">f4"])
def test_other_floating_point_numbers_become_float32(tmp_path: Path, dtype: str) -> None:
    options, weights = files_of(tmp_path)
    _, expected = allennlp.read_model(options, weights)
    with h5py.File(weights, "r+") as file:
        values = file["char_embed"][...].astype(dtype)
        del file["char_embed"]
        file["char_embed"] = values

    _, found = allennlp.read_model(options, weights)

    name = "encoder.characters.weight"
    assert found[name].dtype == torch.float32
    np.testing.assert_array_equal(found[name][1:], values.astype(np.float32))
    assert_close(found[name], expected[name].half())


def test_unknown_datasets_are_passed_over(tmp_path: Path) -> None:
    extra = {"global_step": np.int64(5), "notes": np.bytes_("mine"), "Adagrad/W": np.ones(3)}

    config, weights = allennlp.read_model(*changed_files(tmp_path, extra))

    assert weights.keys() == expected_shapes(config).keys()


@pytest.mark.parametrize(
    "name", ["CNN/W_cnn_3", "CNN_high_2/W_carry", "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0"]
)
def test_part_that_the_options_leave_out_is_reported(tmp_path: Path, name: str) -> None:
    paths = changed_files(tmp_path, {name: np.ones(3)})

    with pytest.warns(ElmoWarning, match=f"has {name}, which the options do not use"):
        allennlp.read_model(*paths)


@pytest.mark.parametrize(
    ("variant", "name"),
    [({"cell": 8}, f"{CELL}/W_P_0"), ({"filters": [[1, 8]]}, "CNN_proj/W_proj")],
)
def test_projection_between_equal_sizes_is_refused(
    tmp_path: Path, variant: dict[str, Any], name: str
) -> None:
    paths = changed_files(tmp_path, {name: np.eye(8, dtype=np.float32)}, **variant)

    assert f"has {name}, a projection between equal sizes" in message_of(*paths)


def test_one_error_lists_everything_missing_and_misshapen(tmp_path: Path) -> None:
    changes = {
        "char_embed": None,
        "CNN/W_cnn_0": None,
        "CNN/b_cnn_0": None,
        "CNN_proj/b_proj": np.ones(9, dtype=np.float32),
        f"{CELL}/B": np.ones((4, 24), dtype=np.float32),
    }

    message = message_of(*changed_files(tmp_path, changes))

    assert "missing char_embed; missing CNN/W_cnn_0; missing CNN/b_cnn_0" in message
    assert "CNN_proj/b_proj is (9,) instead of (8,)" in message
    assert f"{CELL}/B is (4, 24) instead of (96,)" in message


def test_options_of_another_model_are_said_not_to_belong(tmp_path: Path) -> None:
    options, _ = files_of(tmp_path / "one")
    _, weights = files_of(tmp_path / "other", projection=6, cell=30, character_size=5)

    message = message_of(options, weights)

    assert "the options and the weights do not belong together" in message
    assert "char_embed is (261, 5) instead of (261, 4)" in message
    assert "; 13 more" in message
    assert len(message) < 800


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"char_embed": None, "char_embed/x": np.ones(3)}, "missing char_embed"),
        ({"CNN": np.ones(3)}, "missing CNN/W_cnn_0; missing CNN/b_cnn_0"),
        ({"char_embed": h5py.Empty("f4")}, "missing char_embed"),
    ],
    ids=["a group", "a dataset", "nothing"],
)
def test_something_else_in_place_of_a_dataset_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    assert message in message_of(*changed_files(tmp_path, changes))


@pytest.mark.parametrize("missing", ["softmax/W", "softmax/b"])
def test_half_a_softmax_is_incomplete(tmp_path: Path, missing: str) -> None:
    paths = changed_files(tmp_path, {missing: None}, softmax_words=9)

    assert f"missing {missing}" in message_of(*paths)


def test_softmax_of_no_words_is_refused(tmp_path: Path) -> None:
    empty = {"softmax/W": np.ones((0, 8), np.float32), "softmax/b": np.ones(0, np.float32)}

    assert "softmax_words is 0" in message_of(*changed_files(tmp_path, empty))


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e300])
def test_value_that_is_not_finite_in_float32_is_refused(tmp_path: Path, value: float) -> None:
    paths = changed_files(tmp_path, {"CNN_proj/b_proj": np.array([0.0] * 7 + [value])})

    assert "CNN_proj/b_proj holds NaN or infinite values" in message_of(*paths)


@pytest.mark.parametrize(
    "values",
    [
        np.ones(8, dtype=np.int64),
        np.array([b"x"] * 8),
        np.ones(8, dtype=complex),
        np.array(["x"] * 8, dtype=h5py.string_dtype()),
    ],
    ids=["int", "bytes", "complex", "object"],
)
def test_dataset_of_anything_but_floats_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    paths = changed_files(tmp_path, {"CNN_proj/b_proj": values})

    assert "it must hold floating-point numbers" in message_of(*paths)


def test_pickle_in_disguise_is_never_unpickled(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path)
    torch.save({"char_embed": torch.ones(3)}, weights)

    assert message_of(options, weights) == ": is not an HDF5 file"


@pytest.mark.parametrize(
    ("keep", "message"), [(0, "is not an HDF5 file"), (3000, "is damaged or incomplete")]
)
def test_truncated_file_is_refused(tmp_path: Path, keep: int, message: str) -> None:
    options, weights = files_of(tmp_path)
    weights.write_bytes(weights.read_bytes()[:keep])

    assert message in message_of(options, weights)


def test_weights_behind_other_bytes_are_refused(tmp_path: Path) -> None:
    options, weights = files_of(tmp_path)
    weights.write_bytes(bytes(512) + weights.read_bytes())

    said = message_of(options, weights)
    assert "has a user block" in said
    assert "h5unjam" in said
    assert "damaged" not in said


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    options, _ = files_of(tmp_path)

    assert "cannot be read (No such file" in message_of(options, tmp_path / "nowhere.hdf5")
    assert "cannot be read (Is a directory" in message_of(options, tmp_path)


def test_weights_that_do_not_fit_the_config_are_not_written(tmp_path: Path) -> None:
    config, weights = allennlp.read_model(*files_of(tmp_path / "theirs"))
    weights["softmax.bias"] = torch.ones(3)
    del weights["encoder.projection.bias"]

    message = error_of(allennlp.write_weights, weights, config, tmp_path / "ours.hdf5")

    assert "missing encoder.projection.bias" in message
    assert "unexpected softmax.bias" in message
    assert not (tmp_path / "ours.hdf5").exists()


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    config, weights = allennlp.read_model(*files_of(tmp_path / "theirs"))
    weights["encoder.projection.bias"][0] = torch.nan

    with pytest.raises(FormatError, match=r"encoder\.projection\.bias holds NaN"):
        allennlp.write_weights(weights, config, tmp_path / "ours.hdf5")

    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_weights_in_half_precision_and_with_gradients_are_written(tmp_path: Path) -> None:
    config, weights = allennlp.read_model(*files_of(tmp_path / "theirs"))
    model = BiLM(config)
    model.load_state_dict(weights)
    halves = {name: value.half() for name, value in model.named_parameters()}

    allennlp.write_weights(halves, config, tmp_path / "ours.hdf5")

    found = allennlp.read_weights(tmp_path / "ours.hdf5", config)
    assert_same_bits(found, {name: value.half().float() for name, value in weights.items()})
