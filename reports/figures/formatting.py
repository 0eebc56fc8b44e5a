"""Numbers as text: one scale per table column, always with a unit, and no more digits than are significant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from statistics import median

from results.jobs import Job
from results.statistics import Figure
from results.words import counted

TIME_SCALES = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Scale:
    """How the values of one job are shown: `value / factor`, in `unit`."""

    factor: float
    unit: str

    def number(self, value: float) -> str:
        return number(value / self.factor)

    def of(self, figure: Figure) -> str:
        return number(figure.value / self.factor, digits_of(figure))


def scale_for(unit: str, values: Sequence[float]) -> Scale:
    """Return one scale for all values of a job, so that a column can be compared at a glance.

    Seconds are shown in ns, µs or ms, chosen to suit the fastest value; other units are unchanged.
    """
    what, _, per = unit.partition("/")
    above = [value for value in values if value > 0]
    if what != "s" or not above:
        return Scale(1.0, unit)
    # The smallest value of a column may be as low as 0.1, so that its largest values have fewer digits.
    least = min(above) * (10 if len(above) > 1 else 1)
    fitting = [scale for scale in TIME_SCALES if scale[0] <= least] or [TIME_SCALES[0]]
    factor, name = fitting[-1]
    return Scale(factor, f"{name}/{per}" if per else name)


def scale_of(job: Job) -> Scale:
    return scale_for(job.unit, [median(each.value for each in record.samples) for record in job.shown.values()])


def digits_of(figure: Figure) -> int:
    """Return the number of significant digits to show for a figure, given its launches."""
    return 2 if figure.is_range else 3


def number(value: float, digits: int = 3) -> str:
    """Format with three significant digits (two below 0.1) and no exponent: 0.012, 1.25, 12.5, 1,250, 12,500."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    significant = digits if abs(value) >= 0.1 else min(digits, 2)
    # Rounding may carry into a new digit (9.999 becomes 10.0), so decimal places are counted after rounding.
    rounded = float(f"{value:.{significant - 1}e}")
    places = significant - 1 - math.floor(math.log10(abs(rounded)) + 1e-12)
    return f"{rounded:,.{max(0, places)}f}"


def span(ends: Iterable[float], form: Callable[[float], str] = number) -> str:
    """Format both ends: "18.0 to 22.0"."""
    return " to ".join(map(form, ends))


def interval(figure: Figure, factor: float = 1.0) -> str:
    """Format as "(18.0 to 22.0)"; with two launches, which are too few for an interval, as "(range 18 to 22)"."""
    if figure.launches == 1:
        return "(one launch)"
    ends = span((figure.low / factor, figure.high / factor), partial(number, digits=digits_of(figure)))
    return f"(range {ends})" if figure.is_range else f"({ends})"


def times(value: float, digits: int = 3) -> str:
    """Format a ratio, such as 1.94 or 0.012, followed by the multiplication sign."""
    return f"{number(value, digits)}{TIMES}"


def size(count: float) -> str:
    """Format a number of bytes in B, KiB, MiB or GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{number(count) if unit != 'B' else int(count)} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def percent(value: float) -> str:
    """+30.1%, -2.0%"""
    return f"{100 * value:+.1f}%"


def share(value: float) -> str:
    """71%, 0.12%"""
    return f"{number(100 * value, 2)}%"


def gbit(bytes_per_second: float) -> str:
    return f"{8e-9 * bytes_per_second:g} Gbit/s"


def listed(names: Sequence[str], most: int = 8, last: str = "and") -> str:
    """ "a, b and c"; a long list ends in "and 5 more"."""
    shown, left = list(names[:most]), len(names) - most
    if left > 0:
        return f"{', '.join(shown)} and {left} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}" if shown else ""


def runnable(command: str) -> str:
    """Return a record's command as it is typed in a checkout, with the Python of make's venv."""
    return f".venv/bin/{command}" if command.startswith("python ") else command


def spoken_time(time: str) -> str:
    """Format a record's time for a reader: 20 November 2026, 06:30 UTC."""
    moment = datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def launches_of(jobs: Sequence[Job]) -> str:
    """Say how many launches the figures of these jobs are based on: "1 launch", "3 to 5 launches", or ""."""
    counts = sorted({len(record.samples) for job in jobs for record in job.measured.values()})
    if not counts:
        return ""
    return counted(counts[0], "launch") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} launches"
