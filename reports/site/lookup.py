"""The lookup table of figures, as values of its template (lookup.html.j2)."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reports.answer.heatmap import SHADE_ENDS
from reports.answer.shades import SHADES
from results.statistics import FEWEST_FOR_INTERVAL
from results.verdicts import BETWEEN_RUNS

HERE = Path(__file__).resolve().parent
#: In the order in which they run.
SCRIPTS = ("figures.js", "state.js", "table.js", "cell.js", "page.js")


def lookup(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's values for this data (`reports.site.data.payload`), which is compressed; the browser
    unpacks it."""
    packed = gzip.compress(json.dumps(data, separators=(",", ":"), allow_nan=False).encode(), mtime=0)
    numbers = {"SHADE_ENDS": SHADE_ENDS, "BETWEEN_RUNS": BETWEEN_RUNS, "FEWEST": FEWEST_FOR_INTERVAL}
    constants = "".join(f"const {name} = {json.dumps(number)};" for name, number in numbers.items())
    script = "\n".join([constants, *((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)])
    return {
        "data": base64.b64encode(packed).decode(),
        "script": Markup(script),
        "site_style": Markup((HERE / "site.css").read_text(encoding="utf-8")),
        "words": Markup((HERE / "words.json").read_text(encoding="utf-8")),
        "key": SHADES,
    }
