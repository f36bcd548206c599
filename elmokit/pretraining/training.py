"""The loop: batches in, better weights out, exact after any interruption."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.errors import DivergedError, StoppedError
from elmokit.formats.checkpoints import Checkpoint, Checkpoints
from elmokit.formats.metrics_log import MetricsLog
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMState
from elmokit.prediction import Perplexity
from elmokit.prefetch import prefetch
from elmokit.pretraining.batches import Batch, Reader
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.distributed import Group
from elmokit.pretraining.objective import Objective
from elmokit.pretraining.optimisation import (
    AveragedWeights,
    learning_rate,
    make_optimiser,
    set_learning_rate,
)
from elmokit.pretraining.progress import Progress, Sums
from elmokit.pretraining.report import Report, TrainingReport
from elmokit.pretraining.snapshots import put_back, take
from elmokit.signals import Wish, wish_to_stop

Validate = Callable[[BiLM], Perplexity]

MOST_STEPS_UNSAVED = 1000
"""The most that a crash may cost, unless the run says otherwise."""


class Trainer:
    """Trains one model on one process's rows.

    Args:
        bilm: The model, on the group's device. It is trained in place.
        reader: Makes this process's batches.
        config: The run.
        folder: Where checkpoints and metrics go.
        group: The processes that share the rows.
        validate: Gives the held-out perplexity; None where there is no held-out text.
        facts: What else a checkpoint records and a resumed run must agree with.
        report: Who is told.

    Attributes:
        measured: Held-out perplexities of this process, by step.
    """

    def __init__(
        self,
        bilm: BiLM,
        reader: Reader,
        config: PretrainConfig,
        folder: Path,
        group: Group,
        validate: Validate | None,
        facts: dict[str, Any],
        report: Report,
    ) -> None:
        self.bilm = bilm
        self.reader = reader
        self.config = config
        self.training = config.training
        self.group = group
        self.validate = validate
        self.facts = facts
        self.report = report
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
        self.measured: dict[int, Perplexity] = {}
        self.average = AveragedWeights(bilm, self.training.ema) if self.training.ema else None
        self.progress = Progress()
        self.states = [self.zero_state(len(part)) for part in reader.parts]
        self.sums = Sums()
        self._gradient_norm = 0.0
        self._saved_step = -1

    def train(self) -> None:
        """Train until the steps are done, patience or time is over, or somebody asks to stop."""
        with wish_to_stop() as wish, self.metrics:
            batches = prefetch(self.reader.batches(self.progress.step))
            self.objective = self.group.wrap(self.objective)
            try:
                self._train(batches, wish)
            finally:
                batches.close()  # type: ignore[attr-defined]
                self.objective = self.group.unwrap(self.objective)

    def _train(self, batches: Iterator[list[Batch]], wish: Wish) -> None:
        first = last_line = self.progress
        while self.progress.step < self.steps and not self.over():
            started = time.monotonic()
            self.step(next(batches))
            self.progress = self.progress.after(time.monotonic() - started)
            if self.due(self.config.logging.every):
                self.log(last_line, first)
                last_line = self.progress
            if self.validate is not None and self.due(self.validate_every):
                self.look()
            if self.due(self.checkpoint_every):
                self.save()
            self.stop_if_wished(wish)
        if self.validate is not None and self.progress.validated_step != self.progress.step:
            self.look()  # time was over between two validations
        self.save()

    def due(self, every: int) -> bool:
        """Whether something that is done every so many steps, and at the end, is done now."""
        return self.progress.step % every == 0 or self.progress.step == self.steps

    def step(self, batch: list[Batch]) -> None:
        """One batch: gradients of all its parts, then one change of the weights."""
        number = self.progress.step
        set_learning_rate(self.optimiser, learning_rate(self.training, number, self.steps))
        self.optimiser.zero_grad(set_to_none=True)
        sums = torch.zeros(2, dtype=torch.float64)
        for part, micro_batch in enumerate(batch):
            self.seed(part)
            last = part == len(batch) - 1
            with nullcontext() if last else self.no_sync():
                sums += self.backward(part, micro_batch)
        self._gradient_norm = self.clip()
        if not self.finite(sums):
            raise DivergedError(self.diverged())
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.bilm)
        targets = sum(len(micro_batch.forward.targets) for micro_batch in batch)
        self.sums = self.sums.add(float(sums[0]), float(sums[1]), targets)
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
        ((losses.forward + losses.backward) * (0.5 * share * scale)).backward()
        return torch.stack([loss.detach() for loss in losses]).cpu().double()

    def clip(self) -> float:
        """Cut the gradients down to the largest norm allowed; give the norm they had."""
        most = math.inf if self.training.clip is None else self.training.clip
        return float(nn.utils.clip_grad_norm_(self.bilm.parameters(), most))

    def finite(self, sums: Tensor) -> bool:
        """Whether losses and gradients are numbers, in every process."""
        wrong = not (math.isfinite(self._gradient_norm) and bool(sums.isfinite().all()))
        return not self.group.any(wrong)

    def diverged(self) -> str:
        """Say where the last good weights are."""
        saved = self.checkpoints.steps()
        kept = f"the last checkpoint, of step {saved[-1]:,}, is whole" if saved else "none is saved"
        return (
            f"the loss is not a number at step {self.progress.step + 1:,}; {kept}; "
            "train with a lower training.learning_rate or training.clip"
        )

    def seed(self, part: int) -> None:
        """Draw the masks of dropout by step and part of the rows, whatever was drawn before."""
        micro_batch = self.group.rank * self.training.accumulate + part
        numbers = np.random.SeedSequence([self.training.seed, self.progress.step, micro_batch])
        torch.manual_seed(int(numbers.generate_state(1, np.uint64)[0] // 2))

    def no_sync(self) -> Any:
        """Keep gradients to this process until the last part is added."""
        return self.objective.no_sync() if self.group.size > 1 else nullcontext()  # type: ignore[operator]

    def over(self) -> bool:
        """Whether patience or time has run out."""
        patience, minutes = self.config.logging.patience, self.training.minutes
        if patience is not None and self.progress.validations_since_best >= patience:
            self.tell(f"stopped early: no better in {patience} validations")
            return True
        late = minutes is not None and self.progress.seconds >= 60 * minutes
        if self.training.minutes is not None and self.group.any(late):
            self.tell(f"stopped after {minutes:g} minutes, at step {self.progress.step:,}")
            return True
        return False

    def stop_if_wished(self, wish: Wish) -> None:
        """Save and stop if any process was asked to."""
        if not self.group.any(bool(wish)):
            return
        self.save()
        raise StoppedError(
            f"stopped at step {self.progress.step:,} of {self.steps:,}; everything is saved in "
            f"{self.checkpoints.folder}; to go on, run the same command with --resume"
        )

    def tell(self, message: str) -> None:
        """A line for whoever watches, once for all processes."""
        if self.group.leads:
            self.report.note(message)

    def log(self, last_line: Progress, first: Progress) -> None:
        """Write one line of metrics, and report it."""
        sums = self.joined_sums()
        self.sums = Sums()
        if not self.group.leads:
            return
        step, targets = self.progress.step, sums.targets
        words_per_second = self.progress.words_per_second(last_line)
        sampled = "sampled_" if self.training.samples else ""
        epoch = step / self.reader.batches_per_epoch
        self.metrics.write(
            step,
            "train",
            {
                "epoch": epoch,
                "words": self.progress.words,
                f"{sampled}loss_forward": sums.forward / targets,
                f"{sampled}loss_backward": sums.backward / targets,
                "learning_rate": learning_rate(self.training, step - 1, self.steps),
                "gradient_norm": self._gradient_norm,
                "words_per_second": words_per_second,
                "seconds": self.progress.seconds,
            },
        )
        per_step = (self.progress.seconds - first.seconds) / (step - first.step)
        self.report.training(
            TrainingReport(
                step=step,
                steps=self.steps,
                epoch=epoch,
                words=self.progress.words,
                words_per_second=words_per_second,
                seconds_left=per_step * (self.steps - step),
                loss_forward=sums.forward / targets,
                loss_backward=sums.backward / targets,
                sampled=bool(sampled),
            )
        )

    def look(self) -> None:
        """Read the held-out text; save the model if it is the best so far."""
        assert self.validate is not None
        mean = math.nan
        if self.group.leads:
            with self.average.applied(self.bilm) if self.average else nullcontext():
                perplexity = self.validate(self.bilm)
            self.measured[self.progress.step] = perplexity
            mean = perplexity.mean
        mean = self.group.from_leader(mean)
        better = mean < self.progress.best
        self.progress = self.progress._replace(
            best=mean if better else self.progress.best,
            validated_step=self.progress.step,
            validations_since_best=0 if better else self.progress.validations_since_best + 1,
        )
        if self.group.leads:
            self.metrics.write(
                self.progress.step,
                "validation",
                {
                    "words": self.progress.words,
                    "perplexity_forward": perplexity.forward,
                    "perplexity_backward": perplexity.backward,
                    "perplexity": perplexity.mean,
                    "seconds": self.progress.seconds,
                },
            )
            self.report.validation(self.progress.step, perplexity, better)
        if better:
            self.save(best=True)

    def save(self, best: bool = False) -> None:
        """Write a checkpoint, by the leading process."""
        if self._saved_step == self.progress.step and not best:
            return
        if not all(bool(weight.isfinite().all()) for weight in self.bilm.parameters()):
            raise DivergedError(self.diverged())
        self._saved_step = self.progress.step
        checkpoint = take(self)
        if self.group.leads:
            self.checkpoints.save(checkpoint, best=best)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint as if it had never been left."""
        put_back(self, checkpoint)
        self._saved_step = checkpoint.step
        if self.group.leads:
            self.metrics.resume(checkpoint.step)

    def zero_state(self, rows: int) -> BiLMState:
        """Both directions before the first step."""
        like = next(self.bilm.forward_lstm.parameters())
        zero = self.bilm.forward_lstm.zero_state(rows, like.detach())
        return BiLMState(zero, LSTMState(*(part.clone() for part in zero)))

    def joined_sums(self) -> Sums:
        """The losses of all processes since the last line of metrics."""
        return Sums(*self.group.sum(torch.tensor(self.sums, dtype=torch.float64)).tolist())
