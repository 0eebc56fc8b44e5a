"""Run files as tidy tables (pandas): samples, figures, ratios.

python -m results.frames RUN.json [RUN.json ...] --out samples.csv|samples.parquet [--table NAME]

`read` returns one row per sample; `figures`, `ratios` and `control` summarise such a table, or any part of it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from results.machine import processor
from results.record import Param, Run, load
from results.statistics import FEWEST_FOR_INTERVAL, confidence, rank
from results.validation import BadRecord
from results.verdicts import BETWEEN_RUNS, FEWEST_CALLS, REFERENCES

#: Columns that identify a job within a run: peers are compared within it.
JOB = ["run", "suite", "benchmark", "workload", "params"]
#: Columns that identify a cell: a job, measured for one peer.
CELL = [*JOB, "peer"]
ABOUT_RUN = ["machine", "cores", "date", "profile"]
ABOUT_CELL = ["library", "variant", "version", "unit", "better", "status", "reason", "seen", "hazard"]
#: Columns with one value per cell that are fields of its record.
_AS_IN_RECORD = [*JOB[1:4], "peer", "unit", "better", "status", "reason", "seen", "hazard"]
#: Columns with one value per sample.
OF_SAMPLE = ["launch", "block", "value", "calls"]


def read(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Return one row per sample of these run files, and one row without a value per cell without samples.

    Columns: `run` (the file's name without its suffix), `suite`, `benchmark`, `workload`, `params` (as text,
    "batch=32, capacity=100000"), `peer`; `machine` (its processor), `cores`, `date` (a UTC timestamp), `profile`;
    `library` and `variant` ("cpprb" and "MP" of "cpprb[MP]"), `version`, `unit`, `better` ("lower" or "higher"),
    `status`, `reason`, `seen`, `hazard`; `launch` (1, 2, ... within a cell), `block`, `value`, `calls`; and each
    parameter as `param.<name>`. The fields of a record are explained in results/README.md. A withdrawn ("invalidated")
    cell keeps its samples here; `figures` and `ratios` omit it.

    Raises BadRecord, naming the file, if one is invalid or two have the same name.
    """
    files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    runs: dict[str, Run] = {}
    for path in files:
        if path.stem in runs:
            raise BadRecord(f"run files must have different names, got two named {path.name}")
        runs[path.stem] = load(path)
    return table(runs)


def table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the rows of `read` for loaded runs. `runs` maps each value of the column `run` to its run."""
    rows = [row for name, run in runs.items() for row in _rows(name, run)]
    parameters = sorted({column for row in rows for column in row if column.startswith("param.")})
    frame = pd.DataFrame(rows, columns=[*CELL, *ABOUT_RUN, *ABOUT_CELL, *OF_SAMPLE, *parameters])
    frame["date"] = pd.to_datetime(frame["date"])
    for parameter in parameters:
        known = frame[parameter].convert_dtypes()
        frame[parameter] = known.astype("string") if known.dtype == object else known  # a column has one type
    return frame.astype({"launch": "Int64", "block": "Int64", "calls": "Int64", "value": "float64"})


def _rows(name: str, run: Run) -> Iterable[dict[str, Any]]:
    about = {"run": name, "machine": processor(run.machine), "cores": run.machine["cores"]}
    about |= {"date": run.started, "profile": run.profile}
    versions = {peer.name: peer.version for peer in run.peers}
    for record in run.records:
        library, _, variant = record.peer.partition("[")
        cell = {
            **about,
            **{field: getattr(record, field) for field in _AS_IN_RECORD},
            "params": params_text(record.params),
            "library": library,
            "variant": variant.removesuffix("]"),
            "version": versions[record.peer],
            **{f"param.{parameter}": value for parameter, value in record.params.items()},
        }
        for launch, sample in enumerate(record.samples, 1):
            yield {**cell, "launch": launch, "block": sample.block, "value": sample.value, "calls": sample.calls}
        if not record.samples:
            yield cell


def params_text(params: Mapping[str, Param]) -> str:
    """Return parameters as text, sorted by name: "batch=32, capacity=100000"."""
    return ", ".join(f"{name}={params[name]}" for name in sorted(params))


def figures(samples: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell with samples: the median over launches (`value`), its interval, and the launches.

    `low` and `high` are the ends of the exact 95% confidence interval for the median, which is based on order
    statistics and assumes nothing about the distribution (Hahn and Meeker 1991, "Statistical Intervals", section 5.2).
    With fewer than six launches, they are the lowest and the highest sample; `confidence` is the probability that they
    contain the true median: 0.75 with 3 launches, 0.94 with 5, 0 with one.
    """
    known = samples[samples["value"].notna() & (samples["status"] != "invalidated")]
    by_cell = known.groupby(CELL, sort=False, dropna=False)
    count = by_cell["value"].transform("size")
    k = count.map({n: rank(n) for n in count.unique()})
    place = by_cell["value"].rank(method="first")
    ends = known.assign(low=known["value"].where(place == k), high=known["value"].where(place == count + 1 - k))
    kept = {name: (name, "first") for name in known if name not in {*CELL, *OF_SAMPLE}}
    found = (
        ends.groupby(CELL, sort=False, dropna=False)
        .agg(
            **kept,
            value=("value", "median"),
            low=("low", "max"),
            high=("high", "max"),
            launches=("value", "size"),
            calls=("calls", "min"),
        )
        .reset_index()
    )
    found["confidence"] = found["launches"].map(confidence)
    return found


def ratios(samples: pd.DataFrame, reference: str | Mapping[str, str] = REFERENCES) -> pd.DataFrame:
    """Return one row per cell: how many times as fast the peer is as its job's reference, by the rules of `figures`.

    Ratios are taken within a block, so that a slow minute of the machine affects both. Above 1 is faster than the
    reference, whether a lower or a higher value is better. `reference` is one peer, or a peer per suite; jobs for which
    it has no figure are omitted, as are values that are not above 0. `is_bound`: the reference made so few calls that
    its rate is uncertain, and only `low` counts.
    """
    known = samples[(samples["value"] > 0) & (samples["status"] != "invalidated")]
    named = known["suite"].map(reference) if isinstance(reference, Mapping) else reference
    known = known.assign(reference=named)
    theirs = known.loc[known["peer"] == known["reference"], [*JOB, "block", "value", "calls"]]
    pairs = known.merge(theirs, on=[*JOB, "block"], suffixes=("", "_of_reference"))
    quotient = pairs["value_of_reference"] / pairs["value"]
    pairs["value"] = quotient.where(pairs["better"] == "lower", 1 / quotient)
    pairs["calls"] = pairs.pop("calls_of_reference")
    found = figures(pairs.drop(columns="value_of_reference"))
    few = (found.pop("calls") < FEWEST_CALLS).fillna(value=False).astype(bool)
    is_other = found["peer"] != found["reference"]
    return found.assign(unit="times as fast", better="higher", is_bound=few & is_other & (found["low"] > 1))


def control(samples: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run with a control: how many times as fast its first side is as its identical second side.

    A ratio between two peers that lies within `low` to `high` may be due to the machine alone. Within a block, the
    ratios of the control's jobs are combined by their geometric mean; then the rules of `figures` apply.
    """
    known = samples[(samples["suite"] == "control") & (samples["value"] > 0) & (samples["status"] != "invalidated")]
    if not known.empty:
        job = ["run", "peer", "workload", "benchmark", "block"]
        sides = known.pivot_table(index=job, columns="param.side", values="value")
        sides = sides.reindex(columns=["first", "second"]).dropna()
        difference = np.log(sides["second"] / sides["first"])  # of seconds
        blocks = np.exp(difference.groupby(["run", "peer", "block"]).mean()).rename("value").reset_index()
        known = blocks.assign(suite="control", benchmark="", workload="", params="", status="ok", calls=np.nan)
    return figures(known)[["run", "peer", "value", "low", "high", "launches", "confidence"]]


@dataclass(frozen=True)
class Agreement:
    """How many of a second run's ratios lie within a first run's intervals, among the ratios that both runs have."""

    within: int  # the intervals of the first run
    widened: int  # those of `for_another_run`
    compared: int


def for_another_run(ratios: pd.DataFrame) -> pd.DataFrame:
    """Return these ratios with intervals that, for most jobs, contain the ratio of another run on the same machine.

    A run's interval is for its own median. Another run's median varies just as much, so the interval contains that
    median less often. These intervals are therefore twice as wide, and at least 20% to either side
    (docs/measuring/another-run.md shows how often they contained another run's ratio).
    """
    factor = np.maximum(ratios["high"] / ratios["low"], BETWEEN_RUNS)
    return ratios.assign(low=ratios["value"] / factor, high=ratios["value"] * factor)


def agreement(ratios: pd.DataFrame, first: str, second: str) -> Agreement:
    """Compare the ratios of two runs in a table as `ratios` returns it.

    Ratios based on fewer launches than `FEWEST_FOR_INTERVAL` have no interval, nor do lower bounds.
    """
    has_interval = (ratios["launches"] >= FEWEST_FOR_INTERVAL) & ~ratios["is_bound"]
    used = ["run", *JOB[1:], "peer", "value", "low", "high"]
    known = ratios.loc[has_interval & (ratios["peer"] != ratios["reference"]), used]
    one, other = (known[known["run"] == run] for run in (first, second))
    pairs = one.merge(other, on=[*JOB[1:], "peer"], suffixes=("", "_again"))
    wide = for_another_run(pairs)
    within, widened = (pairs["value_again"].between(each["low"], each["high"]) for each in (pairs, wide))
    return Agreement(int(within.sum()), int(widened.sum()), len(pairs))


TABLES = {"samples": lambda samples: samples, "figures": figures, "ratios": ratios, "control": control}


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the suffix of `path`. Raises ValueError for any other suffix."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        raise ValueError(f"--out must end in .csv or .parquet, got {path.name!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m results.frames", description="Write run files as one tidy table.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--out", required=True, type=Path, help="a .csv or .parquet file")
    parser.add_argument("--table", choices=TABLES, default="samples", help="what a row is (default: samples)")
    options = parser.parse_args(arguments)
    try:
        frame = TABLES[options.table](read(options.runs))
        write(frame, options.out)
    except (BadRecord, ValueError, ImportError, OSError) as error:
        print(f"nothing was written: {error}", file=sys.stderr)
        return 1
    print(f"{len(frame):,} rows: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
