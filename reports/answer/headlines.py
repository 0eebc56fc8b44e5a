"""The headlines, most realistic first: trainings, Ape-X, a learner's step, single calls, and buffers over many hosts.
Each states its limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reports.answer import in_learners
from reports.answer.heatmap import columns_of_one_process, shared_columns, typical_workloads
from reports.figures.formatting import counted, listed
from reports.figures.jobs import Job, fastest_first
from reports.figures.peers import base_name
from reports.figures.ratios import Ratio, figure_of, ratio_of
from reports.sections import apex, hosts, learning, throughput
from reports.sections.integrity import safety_of
from reports.sections.section import Context
from reports.tables.cells import scale_of
from results import Run
from results.verdicts import ENOUGH


@dataclass(frozen=True)
class Headline:
    kind: str  # README shows one headline of each kind
    title: str
    points: Sequence[str]  # sentences
    not_shown: str


def headlines(context: Context) -> list[Headline]:
    """Headlines about the run's first peer or, for shared buffers, its first variant. Those without records are
    omitted."""
    if not context.run.peers:
        return []
    subject = context.run.peers[0].name
    kinds = (_in_learners, _training, _ape_x, _steps, _single_calls, _over_hosts)
    return [headline for kind in kinds if (headline := kind(context, subject))]


def _in_learners(context: Context, subject: str) -> Headline | None:
    points = in_learners.sentences(context, subject)
    title = "In another library's trainings: our buffer instead of its own"
    return Headline("learners", title, points, in_learners.LIMITS) if points else None


def _training(context: Context, subject: str) -> Headline | None:
    names = _variants(context.run, subject)
    tasks = [
        task
        for task in learning.tasks_of(context)
        if "seconds" in task.jobs and any(name in task.solved for name in names)
    ]
    if not tasks:
        return None
    cores, explorers = int(context.run.machine["cores"]), tasks[0].explorers
    return Headline(
        "training",
        f"A whole training: Ape-X with a DQN, {counted(explorers, 'explorer')} and one learner",
        [point for task in tasks for point in _trained(task, [name for name in names if name in task.solved])],
        "Networks and environments take most of the time of these processes, which share "
        f"{counted(cores, 'core')}. Times of few seeds vary widely.",
    )


def _trained(task: learning.Task, variants: Sequence[str]) -> list[str]:
    """Say how long trainings with these variants took, how many solved the task, and which differences are shown."""
    job, reference = task.reached("seconds"), task.reference
    scale, said = scale_of(job), []
    for peer in variants:
        seeds = f"({task.count(peer)} seeds)"
        if peer not in job.cells:
            said.append(f"not reached with {peer} {seeds}")
            continue
        ratio = task.ratio("seconds", peer, reference)
        verdict = f", {_verdict(ratio, str(reference))}" if ratio else ""
        said.append(f"{scale.of(figure_of(job.cells[peer]))} {scale.unit} with {peer} {seeds}{verdict}")
    first = task.fastest("seconds")
    if first and first not in variants:
        always = "" if all(map(task.is_complete, task.solved)) else " of those that always reached it"
        said.append(f"fastest{always} is {first}, {scale.of(figure_of(job.cells[first]))} {scale.unit}")
    locks: dict[str, list[str]] = {}
    for each in apex.of_locks(base_name(variants[0])):
        if ratio := task.ratio("seconds", each.after, each.before):
            locks.setdefault(_certainty(ratio), []).append(f"{each.changed} {ratio.words}")
    compared = "; ".join(f"{listed(each)} ({certainty})" for certainty, each in locks.items())
    return [f"{task.title}: {'; '.join(said)}.", *([f"Settings of the lock: {compared}."] if compared else [])]


CLEAR, NOT_CLEAR = "a clear difference", "no clear difference"
NOT_SHOWN = "no difference shown"


def _certainty(ratio: Ratio) -> str:
    """Return what a ratio of trainings shows."""
    if ratio.is_bound or ratio.clearly_faster or ratio.clearly_slower:
        return CLEAR
    if ratio.figure.launches < ENOUGH:
        return learning.no_verdict(ratio.figure.launches)
    return NOT_SHOWN if ratio.figure.low <= 1 <= ratio.figure.high else NOT_CLEAR


def _verdict(ratio: Ratio, reference: str) -> str:
    """Say how many times as fast as the reference, and what that shows."""
    certainty = _certainty(ratio)
    return ratio.over(reference) + ("" if certainty == CLEAR else f", {certainty}")


def _ape_x(context: Context, subject: str) -> Headline | None:
    run = context.run
    columns, _ = shared_columns(context.jobs)
    sides = {column.job.benchmark: column.job for column in columns}
    peer = _variant(run, list(sides.values()), subject)
    if len(sides) < 2 or peer is None:
        return None
    said = [part for job in sides.values() if (part := _figure_and_ratio(context, job, peer, job.benchmark))]
    plain = sides["explorers"]
    trained, elsewhere = _with_network(context, sides, peer), _elsewhere(context, sides, peer)
    cores, explorers = int(run.machine["cores"]), int(plain.params["explorers"])
    unsafe = safety_of(run).get(context.reference(apex.SUITE) or "")
    note = [f"The reference is unsafe: {unsafe.found}."] if unsafe and unsafe.mark else []
    network = "Except where a DQN is named, there" if trained else "There"
    return Headline(
        "apex",
        f"Ape-X, {counted(explorers, 'explorer')} and one learner",
        [
            f"{peer} on {plain.workload}: {'; '.join(said)}.",
            *trained,
            *elsewhere.values(),
            *_scopes(sides, peer),
            *note,
        ],
        f"{network} is no neural network: the learner only samples and updates priorities. "
        f"{explorers + 1} processes share {counted(cores, 'core')}, so scheduling is part of every figure."
        + (f" {apex.UNSTEADY}" if apex.NO_STEP in elsewhere else ""),
    )


def _scopes(sides: Mapping[str, Job], peer: str) -> list[str]:
    """Say what the scope of the lock alone changes, for the reference and for the peer's library."""
    said = []
    for each in (apex.SCOPE, apex.of_locks(base_name(peer))[-1]):
        found = [f"{side} {ratio.words}" for side, job in sides.items() if (ratio := each.ratio(job))]
        if found:
            said.append(f"{each.after} relative to {each.before}: {' and '.join(found)}")
    return [f"{apex.SCOPE.sentence_start}: {'; '.join(said)}."] if said else []


def _with_network(context: Context, sides: Mapping[str, Job], peer: str) -> list[str]:
    """Return the ratios to the reference with a learner that trains, in environments whose steps cost time."""
    jobs, setting = context.jobs_of(apex.SUITE), replace(apex.Setting.of(sides["explorers"]), learner=apex.DQN)
    environments = {apex.environment_of(job) for job in jobs if apex.Setting.of(job) == setting} - {apex.NO_STEP}
    said = []
    for environment in sorted(environments, key=apex.cost_of):
        found = _ratios_at(context, sides, peer, setting, environment)
        if found:
            where = apex.spoken(environment, setting.workload)
            launches = counted(min(ratio.figure.launches for ratio in found.values()), "launch")
            said.append(f"With {setting.learner_spoken} and {where}: {_sides(found)} ({launches}).")
    return said


def _elsewhere(context: Context, sides: Mapping[str, Job], peer: str) -> dict[str, str]:
    """Return, by environment of known cost, how fast the same number of explorers and the learner are there, relative
    to the reference. Those with fewer launches than the other figures are left to the report."""
    jobs, plain, said = context.jobs_of(apex.SUITE), sides["explorers"], {}
    for environment in sorted({apex.environment_of(job) for job in jobs} - {apex.REAL}, key=apex.cost_of):
        fewest = min(_launches(job, peer) for job in sides.values())
        found = {
            side: ratio
            for side, ratio in _ratios_at(context, sides, peer, apex.Setting.of(plain), environment).items()
            if ratio.figure.launches >= fewest
        }
        if found:
            said[environment] = f"With {apex.spoken(environment, plain.workload)}: {_sides(found)}."
    return said


def _ratios_at(
    context: Context, sides: Mapping[str, Job], peer: str, setting: apex.Setting, environment: str
) -> dict[str, Ratio]:
    """Return the ratio of each side to the reference there, with as many explorers as here."""
    reference, found = context.reference(apex.SUITE) or "", {}
    for side, here in sides.items():
        wanted = side, setting, apex.explorers_of(here), environment
        job = next((each for each in context.jobs_of(apex.SUITE) if _place(each) == wanted), None)
        ratio = ratio_of(job.shown.get(peer), job.shown.get(reference)) if job else None
        if ratio:
            found[side] = ratio
    return found


def _sides(ratios: Mapping[str, Ratio]) -> str:
    return " and ".join(f"{side} {ratio.words}" for side, ratio in ratios.items())


def _place(job: Job) -> tuple[str, apex.Setting, int, str]:
    return job.benchmark, apex.Setting.of(job), apex.explorers_of(job), apex.environment_of(job)


def _launches(job: Job, peer: str) -> int:
    return len(job.shown[peer].samples)


def _variant(run: Run, jobs: Sequence[Job], subject: str) -> str | None:
    """Return the subject's first variant with figures for all of these jobs; the library's default is the first."""
    return next((name for name in _variants(run, subject) if jobs and all(name in job.shown for job in jobs)), None)


def _variants(run: Run, subject: str) -> list[str]:
    return [peer.name for peer in run.peers if base_name(peer.name) == base_name(subject)]


def _steps(context: Context, subject: str) -> Headline | None:
    small, _ = columns_of_one_process(context)
    steps = [column.job for column in small if column.job.benchmark == "learner_step" and subject in column.job.shown]
    if not steps:
        return None
    said = [
        part
        for job in steps
        if (part := _figure_and_ratio(context, job, subject, f"{int(job.params['capacity']):,} rows"))
    ]
    adds, batch = steps[0].params["adds"], steps[0].params["batch"]
    return Headline(
        "step",
        f"A learner's whole step: {adds} adds, a prioritized sample of {batch}, and the update of its priorities",
        [f"{subject} on {steps[0].workload}: {'; '.join(said)}."],
        "There is only one process, and nothing runs between the calls: a network would evict the caches and take most "
        "of the time.",
    )


def _single_calls(context: Context, subject: str) -> Headline | None:
    speeds = [job for job in context.jobs if job.suite == throughput.SUITE.name]
    workloads = typical_workloads(context.run, speeds)
    reference = context.reference(throughput.SUITE)
    spans = []
    for workload in filter(None, workloads):
        ratios = [
            (ratio, job)
            for job in _calls([job for job in speeds if job.workload == workload.name])
            if (ratio := ratio_of(job.shown.get(subject), job.shown.get(reference or "")))
        ]
        if ratios:
            least, most = (pick(ratios, key=lambda each: each[0].value) for pick in (min, max))
            ends = dict.fromkeys(f"{ratio.text} {ratio.sure} at {job.label}" for ratio, job in (least, most))
            slower = [job.label for ratio, job in ratios if ratio.value < 1]
            lost = f", slower at {listed(slower)}" if len(slower) > 1 else ""
            spans.append(f"on {workload.name} {' to '.join(ends)}{lost}")
    if not spans:
        return None
    return Headline(
        "calls",
        "Single calls",
        [f"{subject}, as multiples of {reference}'s speed: {'; '.join(spans)}."],
        "Each call runs in a loop of its own, mostly in warm caches; a training loop mixes calls and gains less.",
    )


def _calls(jobs: Sequence[Job]) -> list[Job]:
    """Return the single calls, without plain samples of sizes that are also measured beside work or while held."""
    realistic = {job.params["batch"] for job in jobs if job.benchmark in ("sample_beside", "sample_held")}
    return [
        job
        for job in jobs
        if not job.benchmark.startswith("learner_step")
        and not (job.benchmark == "sample" and job.params["batch"] in realistic)
    ]


def _over_hosts(context: Context, subject: str) -> Headline | None:
    jobs = context.jobs_of(hosts.SUITE)
    rates = [job for job in jobs if job.benchmark in hosts.RATES and subject in job.shown]
    said: dict[str, dict[str, str]] = {}
    for job in filter(hosts.is_plain, rates):
        side = f"learner with batches of {job.params['batch']}" if job.benchmark == "learner" else job.benchmark
        if part := _figure_and_ratio(context, job, subject, f"{side}:"):
            said.setdefault(job.workload, {}).setdefault(side, part)
    if not said:
        return None
    most = max(int(str(job.params["data_hosts"])) for job in rates)
    fastest = Counter(fastest_first([*job.shown.values()])[0].peer for job in rates)
    wins = listed([f"{peer} in {count}" for peer, count in fastest.most_common()])
    return Headline(
        "hosts",
        "A learner and an explorer on one host, and the rows on another one",
        [
            *(f"With {subject} on {name}, {'; '.join(parts.values())}." for name, parts in said.items()),
            *_failures(jobs, subject),
            f"Of {len(rates)} rates of a learner or an explorer alone, with up to {counted(most, 'data host')}, the "
            f"highest are those of {wins}.",
        ],
        "All hosts share one machine and its processors, and nothing is trained: no real network card or switch takes "
        f"part. {hosts.formerly_unencrypted(jobs)}".rstrip(),
    )


def _failures(jobs: Sequence[Job], subject: str) -> list[str]:
    """Say how long the subject waits when a data host fails, and how many others go on after every failure."""
    failures = [job for job in jobs if job.benchmark == "longest_wait"]
    if not failures or not all(subject in job.measured for job in failures):
        return []
    longest = max(figure_of(job.measured[subject]).value for job in failures)
    went_on = []
    for job in failures:
        others = [peer for peer in job.cells if base_name(peer) != base_name(subject)]
        good = sum(peer in job.measured for peer in others)
        went_on.append(f"{good} of {len(others)} ({hosts.FAILURES[str(job.params['failure'])]})")
    fewest = min(len(job.measured[subject].samples) for job in failures)
    return [
        f"When a data host fails, the learner waits for at most {longest:.2g} s. With buffers of other libraries, so "
        f"many learners go on: {listed(went_on)}. Each failure has {counted(fewest, 'launch')}."
    ]


def _figure_and_ratio(context: Context, job: Job, peer: str, name: str) -> str | None:
    record, reference = job.shown.get(peer), context.reference(context.suite(job.suite))
    if record is None:
        return None
    scale, ratio = scale_of(job), ratio_of(record, job.shown.get(reference or ""))
    figure = f"{name} {scale.of(figure_of(record))} {scale.unit}"
    if not ratio:
        return figure
    unsure = f", {NOT_SHOWN}" if ratio.figure.low <= 1 <= ratio.figure.high else ""
    return f"{figure}, {ratio.over(reference or '')}{unsure}"
