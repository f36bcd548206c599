from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from closeness import CLEARLY, assert_agree, assert_close, distance
from helpers import Heard, error_of, write_sentences
from pretraining.small_runs import assert_near, measured, newest, sentences, small_run, train

from elmokit import Embedder, LanguageModel
from elmokit.config import BEGIN_SENTENCE, END_SENTENCE
from elmokit.errors import InputError
from elmokit.formats.convert import convert_model
from elmokit.formats.native import read_model
from elmokit.io.text_files import TextSettings, find_files
from elmokit.jobs.metrics import METRICS, read_metrics
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.pretraining.batches import SentenceReader, WordReader
from elmokit.pretraining.corpus import build_vocabulary, prepare_corpus
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.run import CURVES, pretrain

QUICKLY: dict[str, Any] = {
    "training.mode": "sentence",
    "training.rows": 20,
    "training.optimiser": "adamw",
    "training.learning_rate": 0.03,
    "training.schedule": "linear",
    "training.clip": 1.0,
    "training.scale_loss_by_unroll": False,
    "model.lstm_layers": 1,
    "model.token_size": 32,
    "model.cell_size": 64,
}
"""A recipe that learns a small text in little time."""
WORDS = {"model.encoder": "words"}


def held_out(folder: Path, lines: list[list[str]]) -> dict[str, Any]:
    return {"corpus.valid": [write_sentences(folder / "held-out.txt", lines)]}


# That it learns


@pytest.mark.parametrize("cutoffs", [[], [20, 50]], ids=["full softmax", "adaptive softmax"])
def test_a_tiny_model_learns_two_hundred_sentences_by_heart(
    tmp_path: Path, cutoffs: list[int]
) -> None:
    text = write_sentences(tmp_path / "text.txt", sentences(200))
    softmax = {"model.softmax_cutoffs": cutoffs, "model.softmax_division": 2}
    looks = {"logging.validate_every": 50, "corpus.valid": [text]}

    result = train(small_run(tmp_path, QUICKLY | softmax | looks | {"training.steps": 150}))

    assert result.perplexity is not None
    assert result.perplexity.forward < 2
    assert result.perplexity.backward < 2
    assert measured(tmp_path / "run", "validation")[0]["perplexity"] > 2


def riddles(count: int) -> list[list[str]]:
    """Sentences that are easy in one direction: a new word's letters tell the words after it."""
    letters = itertools.product("bdfgklmn", "aeiou", "aeiou", "prstvwxz")
    words = random.Random(1).sample(["".join(spelled) for spelled in letters], count)
    return [[word, f"{word[0]}ill", f"{word[-1]}ack", "."] for word in words]


def test_reversed_text_swaps_the_losses_of_the_directions(tmp_path: Path) -> None:
    wide = {"model.encoder.filters": [[1, 32]], "model.encoder.character_size": 16}
    recipe = {"training.learning_rate": 0.02, "training.schedule": "constant"}
    settings = QUICKLY | wide | recipe | {"corpus.min_count": 2, "training.steps": 80}
    losses = {}
    for name, step in (("text", 1), ("reversed", -1)):
        lines = [words[::step] for words in riddles(200)]
        files = {"corpus.train": [write_sentences(tmp_path / f"{name}.txt", lines)]}
        run = settings | files | held_out(tmp_path, lines) | {"output": str(tmp_path / name)}
        perplexity = train(small_run(tmp_path, run)).perplexity
        assert perplexity is not None
        losses[name] = math.log(perplexity.forward), math.log(perplexity.backward)

    assert losses["text"][1] - losses["text"][0] > 0.25
    # What is left between them is where their weights have started.
    assert losses["reversed"][1] == pytest.approx(losses["text"][0], abs=0.1)
    assert losses["reversed"][0] == pytest.approx(losses["text"][1], abs=0.1)


def swap(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights whose directions and sentence markers have changed places."""
    names = {"forward_lstm": "backward_lstm", "backward_lstm": "forward_lstm"}
    swapped = {}
    for name, value in weights.items():
        first, _, rest = name.partition(".")
        swapped[f"{names.get(first, first)}.{rest}"] = value.clone()
    for name, rows in {
        "encoder.characters.weight": [BEGIN_SENTENCE, END_SENTENCE],
        "softmax.weight": [0, 1],
        "softmax.bias": [0, 1],
    }.items():
        swapped[name][rows] = swapped[name][rows[::-1]]
    return swapped


def test_reversed_text_and_swapped_stacks_have_the_same_losses(tmp_path: Path) -> None:
    config = small_run(tmp_path, {"training.mode": "sentence", "training.steps": 3})
    train(config)
    saved = read_model(tmp_path / "run" / "model")
    assert saved.vocabulary is not None
    reversed_lines = [words[::-1] for words in sentences(60)]
    files = [str(tmp_path / "text.txt"), write_sentences(tmp_path / "reversed.txt", reversed_lines)]
    losses = []
    for file, weights in zip(files, (saved.weights, swap(saved.weights)), strict=True):
        bilm = BiLM.from_weights(saved.config, weights)
        corpus = prepare_corpus(find_files([file]), TextSettings(), processes=1)
        words = WordReader(corpus, saved.vocabulary, saved.config.encoder)
        (batch,) = next(SentenceReader(words, config).batches(2))
        zero = bilm.forward_lstm.zero_state(8, torch.zeros(()))
        state = BiLMState(zero, zero)
        with torch.no_grad():
            both, _ = Objective(bilm, config.training)(batch, state, 0)
        losses.append([float(loss) for loss in both])

    text, reversed_text = losses
    assert_close(text, reversed_text[::-1])
    assert distance(text[:1], text[1:]) > CLEARLY


# That it is what it says


def test_the_loss_of_training_is_the_log_of_perplexity(tmp_path: Path) -> None:
    still = {"training.learning_rate": 0.0, "training.mode": "sentence", "training.rows": 10}
    once = {"training.steps": None, "training.epochs": 1, "logging.every": 6}
    train(small_run(tmp_path, still | once))

    (line,) = measured(tmp_path / "run", "train")
    perplexity = LanguageModel.load(tmp_path / "run" / "model").perplexity(sentences(60))
    assert line["step"] == 6
    assert line["epoch"] == 1.0
    assert line["words"] == perplexity.words
    assert_close(line["loss_forward"], math.log(perplexity.forward))
    assert_close(line["loss_backward"], math.log(perplexity.backward))


@pytest.mark.parametrize("mode", ["stream", "sentence"])
@pytest.mark.parametrize("samples", [None, 20])
def test_a_batch_in_two_parts_trains_as_the_whole(
    tmp_path: Path, mode: str, samples: int | None
) -> None:
    settings = {"training.mode": mode, "training.samples": samples, "training.steps": 6}
    train(small_run(tmp_path, settings))
    parts = {"training.accumulate": 2, "output": str(tmp_path / "parts")}
    train(small_run(tmp_path, settings | parts))
    assert_near(tmp_path / "run", tmp_path / "parts")
    one, other = (measured(tmp_path / name, "train") for name in ("run", "parts"))
    for line, same in zip(one, other, strict=True):
        assert line.keys() == same.keys()
        for name in set(line) - {"kind", "words"}:  # of a part, words are counted for the whole
            assert_close(same[name], line[name])


def test_a_batch_changes_with_its_seed_and_dropout(tmp_path: Path) -> None:
    ends = []
    changes: list[dict[str, Any]] = [{}, {"training.seed": 2}, {"training.dropout": 0.5}]
    for number, change in enumerate(changes):
        run = tmp_path / str(number)
        train(small_run(tmp_path, change | {"output": str(run), "training.steps": 2}))
        ends.append(newest(run).tensors["model.softmax.weight"])
    assert not torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_a_softmax_can_start_from_the_frequencies_of_words(tmp_path: Path) -> None:
    still = {"training.learning_rate": 0.0, "training.steps": 1} | held_out(tmp_path, sentences(60))
    perplexities = []
    for name in (False, True):
        run = {"output": str(tmp_path / str(name)), "training.unigram_bias": name}
        result = train(small_run(tmp_path, still | run))
        assert result.perplexity is not None
        perplexities.append(result.perplexity.mean)
    assert perplexities[1] < 0.9 * perplexities[0]


# What is kept


def test_the_best_of_all_validations_is_kept_and_patience_ends_the_run(tmp_path: Path) -> None:
    # Held-out words in no order: what is learned of their order makes it worse.
    lines = [random.Random(1).sample(words, len(words)) for words in sentences(60, seed=3)]
    settings = QUICKLY | held_out(tmp_path, lines)
    looks = {"logging.validate_every": 4, "logging.patience": 2, "training.steps": 400}

    result = train(small_run(tmp_path, settings | looks))

    seen = measured(tmp_path / "run", "validation")
    best = min(seen, key=lambda line: line["perplexity"])
    assert best not in (seen[0], seen[-1])
    assert seen[-1]["step"] == result.steps == best["step"] + 2 * 4
    assert result.perplexity is not None
    assert result.perplexity.mean == best["perplexity"]  # not measured a second time
    # float noise: weights that have just been trained are multiplied in another layout
    again = LanguageModel.load(result.model).perplexity(lines)
    assert_close(again.mean, best["perplexity"])
    assert f"{best['step']} |" in (result.model / "README.md").read_text()


def test_the_average_of_the_weights_is_what_is_validated_and_kept(tmp_path: Path) -> None:
    settings = {"training.ema": 0.9, "logging.validate_every": 6}
    result = train(small_run(tmp_path, settings | held_out(tmp_path, sentences(20, seed=3))))
    checkpoint = newest(tmp_path / "run")
    kept = read_model(result.model).weights["softmax.weight"]
    assert torch.equal(kept, checkpoint.tensors["average.softmax.weight"])
    assert not torch.equal(kept, checkpoint.tensors["model.softmax.weight"])
    assert result.perplexity is not None
    last = measured(tmp_path / "run", "validation")[-1]
    assert_close(last["perplexity"], result.perplexity.mean)


def test_without_held_out_text_the_last_weights_are_kept(tmp_path: Path) -> None:
    result = train(small_run(tmp_path))
    assert result.perplexity is None
    assert not measured(tmp_path / "run", "validation")
    kept = read_model(result.model)
    assert torch.equal(
        kept.weights["softmax.weight"], newest(tmp_path / "run").tensors["model.softmax.weight"]
    )
    assert kept.vocabulary is not None
    assert kept.vocabulary.counts is not None
    assert kept.tokenizer == "whitespace"


TRAINING = {
    *("step", "kind", "epoch", "words", "loss_forward", "loss_backward", "learning_rate"),
    *("gradient_norm", "words_per_second", "seconds"),
}
VALIDATION = {
    *("step", "kind", "words", "perplexity_forward", "perplexity_backward", "perplexity"),
    "seconds",
}


def test_metrics_have_their_names_and_a_sampled_loss_is_no_perplexity(tmp_path: Path) -> None:
    for samples in (None, 20):
        run, heard = tmp_path / str(samples), Heard()
        settings = {"training.samples": samples, "training.steps": 4, "output": str(run)}
        config = small_run(tmp_path, settings | held_out(tmp_path, sentences(5)))
        pretrain(config, processes=1, observer=heard)
        lines = read_metrics(run / METRICS)
        names = {line["kind"]: set(line) for line in lines}
        sampled = "sampled_" if samples else ""
        losses = {"loss_forward", "loss_backward"}
        assert names["train"] == TRAINING - losses | {sampled + name for name in losses}
        assert names["validation"] == VALIDATION
        assert [f"{sampled}loss_forward" in values for values in heard.measured] == [True] * 2
        assert heard.stages["training"] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
        assert heard.stages["reading held-out text"][-1] == (5, 5)
        assert [values["step"] for values in heard.validations] == [4]
        assert all(line["words_per_second"] > 0 for line in lines if line["kind"] == "train")


@pytest.mark.pictures
def test_curves_are_drawn(tmp_path: Path) -> None:
    train(small_run(tmp_path, held_out(tmp_path, sentences(5))))
    assert (tmp_path / "run" / CURVES).read_bytes().startswith(b"\x89PNG")


# What reads it


@pytest.mark.parametrize("kind", [{}, WORDS], ids=["characters", "words"])
def test_a_trained_model_is_embedded_with_and_converted(
    tmp_path: Path, kind: dict[str, Any]
) -> None:
    result = train(small_run(tmp_path, kind | held_out(tmp_path, sentences(5))))
    assert LanguageModel.load(result.model).perplexity(sentences(5)) == result.perplexity
    vectors = Embedder.load(result.model).embed(sentences(5))
    assert vectors[0].shape == (len(sentences(5)[0]), 16)

    convert_model([result.model], tmp_path / "pair")
    pair = [tmp_path / "pair" / name for name in ("options.json", "weights.hdf5")]
    words = {"vocabulary": tmp_path / "pair" / "vocabulary.txt"}
    assert_agree(Embedder.load(*pair, **words).embed(sentences(5)), vectors)
    assert LanguageModel.load(*pair, **words).perplexity(sentences(5)) == result.perplexity


def write_vectors(path: Path, size: int) -> dict[str, list[float]]:
    """A file of vectors for some of the words."""
    numbers = random.Random(1)
    words = ["the", "cat", ".", "aardvark"]
    vectors = {word: [round(numbers.uniform(-1, 1), 4) for _ in range(size)] for word in words}
    lines = [" ".join([word, *map(str, vector)]) for word, vector in vectors.items()]
    path.write_text("\n".join(lines) + "\n")
    return vectors


@pytest.mark.parametrize("frozen", [True, False])
def test_word_vectors_are_where_a_word_model_starts(tmp_path: Path, frozen: bool) -> None:
    vectors = write_vectors(tmp_path / "vectors.txt", 8)
    given = {
        "training.word_vectors": str(tmp_path / "vectors.txt"),
        "training.freeze_word_vectors": frozen,
    }
    tables = []
    for steps in (1, 9):
        run = {"output": str(tmp_path / str(steps)), "training.steps": steps}
        rate = {"training.learning_rate": 0.0} if steps == 1 else {}
        train(small_run(tmp_path, WORDS | given | run | rate))
        tables.append(newest(tmp_path / str(steps)).tensors["model.encoder.words.weight"])

    saved = read_model(tmp_path / "9" / "model")
    assert saved.vocabulary is not None
    rows = [saved.vocabulary.id_of(word) + 1 for word in ("the", "cat", ".")]
    expected = torch.tensor([vectors[word] for word in ("the", "cat", ".")])
    assert_close(tables[0][rows], expected)
    assert torch.equal(tables[0], tables[1]) == frozen
    assert not tables[1][0].any()


# What is refused


@pytest.mark.parametrize(
    "words",
    [
        ["<UNK>", "the", ".", "a"],  # an unknown word is no marker
        ["the", "<S>", "</S>", "<UNK>", "a"],  # a table has its markers in its first rows
    ],
)
def test_a_vocabulary_that_cannot_be_read_afterwards_is_refused_before(
    tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "words.txt").write_text("\n".join(words))
    vocabulary = {"corpus.vocabulary": str(tmp_path / "words.txt")}
    assert "<S>" in error_of(train, small_run(tmp_path, WORDS | vocabulary), kind=InputError)


@pytest.mark.parametrize("loss", [{"training.samples": 5}, {"model.softmax_cutoffs": [4]}])
def test_words_out_of_order_are_refused_where_an_id_is_a_rank(
    tmp_path: Path, loss: dict[str, Any]
) -> None:
    config = small_run(tmp_path)
    corpus = prepare_corpus(find_files(config.corpus.train), TextSettings(), processes=1)
    words = list(build_vocabulary(corpus).words)
    (tmp_path / "words.txt").write_text("\n".join([*words[:3], *words[:2:-1]]))
    vocabulary = {"corpus.vocabulary": str(tmp_path / "words.txt")}
    with pytest.raises(InputError, match=r"words\.txt, line \d+: .* elmo vocabulary"):
        train(small_run(tmp_path, vocabulary | loss))
    assert train(small_run(tmp_path, vocabulary)).steps == 12
