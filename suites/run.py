"""The runner: declares every cell first, then measures peer after peer in fresh processes.

    python -m suites.run --profile quick [--minutes M] [--peers A,B] [--workloads X,Y] [--suites ...] [--out FILE]
    python -m suites.run --profile quick --env ID | --workload-file FILE ...
    python -m suites.run --profile full ... --resume FILE

With `--minutes`, the run is planned to take that long, including this program's start and the report. With `--resume`
and its original options, an interrupted run without a time budget continues in its file.

Exit status: 0 if every declared cell has a figure or a reason that is not a fault of this project: the platform or the
peer does not support it, it was left out because of the time budget, or another project's buffer crashed, hung or
returned a wrong answer, which is a finding. 1 if this project's own buffer returned a wrong answer or failed, or if the
harness could not measure something. 2 for bad arguments, 130 if interrupted. In every case, the run file contains
whatever was measured.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from adapters import registry
from results import BadRecord, files, machine
from results.record import Run
from suites import workloads
from suites.runner import command_line
from suites.runner.command_line import SuiteChoice
from suites.runner.driver import drive
from suites.runner.plan import Budgeted, Fixed, fixed
from suites.runner.profiles import PROFILES
from suites.runner.resuming import resumed
from suites.workloads import user_workload

#: Part of a time budget that is reserved for the report.
REPORT_SECONDS, REPORT_SECONDS_A_PEER = 8.0, 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        return measure(arguments)
    except KeyboardInterrupt:
        print("interrupted before anything was measured", file=sys.stderr)
        return 130
    # Raised if an environment fails after its first rows, or a run cannot continue.
    except (user_workload.BadWorkload, BadRecord) as error:
        print(f"suites.run: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"suites.run: {error}", file=sys.stderr)
        return 1


def measure(arguments: Sequence[str] | None) -> int:
    begin = time.monotonic()
    args = command_line.parse(arguments)
    profile = PROFILES[args.profile]
    options = command_line.measured_options(sys.argv[1:] if arguments is None else arguments)
    command = shlex.join(["python", "-m", "suites.run", *options])
    run = Run("bench", args.profile, machine.revision(), command, machine.describe(), minutes=args.minutes)
    if args.resume:
        run = resumed(args.resume, run)
    if args.user_workload and profile.user:
        args.user_workload.keep(profile.user, [rows for choice in args.choices for rows in choice.recordings.values()])
    parts = [choice.part(run) for choice in args.choices]
    declared = {record.peer for record in run.records}
    for name in dict.fromkeys(peer for choice in args.choices for peer in choice.peers):
        if name in declared and not args.resume:  # a profile need not measure all peers of a suite
            run.add_peer(**asdict(registry.describe(name)))
    record_workloads(run, args.choices, described=bool(args.resume))
    plan: Budgeted | Fixed
    if args.minutes:
        report_seconds = REPORT_SECONDS + REPORT_SECONDS_A_PEER * len(run.peers)
        facts = {peer.name: peer.known for peer in run.peers}
        plan = Budgeted(parts, args.minutes, begin + 60 * args.minutes - report_seconds, facts=facts)
    else:
        plan = fixed(parts)
    variants = {name for name in declared if any(part.is_variant(name) for part in parts)}
    print(
        f"{run.declared} cells" + (f" in a budget of {args.minutes:g} min" if args.minutes else ""),
        f"(buffers: {len(declared) - len(variants)}, variants of them: {len(variants)})",
        flush=True,
    )
    if shortage := plan.shortage():
        print(shortage, flush=True)
    return drive(run, args.resume or args.out or files.new_path(run), plan, profile.limit_seconds)


def record_workloads(run: Run, choices: Sequence[SuiteChoice], described: bool) -> None:
    """Make every recording that the launches will load, since a launch in another venv may be unable to make one."""
    generated = {name: make for choice in choices for name, make in choice.suite.generated.items()}
    for name in dict.fromkeys(record.workload for record in run.records):
        made = generated[name]() if name in generated else workloads.load(name)
        if not described:
            run.add_workload(**made.describe())
    for choice in choices:
        for name, rows in sorted(choice.recordings.items()):
            workloads.load(name, rows)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before the first launch, so there is nothing to save
        sys.exit(130)
