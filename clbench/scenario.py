"""Scenarios: what the labels of a stream are, and whether the network is told the task in tests.

task    labels 0..C-1 inside each task; one head per task; the task is known
class   a label per class of the stream; one head over all classes seen so far; not known
domain  the same labels in every task; one head; the task is not known
"""

TASK, CLASS, DOMAIN = "task", "class", "domain"
SCENARIOS = (TASK, CLASS, DOMAIN)

WORDS = {
    TASK: "Task-incremental: one head per task, and the task is known in tests.",
    CLASS: "Class-incremental: one head over the classes seen so far; the task is not known in "
    "tests.",
    DOMAIN: "Domain-incremental: one head for the same labels in every task; the task is not known "
    "in tests.",
}
"""The sentence of a caption."""
