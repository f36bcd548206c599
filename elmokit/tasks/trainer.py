"""Training loop of every task: exact after any interruption; the best model is stored."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from elmokit.errors import DivergedError, InputError, StoppedError
from elmokit.io.fetch import Progress
from elmokit.jobs.checkpoints import (
    Checkpoint,
    Checkpoints,
    named,
    optimiser_tensors,
    prefixed,
    restore_optimiser,
    seed_by,
)
from elmokit.jobs.metrics import MetricsLog
from elmokit.jobs.progress import Observer, duration
from elmokit.system import StopRequest, counted, stop_requests
from elmokit.tasks.config import TaskTrainingConfig
from elmokit.tasks.examples import AnyExample, epoch_batches, size_of
from elmokit.tasks.folder import CHECKPOINTS
from elmokit.tasks.scores import Accuracy, Score
from elmokit.tasks.task import AnyTask, TaskModel
from elmokit.text.characters import batch_by_length

MODEL, OPTIMISER = "model.", "optimiser."  # what the names of a checkpoint's tensors begin with


class TaskProgress(NamedTuple):
    """What a run has come to; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0  # epochs that are done
    batch: int = 0  # batches done in the epoch under way
    loss: float = 0.0  # summed over the examples of that epoch
    examples: int = 0  # of that epoch
    words: int = 0  # in all
    seconds: float = 0.0  # of training alone: scoring and saving are not counted
    epoch_started: float = 0.0  # the seconds at which the epoch under way began
    seconds_scoring: float = 0.0  # dev, after the epochs that are done
    seconds_in_all: float = 0.0  # of all sessions up to the last checkpoint, reading included
    rate: float = 1.0  # what the learning rates are multiplied by
    best: float = -math.inf  # score on dev
    best_epoch: int = 0
    epochs_since_best: int = 0
    keep_model: bool = False  # whether the biLM is stored with the task

    def is_over(self, training: TaskTrainingConfig) -> bool:
        """Whether all epochs are done, or patience has run out."""
        return self.epoch >= training.epochs or self.epochs_since_best >= training.patience

    @property
    def mean_loss(self) -> float:
        """Of an example in the epoch under way."""
        return self.loss / self.examples if self.examples else math.nan


def learnt(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: not a frozen table of static vectors, which may be large."""
    frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


@torch.no_grad()
def load_learnt(model: nn.Module, checkpoint: Checkpoint) -> None:
    """Copy weights into a model, leaving each where the optimiser knows it."""
    weights = named(checkpoint, MODEL)
    for name, value in learnt(model).items():
        value.copy_(weights[name])


def fingerprint_of(examples: Iterable[Any]) -> str:
    """SHA-256 of examples, which are dataclasses, wherever they were read."""
    sha256 = hashlib.sha256()
    for example in examples:
        values = {name: value for name, value in asdict(example).items() if name != "place"}
        sha256.update(json.dumps(values, sort_keys=True).encode())
    return sha256.hexdigest()


TOKENS, EXAMPLES = 8192, 256  # the most in a batch that is only read


class Evaluation(NamedTuple):
    """How good a model is on some examples."""

    score: Score
    confusion: Accuracy | None  # None for a task without labels


def evaluate(
    task: AnyTask,
    model: TaskModel[Any],
    examples: Sequence[AnyExample],
    progress: Progress | None = None,
) -> Evaluation:
    """Score prepared examples; `progress` is told how many of their words are read."""
    if not examples:
        raise InputError("there are no examples to score; give a file that has some")
    guesses = answers(model, examples, task.guess, progress)
    return Evaluation(task.score(examples, guesses), task.confusion(examples, guesses))


@torch.no_grad()
def answers(
    model: TaskModel[Any],
    examples: Sequence[AnyExample],
    answer: Callable[[TaskModel[Any], Sequence[Any]], list[Any]],
    progress: Progress | None = None,
) -> list[Any]:
    """The answer to each example, in order, in evaluation mode; `progress` is told words read."""
    was_training = model.training
    model.eval()
    found: dict[int, Any] = {}
    sizes = [size_of(example) for example in examples]
    done, total = 0, sum(sizes)
    if progress is not None:
        progress(0, total)
    for batch in batch_by_length(sizes, TOKENS, EXAMPLES):
        found |= zip(batch, answer(model, [examples[n] for n in batch]), strict=True)
        done += sum(sizes[number] for number in batch)
        if progress is not None:
            progress(done, total)
    model.train(was_training)
    return [found[number] for number in range(len(examples))]


OPTIMISERS = {"adamw": AdamW, "adam": Adam}
RATE = "full_rate"  # under which an optimiser's group has its learning rate before it is multiplied


class TaskTrainer:
    """Trains one model on examples, and scores it on others after every epoch.

    Which examples are in which batch depends on seed and epoch, dropout on seed and step: nothing
    depends on what was drawn before, so a checkpoint of any step is enough to continue exactly.
    The model is trained in place, on its device. A checkpoint records the `identity`, which a
    resumed run must agree with. The session began at `started`, by `time.monotonic`; None for now.
    """

    def __init__(
        self,
        task: AnyTask,
        model: TaskModel[Any],
        train: Sequence[AnyExample],
        dev: Sequence[AnyExample],
        folder: Path,
        identity: dict[str, Any],
        observer: Observer,
        started: float | None = None,
    ) -> None:
        self.task = task
        self.model = model
        self.examples = train
        self.dev = dev
        self.identity = identity
        self.observer = observer
        self.training: TaskTrainingConfig = task.config.training
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, keep=1)
        self.metrics = MetricsLog(folder)
        self.optimiser = make_optimiser(model, self.training)
        self.progress = TaskProgress()
        self._sizes = [size_of(example) for example in train]
        self._started = time.monotonic() if started is None else started
        self._earlier = 0.0  # seconds of earlier sessions

    def train(self) -> None:
        """Train until the epochs are done, patience is over, or somebody asks to stop."""
        done = self.progress.step
        with stop_requests() as request, self.observer.stage("training", "step", done=done):
            while not self.over():
                self.train_epoch(request)
                self.finish_epoch()

    def train_epoch(self, request: StopRequest) -> None:
        """What is left of the epoch under way."""
        self.model.train()
        batches = epoch_batches(
            self._sizes,
            tokens=self.training.batch_tokens,
            most=self.training.batch_examples,
            seed=self.training.seed,
            epoch=self.progress.epoch,
        )
        for batch in batches[self.progress.batch :]:
            started = time.monotonic()
            self.step([self.examples[number] for number in batch])
            seconds = self.progress.seconds + time.monotonic() - started
            self.progress = self.progress._replace(seconds=seconds)
            self.tell(len(batches))
            self.stop_if_requested(request)

    def step(self, batch: Sequence[AnyExample]) -> None:
        """One batch: gradients, then one change of the weights."""
        seed_by(self.training.seed, self.progress.step)
        for group in self.optimiser.param_groups:
            group["lr"] = group[RATE] * self.progress.rate
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.task.loss(self.model, batch)
        (loss + self.model.inputs.penalty()).backward()  # type: ignore[no-untyped-call]
        most = math.inf if self.training.clip is None else self.training.clip
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), most)
        found = loss.item()
        self.check_finite(found, norm.item())
        self.optimiser.step()
        self.progress = self.progress._replace(
            step=self.progress.step + 1,
            batch=self.progress.batch + 1,
            loss=self.progress.loss + found * len(batch),
            examples=self.progress.examples + len(batch),
            words=self.progress.words + sum(map(size_of, batch)),
        )

    def finish_epoch(self) -> None:
        """Score dev, and save the model, also as the best if it is that so far."""
        before, began = self.progress, time.monotonic()
        with self.observer.stage("scoring dev", "word") as advance:
            found = evaluate(self.task, self.model, self.dev, advance).score
        # Of epochs that score 0 the last one has learnt most.
        better = found.main > before.best or found.main == before.best == 0
        self.progress = self.next_epoch(found.main, better, time.monotonic() - began)
        epoch, loss, seconds = before.epoch + 1, before.mean_loss, before.seconds
        values = {
            "epoch": epoch,
            "loss": loss,
            "rate": before.rate * self.training.learning_rate,
            "words": before.words,
            "seconds": seconds,
        }
        self.metrics.write(before.step, "train", values)
        self.metrics.write(before.step, "dev", {"epoch": epoch, "score": found.main})
        self.save(best=better)
        took = duration(seconds - before.epoch_started)
        self.observer.validation(
            f"epoch {epoch}: loss {loss:.4f}, dev {found.describe()}, {took}",
            better and found.main > 0,
            epoch=epoch,
            loss=loss,
            score=found.main,
        )

    def next_epoch(self, score: float, better: bool, seconds: float) -> TaskProgress:
        """The progress after an epoch, whose model was scored in so many seconds."""
        progress = self.progress
        # A score of 0 is where taggers begin: they find no entity at all for some epochs.
        waited = not better and progress.best > 0
        return progress._replace(
            epoch=progress.epoch + 1,
            batch=0,
            loss=0.0,
            examples=0,
            epoch_started=progress.seconds,
            seconds_scoring=progress.seconds_scoring + seconds,
            rate=progress.rate * self.training.rate_factor if waited else progress.rate,
            best=score if better else progress.best,
            best_epoch=progress.epoch + 1 if better else progress.best_epoch,
            epochs_since_best=progress.epochs_since_best + 1 if waited else 0,
        )

    def over(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        if self.progress.epochs_since_best >= self.training.patience:
            epochs = counted(self.training.patience, "epoch")
            self.observer.note(f"stopped early: no better in {epochs}")
        return self.progress.is_over(self.training)

    def stop_if_requested(self, request: StopRequest) -> None:
        """Save and stop if somebody asked to."""
        if request.made:
            self.save()
            raise StoppedError(
                f"stopped in epoch {self.progress.epoch + 1} of {self.training.epochs}; everything "
                f"is saved in {self.checkpoints.folder}; to resume, run the same command with "
                "--resume"
            )

    def check_finite(self, loss: float, norm: float) -> None:
        """Raise where the loss is not a number any more."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise DivergedError(
                f"the loss is not a number in epoch {self.progress.epoch + 1}; "
                "train with a lower training.learning_rate or training.clip"
            )

    def tell(self, batches: int) -> None:
        """Tell the observer how far it is; an epoch has about so many batches."""
        progress = self.progress
        self.observer.metrics(
            epoch=progress.epoch + progress.batch / batches,
            loss=progress.mean_loss,
            words_per_second=progress.words / progress.seconds if progress.seconds else 0.0,
        )
        left = batches * (self.training.epochs - progress.epoch) - progress.batch
        self.observer.advance(progress.step, progress.step + left)

    def seconds_in_all(self) -> float:
        """Of this session and those before it, from the first file on."""
        return self._earlier + time.monotonic() - self._started

    def save(self, best: bool = False) -> None:
        """Write a checkpoint."""
        self.progress = self.progress._replace(seconds_in_all=self.seconds_in_all())
        self.checkpoints.save(self.checkpoint(), best=best)

    def checkpoint(self) -> Checkpoint:
        """Everything that `restore` needs."""
        tensors = prefixed(MODEL, learnt(self.model).items())
        tensors |= prefixed(OPTIMISER, optimiser_tensors(self.optimiser, self.model).items())
        progress = self.progress._asdict()
        progress["best"] = None if math.isinf(self.progress.best) else self.progress.best
        return Checkpoint(self.progress.step, tensors, {"progress": progress, **self.identity})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint as if it had never been left."""
        progress = checkpoint.values["progress"]
        best = -math.inf if progress["best"] is None else progress["best"]
        self.progress = TaskProgress(**{**progress, "best": best})
        load_learnt(self.model, checkpoint)
        restore_optimiser(self.optimiser, self.model, named(checkpoint, OPTIMISER))
        self._earlier = self.progress.seconds_in_all
        self.metrics.resume(checkpoint.step)

    def restore_best(self) -> None:
        """Give the model the weights that scored best."""
        best = self.checkpoints.best()
        assert best is not None  # the first epoch is the best so far
        load_learnt(self.model, best)


def make_optimiser(model: TaskModel[Any], training: TaskTrainingConfig) -> Optimizer:
    """The optimiser of all weights that learn; those of the biLM have a rate of their own."""
    bilm = model.inputs.bilm
    of_bilm = set() if bilm is None else set(bilm.parameters())
    groups: list[dict[str, Any]] = []
    for mine in (True, False):
        rate = training.learning_rate if mine else training.bilm_learning_rate
        weights = [
            weight
            for weight in model.parameters()
            if weight.requires_grad and (weight not in of_bilm) == mine
        ]
        matrices = [weight for weight in weights if weight.dim() > 1]
        vectors = [weight for weight in weights if weight.dim() <= 1]
        for some, decay in ((matrices, training.weight_decay), (vectors, 0.0)):
            if some:
                groups.append({"params": some, "weight_decay": decay, "lr": rate, RATE: rate})
    return OPTIMISERS[training.optimiser](groups, fused=True)
