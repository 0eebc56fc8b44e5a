"""Charts of a run, for any number of peers. A library has the same colour in all of them."""

from reports.plots.charts import curves, scaling
from reports.plots.looks import RC, Look, looks
from reports.plots.pairs import Changes, changes
from reports.plots.picture import Picture, draw

__all__ = ["RC", "Changes", "Look", "Picture", "changes", "curves", "draw", "looks", "scaling"]
