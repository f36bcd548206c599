"""The kinds of tasks there are, by name."""

from __future__ import annotations

from elmokit.tasks.config import Kind
from elmokit.tasks.coref_task import CorefTask
from elmokit.tasks.label_tasks import PairTask, TextTask
from elmokit.tasks.reading_task import ReadingTask
from elmokit.tasks.srl_task import SrlTask
from elmokit.tasks.tag_task import TagTask
from elmokit.tasks.task import AnyTask

KINDS: dict[Kind, type[AnyTask]] = {
    "text": TextTask,
    "tags": TagTask,
    "pair": PairTask,
    "reading": ReadingTask,
    "coref": CorefTask,
    "srl": SrlTask,
}
