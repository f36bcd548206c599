"""Old programs as they are: AllenNLP's imports, its command, and the paths to what is inside."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adaptors.allennlp_samples import BATCHES, SENTENCES, SIZE, VOCABULARY, Files, word_ids
from closeness import CLEARLY, assert_agree, distance
from helpers import error_of, run_python, write, write_sentences

import elmokit
from elmokit import Embedder, open_vectors
from elmokit.adaptors import allennlp
from elmokit.adaptors.allennlp import (
    Elmo,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ElmoLstm,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    add_sentence_boundary_token_ids,
    batch_to_ids,
    install,
    main,
    remove_sentence_boundaries,
    run,
)
from elmokit.adaptors.allennlp_bilm import _ElmoBiLm


class StandIn:
    """A column of a table, as pandas has it: no sequence, but a list of itself."""

    def __init__(self, values: list[Any]) -> None:
        self.tolist = lambda: values


Column: Any = StandIn if find_spec("pandas") is None else import_module("pandas").Series


@pytest.fixture
def no_allennlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of what `install` does stays."""
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", sys.path[:])
    forget()
    yield
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "allennlp"]:
        del sys.modules[name]


# Imports


@pytest.mark.usefixtures("no_allennlp")
def test_old_imports_work_after_install_and_not_before() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("allennlp.modules.elmo")

    install()
    install()  # a second time changes nothing

    assert import_module("allennlp.modules.elmo").Elmo is Elmo
    assert import_module("allennlp.commands.elmo").ElmoEmbedder is ElmoEmbedder
    assert import_module("allennlp").modules.token_embedders.ElmoTokenEmbedder is ElmoTokenEmbedder
    for suffix, names in allennlp.MODULES.items():
        module = import_module(f"allennlp{suffix}")
        assert all(hasattr(module, name) for name in names.split())
    with pytest.raises(ModuleNotFoundError, match=r"allennlp\.training"):
        import_module("allennlp.training")


@pytest.mark.usefixtures("no_allennlp")
def test_a_real_allennlp_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "allennlp" / "__init__.py", "real = True")
    monkeypatch.syspath_prepend(tmp_path)

    assert "allennlp is installed" in error_of(install)
    assert import_module("allennlp").real
    assert "allennlp is installed" in error_of(install)


def test_importing_the_adaptor_installs_nothing() -> None:
    program = "import sys, elmokit.adaptors.allennlp; print('allennlp' in sys.modules)"
    assert run_python(program).strip() == "False"


# Programs


@pytest.mark.usefixtures("no_allennlp")
def test_a_script_runs_as_it_is(
    tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "names.py", "words = ['The', 'bank']")
    script = """
        import sys
        from names import words
        from allennlp.commands.elmo import ElmoEmbedder
        if __name__ == "__main__":
            print(ElmoEmbedder(*sys.argv[1:]).embed_sentence(words).shape)
    """
    path = write(tmp_path / "script.py", "if True:" + script)

    run([str(path), *map(str, files)])
    sys.path.insert(0, str(tmp_path))
    run(["-m", "script", *map(str, files)])

    assert capsys.readouterr().out.splitlines() == [f"(3, 2, {SIZE})"] * 2


@pytest.mark.usefixtures("no_allennlp")
@pytest.mark.parametrize(
    "arguments", [[], ["-m"], ["nowhere.py"], ["elmo", "nowhere", "o", "--all"]]
)
def test_what_cannot_run_is_one_line(arguments: list[str]) -> None:
    message = error_of(run, arguments, kind=SystemExit)

    assert message.startswith("elmokit.adaptors.allennlp: ")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_the_old_command_takes_the_old_flags(tmp_path: Path, files: Files, layers: str) -> None:
    options, weights = map(str, files)
    text = write_sentences(tmp_path / "text", SENTENCES)
    model = ["--options-file", options, "--weight-file", weights]

    main(["elmo", text, str(tmp_path / "out.hdf5"), f"--{layers}", *model, "--batch-size", "2"])

    vectors = open_vectors(tmp_path / "out.hdf5")
    expected = ElmoEmbedder(*files).embed_sentences(SENTENCES, batch_size=2)
    reduced = {"all": lambda x: x, "top": lambda x: x[-1], "average": lambda x: x.mean(0)}[layers]
    assert_agree([item.vectors for item in vectors], [reduced(array) for array in expected])
    assert [item.sentence for item in vectors] == [" ".join(words) for words in SENTENCES]


def test_the_old_command_can_be_run_from_a_shell(tmp_path: Path, files: Files) -> None:
    text = write_sentences(tmp_path / "text", SENTENCES)
    program = (
        "import runpy, sys; sys.argv[:] = ['', 'elmo', *sys.argv[1:]]; "
        "runpy.run_module('elmokit.adaptors.allennlp', run_name='__main__')"
    )
    model = ["--options-file", files[0], "--weight-file", files[1], "--use-sentence-keys"]

    run_python(program, text, tmp_path / "out.hdf5", "--top", *model)

    assert len(open_vectors(tmp_path / "out.hdf5")) == len(SENTENCES)


# What is inside


def test_the_state_is_reached_by_the_old_paths(files: Files) -> None:
    elmo = Elmo(*files, 1, dropout=0.0)
    ids, inner = batch_to_ids(SENTENCES), elmo._elmo_lstm._elmo_lstm
    assert inner._states is None

    first = elmo(ids)["elmo_representations"][0]
    states = inner._states
    carried = elmo(ids)["elmo_representations"][0]
    inner._states = tuple(part.clone() for part in states)
    again = elmo(ids)["elmo_representations"][0]
    inner.reset_states()
    fresh = elmo(ids)["elmo_representations"][0]
    inner.stateful = False
    stateless = elmo(ids)["elmo_representations"][0]

    assert [part.shape[:2] for part in states] == [(2, 3), (2, 3)]
    assert states[0].shape[2] == SIZE
    assert elmo._elmo_lstm._states[0].shape == states[0].shape
    assert torch.equal(carried, again)
    assert torch.equal(first, fresh)
    assert torch.equal(first, stateless)
    assert distance([first.detach().numpy()], [carried.detach().numpy()]) > CLEARLY
    assert not elmo.stateful


def test_the_biLM_gives_layers_and_mask_with_markers(files: Files) -> None:
    elmo = Elmo(*files, 2, dropout=0.0)
    alone = _ElmoBiLm(*files)
    ids = batch_to_ids(SENTENCES)

    output = elmo._elmo_lstm(ids)

    assert len(output["activations"]) == alone.num_layers == 3
    assert output["activations"][0].shape == (3, 6, SIZE)
    assert output["mask"].sum(1).tolist() == [6, 4, 5]
    assert_agree(output["activations"], alone(ids)["activations"])
    assert elmo._scalar_mixes == [elmo.scalar_mix_0, elmo.scalar_mix_1]
    top, mask = remove_sentence_boundaries(output["activations"][2], output["mask"].long())
    expected = Embedder.load(*files).embed(SENTENCES, "top")
    assert_agree([row[kept] for row, kept in zip(top, mask, strict=True)], expected)


def test_ElmoEmbedder_shares_its_state_with_its_biLM_and_its_copies(files: Files) -> None:
    embedder = ElmoEmbedder(*files)
    assert embedder.cuda_device == -1
    embedder.embed_batch(SENTENCES)
    copies = [copy.deepcopy(embedder), pickle.loads(pickle.dumps(embedder))]

    ids = batch_to_ids(SENTENCES)
    inside = embedder.elmo_bilm(ids)["activations"][2][0, 1:5]
    for other in copies:
        inner = other.elmo_bilm._elmo_lstm
        inner._states = tuple(state.to("cpu") for state in inner._states)
        assert_agree([inside], [other.embed_batch(SENTENCES)[0][2]])
    assert_agree(embedder.embed_batch(SENTENCES), copies[0].embed_batch(SENTENCES))
    embedder.elmo_bilm._elmo_lstm.stateful = False
    assert embedder.embedder.state == "zero"


def test_word_ids_may_stand_for_the_characters_too(files: Files) -> None:
    sentences = [["The", "river"], ["bank"]]
    ids = word_ids(sentences)

    def elmo() -> Elmo:
        return Elmo(*files, 1, vocab_to_cache=VOCABULARY, dropout=0.0)

    expected = elmo()(batch_to_ids(sentences))["elmo_representations"][0]
    assert_agree([elmo()(ids, ids)["elmo_representations"][0]], [expected])
    nested = elmo()(ids[:, None], ids[:, None])["elmo_representations"][0]
    assert_agree([nested[:, 0]], [expected])


def test_ElmoTokenEmbedder_is_one_mix_projected(files: Files) -> None:
    ids = batch_to_ids(SENTENCES)
    plain = ElmoTokenEmbedder(*files, dropout=0.0)
    settings = {"options_file": files[0], "weight_file": files[1], "projection_dim": 5}
    projected = ElmoTokenEmbedder.from_params(None, {"type": "elmo", **settings})

    assert_agree([plain(ids)], Elmo(*files, 1, dropout=0.0)(ids)["elmo_representations"])
    assert plain.get_output_dim() == SIZE
    assert projected(ids[:, None]).shape == (3, 1, 4, 5)
    assert projected.get_output_dim() == 5


def test_ElmoLstm_continues_each_row_and_learns() -> None:
    torch.manual_seed(0)
    lstm = ElmoLstm(3, 5, 7, 2, requires_grad=True, memory_cell_clip_value=2)
    inputs, mask = torch.rand(4, 5, 3), torch.ones(4, 5)
    mask[1, 4:] = mask[3, 1:] = 0

    first = lstm(inputs, mask)
    fewer = lstm(inputs[:2], mask[:2])
    first.sum().backward()

    assert first.shape == (2, 4, 5, 10)
    assert not first[:, 3, 1:].any()
    assert [part.shape for part in lstm._states] == [(2, 4, 10), (2, 4, 14)]
    assert not torch.equal(fewer, first[:, :2])
    assert all(weight.grad is not None for weight in lstm.parameters())
    lstm.reset_states()
    assert torch.equal(lstm(inputs, mask), first)


# Characters


def test_the_indexer_spells_as_batch_to_ids_does() -> None:
    indexer = ELMoTokenCharactersIndexer()
    words = ["Zürich", "bank", "."]

    ids = indexer.tokens_to_indices(words, None, "elmo")
    padded = indexer.as_padded_tensor(ids, {"elmo": 4}, {})["elmo"]

    assert torch.equal(padded[:3], batch_to_ids([words])[0])
    assert not padded[3].any()
    with pytest.raises(ValueError, match="token's text is None"):
        indexer.tokens_to_indices([None])


def test_tokens_to_add_have_characters_of_their_own() -> None:
    mapper = ELMoCharacterMapper({"<mask>": 1})

    assert mapper.convert_word_to_char_ids("<mask>")[:4] == [259, 2, 260, 261]
    plain = ELMoCharacterMapper()
    assert plain.convert_word_to_char_ids("a") == mapper.convert_word_to_char_ids("a")
    assert plain != mapper == ELMoCharacterMapper({"<mask>": 1})
    assert plain.beginning_of_sentence_characters[:4] == [258, 256, 259, 260]
    assert "give 0 to 260" in error_of(ELMoCharacterMapper, {"<mask>": 261})


@pytest.mark.parametrize("of_characters", [False, True])
def test_boundaries_go_around_each_sentence(of_characters: bool) -> None:
    ids = batch_to_ids(SENTENCES) if of_characters else word_ids(SENTENCES)
    mask = (ids != 0).any(-1) if of_characters else ids != 0
    begin, end = (ids[0, 0], ids[0, 1]) if of_characters else (8, 9)

    marked, wider = add_sentence_boundary_token_ids(ids, mask.long(), begin, end)

    assert wider.sum(1).tolist() == [6, 4, 5]
    assert torch.equal(marked[1, 3], torch.as_tensor(end))
    assert torch.equal(marked[:, 1:-1][mask & wider[:, 2:]], ids[mask & wider[:, 2:]])


# Sentences of all kinds


def kinds_of(sentences: list[list[str]]) -> list[Any]:
    return [
        Column(sentences),
        Column([np.array(words) for words in sentences]),
        np.array([np.array(words, dtype=object) for words in sentences], dtype=object),
        (iter(words) for words in sentences),
        map(tuple, sentences),
    ]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(
    "read",
    [
        lambda files: batch_to_ids,
        lambda files: ElmoEmbedder(*files).embed_batch,
        lambda files: Embedder.load(*files).embed,
    ],
    ids=["batch_to_ids", "ElmoEmbedder", "embed"],
)
def test_columns_arrays_and_generators_are_sentences(
    files: Files, read: Callable[[Files], Callable[[Any], Any]], number: int
) -> None:
    given = kinds_of(BATCHES[0])[number]

    found, expected = read(files)(given), read(files)(BATCHES[0])

    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_our_Elmo_names_the_adaptor_where_it_is_called_as_AllenNLPs(files: Files) -> None:
    assert "elmokit.adaptors.allennlp.Elmo" in error_of(elmokit.Elmo, *files, 2)
    assert "elmokit.adaptors.allennlp.Elmo" in error_of(elmokit.Elmo, *map(str, files))
