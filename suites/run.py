"""The runner: declares every cell first, then measures peer after peer in fresh processes.

    python -m suites.run --profile quick [--minutes M] [--peers A,B] [--workloads X,Y] [--suites ...] [--out FILE]
    python -m suites.run --profile quick --env ID | --workload-file FILE ...

With `--minutes` the run plans for so much time, this program's start and the report after it included.

Exit status: 0 if every declared cell has a figure or a reason that is no fault of this project: the platform or the
peer does not offer it, the time budget left it out, or another project's buffer crashed, hung or answered wrong, which
is a finding. 1 if this project's own buffer was wrong or failed, or the harness could not measure something. 2 for bad
arguments, 130 if interrupted. Whatever was measured is in the run file all the same.
"""

from __future__ import annotations

import argparse
import difflib
import math
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from adapters import registry
from adapters.base import Spec
from results import files, machine
from results.record import Record, Run
from suites import workloads
from suites.conformance import measure as conformance
from suites.conformance import probing
from suites.integrity import certified
from suites.integrity import measure as integrity
from suites.latency import measure as latency
from suites.memory.measure import rows_for
from suites.runner.driver import drive
from suites.runner.plan import Budgeted, Fixed, Launch, Part, in_blocks
from suites.runner.process import throughput_command
from suites.runner.profiles import PROFILES, Profile
from suites.runner.results import (
    APEX_WORKLOAD,
    CONFORMANCE_WORKLOAD,
    INTEGRITY_WORKLOAD,
    LATENCY_WORKLOAD,
    MEMORY,
    STARTUP_WORKLOAD,
    SharingJob,
    declare_apex,
    declare_conformance,
    declare_integrity,
    declare_latency,
    declare_memory,
    declare_sharing,
    declare_startup,
    declare_throughput,
)
from suites.workloads import own, own_file

SUITES = ("throughput", "memory", "startup", "latency", "apex", "sharing", "integrity", "conformance")
#: Rows that a suite makes for itself, by the name that stands in its records.
MADE = {INTEGRITY_WORKLOAD: certified.workload, CONFORMANCE_WORKLOAD: probing.workload}
WORKLOADS = (*workloads.NAMES, *MADE)
#: A time budget holds the report as well, and is of no use where hardly a launch fits into it.
REPORT_SECONDS, REPORT_SECONDS_A_PEER, LEAST_MINUTES = 15.0, 0.75, 1.0


def throughput_launches(run: Run, profile: Profile, peers: Sequence[str], chosen: Sequence[str]) -> list[Launch]:
    """One launch a peer, over all workloads."""
    jobs = profile.jobs(chosen)

    def launch(peer: str) -> Launch:
        def command(records: Sequence[Record], cells: Path) -> list[str]:
            return [registry.python(peer), *throughput_command(records, peer, cells, profile)]

        return Launch(f"throughput of {peer}", declare_throughput(run, peer, jobs), command)

    return [launch(peer) for peer in peers]


def fixed_schedule(parts: Sequence[Part], profile: Profile) -> list[tuple[int, Launch]]:
    """Every part in blocks; in the last blocks of throughput, only the peers that are measured unless others are
    named."""
    return [
        (block, launch)
        for part in parts
        for block, launch in in_blocks(part.launches, part.blocks)
        if launch.open_records
        and (launch.suite != "throughput" or block < profile.more_blocks or launch.peer in registry.PEERS)
    ]


def memory_launches(run: Run, profile: Profile, peers: Sequence[str], chosen: Sequence[str]) -> list[Launch]:
    """One launch a kind of buffer: what a process has allocated once stays with it."""

    def launch(peer: str, workload: str, benchmark: str, capacity: int) -> Launch:
        options = {"peer": peer, "workload": workload, "benchmark": benchmark, "capacity": capacity}
        options["leak-seconds"] = profile.leak_seconds
        row_bytes = workloads.load(workload).row_bytes

        def command(_records: Sequence[Record], cells: Path) -> list[str]:
            return [registry.python(peer), "-m", "suites.memory", *_as_options({**options, "cells": cells})]

        records = declare_memory(run, peer, workload, benchmark, capacity, row_bytes)
        if refusal := registry.adapter_class(peer).refusal(Spec(capacity, {}, **MEMORY[benchmark])):
            for record in records:  # no process for what it would only refuse
                record.fail("skipped", refusal)
        return Launch(f"memory of {peer}, {benchmark} on {workload}", records, command)

    return [
        launch(peer, workload, benchmark, capacity)
        for workload, (capacity, benchmarks) in profile.memory.items()
        if workload in chosen
        for benchmark in benchmarks
        for peer in peers
    ]


def startup_launches(run: Run, profile: Profile, peers: Sequence[str]) -> list[Launch]:
    """One launch a peer."""
    capacity = profile.startup_capacity

    def launch(peer: str) -> Launch:
        options = {"peer": peer, "capacity": capacity, "fill-seconds": profile.startup_fill_seconds}

        def command(records: Sequence[Record], cells: Path) -> list[str]:
            wanted = [f"--benchmark={record.benchmark}" for record in records]
            return [registry.python(peer), "-m", "suites.startup", *wanted, *_as_options({**options, "cells": cells})]

        return Launch(f"start-up of {peer}", declare_startup(run, peer, capacity), command)

    return [launch(peer) for peer in peers]


def latency_launches(run: Run, profile: Profile, peers: Sequence[str]) -> list[Launch]:
    """One launch a peer."""
    params = {"batch": latency.BATCH, "capacity": profile.latency_capacity}

    def launch(peer: str) -> Launch:
        options = {
            "peer": peer,
            "capacity": profile.latency_capacity,
            "seconds": profile.latency_seconds,
            "fill-seconds": profile.latency_fill_seconds,
        }

        def command(_records: Sequence[Record], cells: Path) -> list[str]:
            return [registry.python(peer), "-m", "suites.latency", *_as_options({**options, "cells": cells})]

        return Launch(f"latency of {peer}", declare_latency(run, peer, params), command)

    return [launch(peer) for peer in peers]


def _as_options(values: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def apex_launches(run: Run, profile: Profile, peers: Sequence[str]) -> list[Launch]:
    """One launch a peer and number of explorers."""

    def launch(peer: str, explorers: int) -> Launch:
        options = {
            "peer": peer,
            "explorers": explorers,
            "seconds": profile.apex_seconds,
            "capacity": profile.apex_capacity,
        }

        def command(_records: Sequence[Record], cells: Path) -> list[str]:
            return [registry.python(peer), "-m", "suites.apex", *_as_options({**options, "cells": cells})]

        name = f"apex of {peer}, {explorers} explorer{'s' if explorers > 1 else ''}"
        return Launch(name, declare_apex(run, peer, explorers, profile.apex_capacity), command)

    return [launch(peer, explorers) for explorers in profile.explorers for peer in peers]


def integrity_launches(run: Run, profile: Profile, peers: Sequence[str]) -> list[Launch]:
    """One launch a peer. The seed is another one in each run, and stands in the record."""
    seconds, patience = profile.integrity_seconds, profile.integrity_patience
    setting = integrity.Setting(seconds=seconds, patience=patience, seed=secrets.randbelow(1_000_000))

    def launch(peer: str) -> Launch:
        def command(_records: Sequence[Record], cells: Path) -> list[str]:
            return [registry.python(peer), *integrity.command(peer, setting), f"--cells={cells}"]

        return Launch(f"integrity of {peer}", declare_integrity(run, peer, setting.params), command)

    return [launch(peer) for peer in peers]


def conformance_launches(run: Run, profile: Profile, peers: Sequence[str]) -> list[Launch]:
    """One launch a peer."""
    setting = probing.Setting(draws=profile.conformance_draws)

    def launch(peer: str) -> Launch:
        def command(_records: Sequence[Record], cells: Path) -> list[str]:
            return [registry.python(peer), *conformance.command(peer, setting), f"--cells={cells}"]

        cells = declare_conformance(run, peer, setting.params)
        return Launch(f"conformance of {peer}", cells, command, least_limit=conformance.LAUNCH_SECONDS)

    return [launch(peer) for peer in peers]


def sharing_launches(run: Run, profile: Profile, peers: Sequence[str], chosen: Sequence[str]) -> list[Launch]:
    """One launch a peer and group of jobs. Alone, the library's unshared class is a peer too: sharing has a price."""

    def launch(peer: str, jobs: Sequence[SharingJob]) -> Launch:
        def command(records: Sequence[Record], cells: Path) -> list[str]:
            wanted = [job for job in jobs if any(job.has(record) for record in records)]
            options = _as_options(
                {
                    "peer": peer,
                    "seconds": profile.sharing_seconds,
                    "most-seconds": profile.sharing_cap_seconds,
                    "cells": cells,
                }
            )
            return [registry.python(peer), "-m", "suites.sharing", *(f"--job={job}" for job in wanted), *options]

        kinds = " and ".join(dict.fromkeys(job.kind for job in jobs))
        name = f"sharing of {peer}, {kinds} on {jobs[0].workload}"
        return Launch(name, declare_sharing(run, peer, jobs), command)

    shared = registry.together() if profile.sharing_served else list(registry.SHARED)

    def jobs_of(peer: str, group: Sequence[SharingJob]) -> list[SharingJob]:
        able = [job for job in group if peer in shared or (job.kind == "alone" and peer in registry.alone())]
        return [job for job in able if job.workload in chosen]

    groups = [(peer, jobs_of(peer, group)) for group in profile.sharing for peer in peers]
    return [launch(peer, jobs) for peer, jobs in groups if jobs]


def record_all(run: Run) -> None:
    """Here and now, since a launch in another environment can't: every recording that the launches will load."""
    filled = {(each.workload, rows_for(each.params["capacity"])) for each in run.records if each.suite == "memory"}
    for name in dict.fromkeys(record.workload for record in run.records):
        made = MADE[name]() if name in MADE else workloads.load(name)
        run.add_workload(**describe_workload(made))
    for name, rows in sorted(filled):
        workloads.load(name, rows)


def describe_workload(workload: workloads.Workload) -> dict:
    """What the record says of it."""
    about = ("name", "version", "source", "transitions", "row_bytes", "sha256")
    fields = {key: asdict(field) for key, field in workload.fields.items()}
    return {name: getattr(workload, name) for name in about} | {"fields": fields}


def names(kind: str, known: Sequence[str]):
    """An argparse type: comma-separated names, each of them known."""

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                like = "".join(f"did you mean {each!r}? " for each in difflib.get_close_matches(name, known, 1))
                raise argparse.ArgumentTypeError(f"unknown {kind} {name!r}; {like}known: {', '.join(sorted(known))}")
        return names

    return parse


def minutes(text: str) -> float:
    """An argparse type: a time budget."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not LEAST_MINUTES <= value < math.inf:
        raise argparse.ArgumentTypeError(
            f"a time budget is a number of minutes, at least {LEAST_MINUTES:g}, such as 3; got {text!r}"
        )
    return value


PEERS_HELP = f"default: {', '.join(registry.PEERS)}; {registry.ALL} for all; a name stands for its variants too"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = registry.every()
    # Who misspells a variable of make's is not shown the options of a program that he did not call.
    parser = argparse.ArgumentParser(
        prog="python -m suites.run", description=__doc__.partition("\n")[0], usage=argparse.SUPPRESS
    )
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--peers", type=names("peer", [*known, registry.ALL]), help=PEERS_HELP)
    of_what = parser.add_mutually_exclusive_group()
    of_what.add_argument("--workloads", type=names("workload", WORKLOADS), default=list(WORKLOADS))
    of_what.add_argument("--env", metavar="ID", help="instead: any Gymnasium environment, also as module:ID")
    of_what.add_argument("--workload-file", type=Path, metavar="FILE", help="instead: fields named in a TOML file")
    parser.add_argument("--suites", type=names("suite", SUITES), default=list(SUITES))
    parser.add_argument("--minutes", type=minutes, help="time budget; default: none, as many blocks as the profile has")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: a dated file in results/runs/")
    args = parser.parse_args(arguments)
    if args.out and args.out.exists():
        parser.error(f"{args.out} is there already: records are never overwritten")

    try:
        args.own = own.of_environment(args.env) if args.env is not None else None
        args.own = own_file.of_file(args.workload_file) if args.workload_file is not None else args.own
        args.plan = profile = args.own.plan(PROFILES[args.profile]) if args.own else PROFILES[args.profile]
    except own.BadWorkload as error:
        parser.error(str(error))
    if args.own:
        args.workloads = [args.own.name]
    chosen = registry.chosen(args.peers)
    alone = [name for name in registry.alone() if name in chosen]
    args.throughput = alone if "throughput" in args.suites and profile.jobs(args.workloads) else []
    args.memory = alone if "memory" in args.suites and set(profile.memory) & set(args.workloads) else []
    args.startup = alone if "startup" in args.suites and STARTUP_WORKLOAD in args.workloads else []
    if not profile.startup_blocks:
        args.startup = []
    args.latency = alone if "latency" in args.suites and LATENCY_WORKLOAD in args.workloads else []
    if not profile.latency_blocks:
        args.latency = []
    args.apex = shared = [name for name in registry.together() if name in chosen]
    if "apex" not in args.suites or APEX_WORKLOAD not in args.workloads or not profile.explorers:
        args.apex = []
    args.integrity = [name for name in integrity.PEERS if name in chosen]
    if "integrity" not in args.suites or INTEGRITY_WORKLOAD not in args.workloads or not profile.integrity_seconds:
        args.integrity = []
    args.conformance = [name for name in conformance.PEERS if name in chosen]
    if "conformance" not in args.suites or CONFORMANCE_WORKLOAD not in args.workloads or not profile.conformance_draws:
        args.conformance = []
    shareable = set(args.workloads) & {job.workload for jobs in profile.sharing for job in jobs}
    unshared = [name for name in alone if name in map(registry.family, registry.together())]
    args.sharing = list(dict.fromkeys([*shared, *unshared])) if "sharing" in args.suites and shareable else []
    parts = _parts(args)
    if not any(parts):
        parser.error(
            "nothing to measure: these peers, workloads and suites have no cell in common "
            f"(apex is on {APEX_WORKLOAD}, integrity on {INTEGRITY_WORKLOAD}, conformance on {CONFORMANCE_WORKLOAD})"
        )
    return args


def _parts(args: argparse.Namespace) -> list[list[str]]:
    """The peers of each suite."""
    return [getattr(args, suite) for suite in SUITES]


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        return measure(arguments)
    except KeyboardInterrupt:
        print("interrupted before anything was measured", file=sys.stderr)
        return 130
    except own.BadWorkload as error:  # an environment that fails after its first rows
        print(f"suites.run: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"suites.run: {error}", file=sys.stderr)
        return 1


def _measured(arguments: Sequence[str]) -> list[str]:
    """The options that say what is measured: a record need not tell where it was first saved."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out")
    return parser.parse_known_args(arguments)[1]


def measure(arguments: Sequence[str] | None) -> int:
    begin = time.monotonic()
    args = _arguments(arguments)
    profile = args.plan
    command = shlex.join(["python", "-m", "suites.run", *_measured(sys.argv[1:] if arguments is None else arguments)])
    run = Run("bench", args.profile, machine.revision(), command, machine.describe(), minutes=args.minutes)
    for name in dict.fromkeys(name for peers in _parts(args) for name in peers):
        run.add_peer(**asdict(registry.describe(name)))

    if args.own:
        filled = profile.memory.values() if args.memory else ()
        args.own.keep(profile, [rows_for(capacity) for capacity, _ in filled])
    throughput = throughput_launches(run, profile, args.throughput, args.workloads)
    memory = memory_launches(run, profile, args.memory, args.workloads)
    startup = startup_launches(run, profile, args.startup)
    latencies = latency_launches(run, profile, args.latency)
    apex = apex_launches(run, profile, args.apex)
    integrities = integrity_launches(run, profile, args.integrity)
    conformances = conformance_launches(run, profile, args.conformance)
    sharing = sharing_launches(run, profile, args.sharing, args.workloads)
    record_all(run)
    # With a budget, what comes first is least likely to be left out.
    parts = [
        Part(throughput, profile.blocks),
        Part(apex, profile.apex_blocks),
        Part(sharing, profile.sharing_blocks),
        Part(integrities, 1, repeated=False),
        Part(conformances, 1, repeated=False),
        Part(latencies, profile.latency_blocks),
        Part(startup, profile.startup_blocks, repeated=False),
        Part(memory, profile.memory_blocks, repeated=False),
    ]
    if args.minutes:
        report_seconds = REPORT_SECONDS + REPORT_SECONDS_A_PEER * len(run.peers)
        plan = Budgeted(parts, args.minutes, begin + 60 * args.minutes - report_seconds)
    else:
        plan = Fixed(fixed_schedule(parts, profile))
    print(f"{run.declared} cells" + (f" in a budget of {args.minutes:g} min" if args.minutes else ""), flush=True)
    return drive(run, args.out or files.new_path(run), plan, profile.limit_seconds)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before the first launch: there is nothing to save yet
        sys.exit(130)
