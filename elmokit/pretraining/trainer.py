"""Trainer: the loop of pretraining over batches, exact after any interruption."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from itertools import islice
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmokit.errors import DivergedError, InputError, StoppedError
from elmokit.inference.language_model import LanguageModel
from elmokit.inference.predictions import Perplexity
from elmokit.inference.token_vectors import check_device
from elmokit.io.fetch import Progress
from elmokit.io.text_files import find_files
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
from elmokit.jobs.progress import Observer
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMState
from elmokit.pretraining.batches import Batch, BatchReader
from elmokit.pretraining.config import CorpusConfig, PretrainConfig
from elmokit.pretraining.objective import (
    AveragedWeights,
    Objective,
    learning_rate,
    load_weights,
    make_optimiser,
)
from elmokit.system import StopRequest, counted, prefetch, stop_requests
from elmokit.text.tokenizer import read_sentences
from elmokit.text.vocabulary import Vocabulary


class TrainingProgress(NamedTuple):
    """What a run has come to; saved with every checkpoint."""

    step: int = 0
    words: int = 0
    seconds: float = 0.0  # of training alone: validation and saving are not counted
    seconds_validating: float = 0.0
    best: float = math.inf  # held-out perplexity, the mean of both directions
    validations_since_best: int = 0
    validated_step: int = 0
    averaged_steps: int = 0


class Sums(NamedTuple):
    """Losses since the last line of metrics, over all processes once they are joined."""

    forward: float = 0.0
    backward: float = 0.0
    targets: float = 0.0


LONGEST_WAIT = timedelta(hours=12)  # for a process that still prepares its text, or that validates


class Group(NamedTuple):
    """The processes that train one model together, and this one's place among them."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and reports."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """A model whose gradients are averaged over all processes."""
        if self.size == 1:
            return model
        places = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=places)

    def sum(self, values: Tensor) -> Tensor:
        """Add up the values of all processes."""
        if self.size > 1:
            values = values.to(self.device)
            distributed.all_reduce(values)
        return values.cpu()

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return bool(self.sum(torch.tensor(float(flag))))

    def from_leader(self, number: float) -> float:
        """The number that the leading process has."""
        return float(self.sum(torch.tensor(number if self.leads else 0.0, dtype=torch.float64)))

    def join_rows(self, rows: Tensor) -> Tensor:
        """The rows (layers, rows, size) of all processes, one after the other."""
        if self.size == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts, dim=1)


@contextmanager
def join_group(device: str | torch.device | None = None) -> Iterator[Group]:
    """Join the processes that `torchrun` has started; alone if it has not."""
    if "WORLD_SIZE" not in os.environ and not distributed.is_initialized():
        yield Group(device=check_device(device or "cpu"))
        return
    place = own_device(device)
    joined_before = distributed.is_initialized()
    if not joined_before:
        backend = "nccl" if place.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=LONGEST_WAIT)
    try:
        yield Group(distributed.get_rank(), distributed.get_world_size(), place)
    finally:
        if not joined_before:
            distributed.destroy_process_group()


def own_device(device: str | torch.device | None) -> torch.device:
    """This process's device: of several devices of a kind, the one of its number here."""
    if device is None and torch.cuda.is_available():
        device = "cuda"
    place = check_device(device or "cpu")
    if place.type != "cuda":
        return place
    if place.index is None:
        place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(place)
    return place


MODEL, AVERAGE, OPTIMISER, STATE = "model.", "average.", "optimiser.", "state."
"""What the names of a checkpoint's tensors begin with."""


def joined_states(states: list[BiLMState], group: Group) -> Iterable[tuple[str, Tensor]]:
    """The states of all rows of all processes, part by part."""
    for direction in BiLMState._fields:
        for part in LSTMState._fields:
            own = [getattr(getattr(state, direction), part) for state in states]
            yield f"{direction}.{part}", group.join_rows(torch.cat(own, dim=1))


def own_state(tensors: dict[str, Tensor], rows: range, device: torch.device) -> BiLMState:
    """The state of some rows, out of that of all."""

    def half(direction: str) -> LSTMState:
        parts = (tensors[f"{direction}.{part}"] for part in LSTMState._fields)
        return LSTMState(
            *(part[:, rows.start : rows.stop].contiguous().to(device) for part in parts)
        )

    return BiLMState(*map(half, BiLMState._fields))


class HeldOut(NamedTuple):
    """Text that is not trained on, and how it is read."""

    sentences: list[list[str]]
    vocabulary: Vocabulary
    tokenizer: str

    @classmethod
    def read(
        cls, corpus: CorpusConfig, vocabulary: Vocabulary, in_training: int = 0
    ) -> HeldOut | None:
        """Read the held-out text; without any, so many sentences of the training text."""
        names, most = (corpus.valid, None) if corpus.valid else (corpus.train, in_training)
        if most == 0:
            return None
        sentences = list(islice(read_sentences(find_files(names), corpus.text), most))
        if not sentences:
            raise InputError(f"{', '.join(names)}: the held-out text has no words")
        return cls(sentences, vocabulary, corpus.tokenizer)

    def perplexity(self, bilm: BiLM, observer: Observer) -> Perplexity:
        """Full-softmax perplexity of the held-out text, each sentence read from zeros."""
        model = LanguageModel(bilm, self.vocabulary, tokenizer=self.tokenizer)
        with observer.stage("reading held-out text", "sentence", len(self.sentences)) as progress:
            return model.perplexity(self.sentences, progress=progress)


MOST_STEPS_UNSAVED = 1000  # the most that a crash may cost, unless the run says otherwise


class Trainer:
    """Trains one model, in place, on one process's rows; checkpoints have the run's identity."""

    def __init__(
        self,
        bilm: BiLM,
        reader: BatchReader,
        config: PretrainConfig,
        group: Group,
        held_out: HeldOut | None,
        identity: dict[str, Any],
        observer: Observer,
    ) -> None:
        self.bilm = bilm
        self.reader = reader
        self.config = config
        self.training = config.training
        assert config.output is not None
        self.folder = folder = Path(config.output)
        self.group = group
        self.held_out = held_out
        self.identity = identity
        self.observer = observer
        self.checkpoints = Checkpoints(folder / "checkpoints", config.logging.keep)
        self.metrics = MetricsLog(folder, config.logging.tensorboard and group.leads)
        self.steps = self.training.steps or max(
            1, math.ceil((self.training.epochs or 0) * reader.batches_per_epoch)
        )
        self.validate_every = config.logging.validate_every or max(1, self.steps // 10)
        self.checkpoint_every = config.logging.checkpoint_every or min(
            self.validate_every, MOST_STEPS_UNSAVED
        )
        self.objective: nn.Module = Objective(bilm, self.training)
        self.optimiser = make_optimiser(bilm, self.training)
        self.measured: dict[int, Perplexity] = {}  # by this process, by step
        self.average = AveragedWeights(bilm, self.training.ema) if self.training.ema else None
        self.progress = TrainingProgress()
        self.states = [self.zero_state(len(part)) for part in reader.parts]
        self.sums = Sums()
        self._gradient_norm = 0.0
        self._saved_step = -1

    def train(self) -> None:
        """Train until the steps are done, patience or time is over, or somebody asks to stop."""
        stage = self.observer.stage("training", "step", self.steps, self.progress.step)
        with stop_requests() as request, self.metrics, stage as advance:
            batches = prefetch(self.reader.batches(self.progress.step))
            own, self.objective = self.objective, self.group.wrap(self.objective)
            try:
                self._train(batches, request, advance)
            finally:
                batches.close()  # type: ignore[attr-defined]
                # The wrapper keeps the group alive. Freed after the group's end, it would wait for
                # the group's threads while these wait for Python, for ever.
                self.objective = own

    def _train(
        self, batches: Iterator[list[Batch]], request: StopRequest, advance: Progress
    ) -> None:
        last_line = self.progress
        while self.progress.step < self.steps and not self.over():
            started = time.monotonic()
            self.step(next(batches))
            seconds = self.progress.seconds + time.monotonic() - started
            self.progress = self.progress._replace(seconds=seconds)
            if self.due(self.config.logging.every):
                self.log(last_line)
                last_line = self.progress
            advance(self.progress.step, self.steps)
            if self.held_out is not None and self.due(self.validate_every):
                self.validate_now()
            if self.due(self.checkpoint_every):
                self.save()
            self.stop_if_requested(request)
        if self.held_out is not None and self.progress.validated_step != self.progress.step:
            self.validate_now()  # time was over between two validations
        self.save()

    def due(self, every: int) -> bool:
        """Whether something that is done every so many steps, and at the end, is done now."""
        return self.progress.step % every == 0 or self.progress.step == self.steps

    def step(self, batch: list[Batch]) -> None:
        """One batch: gradients of all its parts, then one change of the weights."""
        number = self.progress.step
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.training, number, self.steps)
        self.optimiser.zero_grad(set_to_none=True)
        sums = torch.zeros(2, dtype=torch.float64)
        for part, micro_batch in enumerate(batch):
            # Masks of dropout are drawn by step and part of the rows, whatever was drawn before.
            seed_by(self.training.seed, number, self.group.rank * self.training.accumulate + part)
            last = part == len(batch) - 1
            with nullcontext() if last else self.no_sync():
                sums += self.backward(part, micro_batch)
        most = math.inf if self.training.clip is None else self.training.clip
        self._gradient_norm = float(nn.utils.clip_grad_norm_(self.bilm.parameters(), most))
        wrong = not math.isfinite(self._gradient_norm + float(sums.sum()))
        if self.group.any(wrong):
            raise DivergedError(self.diverged())
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.bilm)
        targets = sum(len(micro_batch.forward.targets) for micro_batch in batch)
        self.sums = Sums(*map(add, self.sums, (*sums.tolist(), targets)))
        self.progress = self.progress._replace(
            step=number + 1, words=self.progress.words + batch[0].words_in_all
        )

    def backward(self, part: int, batch: Batch) -> Tensor:
        """Add the gradients of one part of a batch; give both directions' sums of losses, (2,)."""
        state = self.states[part]
        if self.training.mode == "sentence":
            state = self.zero_state(batch.step_sizes[0])
        losses, self.states[part] = self.objective(batch, state, self.progress.step)
        # Processes are averaged afterwards, so each stands for all of them.
        share = self.group.size / batch.tokens_in_all
        scale = self.training.unroll if self.training.scale_loss_by_unroll else 1
        (losses.sum() * (0.5 * share * scale)).backward()
        return losses.detach().cpu().double()

    def diverged(self) -> str:
        """Say where the last good weights are."""
        saved = self.checkpoints.steps()
        kept = f"the last checkpoint, step {saved[-1]:,}, is complete" if saved else "none is saved"
        return (
            f"the loss is not a number at step {self.progress.step + 1:,}; {kept}; "
            "train with a lower training.learning_rate or training.clip"
        )

    def no_sync(self) -> Any:
        """Keep gradients to this process until the last part is added."""
        return self.objective.no_sync() if self.group.size > 1 else nullcontext()  # type: ignore[operator]

    def over(self) -> bool:
        """Whether patience or time has run out."""
        patience, minutes = self.config.logging.patience, self.training.minutes
        if patience is not None and self.progress.validations_since_best >= patience:
            self.observer.note(f"stopped early: no better in {counted(patience, 'validation')}")
            return True
        taken = self.progress.seconds + self.progress.seconds_validating
        late = minutes is not None and taken >= 60 * minutes
        if minutes is not None and self.group.any(late):
            time = f"{minutes:g} minute{'' if minutes == 1 else 's'}"
            self.observer.note(f"stopped after {time}, at step {self.progress.step:,}")
            return True
        return False

    def stop_if_requested(self, request: StopRequest) -> None:
        """Save and stop if any process was asked to."""
        if not self.group.any(request.made):
            return
        self.save()
        raise StoppedError(
            f"stopped at step {self.progress.step:,} of {self.steps:,}; everything is saved in "
            f"{self.checkpoints.folder}; to resume, run the same command with --resume"
        )

    def log(self, last_line: TrainingProgress) -> None:
        """Write one line of metrics, and tell the observer."""
        sums = self.joined_sums()
        self.sums = Sums()
        if not self.group.leads:
            return
        step, seconds = self.progress.step, self.progress.seconds - last_line.seconds
        words = self.progress.words - last_line.words
        sampled = "sampled_" if self.training.samples else ""
        shown = {
            "epoch": step / self.reader.batches_per_epoch,
            f"{sampled}loss_forward": sums.forward / sums.targets,
            f"{sampled}loss_backward": sums.backward / sums.targets,
            "words_per_second": words / seconds if seconds else 0.0,
        }
        more = {
            "words": self.progress.words,
            "learning_rate": learning_rate(self.training, step - 1, self.steps),
            "gradient_norm": self._gradient_norm,
            "seconds": self.progress.seconds,
        }
        self.metrics.write(step, "train", shown | more)
        self.observer.metrics(**shown)

    def validate_now(self) -> None:
        """Read the held-out text; save the model if it is the best so far."""
        assert self.held_out is not None
        mean, started = 0.0, time.monotonic()
        if self.group.leads:
            with self.average.applied(self.bilm) if self.average else nullcontext():
                perplexity = self.held_out.perplexity(self.bilm, self.observer)
            self.measured[self.progress.step] = perplexity
            mean = perplexity.mean
        mean = self.group.from_leader(mean)
        better = mean < self.progress.best
        self.progress = self.progress._replace(
            seconds_validating=self.progress.seconds_validating + time.monotonic() - started,
            best=mean if better else self.progress.best,
            validated_step=self.progress.step,
            validations_since_best=0 if better else self.progress.validations_since_best + 1,
        )
        if self.group.leads:
            self.tell_of_validation(perplexity, better)
        if better:
            self.save(best=True)

    def tell_of_validation(self, perplexity: Perplexity, best: bool) -> None:
        """Write a line of metrics about the held-out text, and tell the observer."""
        step, forward, backward, mean = self.progress.step, *perplexity[:3]
        values = {
            "perplexity_forward": forward,
            "perplexity_backward": backward,
            "perplexity": mean,
        }
        more = {"words": self.progress.words, "seconds": self.progress.seconds}
        self.metrics.write(step, "validation", values | more)
        found = f"{mean:,.2f} (forward {forward:,.2f}, backward {backward:,.2f})"
        self.observer.validation(
            f"step {step:,}: held-out perplexity {found}", best, step=step, **values
        )

    def save(self, best: bool = False) -> None:
        """Write a checkpoint, by the leading process."""
        if self._saved_step == self.progress.step and not best:
            return
        if not all(bool(weight.isfinite().all()) for weight in self.bilm.parameters()):
            raise DivergedError(self.diverged())
        self._saved_step = self.progress.step
        checkpoint = self.checkpoint()
        if self.group.leads:
            self.checkpoints.save(checkpoint, best=best)

    def checkpoint(self) -> Checkpoint:
        """A checkpoint of all processes; each must take part, the leading one saves it."""
        sums = self.joined_sums()
        # The sums of all are the leader's now: added up again, nothing may count twice.
        self.sums = sums if self.group.leads else Sums()
        tensors: dict[str, Tensor] = {}
        tensors |= prefixed(MODEL, self.bilm.named_parameters())
        tensors |= prefixed(OPTIMISER, optimiser_tensors(self.optimiser, self.bilm).items())
        progress = self.progress
        if self.average is not None:
            tensors |= prefixed(AVERAGE, self.average.weights.items())
            progress = progress._replace(averaged_steps=self.average.steps)
        if self.training.mode == "stream":
            tensors |= prefixed(STATE, joined_states(self.states, self.group))
        values: dict[str, Any] = {"progress": progress._asdict(), "sums": sums._asdict()}
        values["progress"]["best"] = None if math.isinf(progress.best) else progress.best
        return Checkpoint(progress.step, tensors, values | self.identity)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint as if it had never been left, on any number of processes."""
        progress = checkpoint.values["progress"]
        best = math.inf if progress["best"] is None else progress["best"]
        self.progress = TrainingProgress(**{**progress, "best": best})
        self.sums = Sums(**checkpoint.values["sums"]) if self.group.leads else Sums()
        load_weights(self.bilm, named(checkpoint, MODEL))
        restore_optimiser(self.optimiser, self.bilm, named(checkpoint, OPTIMISER))
        if self.average is not None:
            self.average.steps = self.progress.averaged_steps
            for name, value in named(checkpoint, AVERAGE).items():
                self.average.weights[name].copy_(value)
        if self.training.mode == "stream":
            rows, device = named(checkpoint, STATE), self.group.device
            self.states = [own_state(rows, part, device) for part in self.reader.parts]
        self._saved_step = checkpoint.step
        if self.group.leads:
            self.metrics.resume(checkpoint.step)

    def zero_state(self, rows: int) -> BiLMState:
        """Both directions before the first step."""
        return self.bilm.state_of_rows(None, rows, next(self.bilm.parameters()).detach())

    def joined_sums(self) -> Sums:
        """The losses of all processes since the last line of metrics."""
        return Sums(*self.group.sum(torch.tensor(self.sums, dtype=torch.float64)).tolist())
