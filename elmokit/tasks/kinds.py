"""The kinds of tasks there are, by name."""

from __future__ import annotations

from elmokit.tasks.config import Kind
from elmokit.tasks.coref.task import CorefTask
from elmokit.tasks.labelling.tasks import PairTask, TextTask
from elmokit.tasks.reading.task import ReadingTask
from elmokit.tasks.srl.task import SrlTask
from elmokit.tasks.tagging.task import TagTask
from elmokit.tasks.task import AnyTask

KINDS: dict[Kind, type[AnyTask]] = {
    "text": TextTask,
    "tags": TagTask,
    "pair": PairTask,
    "reading": ReadingTask,
    "coref": CorefTask,
    "srl": SrlTask,
}
