from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from closeness import assert_close
from helpers import Heard, read_vectors, write

from elmokit import Embedder
from elmokit.formats.mixes import write_mix
from elmokit.model.scalar_mix import ScalarMix


@pytest.fixture
def embed(elmo, model, tmp_path):
    """Run `elmo embed` on a text with a small model; give code, output and error as `elmo`."""

    def run(text, output, *flags, name="text.txt"):
        path = tmp_path / name
        if not path.exists():  # with another date it would be another input
            write(path, text)
        return elmo("embed", str(path), "-o", str(tmp_path / output), "--model", model, *flags)

    return run


def test_embed_writes_the_layout_of_allennlp_elmo(embed, tmp_path):
    code, out, err = embed("The river bank .\n\nA bank\n", "out.h5", "--layers", "all")
    assert (code, err) == (0, "")
    assert "3 sentences (1 blank), 6 words" in out
    with h5py.File(tmp_path / "out.h5") as file:
        assert [file[key].shape for key in ("0", "1", "2")] == [(3, 4, 12), (3, 0, 12), (3, 2, 12)]
        assert json.loads(file["sentence_to_index"][0])["A bank"] == "2"


@pytest.mark.parametrize("layers", ["average", "top", "0", "2"])
def test_embed_takes_a_layer(embed, model, tmp_path, layers):
    assert embed("A bank\n", "out.npz", "--layers", layers, "--quiet")[0] == 0
    layer = int(layers) if layers.isdecimal() else layers
    expected = Embedder.load(model).embed([["A", "bank"]], layers=layer)[0]
    assert_close(np.load(tmp_path / "out.npz")["0"], expected)


def test_embed_splits_raw_text_with_the_model_s_tokenizer(embed):
    _, out, _ = embed("It's a bank. She left.\n", "out.jsonl", "--split", "--json")
    summary = json.loads(out)
    assert (summary["sentences"], summary["words"]) == (2, 8)


@pytest.mark.filterwarnings("default::elmokit.errors.ElmoWarning")
def test_embed_counts_words_that_were_cut(embed):
    code, out, err = embed("x" * 100 + " ok\n", "out.npz")
    assert code == 0
    assert "1 cut" in out
    assert err.startswith("elmo: note: unusual word 'xxx")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt", "-o", "out.h5"], "is not a file or folder"),
        (["a" * 300, "-o", "out.h5"], "name too long); check the name"),
        (["text.txt", "-o", "a" * 300 + ".h5"], "name too long); choose a shorter name"),
        (["text.txt", "-o", "a" * 246 + ".h5"], "name too long); choose a shorter name"),
        (["text.txt", "-o", "folder.h5", "--force"], "is a folder; give the name of a file"),
        (["empty.txt", "-o", "out.h5"], "holds no text"),
        (["text.txt", "-o", "out.txt"], "use one of .h5"),
        (["text.txt", "-o", "out.h5", "--compression", "zstd"], "compression is 'zstd'"),
        (["text.txt", "-o", "nowhere/out.h5"], "there is no folder nowhere to write it into"),
        (["latin.txt", "-o", "out.h5"], "(--encoding latin-1, for one), or read such bytes as"),
        (["text.txt", "-o", "out.h5", "--format", "jsonl"], "text.txt, line 1: is not JSON"),
    ],
)
def test_what_can_be_refused_without_a_model_is(fails, tmp_path, monkeypatch, arguments, message):
    def load(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Embedder, "load", load)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.h5").mkdir()
    for name, contents in (("text.txt", "a bank\n"), ("empty.txt", ""), ("table.csv", "a\nx\n")):
        (tmp_path / name).write_text(contents)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert message in fails("embed", *arguments)


def test_a_wrong_file_name_is_told_before_pytorch_is_loaded(tmp_path):
    command = "import sys; from elmokit.cli import elmo; "
    command += "elmo.main(sys.argv[1:], standalone_mode=False)"
    flags = ["embed", str(tmp_path / "missing.txt"), "-o", str(tmp_path / "out.h5")]
    # Without it, importing it would be the error.
    hidden = f"import sys; sys.modules['torch'] = None; {command}"
    done = subprocess.run([sys.executable, "-c", hidden, *flags], capture_output=True, text=True)
    assert "missing.txt: is not a file or folder" in done.stderr


def test_embed_does_not_overwrite_without_force(embed, tmp_path):
    output = write(tmp_path / "out.npz", "precious")
    code, _, err = embed("a\n", "out.npz")
    assert (code, "is there already" in err) == (1, True)
    assert output.read_text() == "precious"
    assert embed("a\n", "out.npz", "--force")[0] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_terminated_run_says_how_to_go_on(embed, tmp_path, monkeypatch):
    sent = []

    def terminate_once(_: Heard) -> None:
        if not sent and any(tmp_path.glob("out/x.h5.parts/part-*")):
            sent.append(signal.raise_signal(signal.SIGTERM))

    shown = nullcontext(Heard(terminate_once))
    monkeypatch.setattr(sys.modules["elmokit.cli.embed"], "Display", lambda quiet: shown)
    monkeypatch.setattr("elmokit.bulk.pipeline.TOKENS_PER_PART", 10)
    (tmp_path / "out").mkdir()
    code, _, err = embed((f"a river bank and {number} words" for number in range(300)), "out/x.h5")
    assert code == 130
    assert "to resume, run the same command with --resume" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x.h5.parts"]


def test_a_column_is_embedded_and_another_kept(embed, tmp_path):
    table = "id,review\nx7,A good bank\nx9,Bad\n"
    code, _, err = embed(table, "out.parquet", name="reviews.csv")
    assert code == 1
    assert "line 1: " in err
    assert "'id', 'review'; name it (--text-column)" in err
    flags = ("--column", "review", "--keep", "id")
    assert embed(table, "out.parquet", *flags, name="reviews.csv")[0] == 0
    assert [(item.id, item.sentence) for item in read_vectors(tmp_path / "out.parquet")] == [
        ("x7", "A good bank"),
        ("x9", "Bad"),
    ]


def test_a_row_of_raw_text_has_one_vector(embed, tmp_path):
    table = 'id,text\n7,"Good, bad. So."\n8,Caf\xe9!\n'.encode("latin-1")
    flags = ["--column", "text", "--keep", "id", "--tokenize", "--pool", "mean"]
    flags += ["--encoding", "latin-1"]
    code, out, err = embed(table, "out.npz", *flags, name="reviews.csv")
    assert (code, err) == (0, "")
    assert "2 sentences, 8 words" in out
    items = read_vectors(tmp_path / "out.npz")
    assert [(item.id, item.sentence) for item in items] == [
        ("7", "Good , bad . So ."),
        ("8", "Caf\xe9 !"),
    ]
    assert {item.vectors.shape for item in items} == {(12,)}


@pytest.mark.filterwarnings("default::elmokit.errors.ElmoWarning")
def test_raw_text_gets_one_line_that_names_the_flags(embed, tmp_path):
    code, _, err = embed("The river bank.\nWell, no.\n", "out.npz")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith(f"elmo: note: {tmp_path / 'text.txt'}: looks like raw text")
    assert "--tokenize" in err
    assert "--split" in err


def test_split_and_tokenize_are_wrong_usage(elmo):
    code, _, err = elmo("embed", "a.txt", "-o", "a.h5", "--split", "--tokenize")
    assert code == 2
    assert "choose one of them" in err


def test_a_finished_run_is_said_to_be_finished(embed):
    assert embed("A bank\n", "out.h5", "--resume")[0] == 0
    code, out, err = embed("A bank\n", "out.h5", "--resume")
    assert (code, err) == (0, "")
    assert out.endswith("out.h5: already finished, with 1 sentence; nothing is left to do\n")
    _, out, _ = embed("A bank\n", "out.h5", "--resume", "--json")
    assert json.loads(out)["already_finished"] is True


def test_a_folder_that_is_not_writable_is_named(fails, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "text.txt", "a bank\n")
    message = fails("embed", "text.txt", "-o", "out.h5")
    assert message == "elmo: out.h5: the folder . is not writable; choose one that is\n"


def test_a_mix_is_named_after_layers(embed, model, tmp_path):
    learnt = ScalarMix(3, weights=[0.0, 2.0, -1.0])
    write_mix(learnt, tmp_path / "mix.json")
    for more in ((), ("--pool", "mean")):
        code, _, err = embed("A bank\n", "out.npz", "--layers", "mix", *more)
        assert code == 2
        assert "--layers mix FILE" in err
    expected = Embedder.load(model).embed([["A", "bank"]], layers=learnt)[0]
    for mix in (tmp_path / "mix.json", tmp_path):  # the mix, or the folder of the task that has it
        assert embed("A bank\n", "out.npz", "--layers", "mix", str(mix), "--force")[0] == 0
        assert_close(np.load(tmp_path / "out.npz")["0"], expected)


def test_sentences_are_pooled_and_halved(embed, model, tmp_path):
    flags = ["--pool", "max", "--dtype", "float16", "--forget-sentences", "--compression", "gzip"]
    code, out, _ = embed("A bank\n\n", "out.h5", *flags, "--json")
    assert code == 0
    summary = json.loads(out)
    assert (summary["sentences"], summary["blank"], summary["words"]) == (2, 1, 2)
    assert summary["seconds"] > 0
    assert summary["peak_memory_bytes"] > 0
    with h5py.File(tmp_path / "out.h5") as file:
        assert sorted(file) == ["0", "1"]
        assert file["0"].dtype == np.float16
        assert_close(file["0"], Embedder.load(model).embed([["A", "bank"]])[0].max(0))
        assert not file["1"][()].any()


def test_standard_input_is_read(prints, model, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"A bank\nmore\n")))
    out = prints("embed", "-", "-o", str(tmp_path / "out.npz"), "--model", model)
    assert "2 sentences, 3 words" in out


@pytest.mark.usefixtures("every_line")
def test_progress_is_told(embed):
    _, _, err = embed("A bank and a bank\n", "out.npz")
    assert re.search(r"embedding: .* 0 s left, 1 sentence, 5 words, .* words/s", err)
    assert embed("A bank and a bank\n", "out.npz", "--force", "--quiet")[2] == ""


def test_threads_are_set(embed, monkeypatch):
    asked = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    monkeypatch.setenv("ELMOKIT_THREADS", "3")
    assert embed("a\n", "out.npz", "--force")[0] == 0
    assert asked[0] == 3
    asked.clear()
    assert embed("a\n", "out.npz", "--force", "--threads", "2")[0] == 0
    assert asked[0] == 2


def test_split_finds_the_sentences_and_morphemes_of_kiwi(embed, tmp_path):
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    text = '"나는 간다. 너도 가자."라고 말했다. 좋다ㅋㅋ\n'
    code, _, _ = embed(text, "out.jsonl", "--split", "--tokenizer", "kiwi")
    records = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert code == 0
    assert [record["sentence"].split()[-3:] for record in records] == [
        ["었", "다", "."],
        ["좋", "다", "ㅋㅋ"],
    ]


@pytest.mark.parametrize("flag", ["--format", "--output-format"])
def test_embed_writes_hdf5_under_any_name(embed, tmp_path, flag):
    assert embed("A bank\n", "vectors.of.all", flag, "hdf5")[0] == 0
    assert embed("A bank\n", "vectors.h5")[0] == 0
    found, expected = (read_vectors(tmp_path / name) for name in ("vectors.of.all", "vectors.h5"))
    assert np.array_equal(found[0].vectors, expected[0].vectors)
    assert embed("A bank\n", "vectors.of.all", flag, "hdf5")[0] == 1  # it is there
    assert "ends in '.all'" in embed("A bank\n", "other.all")[2]


def test_embed_continues_as_many_rows_as_it_is_told(embed, model, tmp_path):
    text = "The bank\nA bank .\nThe river\nA bank\nOne\n"
    assert embed(text, "out.npz", "--state", "carry", "--batch-size", "2")[0] == 0
    embedder = Embedder.load(model, state="carry", batch_size=2)
    words = [line.split() for line in text.splitlines()]
    expected = [array for n in (0, 2, 4) for array in embedder.embed(words[n : n + 2])]
    with np.load(tmp_path / "out.npz") as arrays:
        for number, array in enumerate(expected):
            assert_close(arrays[str(number)], array)
    embedder.reset_state()
    for found, array in zip(embedder.embed_stream(words), expected, strict=True):
        assert_close(found, array)


def test_embed_takes_a_batch_size_in_state_carry_alone(embed):
    code, _, err = embed("A bank\n", "out.h5", "--batch-size", "2")
    assert (code, "--state carry" in err) == (2, True)


def test_proteins_are_embedded_per_residue_and_as_seqvec_does_per_protein(embed, model, tmp_path):
    long = "ACDEFGHIKLMNPQRSTVWY" * 250  # longer than is read in one piece
    fasta = f">sp|P1 first\nMKV\nLA\n>P2\n{long}\n"
    assert embed(fasta, "r.h5", "--layers", "all", name="proteins.fasta")[0] == 0
    flags = ("--layers", "sum", "--pool", "mean")
    assert embed(fasta, "p.npz", *flags, name="proteins.fasta")[0] == 0

    expected = Embedder.load(model).embed_layers([list("MKVLA"), list(long)])
    with h5py.File(tmp_path / "r.h5") as file:
        assert_close(file["0"][...], expected[0])
        assert file["1"].shape[1] == len(long)
        assert_close(file["1"][...], expected[1], within=1e-4)
    for item, layers in zip(read_vectors(tmp_path / "p.npz"), expected, strict=True):
        assert_close(item.vectors, layers.sum(0).mean(0), within=1e-4)
    assert [item.id for item in read_vectors(tmp_path / "p.npz")] == ["sp|P1", "P2"]


def test_several_kept_columns_are_an_id_and_pooled_vectors_a_matrix(embed, tmp_path):
    table = "id,lang,text\n1,en,The bank\n2,ko,A man\n"
    flags = ("--keep", "id", "--keep", "lang", "--text-column", "text", "--pool", "mean")
    assert embed(table, "out.npz", *flags, name="table.csv")[0] == 0
    with np.load(tmp_path / "out.npz") as file:
        assert file["vectors"].shape == (2, 12)
    ids = [json.loads(item.id) for item in read_vectors(tmp_path / "out.npz")]
    assert ids == [{"id": "1", "lang": "en"}, {"id": "2", "lang": "ko"}]
