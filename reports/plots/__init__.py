"""Charts of a run, for any number of peers. A library has the same colour in all of them."""

from reports.plots.charts import Dot, curves, dots, filling, multiples, scaling
from reports.plots.looks import LINES_A_PLOT, NAMES, RC, Look, in_parts, looks, names_width
from reports.plots.pairs import Changes, changes
from reports.plots.picture import Picture, draw

__all__ = [
    "LINES_A_PLOT",
    "NAMES",
    "RC",
    "Changes",
    "Dot",
    "Look",
    "Picture",
    "changes",
    "curves",
    "dots",
    "draw",
    "filling",
    "in_parts",
    "looks",
    "multiples",
    "names_width",
    "scaling",
]
