"""Reading in the tables: its data, and what the ELMo paper has for it.

`task_runs.Row`s, to be run with and without ELMo. SQuADShifts was made to test with; here a tenth
of its paragraphs are held out for dev and the others trained on, which is a use of our own. So the
scores do not compare with those of models that were trained on SQuAD's own training data.
"""

from __future__ import annotations

from runs.task_runs import Paper, Row

READING_ROWS = {
    "squad": Row(
        "squad", "SQuAD v1.1 dev, trained on SQuADShifts (27,626 questions)", "F1",
        (
            "qa/squadshifts.new_wiki.json.gz", "qa/squadshifts.reddit.json.gz",
            "qa/squadshifts.amazon_reviews.json.gz",
        ),
        None, "qa/squad-v1.1.dev.json.gz",
        seeds=(1, 2),
    ),
}  # fmt: skip
READING_PAPER = {"squad": Paper(84.4, 81.1, 85.8)}
"""Of SQuAD, its test data, trained on its own 87,599 questions."""
