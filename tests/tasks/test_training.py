from __future__ import annotations

import json
import math
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from closeness import assert_close
from helpers import Heard, assert_same_bits, write
from tasks.small_files import DEFAULT, read
from tasks.small_tasks import (
    NAMES,
    Interrupting,
    config,
    embedder,
    lively_bilm,
    train,
    weights,
    write_examples,
)

from elmokit import Embedder
from elmokit.errors import ConfigError, DivergedError, InputError, StoppedError
from elmokit.tasks import trainer as training
from elmokit.tasks.run import train_task

LAYERS = "computing ELMo's layers, once"
SHORT: dict[str, Any] = {"training.epochs": 3}
WITH_CHANCE: dict[str, Any] = {
    "training.epochs": 4,
    "training.rate_factor": 0.5,
    "network.dropout": 0.3,
    "inputs.elmo_dropout": 0.3,
}
"""Settings in which a resumed run has much to get wrong."""


def same(one: Path, other: Path) -> bool:
    """Whether two runs have the same weights, to the bit, and measured the same."""
    found, expected = weights(one), weights(other)
    assert found.keys() == expected.keys()
    equal = all(torch.equal(found[name], expected[name]) for name in expected)
    return equal and measured(one) == measured(other)


def measured(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with chance in it that nothing interrupted."""
    return train(tmp_path_factory.mktemp("whole"), "spam", WITH_CHANCE).folder


def crash() -> None:
    raise RuntimeError("a power cut")


# Learning


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_the_optimisers_differ_in_weight_decay_alone(decay: float, tmp_path: Path) -> None:
    settings = SHORT | {"training.weight_decay": decay}
    for name in ("adamw", "adam"):
        train(tmp_path, "spam", settings | {"training.optimiser": name}, output=tmp_path / name)
    assert same(tmp_path / "adamw", tmp_path / "adam") == (decay == 0.0)


def majority(folder: Path, name: str) -> float:
    """The share of the most frequent label on dev: what nobody needs a network for."""
    examples = read(config(name).kind, write_examples(folder, name, "dev"), DEFAULT)
    counts = Counter(label for example in examples for label in example.labels)
    return max(counts.values()) / sum(counts.values())


@pytest.mark.parametrize("name", list(NAMES))
def test_every_task_learns_from_layers_of_a_frozen_bilm(name: str, tmp_path: Path) -> None:
    epochs = 4 if name == "nli" else 10
    test = write_examples(tmp_path, name, "test")
    result = train(tmp_path, name, {"training.epochs": epochs}, test=test)

    least = 0.8 if name == "ner" else majority(tmp_path, name) + 0.1
    assert result.dev.score.main >= least
    assert result.test is not None
    assert result.test.score.main > 0.5
    assert result.mixes[0].gamma != 1.0


@pytest.mark.parametrize("place", ["input", "output", "both"])
@pytest.mark.parametrize("name", ["spam", "pos", "nli"])
def test_elmo_may_join_anywhere(name: str, place: str, tmp_path: Path) -> None:
    settings = {"training.epochs": 1, "inputs.elmo": place, "inputs.characters": True}
    result = train(tmp_path, name, settings)
    assert [mix.place for mix in result.mixes] == {"both": ["input", "output"]}.get(place, [place])


def test_a_baseline_needs_no_bilm(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    words = ["the", "a", "dog", "cat", "boy", "runs", "eats", "sits"]
    numbers = np.random.default_rng(0).normal(size=(len(words), 5)).round(3)
    rows = (f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, numbers, strict=True))
    vectors.write_text("".join(rows))
    settings = {"inputs.elmo": "none", "inputs.static": str(vectors), "training.epochs": 6}

    result = train(tmp_path, "pos", settings, bilm=None)

    assert result.dev.score.main > 0.9
    assert result.mixes == []
    assert not any("elmo" in name for name in weights(tmp_path / "pos"))


def test_a_run_depends_on_its_seed_not_on_what_its_caller_draws_and_draws_from(
    whole: Path, tmp_path: Path
) -> None:
    elmo = embedder()
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    drawn = []
    for seed in (1, 2):
        run = WITH_CHANCE | {"training.seed": seed}
        train(tmp_path, "spam", run, output=tmp_path / str(seed), bilm=elmo)
        drawn.append(torch.rand(1).item())
        assert same(tmp_path / str(seed), whole) == (seed == 1)
    assert drawn == expected.tolist()


# The layers


@pytest.mark.parametrize("cache", ["none", "disk"])
def test_cached_and_uncached_training_end_alike(cache: Any, tmp_path: Path) -> None:
    settings = {"training.epochs": 2}
    train(tmp_path, "ner", settings, cache="memory", output=tmp_path / "kept")
    train(tmp_path, "ner", settings, cache=cache, output=tmp_path / "computed")

    kept, computed = weights(tmp_path / "kept"), weights(tmp_path / "computed")
    for name, value in kept.items():
        assert_close(computed[name], value)


def test_layers_are_computed_once_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, elmo = Heard(), embedder()
    computed: list[tuple[str, ...]] = []
    embed_as = elmo.embed_as

    def counting(sentences: Any, reduction: Any) -> Any:
        computed.extend(map(tuple, sentences))
        return embed_as(sentences, reduction)

    monkeypatch.setattr(elmo, "embed_as", counting)
    train(tmp_path, "spam", SHORT, bilm=elmo, observer=told)

    assert len(computed) == len(set(computed)) > 50
    _, *words = told.stages[LAYERS]
    done, total = words[-1]
    assert done == total == sum(map(len, computed))
    assert len({total for _, total in words}) == 1


def test_layers_on_disk_serve_the_next_run(tmp_path: Path) -> None:
    train(tmp_path, "spam", SHORT, cache="disk", output=tmp_path / "one")
    told = Heard()
    train(tmp_path, "spam", SHORT, cache="disk", output=tmp_path / "other", observer=told)

    assert told.stages[LAYERS] == [(0, None)]
    assert same(tmp_path / "one", tmp_path / "other")


def test_a_frozen_bilm_stays_as_it_is_and_a_finetuned_one_does_not(tmp_path: Path) -> None:
    for finetune in (False, True):
        elmo = embedder()
        before = elmo.fingerprint()
        settings = {"training.epochs": 1, "inputs.finetune_bilm": finetune}
        train(tmp_path, "spam", settings, bilm=elmo, output=tmp_path / str(finetune))
        assert (elmo.fingerprint() != before) == finetune


def test_finetuning_has_a_learning_rate_of_its_own(tmp_path: Path) -> None:
    elmo = embedder()
    before = {name: value.clone() for name, value in elmo.bilm.state_dict().items()}
    settings = {
        "training.epochs": 1,
        "inputs.finetune_bilm": True,
        "training.bilm_learning_rate": 0.0,
    }
    result = train(tmp_path, "spam", settings, bilm=elmo)

    assert all(torch.equal(value, before[name]) for name, value in elmo.bilm.state_dict().items())
    assert result.mixes[0].gamma != 1.0


# Stopping and going on


@pytest.mark.parametrize(("name", "finetune"), [("spam", False), ("ner", False), ("spam", True)])
def test_a_run_that_crashed_and_was_resumed_equals_one_that_was_not(
    name: str, finetune: bool, tmp_path: Path
) -> None:
    settings = WITH_CHANCE | {"inputs.finetune_bilm": finetune}
    whole, cut = embedder(), embedder()
    train(tmp_path, name, settings, output=tmp_path / "whole", bilm=whole)
    observer = Interrupting(3, 2, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        train(tmp_path, name, settings, output=tmp_path / "cut", observer=observer)
    assert not (tmp_path / "cut" / "config.json").exists()

    train(tmp_path, name, settings, output=tmp_path / "cut", bilm=cut, resume=True)

    assert same(tmp_path / "cut", tmp_path / "whole")
    assert cut.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize(("number", "batch"), [(signal.SIGINT, 1), (signal.SIGTERM, 3)])
def test_a_signal_saves_in_the_middle_of_an_epoch_and_says_how_to_go_on(
    number: signal.Signals, batch: int, whole: Path, tmp_path: Path
) -> None:
    observer = Interrupting(2, batch, lambda: signal.raise_signal(number))
    with pytest.raises(StoppedError) as stopped:
        train(tmp_path, "spam", WITH_CHANCE, output=tmp_path / "cut", observer=observer)
    assert "stopped in epoch 2 of 4; everything is saved in" in str(stopped.value)
    assert "--resume" in str(stopped.value)

    going_on = Heard()
    train(tmp_path, "spam", WITH_CHANCE, output=tmp_path / "cut", resume=True, observer=going_on)

    assert "resumed in epoch 2" in going_on.notes
    (done, _), (_, in_all), *_ = going_on.stages["training"]
    assert done == (in_all or 0) // 4 + batch
    assert same(tmp_path / "cut", whole)


@pytest.mark.parametrize(
    ("began", "resumed", "kept"),
    [(True, False, True), (True, True, True), (False, True, True), (False, False, False)],
)
def test_a_resumed_run_keeps_the_model_if_it_was_to_be_kept(
    tmp_path: Path, began: bool, resumed: bool, kept: bool
) -> None:
    settings = WITH_CHANCE | {"training.epochs": 2}
    stop = Interrupting(2, 1, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(StoppedError):
        train(tmp_path, "spam", settings, observer=stop, keep_model=began)
    folder = train(tmp_path, "spam", settings, resume=True, keep_model=resumed).folder
    for _ in range(2):
        assert json.loads((folder / "config.json").read_text())["bilm"]["inside"] is kept
        assert (folder / "bilm").exists() is kept
        train(tmp_path, "spam", settings, resume=True)  # scored again


def test_a_finished_run_can_be_trained_on_for_more_epochs(whole: Path, tmp_path: Path) -> None:
    train(tmp_path, "spam", WITH_CHANCE | {"training.epochs": 2})
    longer = train(tmp_path, "spam", WITH_CHANCE, resume=True).folder
    assert same(longer, whole)


def test_the_layers_of_training_data_are_not_computed_again_for_a_finished_run(
    tmp_path: Path,
) -> None:
    first = train(tmp_path, "spam", SHORT)
    before, told = weights(first.folder), Heard()
    again = train(tmp_path, "spam", SHORT, resume=True, observer=told)
    trained = again.trained
    dev = read("text", tmp_path / "spam.dev.csv", trained.tokenizer)
    assert told.stages[LAYERS][-1][1] == sum(map(len, {example.words for example in dev}))
    assert any("already finished, after epoch" in note for note in told.notes)
    assert again.seconds_in_all > again.progress.seconds_in_all > first.seconds_in_all / 2
    assert again.dev == first.dev
    assert_same_bits(weights(first.folder), before)


def test_what_is_resumed_must_be_the_same_run(tmp_path: Path) -> None:
    train(tmp_path, "spam", SHORT)

    with pytest.raises(ConfigError, match=r"network.hidden was 12, is 13"):
        train(tmp_path, "spam", SHORT | {"network.hidden": 13}, resume=True)
    with pytest.raises(InputError, match=r"bilm\.model is another"):
        train(tmp_path, "spam", SHORT, bilm=embedder(7), resume=True)
    other = write_examples(tmp_path, "spam", "test")
    with pytest.raises(InputError, match=r"\(train is another"):
        train(tmp_path, "spam", SHORT, train=other, resume=True)


def write_vectors(path: Path, words: list[str], scale: float = 1.0) -> str:
    rows = (f"{word} {scale * n} {scale}" for n, word in enumerate(words, start=1))
    return str(write(path, rows))


PLAIN_WORDS = ["the", "a", "we", "you"]


def with_static(path: str, trainable: bool = False) -> dict[str, Any]:
    return {
        "training.epochs": 1,
        "inputs.elmo": "none",
        "inputs.static": path,
        "inputs.static_trainable": trainable,
    }


def test_what_is_resumed_must_have_the_same_static_vectors(tmp_path: Path) -> None:
    first = write_vectors(tmp_path / "first.txt", PLAIN_WORDS)
    same_words = write_vectors(tmp_path / "other.txt", PLAIN_WORDS, scale=2.0)
    train(tmp_path, "spam", with_static(first), bilm=None)

    with pytest.raises(InputError, match=r"\(static is another"):
        train(tmp_path, "spam", with_static(same_words), bilm=None, resume=True)
    train(tmp_path, "spam", with_static(first), bilm=None, resume=True)


@pytest.mark.parametrize("trainable", [False, True])
def test_words_of_the_test_file_matter_only_where_their_vectors_learn(
    trainable: bool, tmp_path: Path
) -> None:
    vectors = write_vectors(tmp_path / "vectors.txt", [*PLAIN_WORDS, "zebra"])
    (tmp_path / "test.csv").write_text("label,text\nham,a zebra\n")
    settings = with_static(vectors, trainable)
    train(tmp_path, "spam", settings, bilm=None, test=tmp_path / "test.csv")

    if trainable:
        with pytest.raises(InputError, match="trained_words is another"):
            train(tmp_path, "spam", settings, bilm=None, resume=True)
    else:
        assert train(tmp_path, "spam", settings, bilm=None, resume=True).test is None


def test_what_is_resumed_must_read_with_the_same_state_and_precision(tmp_path: Path) -> None:
    settings = {"training.epochs": 1}
    train(tmp_path, "spam", settings)
    for manner in ({"state": "warm"}, {"precision": "fast"}):
        other = Embedder(lively_bilm(), tokenizer="default", **manner)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"\(bilm\.(state|precision) was"):
            train(tmp_path, "spam", settings, bilm=other, resume=True)


@pytest.mark.parametrize(("epoch", "message"), [(1, "before anything was saved; run"), (2, "step")])
def test_two_signals_say_what_can_be_done(epoch: int, message: str, tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(StoppedError) as stopped:
        train(tmp_path, "spam", SHORT, observer=Interrupting(epoch, 1, twice))
    assert message in str(stopped.value)
    assert ("--resume" in str(stopped.value)) == (epoch > 1)


# When to stop, and what is kept


def test_patience_ends_training_and_the_best_model_is_kept(tmp_path: Path) -> None:
    told = Heard()
    # With such a rate the first epochs are the best ones.
    settings = {"training.patience": 2, "training.epochs": 30, "training.learning_rate": 0.3}
    result = train(tmp_path, "pos", settings, observer=told)

    scores = [values["score"] for values in told.validations]
    assert result.progress.epoch == result.progress.best_epoch + 2 < 30
    assert result.dev.score.main == max(scores) == scores[result.progress.best_epoch - 1]
    assert "stopped early: no better in 2 epochs" in told.notes


def test_the_rate_falls_after_epochs_that_are_no_better(tmp_path: Path) -> None:
    settings = {"training.epochs": 7, "training.rate_factor": 0.5}
    result = train(tmp_path, "pos", settings)

    epochs = [line for line in measured(tmp_path / "pos") if line["kind"] == "train"]
    scores = [line["score"] for line in measured(tmp_path / "pos") if line["kind"] == "dev"]
    best, falls = -math.inf, 0
    for line, found in zip(epochs, scores, strict=True):
        assert line["rate"] == pytest.approx(0.01 * 0.5**falls)
        falls += found <= best
        best = max(best, found)
    assert result.progress.rate == 0.5**falls < 1


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="train with a lower"):
        train(tmp_path, "spam", {"training.learning_rate": 1e30, "network.dropout": 0.0})


def test_lambda_keeps_the_mix_near_an_average(tmp_path: Path) -> None:
    spread = []
    for penalty in (0.0, 10.0):
        settings = {"inputs.mix_penalty": penalty, "training.epochs": 5}
        result = train(tmp_path, "pos", settings, output=tmp_path / str(penalty))
        spread.append(max(result.mixes[0].weights) - min(result.mixes[0].weights))
    assert spread[1] < spread[0] / 3


def test_progress_tells_how_much_is_left(tmp_path: Path) -> None:
    told = Heard()
    train(tmp_path, "spam", SHORT, observer=told)

    assert [values["epoch"] for values in told.validations] == [1, 2, 3]
    assert told.units["training"] == "step"
    _, *steps = told.stages["training"]
    assert steps == [(done, len(steps)) for done in range(1, len(steps) + 1)]
    assert told.measured[-1]["epoch"] == 3
    assert math.isfinite(told.measured[-1]["loss"])
    done, total = told.stages["scoring dev"][-1]
    assert done == total


def test_of_epochs_that_score_nothing_the_last_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(main=0.0, describe=str)
    monkeypatch.setattr(training, "evaluate", lambda *given: SimpleNamespace(score=nothing))
    told = Heard()
    result = train(tmp_path, "spam", SHORT, observer=told)
    assert result.progress.best_epoch == 3
    assert not any(values["best"] for values in told.validations)


def test_train_task_takes_several_files(tmp_path: Path) -> None:
    files = [write_examples(tmp_path, "spam", part) for part in ("train", "test")]
    dev = write_examples(tmp_path, "spam", "dev")
    result = train_task(
        config("spam", SHORT), tmp_path / "run", train=files, dev=dev, bilm=embedder()
    )
    assert result.examples == {"train": 80, "dev": 30, "test": 0}


def test_gradients_are_clipped_unless_the_clip_is_infinite(tmp_path: Path) -> None:
    def clipped_to(clip: float) -> Path:
        folder = tmp_path / f"{clip}"
        folder.mkdir()
        return train(folder, "spam", {"training.epochs": 1, "training.clip": clip}).folder

    tiny, usual, none = map(clipped_to, (1e-9, 1e6, math.inf))
    assert same(usual, none)
    assert not same(usual, tiny)
