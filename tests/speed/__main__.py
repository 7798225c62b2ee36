"""How fast clbench is beside bare PyTorch and stock Avalanche: `python tests/speed`.

Every contender of a case trains the same network on the same data with the same batches a step;
they take turns, and the medians of their turns are compared: in seconds, but for the cases that
say MB. Needs MNIST and CIFAR100 in
$CLBENCH_DATA. Nothing here is part of the test suite.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from commands import COMMANDS
from contenders import Case
from tabulate import tabulate
from torch.profiler import ProfilerActivity, profile

from clbench.build import set_up_torch

CASES = {
    "finetune-mlp": ("finetune", "split-mnist", {"limit": 0.90, "stock": 5.0}),
    "finetune-alexnet": (
        "finetune", "split-cifar100", {"limit, torch's dropout": 0.95, "stock": 1.4},
    ),
    "acl-mlp": ("acl", "split-mnist", {"limit": 0.85}),
    "acl-alexnet": ("acl", "split-cifar100", {"limit": 0.85}),
    "er-res-mlp": ("er-res", "split-mnist", {"limit": 1 / 1.15}),
    "agem-mlp": ("agem", "split-mnist", {"limit": 1 / 1.15}),
    "ewc-mlp": ("ewc", "split-mnist", {"limit": 1 / 1.15}),
    "hat-mlp": ("hat", "split-mnist", {"limit": 1 / 1.15}),
}  # fmt: skip
"""Method, benchmark, and how many times as fast as each contender clbench should be."""


def measure(name: str, threads: int, repeats: int, root: Path) -> list[dict[str, Any]]:
    """One row per contender that clbench is compared with."""
    method, benchmark, goals = CASES[name]
    case = Case(method, benchmark, root)
    set_up_torch(case.cell)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    contenders = case.contenders()
    for timed in contenders.values():
        timed()  # warm up
    seconds: dict[str, list[float]] = {key: [] for key in contenders}
    for _ in range(repeats):
        for key, timed in contenders.items():
            seconds[key].append(timed())
    mine = seconds["clbench"]
    return [
        {
            "case": name,
            "threads": threads,
            "beside": key,
            "clbench_seconds": statistics.median(mine),
            "seconds": statistics.median(theirs),
            "times_as_fast": statistics.median(a / b for a, b in zip(theirs, mine, strict=True)),
            "goal": goals.get(key),
            "repeats": repeats,
        }
        for key, theirs in seconds.items()
        if key != "clbench"
    ]


def operators(name: str, root: Path) -> str:
    """What a case's epoch in clbench spends its time in, by torch's profiler, one thread."""
    method, benchmark, _ = CASES[name]
    case = Case(method, benchmark, root)
    set_up_torch(case.cell)
    epoch = case.clbench()
    epoch()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        epoch()
    rows = sorted(found.key_averages(), key=lambda row: -row.self_cpu_time_total)
    total = sum(row.self_cpu_time_total for row in rows)
    cells = [[row.key, row.count, f"{100 * row.self_cpu_time_total / total:.1f}"] for row in rows]
    return tabulate(cells[:12], [f"{name}: operator", "calls", "% of the time"])


def table(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            row["case"],
            row["threads"],
            row["beside"],
            f"{row['clbench_seconds']:.3f}",
            f"{row['seconds']:.3f}",
            f"{row['times_as_fast']:.2f}",
            "" if row["goal"] is None else f"{row['goal']:.2f}",
        ]
        for row in rows
    ]
    head = ["case", "threads", "beside", "clbench", "theirs", "times as fast", "goal"]
    return tabulate(cells, head, disable_numparse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = [*CASES, *COMMANDS]
    parser.add_argument("--case", help=f"comma list of {', '.join(known)}", default=",".join(known))
    parser.add_argument("--threads", help="comma list", default=f"1,{os.cpu_count()}")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, default=Path("results/speed.json"))
    parser.add_argument("--operators", action="store_true", help="profile --case, compare nothing")
    args = parser.parse_args()
    root = Path(os.environ.get("CLBENCH_DATA", "data"))
    chosen = args.case.split(",")
    if wrong := [name for name in chosen if name not in known]:
        parser.error(f"unknown case {wrong[0]}; there are {', '.join(known)}")
    if args.operators:
        print("\n\n".join(operators(name, root) for name in chosen if name in CASES))
        return
    rows: list[dict[str, Any]] = []
    for name in chosen:
        counts = sorted({int(n) for n in args.threads.split(",")}) if name in CASES else [1]
        for threads in counts:
            print(f"{name}, {threads} threads ...", file=sys.stderr, flush=True)
            if name in CASES:
                new = measure(name, threads, args.repeats, root)
            else:
                new = COMMANDS[name](args.repeats, root)
            print(table(new), file=sys.stderr, flush=True)
            rows += new
            args.json.parent.mkdir(exist_ok=True)
            args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
