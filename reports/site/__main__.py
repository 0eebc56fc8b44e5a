"""Build the page on which figures are looked up:  python -m reports.site [RUN.json ...] [--out reports/out/site.html]

Without run files, it shows all committed records, including other people's, and the user's own runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.build import OUT
from reports.rendering import render
from reports.site.data import payload
from reports.site.lookup import lookup
from reports.site.replication import Replication, replications
from results import MACHINES, REFERENCE, RUNS, BadRecord, Run, load
from results.words import counted

FOLDERS = (REFERENCE, REFERENCE / "apart", MACHINES, RUNS)


def read(paths: Iterable[Path]) -> tuple[dict[str, Run], list[str]]:
    """Return the runs, the newest first, and the errors of files that could not be read.

    A run that is in two files is shown once, under the first file's name: on the machine that measured it, a
    contributed record is also in results/runs/.
    """
    runs: dict[str, Run] = {}
    bad = []
    for path in paths:
        try:
            run = load(path)
        except BadRecord as error:
            bad.append(f"{path.name}: {str(error).removeprefix(f'{path}: ')}")
            continue
        is_known = any((run.started, run.machine) == (other.started, other.machine) for other in runs.values())
        if run.kind != "bench" or is_known:
            continue
        if path.stem in runs:
            bad.append(f"{path.name}: another record has this name")
        else:
            runs[path.stem] = run
    return dict(sorted(runs.items(), key=lambda item: item[1].started, reverse=True)), bad


def page(data: Mapping[str, Any], replicated: Mapping[str, Replication | None]) -> str:
    """Return the page as one text. `replicated` maps the name of each record to its replication."""
    return render(
        "site.html.j2",
        {**lookup(data), "runs": data["runs"], "left_out": data["leftOut"], "replicated": replicated},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.site", description="Make the page to look figures up in.")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN.json", help="default: all committed and own runs")
    parser.add_argument("--out", type=Path, default=OUT / "site.html", help="default: reports/out/site.html")
    options = parser.parse_args(arguments)
    runs, bad = read(options.runs or [path for folder in FOLDERS for path in sorted(folder.glob("*.json"))])
    for line in bad:
        print(f"left out: {line}", file=sys.stderr)
    if not runs:
        print("no page was made: there is no record to show", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(payload(runs, bad), replications(runs)), encoding="utf-8")
    print(f"{counted(len(runs), 'record')}, {options.out.stat().st_size / 1e6:.1f} MB: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
