"""What other packages say that a user can do nothing about is silenced, and nothing else."""

import os
import subprocess
import sys

SCRIPT = """
import logging
import warnings
from clbench.executors.quiet import silence_packages

silence_packages()
warnings.warn("No loggers specified, metrics will not be logged")
warnings.warn("something else")
import torch

print(logging.getLogger("torch._dynamo.convert_frame").isEnabledFor(logging.WARNING))
print(logging.getLogger("torch._dynamo.convert_frame").isEnabledFor(logging.ERROR))
print(logging.getLogger("torch.nn").isEnabledFor(logging.WARNING))
"""


def run(**variables: str) -> tuple[list[str], str]:
    variables = {key: text for key, text in os.environ.items() if key != "TORCH_LOGS"} | variables
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=variables
    )
    return done.stdout.split(), done.stderr


def test_only_the_known_warnings_are_silenced() -> None:
    levels, said = run()
    assert "No loggers" not in said
    assert "something else" in said
    assert levels == ["False", "True", "True"]


def test_logging_that_a_user_has_asked_for_stays() -> None:
    levels, _ = run(TORCH_LOGS="dynamo")
    assert levels == ["True", "True", "True"]
