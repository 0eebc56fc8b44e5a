"""Weaken each memory order of the core, one at a time, and find the scenario that then fails: see .ci/orders.

The table `orders` next to this file has one line per order: the operation, the part of its order that is removed, and
the scenario that must then fail, or the reason why none can.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPLORE = ROOT / "build" / "orders" / "explore"
TABLE = Path(__file__).with_name("orders")
WORKERS = int(os.environ.get("WORKERS", os.cpu_count() or 1))
COPIES = "columns.hpp"  # the file with the operations that copy rows and frames
ENOUGH = 100_000  # executions within which the scenario named in the table must fail; the seeds are fixed
# If a sequentially consistent operation loses its acquire or release part, it loses sequential consistency as well.
PARTS = {"a": "acquire", "r": "release", "c": "consistent"}


@dataclass
class Site:
    """An operation of the core, and the line that it is in."""

    file: str
    line: int
    column: int
    region: str
    kind: str
    order: str
    on_failure: str
    function: str
    steps: set[str] = field(default_factory=set)
    scenarios: set[str] = field(default_factory=set)
    name: str = ""

    @property
    def parts(self) -> list[str]:
        """Return the parts of its order that can be removed."""
        return [PARTS[letter] for letter in self.order] + (["failure"] if self.on_failure else [])


def explore(*arguments: object) -> str:
    """Return the output of one run of the explorer."""
    done = subprocess.run([EXPLORE, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{EXPLORE} {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout


def scenarios() -> list[str]:
    return explore("list").split()


def named(site: Site) -> str:
    """Return `function word.operation`, which does not depend on line numbers."""
    text = next((ROOT / "cpprb_impl" / "core").glob(f"*/{site.file}")).read_text().splitlines()[site.line - 1]
    called = re.search(r"(\w+)(?:\([^()]*\)|\[[^][]*\])*(?:\.|->)(\w+)$", text[: site.column - 1])
    what = f"{called[1]}.{called[2]}" if called else site.kind
    function = re.search(r"(~?\w+)\(", site.function)
    where = f" ({site.region})" if site.file == COPIES else ""
    return f"{function[1] if function else site.function} {what}{where}"


def found_sites(executions: int) -> list[Site]:
    """Return all operations that any scenario executes."""
    known: dict[tuple[str, int, int, str], Site] = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        texts = pool.map(lambda name: explore("sites", name, executions), scenarios())
        for name, text in zip(scenarios(), texts, strict=True):
            for line in text.splitlines()[1:]:
                file, row, column, region, kind, order, on_failure, steps, function = line.split("\t")
                where = region if file == COPIES else ""
                site = known.setdefault(
                    (file, int(row), int(column), where),
                    Site(file, int(row), int(column), region, kind, order, on_failure, function),
                )
                site.steps.update(steps.split(","))
                site.scenarios.add(name)
    sites = sorted(known.values(), key=lambda site: (site.file, site.line, site.column, site.region))
    sites = [site for site in sites if not site.function.startswith(("weak::", "void weak::"))]
    times: dict[tuple[str, str], int] = {}
    for site in sites:
        name = named(site)
        nth = times[site.file, name] = times.get((site.file, name), 0) + 1
        site.name = f"{site.file} {name}" + (f" #{nth}" if nth > 1 else "")
    return sites


def parts_of(part: str, count: int) -> list[str]:
    """Return the parts that are removed together from this many operations: the same for all, or one for each."""
    parts = part.split(" + ")
    return parts if len(parts) == count else parts * count


def weakened(scenario: str, executions: int, sites: list[Site], part: str) -> list[str]:
    """Return how a scenario ended with weakened orders: `held`; or `failed`, number of executions, seed, reason."""
    orders: list[object] = []
    for site, its in zip(sites, parts_of(part, len(sites)), strict=True):
        orders += [site.file, site.line, site.column, site.region if site.file == COPIES else "-", its]
    return explore("run", scenario, executions, 1, *orders).strip().split("\t")


def first_that_fails(names: list[str], executions: int, sites: list[Site], part: str) -> tuple[str, list[str]] | None:
    """Return the first scenario that fails, and how."""
    for name in names:
        how = weakened(name, executions, sites, part)
        if how[0] == "failed":
            return name, how
    return None


def expected() -> dict[tuple[str, str], str]:
    """Read the table: the required result of weakening each order."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {(name, part): outcome for name, part, outcome in rows}


def check(control: int, executions: int, only: str) -> bool:
    """Run the model's own tests, then the unchanged core, then the core with each order weakened."""
    litmus = explore("litmus", executions)
    wrong = [line for line in litmus.splitlines() if not line.startswith("ok")]
    print("\n".join(wrong) or f"ok   litmus tests: {len(litmus.splitlines())}", flush=True)
    names, table = scenarios(), expected()
    with ThreadPoolExecutor(WORKERS) as pool:
        texts = pool.map(lambda name: explore("run", name, control, 1), names)
        for name, text in zip(names, texts, strict=True):
            how = text.strip().split("\t")
            good = how[0] == "held" and int(how[2]) < control / 100
            wrong += [] if good else [name]
            print(f"{'ok  ' if good else 'FAIL'} {name}: {' '.join(how)}", flush=True)

        single = {(site.name, part): site for site in found_sites(300) for part in site.parts if only in site.name}
        # Two operations that can replace each other are weakened together as well.
        orders = {order: [site] for order, site in single.items()}
        for name, part in table:
            names_of = name.split(" + ")
            pairs = list(zip(names_of, parts_of(part, len(names_of)), strict=True))
            if len(pairs) > 1 and all(each in single for each in pairs):
                orders[name, part] = [single[each] for each in pairs]
        missing = [f"{name} | {part}: not in {TABLE.name}" for name, part in orders if (name, part) not in table]
        missing += [f"{n} | {p}: no such order in the core" for n, p in table if only in n and (n, p) not in orders]

        def one(order: tuple[str, str]) -> tuple[bool, str]:
            sites, outcome = orders[order], table[order]
            caught = outcome in names
            tried = [outcome] if caught else sorted(sites[0].scenarios)
            found = first_that_fails(tried, ENOUGH if caught else executions, sites, order[1])
            line = f"{found[0]}, execution {found[1][1]}: {found[1][3]}" if found else "not noticed"
            return caught == bool(found), f"{order[0]}, no {order[1]}: {line}"

        for good, line in pool.map(one, [order for order in orders if order in table]):
            wrong += [] if good else [line]
            print(f"{'ok  ' if good else 'FAIL'} {line}", flush=True)
    for line in missing:
        print(f"FAIL {line}")
    print(f"orders: {len(orders)}, of which {sum(table.get(order) in names for order in orders)} are noticed")
    return not wrong and not missing


def search(executions: int, only: str) -> None:
    """Print a possible table: for each order, the scenario that fails after the fewest executions if it is weakened."""

    def one(task: tuple[Site, str]) -> str:
        site, part = task
        found = first_that_fails(sorted(site.scenarios), executions, [site], part)
        line = f"{found[0]} | {found[1][1]} {found[1][3]}" if found else "?"
        return f"{site.name} | {part} | {line} | {','.join(sorted(site.steps))}"

    tasks = [(site, part) for site in found_sites(300) for part in site.parts if only in site.name]
    with ThreadPoolExecutor(WORKERS) as pool:
        for line in pool.map(one, tasks):
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["check", "search"])
    parser.add_argument("--control", type=int, default=200_000, help="executions of each scenario, nothing weakened")
    parser.add_argument("--executions", type=int, default=20_000, help="of each scenario, where an order is harmless")
    parser.add_argument("--only", default="", help="orders whose names contain this")
    given = parser.parse_args()
    if given.what == "search":
        search(given.executions, given.only)
    elif not check(given.control, given.executions, given.only):
        sys.exit("orders: failed")


if __name__ == "__main__":
    main()
