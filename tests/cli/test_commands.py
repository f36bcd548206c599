from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from small_models import small_bilm

from elmokit import Embedder
from elmokit.conversion import write_pair
from elmokit.formats.allennlp import read_cached_vocabulary
from elmokit.formats.native import SavedModel, write_model


@pytest.fixture
def model(tmp_path: Path) -> str:
    bilm = small_bilm()
    saved = SavedModel(bilm.config, bilm.state_dict(), tokenizer="default")
    write_model(tmp_path / "model", saved)
    return str(tmp_path / "model")


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    bilm = small_bilm()
    saved = SavedModel(bilm.config, bilm.state_dict(), tokenizer="whitespace")
    write_pair(saved, tmp_path / "published", force=False)
    return [str(tmp_path / "published" / name) for name in ("options.json", "weights.hdf5")]


@pytest.mark.slow  # a clock on a busy machine; test_importing_is_cheap holds the cause
def test_help_answers_at_once():
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "elmokit", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.3


@pytest.mark.parametrize("command", ["compare", "convert", "download", "embed", "info"])
def test_every_command_explains_itself(elmo, command):
    code, out, _ = elmo(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: elmo {command}")


def test_the_version_is_printed(elmo):
    assert elmo("--version")[:2] == (0, "elmo, version 0.1.0\n")


def test_compare_prints_a_row_per_layer_and_the_static_one_is_1(elmo, model):
    code, out, _ = elmo("compare", "bank", "A river bank.", "The bank lends.", "--model", model)
    assert code == 0
    assert out.splitlines()[0] == "1: A river [bank] ."
    rows = {line[:18].strip(): float(line[18:]) for line in out.splitlines()[4:]}
    assert list(rows) == ["layer 0 (static)", "layer 1", "layer 2 (top)", "average"]
    assert rows["layer 0 (static)"] == pytest.approx(1)
    assert -1 <= rows["layer 1"] < 0.9999


def test_compare_prints_json_for_programs(elmo, model):
    _, out, _ = elmo("compare", "bank", "a bank", "bank b", "Bank c", "--model", model, "--json")
    result = json.loads(out)
    assert result["pairs"] == [[0, 1], [0, 2], [1, 2]]
    assert result["positions"] == [1, 0, 0]
    assert len(result["cosines"]["average"]) == 3


def test_compare_names_the_sentence_without_the_word(elmo, model):
    code, out, err = elmo("compare", "bank", "a bank", "no such word", "--model", model)
    assert (code, out) == (1, "")
    assert err == "elmo: 'bank' is not a word of sentence 2: no such word\n"


def test_compare_needs_two_sentences(elmo, model):
    code, _, err = elmo("compare", "bank", "a bank", "--model", model)
    assert code == 1
    assert "at least two sentences" in err


def test_a_pair_of_files_is_a_model_too(elmo, pair, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a bank\n", encoding="utf-8")
    out_file = tmp_path / "out.npz"
    code, out, _ = elmo("embed", str(text), "-o", str(out_file), "--model", *pair)
    assert code == 0
    assert "1 sentence, 2 words" in out
    assert np.load(out_file)["0"].shape == (2, 12)


def test_info_says_what_a_model_is(elmo, model):
    code, out, _ = elmo("info", model)
    assert code == 0
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["LSTM cells"].strip() == "10"
    assert facts["tokenizer"].strip() == "default"
    assert json.loads(elmo("info", model, "--json")[1])["vector size"] == 12


def test_converting_there_and_back_is_identity(elmo, pair, tmp_path):
    native, back = str(tmp_path / "native"), tmp_path / "back"
    assert elmo("convert", *pair, native, "--tokenizer", "default")[0] == 0
    assert Embedder.load(native).tokenizer.name == "default"
    code, out, _ = elmo("convert", native, str(back))
    assert code == 0
    assert out.split() == [str(back / "options.json"), str(back / "weights.hdf5")]
    with h5py.File(pair[1]) as first, h5py.File(back / "weights.hdf5") as second:
        names: list[str] = []
        first.visit(names.append)
        datasets = [name for name in names if isinstance(first[name], h5py.Dataset)]
        assert datasets
        for name in datasets:
            np.testing.assert_array_equal(first[name][()], second[name][()])


def test_half_precision_takes_half_the_space(elmo, pair, tmp_path):
    full, half = tmp_path / "full", tmp_path / "half"
    elmo("convert", *pair, str(full))
    elmo("convert", *pair, str(half), "--half")
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (full, half)]
    assert sizes[1] < 0.7 * sizes[0]


def test_words_are_cached_as_allennlp_does(elmo, model, tmp_path):
    words, cache = tmp_path / "words.txt", tmp_path / "cache.hdf5"
    words.write_text("<S>\nbank\nriver\n", encoding="utf-8")
    arguments = ["convert", model, str(cache), "--to", "cached-vocabulary"]
    code, _, err = elmo(*arguments)
    assert code == 1
    assert "give a vocabulary" in err
    assert elmo(*arguments, "--vocabulary", str(words))[0] == 0
    vectors = Embedder.load(model).embed([["bank", "river"]], layer=0)[0]
    cached = read_cached_vocabulary(cache).numpy()
    assert cached.shape == (3, 6)
    np.testing.assert_allclose(cached[1:], vectors[:, :6], atol=1e-5)
    assert "is there already" in elmo(*arguments, "--vocabulary", str(words))[2]


def test_an_existing_folder_is_not_overwritten_without_force(elmo, pair, model):
    code, _, err = elmo("convert", *pair, model)
    assert code == 1
    assert "already holds files" in err
    assert elmo("convert", *pair, model, "--force")[0] == 0


def test_embed_writes_the_layout_of_allennlp_elmo(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.h5"
    text.write_text("The river bank .\n\nA bank\n", encoding="utf-8")
    code, out, err = elmo(
        "embed", str(text), "-o", str(output), "--model", model, "--layers", "all"
    )
    assert code == 0
    assert "3 sentences, 1 of them blank, 6 words" in out
    assert err == ""
    with h5py.File(output) as file:
        assert [file[key].shape for key in ("0", "1", "2")] == [(3, 4, 12), (3, 0, 12), (3, 2, 12)]
        index = json.loads(file["sentence_to_index"][0])
    assert index["A bank"] == "2"


@pytest.mark.parametrize("layers", ["average", "top", "0", "2"])
def test_embed_takes_a_layer(elmo, model, tmp_path, layers):
    text, output = tmp_path / "text.txt", tmp_path / "out.npz"
    text.write_text("A bank\n", encoding="utf-8")
    code, _, _ = elmo(
        "embed", str(text), "-o", str(output), "--model", model, "--layers", layers, "--quiet"
    )
    assert code == 0
    layer = int(layers) if layers.isdecimal() else layers
    expected = Embedder.load(model).embed([["A", "bank"]], layer=layer)[0]
    np.testing.assert_allclose(np.load(output)["0"], expected, atol=1e-6)


def test_embed_splits_raw_text_with_the_model_s_tokenizer(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.jsonl"
    text.write_text("It's a bank. She\nleft.\n", encoding="utf-8")
    _, out, _ = elmo("embed", str(text), "-o", str(output), "--model", model, "--split", "--json")
    summary = json.loads(out)
    assert (summary["sentences"], summary["words"]) == (2, 8)


@pytest.mark.filterwarnings("default::elmokit.errors.ElmoWarning")
def test_embed_counts_words_that_were_cut(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.npz"
    text.write_text("x" * 100 + " ok\n", encoding="utf-8")
    code, out, err = elmo("embed", str(text), "-o", str(output), "--model", model)
    assert code == 0
    assert "1 cut" in out
    assert err.startswith("elmo: note: unusual word 'xxx")
    assert "longer than the model reads, and cut" in err


@pytest.mark.parametrize(
    ("contents", "output", "message"),
    [
        (b"ok\nbad \xff\n", "out.h5", "line 2: is not UTF-8"),
        (b"ok\n", "out.txt", "use one of .h5, .hdf5, .jsonl, .npz"),
        (None, "out.h5", "cannot be read (No such file or directory)"),
    ],
)
def test_embed_refuses_bad_input_in_one_line(elmo, model, tmp_path, contents, output, message):
    text = tmp_path / "text.txt"
    if contents is not None:
        text.write_bytes(contents)
    code, out, err = elmo("embed", str(text), "-o", str(tmp_path / output), "--model", model)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / output).exists()


def test_embed_does_not_overwrite_without_force(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.npz"
    text.write_text("a\n", encoding="utf-8")
    output.write_bytes(b"precious")
    code, _, err = elmo("embed", str(text), "-o", str(output), "--model", model)
    assert code == 1
    assert "is there already" in err
    assert output.read_bytes() == b"precious"
    assert elmo("embed", str(text), "-o", str(output), "--model", model, "--force")[0] == 0


def test_wrong_usage_ends_with_2(elmo):
    assert elmo("embed")[0] == 2
    assert elmo("compare", "--state", "hot", "a", "b")[0] == 2
    assert elmo("info", "a", "b", "c")[0] == 2
    assert elmo("nonsense")[0] == 2


def test_a_missing_model_is_one_line(elmo, tmp_path):
    code, _, err = elmo("info", str(tmp_path / "nowhere"))
    assert code == 1
    assert err == f"elmo: {tmp_path / 'nowhere'}: there is no such file or folder\n"
    code, _, err = elmo("compare", "a", "a b", "a c")
    assert code == 2
    assert "name one: --model FOLDER, or --model OPTIONS WEIGHTS" in err


def test_an_interrupt_ends_with_130(elmo, model, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.formats.models.describe", interrupted)
    code, _, err = elmo("info", model)
    assert code == 130
    assert err.startswith("\nelmo: interrupted; no half-written file is left")


def test_download_lists_what_there_is(elmo):
    code, out, _ = elmo("download")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "small",
        "medium",
        "original",
        "original-5.5b",
    ]


def test_download_of_an_unknown_name_lists_the_names(elmo):
    code, _, err = elmo("download", "huge")
    assert code == 1
    assert "small" in err


def test_a_reader_that_has_had_enough_is_no_error_message(model):
    command = f"{sys.executable} -m elmokit info {model} | head -c 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_a_device_that_is_not_there_is_one_line(elmo, model, tmp_path):
    for device in ("cuda:99", "nonsense"):
        code, out, err = elmo("compare", "a", "a b", "a c", "--model", model, "--device", device)
        assert (code, out) == (1, "")
        assert err.startswith(f"elmo: device '{device}' cannot be used")
        assert err.count("\n") == 1


def test_embed_names_the_layers_there_are(elmo, model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a\n", encoding="utf-8")
    output = str(tmp_path / "out.npz")
    code, _, err = elmo("embed", str(text), "-o", output, "--model", model, "--layers", "9")
    assert code == 1
    assert err == "elmo: layers is '9'; use one of all, average, top, 0, 1, 2\n"


def test_a_byte_order_mark_is_no_part_of_the_first_word(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.jsonl"
    text.write_bytes(b"\xef\xbb\xbfThe bank\n")
    assert elmo("embed", str(text), "-o", str(output), "--model", model)[0] == 0
    assert json.loads(output.read_text())["sentence"] == "The bank"


def test_help_texts_keep_their_lines_apart(elmo):
    _, out, _ = elmo("convert", "--help")
    assert "\\b" not in out
    assert "  elmo convert my-model allennlp-files\n" in out


def test_a_tokenizer_can_be_chosen(elmo, model):
    arguments = ["compare", "bank.", "The bank.", "A bank.", "--model", model]
    assert elmo(*arguments)[0] == 1
    code, out, _ = elmo(*arguments, "--tokenizer", "whitespace")
    assert code == 0
    assert out.startswith("1: The [bank.]")


def test_swapped_options_and_weights_are_told_apart(elmo, pair, tmp_path):
    options, weights = pair
    for arguments in (
        ("info", weights, options),
        ("convert", weights, options, str(tmp_path / "out")),
        ("compare", "a", "a b", "a c", "--model", weights, options),
        ("info", weights),
    ):
        code, _, err = elmo(*arguments)
        assert code == 1
        assert err.endswith("is a file of weights; the options come first, then the weights\n")


def test_the_input_is_never_the_output(elmo, model, tmp_path):
    text = tmp_path / "text.jsonl"
    text.write_text("a bank\n", encoding="utf-8")
    code, _, err = elmo("embed", str(text), "-o", str(text), "--model", model, "--force")
    assert code == 1
    assert "is the input too" in err
    assert text.read_text(encoding="utf-8") == "a bank\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_terminated_run_leaves_nothing_half_written(model, tmp_path):
    text, folder = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("a river bank and more words\n" * 300_000, encoding="utf-8")
    command = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(folder / "x.h5")]
    process = subprocess.Popen([*command, "--model", model], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (folder.exists() and any(folder.iterdir())):
        time.sleep(0.05)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err
    assert list(folder.iterdir()) == []


def test_info_speaks_to_people(elmo, model):
    facts = dict(line.split("  ", 1) for line in elmo("info", model)[1].splitlines())
    assert facts["softmax words"].strip() == "none"
    assert facts["skip connections"].strip() == "yes"
