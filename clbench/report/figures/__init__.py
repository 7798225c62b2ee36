"""Records -> figures. Matplotlib is imported only when a figure is drawn.

    table.py (the rows that `clbench report` prints)
        -> one file per figure    Table -> Picture: what is drawn, and what it means in words
        -> write.py               PDF, SVG and PNG, and a caption beside them

`style.py` holds the one look: sizes of a paper's column and text, colours that the colour-blind
tell apart, and markers and line styles that do without colour. The same records give the same
bytes.
"""

KINDS = {
    "accuracy": "Accuracy on each task over time, a panel per method.",
    "matrix": "R as a heat map, a panel per method.",
    "memory": "ACC against memory, with the Pareto front.",
    "replay": "Replayed samples per class against ACC and BWT.",
    "capacity": "Used capacity of each layer over time (HAT, PackNet).",
    "latent": "t-SNE of ACL's z_S and z_P, from checkpoints.",
}
"""Figure -> what it shows; the code of NAME is `clbench.report.figures.NAME:draw`."""

FORMATS = ("pdf", "svg", "png")

__all__ = ["FORMATS", "KINDS"]
