from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
import h5py
import numpy as np
import pytest
from closeness import assert_close
from helpers import ROOT, loaded_by, run_python, write
from small_models import small_bilm

from elmokit import Embedder, __version__
from elmokit.cli import COMMANDS
from elmokit.cli import elmo as elmo_command
from elmokit.cli.options import ModelCommand
from elmokit.formats.convert import write_pair
from elmokit.formats.native import SavedModel


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
    assert min(times) < 0.2


def test_help_imports_no_command_and_that_of_commands_no_torch():
    modules = {f"elmokit.cli.{module}" for module, _ in COMMANDS.values()}
    shown = "from elmokit.cli import elmo\nimport sys\nfor command in sys.argv[1:] or [None]:\n"
    shown += "    elmo([command, '--help'] if command else ['--help'], standalone_mode=False)"
    assert loaded_by(shown, {"torch", "numpy", "tqdm", *modules}) == set()
    assert loaded_by(shown, {"torch"}, *COMMANDS) == set()


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_explains_itself_as_the_list_of_all_does(prints, command):
    out = prints(command, "--help")
    assert out.startswith(f"Usage: elmo {command}")
    assert COMMANDS[command][1] in out


def test_the_version_is_printed(elmo):
    assert elmo("--version")[:2] == (0, f"elmo, version {__version__}\n")


def test_compare_prints_a_row_per_layer_and_the_static_one_is_1(prints, model):
    arguments = ["compare", "bank", "A river bank.", "The bank lends.", "--model", model]
    out = prints(*arguments)
    assert out.splitlines()[0] == "1: A river [bank] ."
    rows = {line[:18].strip(): float(line[18:]) for line in out.splitlines()[4:]}
    assert list(rows)[-4:] == ["layer 0 (static)", "layer 1", "layer 2 (top)", "average"]
    assert rows["layer 0 (static)"] == pytest.approx(1)
    assert -1 <= rows["layer 1"] < 0.9999
    result = json.loads(prints(*arguments, "--json"))
    assert (result["pairs"], result["positions"]) == ([[0, 1]], [2, 1])


def test_info_says_what_a_model_is(elmo, prints, model):
    out = prints("info", model)
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["LSTM cells"].strip() == "10"
    assert facts["tokenizer"].strip() == "default"
    assert facts["model"].strip() == Path(model).name
    assert facts["path"].strip() == os.path.abspath(model)
    assert "1 highway," in facts["input"]
    assert facts["softmax words"].strip() == "12"
    assert facts["skip connections"].strip() == "yes"
    assert json.loads(elmo("info", model, "--json")[1])["vector size"] == 12


def test_converting_there_and_back_is_identity(elmo, prints, pair, tmp_path):
    native, back = str(tmp_path / "native"), tmp_path / "back"
    assert elmo("convert", *pair, native, "--tokenizer", "default")[0] == 0
    assert Embedder.load(native).tokenizer.name == "default"
    assert prints("compare", "a", "a b", "a c", "--model", *pair).startswith("1: [a] b")
    out = prints("convert", native, str(back))
    assert out.split() == [str(back / "options.json"), str(back / "weights.hdf5")]
    with h5py.File(pair[1]) as first, h5py.File(back / "weights.hdf5") as second:
        names: list[str] = []
        first.visit(names.append)
        datasets = [name for name in names if isinstance(first[name], h5py.Dataset)]
        assert datasets
        for name in datasets:
            np.testing.assert_array_equal(first[name][()], second[name][()])


def test_words_are_cached_as_allennlp_does(elmo, fails, model, tmp_path):
    words, cache = tmp_path / "words.txt", tmp_path / "cache.hdf5"
    words.write_text("<S>\nbank\nriver\n", encoding="utf-8")
    arguments = ["convert", model, str(cache), "--to", "cached-vocabulary"]
    assert "give a vocabulary" in fails(*arguments)
    assert elmo(*arguments, "--vocabulary", str(words))[0] == 0
    vectors = Embedder.load(model).embed([["bank", "river"]], layers=0)[0]
    with h5py.File(cache) as file:
        cached = file["embedding"][...]
    assert cached.shape == (3, 6)
    assert_close(cached[1:], vectors[:, :6])
    assert "is there already" in elmo(*arguments, "--vocabulary", str(words))[2]


def test_an_existing_folder_is_not_overwritten_without_force(elmo, fails, pair, model):
    assert "already holds files" in fails("convert", *pair, model)
    assert elmo("convert", *pair, model, "--force")[0] == 0


def test_wrong_usage_ends_with_2(elmo):
    assert elmo("embed")[0] == 2
    assert elmo("compare", "--state", "hot", "a", "b")[0] == 2
    assert elmo("info", "a", "b", "c")[0] == 2
    assert elmo("nonsense")[0] == 2


def test_a_missing_model_is_one_line(fails, tmp_path):
    err = fails("info", str(tmp_path / "nowhere"))
    assert err.startswith(f"elmo: {tmp_path / 'nowhere'}: there is no such file or folder, and no ")


def test_an_unknown_name_of_a_model_gets_those_there_are(fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    err = fails("info", "smal")
    assert "did you mean 'small'? there are: small, medium, original, original-5.5b" in err
    assert "english-small, korean-small (bundled)" in err


def test_an_interrupt_ends_with_130(elmo, model, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.formats.native.describe", interrupted)
    code, _, err = elmo("info", model)
    assert code == 130
    assert err == "\nelmo: interrupted; no half-written file is left\n"


def test_an_interrupted_download_says_that_it_continues(elmo, monkeypatch):
    def interrupted(name, progress):
        progress(5, 10)
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.formats.published.download", interrupted)
    code, _, err = elmo("download", "small")
    assert code == 130
    assert "run again the download continues" in err


def test_download_lists_what_there_is(prints):
    out = prints("download")
    names = [line.split()[0] for line in out.splitlines()]
    assert names == ["small", "medium", "original", "original-5.5b", "efml-LANGUAGE"]
    assert "374 MB, 2,003 MB with --softmax" in out
    assert "korean" in out


def test_info_tells_whose_files_they_are_or_which_is_missing(elmo, model, pair, tmp_path):
    shutil.make_archive(str(tmp_path / "model"), "zip", model)
    for named, kind in (
        ((model,), "model folder"),
        ((str(tmp_path / "model.zip"),), "model folder"),
        (pair, "AllenNLP's options and weights"),
    ):
        assert json.loads(elmo("info", *named, "--json")[1])["format"] == kind
    Path(pair[1]).unlink()
    code, _, err = elmo("info", str(Path(pair[0]).parent))
    assert code == 1
    assert "the weights are missing" in err
    assert err.count("\n") == 1


def test_options_and_a_checkpoint_name_a_model():
    arguments = ["--model", "options.json", "save/model.ckpt-7", "text"]
    params = [click.Option(["--model"]), click.Option(["--weights"]), click.Argument(["text"])]
    command = ModelCommand("any", params=params, callback=lambda **given: given["weights"])
    assert command.main(arguments, standalone_mode=False) == "save/model.ckpt-7"


def test_a_reader_that_has_had_enough_is_no_error_message():
    command = f"{sys.executable} -m elmokit download | head -c 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("elmo download > /dev/full", "elmo: No space left on device"),
        ("PYTHONIOENCODING=latin-1 elmo score t.txt --model MODEL", "cannot be written in the enc"),
        ("mkdir gone && cd gone && rmdir ../gone && elmo info MODEL", "folder still there?"),
        ("elmo score t.txt --model MODEL --device hpu", "'hpu' cannot be used"),
    ],
)
def test_what_the_system_refuses_is_one_line(model, tmp_path, command, message):
    write(tmp_path / "t.txt", "배 를 타 고 가\n")
    command = command.replace("MODEL", model).replace("elmo ", f"{sys.executable} -m elmokit ", 1)
    place = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, env=place
    )
    last = result.stderr.splitlines()[-1]
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert last.startswith("elmo: ")
    assert message in last


def test_a_tokenizer_can_be_chosen(elmo, prints, model):
    arguments = ["compare", "bank.", "The bank.", "A bank.", "--model", model]
    assert elmo(*arguments)[0] == 1
    out = prints(*arguments, "--tokenizer", "whitespace")
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


EARLY = """
import sys
from elmokit.cli import elmo
from elmokit.errors import ElmoError
for line in sys.argv[1:]:
    try:
        elmo(line.split(), standalone_mode=False)
    except ElmoError as error:
        print(error, "torch" in sys.modules)
"""


def test_an_output_that_is_there_or_unsuitable_is_noticed_before_torch_is_loaded(
    tmp_path, monkeypatch
):
    text, run, file = (str(tmp_path / name) for name in ("text.txt", "run", "out.h5"))
    for path in (text, file, f"{run}/checkpoints/step-000000001/record.json"):
        write(Path(path), "a b\n")
    commands = [
        *(f"embed {text} -o {output}" for output in (file, run, f"{text}.csv", "nowhere/a.h5")),
        *(f"neighbours build {text} -o {output}" for output in (text, "nowhere/index")),
        *(f"pretrain modern -o {output}" for output in (file, run, "nowhere/run")),
        *(f"task train ner --train {text} -o {output}" for output in (file, run, "nowhere/run")),
        *(f"finetune english-small {text} -o {output}" for output in (file, run)),
        *(f"task predict my-ner {text} -o {output}" for output in (text, file, run, "nowhere/a")),
    ]
    printed = run_python(EARLY, *commands).splitlines()
    assert [line.rpartition(" ")[2] for line in printed] == ["False"] * len(commands)


@pytest.mark.parametrize("group", ["neighbours", "probe", "static", "task"])
def test_no_summary_of_a_command_is_cut_short(prints, group):
    shown = " ".join(prints(group, "--help").partition("Commands:")[2].split())
    commands = elmo_command.get_command(click.Context(elmo_command), group).commands.values()
    assert "..." not in shown
    for command in commands:
        assert " ".join(command.help.partition(".")[0].split()) in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["embd"], "Did you mean 'embed'?"), (["convert", "my-model"], "elmo convert my-model DST")],
)
def test_a_slip_at_the_command_line_is_told_what_was_meant(arguments, message):
    with pytest.raises(click.UsageError) as raised:
        elmo_command.main(arguments, standalone_mode=False)
    assert message in raised.value.format_message()
