from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from closeness import assert_close
from small_models import small_embedder

from elmokit import Embedder
from elmokit.formats.mixes import write_mix
from elmokit.formats.native import SavedModel, write_model
from elmokit.model.scalar_mix import ScalarMix
from elmokit.vectors.files import read_vectors


@pytest.fixture
def model(tmp_path):
    """The folder of a small model."""
    embedder = small_embedder()
    folder = tmp_path / "model"
    write_model(folder, SavedModel(embedder.config, embedder.bilm.state_dict(), "default"))
    return str(folder)


def test_embed_writes_the_layout_of_allennlp_elmo(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.h5"
    text.write_text("The river bank .\n\nA bank\n", encoding="utf-8")
    code, out, err = elmo(
        "embed", str(text), "-o", str(output), "--model", model, "--layers", "all"
    )
    assert code == 0
    assert "3 sentences (1 blank), 6 words" in out
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
    expected = Embedder.load(model).embed([["A", "bank"]], layers=layer)[0]
    assert_close(np.load(output)["0"], expected)


def test_embed_splits_raw_text_with_the_model_s_tokenizer(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.jsonl"
    text.write_text("It's a bank. She left.\n", encoding="utf-8")
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
        (b"ok\n", "out.txt", "use one of .h5, .hdf5, .jsonl, .npz, .parquet"),
        (None, "out.h5", "is no file or folder"),
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
    assert not list(tmp_path.glob(f"{output}*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt", "-o", "out.h5"], "is no file or folder"),
        (["a" * 300, "-o", "out.h5"], "name too long); check the name"),
        (["text.txt", "-o", "a" * 300 + ".h5"], "name too long); choose a shorter name"),
        (["text.txt", "-o", "a" * 246 + ".h5"], "name too long); choose a shorter name"),
        (["text.txt", "-o", "folder.h5", "--force"], "is a folder; give the name of a file"),
        (["empty.txt", "-o", "out.h5"], "holds no text"),
        (["table.csv", "-o", "out.h5", "--column", "b"], "has no column 'b'"),
        (["text.txt", "-o", "out.txt"], "use one of .h5"),
        (["text.txt", "-o", "out.h5", "--compression", "zstd"], "compression is 'zstd'"),
        (["text.txt", "-o", "nowhere/out.h5"], "there is no folder nowhere to write it into"),
        (["latin.txt", "-o", "out.h5"], "(--encoding latin-1, for one), or read such bytes as"),
        (["text.txt", "-o", "out.h5", "--encoding", "klingon"], "encoding 'klingon' is unknown"),
        (["text.txt", "-o", "out.h5", "--format", "jsonl"], "text.txt, line 1: is not JSON"),
    ],
)
def test_what_can_be_refused_without_a_model_is(elmo, tmp_path, monkeypatch, arguments, message):
    def load(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Embedder, "load", load)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.h5").mkdir()
    for name, contents in (("text.txt", "a bank\n"), ("empty.txt", ""), ("table.csv", "a\nx\n")):
        (tmp_path / name).write_text(contents)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    code, _, err = elmo("embed", *arguments)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1


def test_a_wrong_file_name_is_told_before_pytorch_is_loaded(tmp_path):
    command = "import sys; from elmokit.cli import elmo; "
    command += "elmo.main(sys.argv[1:], standalone_mode=False)"
    flags = ["embed", str(tmp_path / "missing.txt"), "-o", str(tmp_path / "out.h5")]
    # Without it, importing it would be the error.
    hidden = f"import sys; sys.modules['torch'] = None; {command}"
    done = subprocess.run([sys.executable, "-c", hidden, *flags], capture_output=True, text=True)
    assert "missing.txt: is no file or folder" in done.stderr


def test_embed_does_not_overwrite_without_force(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.npz"
    text.write_text("a\n", encoding="utf-8")
    output.write_bytes(b"precious")
    code, _, err = elmo("embed", str(text), "-o", str(output), "--model", model)
    assert code == 1
    assert "is there already" in err
    assert output.read_bytes() == b"precious"
    assert elmo("embed", str(text), "-o", str(output), "--model", model, "--force")[0] == 0


def test_embed_names_the_layers_there_are(elmo, model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a\n", encoding="utf-8")
    output = str(tmp_path / "out.npz")
    code, _, err = elmo("embed", str(text), "-o", output, "--model", model, "--layers", "9")
    assert code == 1
    assert err == "elmo: layers is '9'; use 'average', 'top', 'all', 0 to 2, or a mix\n"


def test_a_byte_order_mark_is_no_part_of_the_first_word(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.jsonl"
    text.write_bytes(b"\xef\xbb\xbfThe bank\n")
    assert elmo("embed", str(text), "-o", str(output), "--model", model)[0] == 0
    assert json.loads(output.read_text())["sentence"] == "The bank"


def test_the_input_is_never_the_output(elmo, model, tmp_path):
    text = tmp_path / "text.jsonl"
    text.write_text('{"text": "a bank"}\n', encoding="utf-8")
    code, _, err = elmo("embed", str(text), "-o", str(text), "--model", model, "--force")
    assert code == 1
    assert "is the input too" in err
    assert text.read_text(encoding="utf-8") == '{"text": "a bank"}\n'


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_terminated_run_says_how_to_go_on(model, tmp_path):
    text, folder = tmp_path / "text.txt", tmp_path / "out"
    folder.mkdir()
    text.write_text("a river bank and more words\n" * 300_000, encoding="utf-8")
    command = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(folder / "x.h5")]
    process = subprocess.Popen([*command, "--model", model], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(folder.glob("x.h5.parts/part-*")):
        time.sleep(0.05)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "to resume, run the same command with --resume" in err
    assert [path.name for path in folder.iterdir()] == ["x.h5.parts"]


def test_a_column_is_embedded_and_another_kept(elmo, model, tmp_path):
    table, output = tmp_path / "reviews.csv", tmp_path / "out.parquet"
    table.write_text("id,review\nx7,A good bank\nx9,Bad\n", encoding="utf-8")
    command = ["embed", str(table), "-o", str(output), "--model", model]
    code, _, err = elmo(*command)
    assert code == 1
    assert "line 1: " in err
    assert "'id', 'review'; name it (--text-column)" in err
    assert elmo(*command, "--column", "review", "--keep", "id")[0] == 0
    assert [(item.id, item.sentence) for item in read_vectors(output)] == [
        ("x7", "A good bank"),
        ("x9", "Bad"),
    ]


def test_a_row_of_raw_text_has_one_vector(elmo, model, tmp_path):
    table, output = tmp_path / "reviews.csv", tmp_path / "out.npz"
    table.write_text('id,text\n7,"Good, bad. So."\n8,Caf\xe9!\n', encoding="latin-1")
    flags = ["--column", "text", "--keep", "id", "--tokenize", "--pool", "mean"]
    code, out, err = elmo(
        "embed", str(table), "-o", str(output), "--model", model, *flags, "--encoding", "latin-1"
    )
    assert (code, err) == (0, "")
    assert "2 sentences, 8 words" in out
    items = read_vectors(output)
    assert [(item.id, item.sentence) for item in items] == [
        ("7", "Good , bad . So ."),
        ("8", "Caf\xe9 !"),
    ]
    assert {item.vectors.shape for item in items} == {(12,)}


@pytest.mark.filterwarnings("default::elmokit.errors.ElmoWarning")
def test_raw_text_gets_one_line_that_names_the_flags(elmo, model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The river bank.\nWell, no.\n", encoding="utf-8")
    code, _, err = elmo("embed", str(text), "-o", str(tmp_path / "out.npz"), "--model", model)
    assert code == 0
    assert err.count("\n") == 1
    assert err.startswith(f"elmo: note: {text}: looks like raw text, and 'bank.' is read as one")
    assert "--tokenize" in err
    assert "--split" in err


def test_split_and_tokenize_are_wrong_usage(elmo):
    code, _, err = elmo("embed", "a.txt", "-o", "a.h5", "--split", "--tokenize")
    assert code == 2
    assert "choose one of them" in err


def test_a_finished_run_is_said_to_be_finished(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.h5"
    text.write_text("A bank\n", encoding="utf-8")
    command = ["embed", str(text), "-o", str(output), "--model", model, "--resume"]
    assert elmo(*command)[0] == 0
    code, out, err = elmo(*command)
    assert (code, err) == (0, "")
    assert out == f"{output}: already finished, with 1 sentence; nothing is left to do\n"
    assert json.loads(elmo(*command, "--json")[1])["already_finished"] is True
    code, _, err = elmo(*command, "--layers", "top")
    assert code == 1
    assert "of another run" in err


def test_a_folder_that_is_not_writable_is_named(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("a bank\n")
    code, _, err = elmo("embed", "text.txt", "-o", "out.h5")
    assert code == 1
    assert err == "elmo: out.h5: the folder . is not writable; choose one that is\n"


def test_a_mix_is_named_after_layers(elmo, model, tmp_path):
    text, output, mix = tmp_path / "text.txt", tmp_path / "out.npz", tmp_path / "mix.json"
    text.write_text("A bank\n", encoding="utf-8")
    learnt = ScalarMix(3, weights=[0.0, 2.0, -1.0])
    write_mix(learnt, mix)
    command = ["embed", str(text), "-o", str(output), "--model", model, "--layers", "mix"]
    assert elmo(*command)[0] == 2
    code, _, err = elmo(*command, "--pool", "mean")
    assert code == 2
    assert "--layers mix FILE" in err
    assert elmo(*command, str(mix))[0] == 0
    expected = Embedder.load(model).embed([["A", "bank"]], layers=learnt)[0]
    assert_close(np.load(output)["0"], expected)


def test_sentences_are_pooled_and_halved(elmo, model, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out.h5"
    text.write_text("A bank\n\n", encoding="utf-8")
    flags = ["--pool", "max", "--dtype", "float16", "--forget-sentences", "--compression", "gzip"]
    code, out, _ = elmo("embed", str(text), "-o", str(output), "--model", model, *flags, "--json")
    assert code == 0
    summary = json.loads(out)
    assert (summary["sentences"], summary["blank"], summary["words"]) == (2, 1, 2)
    assert summary["seconds"] > 0
    assert summary["peak_memory_bytes"] > 0
    with h5py.File(output) as file:
        assert sorted(file) == ["0", "1"]
        assert file["0"].dtype == np.float16
        expected = Embedder.load(model).embed([["A", "bank"]])[0].max(0)
        assert_close(file["0"], expected)
        assert not file["1"][()].any()


def test_standard_input_is_read(elmo, model, tmp_path):
    output = tmp_path / "out.npz"
    command = [sys.executable, "-m", "elmokit", "embed", "-", "-o", str(output), "--model", model]
    done = subprocess.run(command, input=b"A bank\nmore\n", capture_output=True, check=True)
    assert b"2 sentences, 3 words" in done.stdout


def test_standard_input_may_be_a_table(elmo, model, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"id,text\n1,A bank\n")))
    output = tmp_path / "out.npz"
    code, out, _ = elmo("embed", "-", "-o", str(output), "--model", model, "--format", "csv")
    assert code == 0
    assert "1 sentence, 2 words" in out


def test_several_files_are_one_text(elmo, model, tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.txt").write_text(f"{name} bank\n", encoding="utf-8")
    output = tmp_path / "out.jsonl"
    assert elmo("embed", str(tmp_path / "*.txt"), "-o", str(output), "--model", model)[0] == 0
    assert [item.sentence for item in read_vectors(output)] == ["a bank", "b bank"]


def test_progress_is_told(elmo, model, tmp_path, monkeypatch):
    monkeypatch.setattr("elmokit.cli.progress.SECONDS_BETWEEN_LINES", {True: 0.0, False: 0.0})
    text, output = tmp_path / "text.txt", tmp_path / "out.npz"
    text.write_text("A bank and a bank\n", encoding="utf-8")
    _, _, err = elmo("embed", str(text), "-o", str(output), "--model", model)
    assert "embedding: 1 sentence, " in err
    assert "left" not in err  # before there is a rate worth telling
    monkeypatch.setattr("elmokit.cli.progress.SECONDS_BEFORE_REST", 0.0)
    _, _, err = elmo("embed", str(text), "-o", str(output), "--model", model, "--force")
    assert "words/s, 0 s left, " in err
    _, _, err = elmo("embed", str(text), "-o", str(output), "--model", model, "--force", "--quiet")
    assert err == ""


def test_threads_are_set(elmo, model, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    monkeypatch.setenv("ELMOKIT_THREADS", "3")
    (tmp_path / "text.txt").write_text("a\n")
    command = ["embed", str(tmp_path / "text.txt"), "-o", str(tmp_path / "out.npz"), "--force"]
    assert elmo(*command, "--model", model)[0] == 0
    assert asked[0] == 3
    asked.clear()
    assert elmo(*command, "--model", model, "--threads", "2")[0] == 0
    assert asked[0] == 2
