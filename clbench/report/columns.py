"""The columns a table can have: heading, decimals, which way is better, and the formula."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from clbench.report.escape import latex
from clbench.scenario import CLASS, TASK


@dataclass(frozen=True)
class Column:
    """One measured quantity. `best` is +1 if more is better, -1 if less is, 0 if it depends."""

    key: str
    heading: str
    formula: str
    tex: str = ""
    """The formula in LaTeX, if it is written otherwise there."""
    best: int = 0
    decimals: int = 2
    unit: str = ""
    published: bool = False
    """Read from a paper's tables, not measured."""

    @property
    def field(self) -> str:
        """The name of the column in data files, with its unit: `arch_mb`."""
        return self.key.replace("-", "_") + (f"_{self.unit}" if self.unit else "")


MATRIX = (
    "R[k,i]: test accuracy (%) on task i after learning task k.",
    r"$R_{k,i}$: test accuracy (\%) on task~$i$ after learning task~$k$.",
)
"""The meaning of R in the formulas, as text and as LaTeX."""
_MEMORY = (
    "Memory: 4 bytes per number, MB = 10^6 bytes.",
    r"Memory: 4~bytes per number, 1~MB $=10^6$~bytes.",
)
_RATE = "Samples/s: samples per second of training, replayed ones included."
_MATCH = (
    "A measured ACC matches within 2 published standard deviations (sd), within 1 point (pp) "
    "where none is published."
)

# Memory has no best: the method that does nothing against forgetting always needs least.
_ALL = (
    Column(
        "acc", "ACC %",
        "ACC: mean over all tasks i of R[T,i].",
        r"$\mathrm{ACC}=\frac{1}{T}\sum_{i=1}^{T}R_{T,i}$.",
        best=+1,
    ),
    Column(
        "average", "avg. %",
        "Avg.: average incremental accuracy, the mean over k of the mean over i <= k of R[k,i].",
        r"Avg.: $\frac{1}{T}\sum_{k=1}^{T}\frac{1}{k}\sum_{i=1}^{k}R_{k,i}$, the average "
        "incremental accuracy.",
        best=+1,
    ),
    Column(
        "given", "ACC given %",
        "ACC given: ACC of the same networks if only the outputs of the task's own classes "
        "compete.",
        best=+1,
    ),
    Column(
        "bwt", "BWT %",
        "BWT: sum over i < T of R[T,i] - R[i,i], divided by T - 1.",
        r"$\mathrm{BWT}=\frac{1}{T-1}\sum_{i=1}^{T-1}(R_{T,i}-R_{i,i})$.",
        best=+1,
    ),
    Column(
        "forgetting", "forgetting %",
        "Forgetting: mean over i < T of max over i <= k < T of R[k,i], minus R[T,i].",
        r"Forgetting: $\frac{1}{T-1}\sum_{i=1}^{T-1}(\max_{i\le k<T}R_{k,i}-R_{T,i})$.",
        best=-1,
    ),
    Column(
        "fwt", "FWT %",
        "FWT: mean over i > 1 of R[i-1,i] minus the accuracy of the untrained network on task i.",
        r"$\mathrm{FWT}=\frac{1}{T-1}\sum_{i=2}^{T}(R_{i-1,i}-R_{0,i})$, "
        r"with $R_{0,i}$ of the untrained network.",
        best=+1,
    ),
    Column(
        "intransigence", "I_T pp",
        "I_T: accuracy on task T of joint training (an upper bound with the same budget, data and "
        "seed) minus R[T,T], in percentage points; 1 pp is a fraction of 0.01.",
        r"$I_T=a^{*}_T-R_{T,T}$ in percentage points (1~pp is a fraction of 0.01), with $a^{*}_T$ "
        r"of joint training (an upper bound with the same budget, data and seed).",
        best=-1, unit="pp",
    ),
    Column(
        "mean-intransigence", "mean I pp",
        "Mean I: mean over k of the accuracy of joint training on tasks 1..k on task k, "
        "minus R[k,k], in percentage points.",
        r"Mean $I=\frac{1}{T}\sum_{k=1}^{T}(a^{*}_k-R_{k,k})$ in percentage points, "
        r"with $a^{*}_k$ of joint training on tasks $1..k$.",
        best=-1, unit="pp",
    ),
    Column(
        "intransigence-fraction", "I_T",
        "I_T as a fraction: percentage points / 100.",
        r"$I_T$ as a fraction: percentage points~/~100.",
        best=-1, decimals=4,
    ),
    Column(
        "mean-intransigence-fraction", "mean I",
        "Mean I as a fraction: percentage points / 100.",
        r"Mean $I$ as a fraction: percentage points~/~100.",
        best=-1, decimals=4,
    ),
    Column(
        "valid", "valid %",
        "Valid: ACC on validation data, by which hyper-parameters are chosen.",
        r"Valid: ACC on validation data (\%).",
        best=+1,
    ),
    Column("arch", "arch MB", *_MEMORY, unit="mb"),
    Column("replay", "replay MB", *_MEMORY, unit="mb"),
    Column("aux", "aux MB", "Aux: state a method keeps besides network and samples.", unit="mb"),
    Column("time", "time", "Time: wall clock of a whole run.", decimals=1, unit="seconds"),
    Column("rate", "samples/s", _RATE, decimals=0),
    Column("epochs", "epochs", "Epochs: per task, mean over tasks.", decimals=1),
)  # fmt: skip
COLUMNS = {column.key: column for column in _ALL}
MAIN = ("acc", "bwt", "arch", "replay", "time")
"""The columns of every table."""
BY_SCENARIO: dict[str, tuple[str, ...]] = {CLASS: ("average", "given")}
"""The columns that every table of a scenario has besides."""
EXTRA = tuple(key for key in COLUMNS if key not in MAIN)
"""The columns that `--columns` can add."""


def chosen(extra: tuple[str, ...] = (), scenario: str = TASK) -> list[Column]:
    """The main columns, those of the scenario and the extra ones, in the order of the catalogue."""
    keys = {*MAIN, *BY_SCENARIO.get(scenario, ()), *extra}
    return [column for key, column in COLUMNS.items() if key in keys]


def of_paper(cite: str, has: Collection[str], about: str) -> list[Column]:
    """The columns of a paper's numbers: ACC, how measured ones compare with it, and what else it
    `has`. `about` says which paper it is."""
    whose, memory = f"{cite} I: as printed there, of unclear unit.", "architecture + replay buffer"
    columns = (
        ("acc", Column("paper-acc", f"{cite} ACC %", about)),
        ("given", Column("paper-given", f"{cite} given %", about)),
        ("bwt", Column("paper-bwt", f"{cite} BWT %", about)),
        ("arch", Column("paper-mb", f"{cite} MB", f"{cite} MB: {memory}.", decimals=1)),
        ("intransigence", Column("paper-intransigence", f"{cite} I", whose, decimals=4)),
        ("word", Column("paper-word", f"vs {cite}", _MATCH, _MATCH.replace("1 point", "1~point"))),
    )
    wanted = {"acc", "word", *has, *(["arch"] if "replay" in has else [])}
    return [
        replace(column, published=True, tex=column.tex or latex(column.formula))
        for key, column in columns
        if key in wanted
    ]
