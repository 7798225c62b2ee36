"""Examples in the help and commands in the README: each one runs."""

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from clbench.cli import cli

README = Path(__file__).parents[2] / "README.md"


def helps(command: Any, name: str, above: Any = None) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it, by `clbench ...`."""
    context = command.context_class(
        command, parent=above, info_name=name, **command.context_settings
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from helps(command.get_command(context, below), below, context)


HELP = dict(helps(cli, "clbench"))


def examples(text: str) -> list[str]:
    """The lines below `Examples:` to the end of the block."""
    block = text.partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def readme_commands() -> list[str]:
    """What begins with `clbench` in the README's `sh` blocks, behind an installation or alone."""
    text = README.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in re.split(r"\n|&&", block)]
    lines = [line.strip().removeprefix(".venv/bin/") for line in lines]
    return [line for line in lines if line.startswith("clbench ")]


@pytest.mark.parametrize("path", HELP)
def test_every_help_has_examples(path: str) -> None:
    found = examples(HELP[path])
    assert found, f"{path} --help has no examples"
    assert all(line.startswith("clbench ") for line in found)
    if path.count(" ") and not path.startswith("clbench data"):  # a group goes on with its commands
        assert HELP[path].rstrip().endswith(found[-1])


@pytest.mark.parametrize("path", HELP)
def test_help_comes_by_h_and_help(path: str, clbench: Callable[..., Any]) -> None:
    for flag in ("-h", "--help"):
        result = clbench(f"{path.removeprefix('clbench').strip()} {flag}")
        assert result.code == 0
        assert result.out.startswith(f"Usage: {path}")


@pytest.fixture
def ready(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clbench: Callable[..., Any],
    cell: Callable[..., Any],
) -> Callable[[str], None]:
    """Run one command in a folder with some results, a search and a method of one's own.

    What trains for long is planned with --dry-run; what downloads, needs a run of the paper's
    size, or goes on until Ctrl-C (tests/report/test_page_serve.py has it) is left out.
    """
    from clbench.runner import run
    from clbench.store import Place
    from clbench.tuning.outcome import Outcome, place_of, write

    monkeypatch.chdir(tmp_path)
    place = Place(Path("results"), tmp_path)
    ids = [run(cell(m), place).id for m in ("ewc", "finetune", "er-res")]
    shutil.copytree("results", "other-results")
    assert clbench("new method mymethod").code == 0
    tuned = Outcome(benchmark="split-mnist-5k", method=[_found("ewc"), _found("finetune")])
    write(place_of(place.out, tuned.benchmark), tuned, place.out)

    def go(line: str) -> None:
        words = shlex.split(line, comments=True)[1:]
        words = [ids[0][:6] if re.fullmatch("[0-9a-f]{6,12}", word) else word for word in words]
        if "--serve" in words or (words[:2] == ["data", "prepare"] and words[2:] != ["mnist-5k"]):
            return
        if words[:2] in (["compare", "paper"], ["compare", "acl-2020"]):
            return
        for option, word in zip(["", *words], words, strict=False):
            for name in re.findall(r"\./(\w+)\.py", word):
                if not Path(f"{name}.py").exists():
                    kind = {"--benchmarks": "benchmark", "--backbone": "backbone"}
                    assert clbench(f"new {kind.get(option, 'method')} {name}").code == 0
            if word.endswith(".toml"):
                assert Path(word).exists() or Path(word).write_text(FILES[words[0]])
        if words[0] == "run":
            words.append("--dry-run")
        if words[:2] == ["figure", "latent"]:
            for method in ("acl", "acl[discriminator=false]"):
                run(cell(method), place)
            words += ["--benchmarks", "./tiny.py"]  # not installed, so it is named by its file
        result = clbench(*words)
        # a dry run also names the data sets and commands that this machine lacks
        named = any(word in result.err for word in ("clbench data prepare", "--executor slurm"))
        lacking = "--dry-run" in words and named
        assert result.code == (2 if lacking else 0), result.err
        assert result.out

    return go


def _found(method: str) -> Any:
    from clbench.tuning.outcome import Entry, Tried

    values = {"lr": 0.1}
    return Entry(
        name=method, best=0, values=values, tuned_on="split-mnist-5k", looked_at="first 3 tasks",
        seeds=[1000], epochs=1.0, sampler="sobol", space={"lr": "log 0.01..1"}, protocol={},
        clbench="0.1.0", command="", trials=[Tried(id="0" * 12, state="failed", values=values)],
    )  # fmt: skip


# what a TOML file in an example holds
FILES = {
    "report": """
benchmark = "tiny"
scenario = "task"
tasks = 2
title = "A table"
paper = {cite = "Somebody, 2020", title = "A paper"}
rows = [{title = "EWC", method = "ewc", acc = [90]}]
""",
    "run": "seeds = 2\n",
    "study": 'title = "Mine"\n[[grid]]\nmethods = "ewc"\nbenchmarks = "split-mnist-5k"\n',
}

# each once, whether in the README, in a help text or in both
LINES = list(dict.fromkeys([*readme_commands(), *(e for h in HELP.values() for e in examples(h))]))


@pytest.mark.parametrize("line", LINES)
def test_every_example_runs(line: str, ready: Callable[[str], None]) -> None:
    ready(line)
