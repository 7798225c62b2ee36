"""Records -> figures. Matplotlib is imported only when a figure is drawn.

    table.py (the rows that `clbench report` prints)
        -> one file per figure    Table -> Picture: what is drawn, and what it means in words
        -> write.py               PDF, SVG and PNG, and a caption beside them

`style.py` holds the one look: sizes of a paper's column and text, colours that colour-blind
people tell apart, and markers and line styles that work without colour. The same records give the
same bytes.
"""

KINDS = {
    "accuracy": "Accuracy on each task over time, a panel per method.",
    "matrix": "R as a heat map, a panel per method.",
    "confusion": "Task of the answers on each task, a panel per method (scenario class).",
    "memory": "ACC against memory, with the Pareto front.",
    "replay": "Samples kept per class against ACC and BWT.",
    "capacity": "Share of each layer that tasks have claimed, over time.",
    "latent": "t-SNE of a method's latent spaces, from checkpoints.",
}
"""Figure -> its content; the code of NAME is `clbench.report.figures.NAME:draw`."""

FORMATS = ("pdf", "svg", "png")

__all__ = ["FORMATS", "KINDS"]
