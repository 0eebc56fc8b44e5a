"""One buffer, a fleet that survives (two explorers and a learner), and victims that are killed or stopped meanwhile."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

from . import certified, failpoints
from .certified import FRAMED, NARROW, WIDE, Due, Findings
from .fleet import FOR_EVER, HangError, explore, fleet, learn

SURVIVORS = 2  # number of explorers
BATCH = 32
RANDOM_MOMENT = "moment"
# The failpoints of locks that only explorers reach, and those that explorers and learners reach. Only learners
# reach the other ones, and those of L, T and U.
EXPLORERS_ALONE = ("G0", "G5", "G6")
EITHER = ("G1", "G2", RANDOM_MOMENT)


@dataclass(frozen=True)
class Plan:
    """What happens to which process in one trial."""

    lock: str
    failpoint: str  # or RANDOM_MOMENT
    nth: int
    stop: bool  # with SIGSTOP; otherwise killed with SIGKILL
    then_kill: bool  # the stopped process is killed; otherwise it continues
    alone: bool  # the survivors add nothing until the victim is killed or stopped
    explores: bool  # the victim is an explorer; otherwise a learner
    first_lap: bool = False  # the ring is new: most of its slots were never written


def plan_for(lock: str, failpoint: str, rng: random.Random, first_lap: bool = False) -> Plan:
    explores = failpoint in EXPLORERS_ALONE or failpoint[0] in "EFB" or (failpoint in EITHER and rng.random() < 0.7)
    return Plan(
        lock,
        failpoint,
        # 1 to 100, mostly small; with first_lap so few that the first lap is not yet complete.
        nth=1 if failpoint[0] == "B" else rng.randint(1, 3) if first_lap else int(1.07 ** rng.uniform(0, 68)),
        stop=lock == "none" and rng.random() < 0.5,  # with a lock, a stopped owner of the lock blocks others by design
        then_kill=rng.random() < 0.5,
        alone=failpoint[0] == "B" or (explores and rng.random() < 0.3),
        explores=explores,
        first_lap=first_lap,
    )


@dataclass
class Outcome:
    plan: Plan
    hit: bool = False  # the victim was killed or stopped at the failpoint
    longest_sample_ms: float = 0
    due: int = 0  # number of rows that had to be stored
    findings: Findings = field(default_factory=Findings)
    trouble: list[str] = field(default_factory=list)

    def is_clean(self) -> bool:
        return not self.trouble and not self.findings.faults()


@dataclass
class Victim:
    pid: int
    number: int  # its place on the board
    alive: bool = True

    def wait_until_hit(self, seconds: float) -> bool:
        """Return whether the victim was killed or stopped in this time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                self.alive = os.WIFSTOPPED(status)
                if os.WIFEXITED(status):
                    raise RuntimeError(f"the victim ended by itself, with {os.WEXITSTATUS(status)}")
                return True
            time.sleep(0.0003)
        return False

    def kill(self) -> None:
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.alive = False


class Arena:
    """The buffer and its survivors, with sizes drawn from `rng`."""

    def __init__(
        self, lock: str, prioritized: bool, framed: bool, rng: random.Random, trials: int, first_lap: bool = False
    ) -> None:
        self.rng, self.prioritized = rng, prioritized
        sizes = [(NARROW, 64), (NARROW, 100), (NARROW, 256), (WIDE, 64), (WIDE, 100)]
        self.width, self.capacity = (FRAMED, rng.choice([64, 100, 256])) if framed else rng.choice(sizes)
        self.rows_a_call = rng.choice([1, 3, 20])
        # The most slots that one process can hold: those of its chunk, and of a chunk that it is reclaiming.
        self.held = 2 * max(1, self.capacity // 64)
        self.sequence = rng.choice([0, 2, 4]) if not first_lap else rng.choice([0, 2])  # steps
        options = certified.options(self.width, self.sequence) | ({"alpha": 1.0, "eps": 0.0} if prioritized else {})
        kind = MPPrioritizedReplayBuffer if prioritized else MPReplayBuffer
        self.buffer = kind(self.capacity, certified.env_dict(self.width), lock=lock, **options)
        self.guests, self.next_guest = 2 * trials, 0
        self.few = self.capacity // 8  # the number of rows that the survivors add at a time in the first lap
        self.begins_with = rng.choice([0, self.few]) if first_lap else SURVIVORS * self.capacity

    @contextmanager
    def with_survivors(self) -> Iterator[None]:
        shape = (self.width, self.rows_a_call, BATCH, self.prioritized)
        with fleet(self.buffer, SURVIVORS, 1, *shape, guests=self.guests) as survivors:
            self.board = survivors.board
            survivors.start(quota=self.begins_with // SURVIVORS)
            survivors.wait_until_idle()
            self.survivors = survivors
            yield

    def spawn(self, explores: bool, arm: Callable[[], None]) -> Victim:
        number = self.next_guest + (SURVIVORS if explores else 1)
        self.next_guest += 1
        order = self.board.order_to_guests
        order[:] = order[0] + 1, FOR_EVER, 1

        def job() -> None:
            arm()
            if explores:
                explore(self.buffer, self.board, order, number, self.width, self.rows_a_call, self.prioritized)
            else:
                learn(self.buffer, self.board, number, BATCH, self.prioritized, Findings())

        return Victim(_fork(job), number)

    def has_rows(self) -> bool:
        """Whether some rows are certainly committed."""
        return bool(self.board.done.any())

    def look(self, due: list[Due], outcome: Outcome, held: int = 0, cut: int | None = None) -> int:
        """Check all rows while no process adds any and stopped ones hold up to `held` slots; return the stored size."""
        with self.survivors.learners_at_rest():
            everything = self.buffer.get_all_transitions()
            drawn = None
            if self.sequence:
                certified.look_at_sequences(self.buffer, everything, outcome.findings, cut)
            elif self.prioritized and len(everything["id"]):
                drawn = self.buffer.sample(certified.DRAWS * len(everything["id"]), beta=1.0)
        certified.look_at_all(everything, self.board.begun, due, outcome.findings, drawn)
        outcome.due += sum(count for _, _, count in due)
        size = self.buffer.get_stored_size()
        # The stored size includes slots that are being overwritten, but not those that are being written for the
        # first time. Before a random moment, the first lap may already have ended.
        in_first_lap = outcome.plan.first_lap and outcome.plan.failpoint != RANDOM_MOMENT
        most = 0 if in_first_lap else held
        if not 0 <= size - len(everything["id"]) <= most:
            outcome.trouble.append(f"stored size {size}, but {len(everything['id'])} rows")
        return size

    def sample(self, outcome: Outcome) -> None:
        has_rows = self.has_rows() and not self.sequence
        began = time.perf_counter()
        try:
            options = {"beta": 1.0} if self.prioritized else {}
            batch, ends = certified.sample(self.buffer, BATCH, outcome.findings, **options)
        except ValueError as error:
            if has_rows:
                outcome.trouble.append(repr(error))
            return
        outcome.longest_sample_ms = max(outcome.longest_sample_ms, (time.perf_counter() - began) * 1e3)
        if self.prioritized:
            self.buffer.update_priorities(batch["indexes"], certified.changed_priorities(ends["id"].ravel()))
            outcome.findings.stale += certified.stale_priorities(ends)
        certified.read(certified.as_rows(batch), self.board.begun, outcome.findings)

    def burst(self, count: int) -> list[Due]:
        """Let the survivors add `count` rows; return which ones."""
        before = self.board.done[:SURVIVORS].copy()
        self.survivors.start(quota=count // SURVIVORS)
        self.survivors.wait_until_idle()
        return [(i, int(n) + 1, int(self.board.done[i] - n)) for i, n in enumerate(before)]


def _fork(job: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            job()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def trial(arena: Arena, plan: Plan) -> Outcome:
    outcome = Outcome(plan)
    with arena.survivors.learners_at_rest() if plan.failpoint[0] == "B" else nullcontext():  # or they would reclaim it
        if plan.failpoint[0] == "B":
            nth = arena.rng.randint(1, 3 if plan.first_lap else 20)
            dead = arena.spawn(True, lambda: failpoints.arm("E5", nth, signal.SIGKILL))
            dead.wait_until_hit(3)
            dead.kill()
        victim = _hit(arena, plan, outcome)
    try:
        for _ in range(3):
            arena.sample(outcome)
        if plan.first_lap:
            arena.survivors.wait_until_idle()
            arena.look(arena.burst(arena.few), outcome, arena.held if victim.alive else 0)
        elif not plan.alone:
            arena.survivors.wait_for_rows(arena.rows_a_call)
            arena.survivors.halt()
        arena.survivors.wait_for_samples()
        arena.look([], outcome, arena.held if victim.alive else 0)
        if victim.alive:
            _while_it_is_stopped(arena, plan, victim, outcome)
            victim.kill()
        _every_slot_comes_back(arena, outcome)
    except (HangError, RuntimeError) as error:
        outcome.trouble.append(repr(error))
    finally:
        victim.kill()
    return outcome


def _hit(arena: Arena, plan: Plan, outcome: Outcome) -> Victim:
    deed = signal.SIGSTOP if plan.stop else signal.SIGKILL
    by_itself = plan.failpoint != RANDOM_MOMENT
    victim = arena.spawn(plan.explores, lambda: failpoints.arm(plan.failpoint, plan.nth, deed) if by_itself else None)
    if not plan.alone:
        arena.survivors.start(*([arena.few // SURVIVORS] if plan.first_lap else []))
    if not by_itself:
        time.sleep(arena.rng.uniform(0, 0.003) if plan.first_lap else arena.rng.uniform(0.001, 0.01))
        os.kill(victim.pid, deed)
    outcome.hit = victim.wait_until_hit(3)
    if not outcome.hit:
        victim.kill()
    return victim


def _while_it_is_stopped(arena: Arena, plan: Plan, victim: Victim, outcome: Outcome) -> None:
    """Check that rows of the others are stored, and remain when the victim continues: it was not lapped."""
    due = arena.burst(arena.few if plan.first_lap else arena.capacity - 2 * arena.held - arena.rows_a_call)
    arena.look(due, outcome, arena.held)
    if plan.then_kill:
        return
    board, number = arena.board, victim.number
    samples = int(board.samples[number]) if not plan.explores else 0
    board.order_to_guests[2] = 0  # the victim ends its current call first
    os.kill(victim.pid, signal.SIGCONT)
    deadline = time.monotonic() + 30
    while board.idle[number] != board.order_to_guests[0] if plan.explores else board.samples[number] == samples:
        if time.monotonic() > deadline:
            raise HangError("the victim does not go on")
        time.sleep(0.0003)
    if not plan.explores:
        victim.kill()  # or it would change priorities during the check
    if plan.explores and plan.alone and board.done[number] > 0:  # less than a lap ago
        due.append((number, int(board.done[number]) - arena.rows_a_call + 1, arena.rows_a_call))
    arena.look(due, outcome)


def _every_slot_comes_back(arena: Arena, outcome: Outcome) -> None:
    """Check that all slots, including those of the dead, are reused, and that a further lap is stored whole."""
    arena.burst(arena.capacity + 2 * arena.held)
    size = arena.look([], outcome)
    if size != arena.capacity:
        outcome.trouble.append(f"{arena.capacity - size} of {arena.capacity} slots did not come back")
    arena.look(arena.burst(arena.capacity), outcome, cut=2 * SURVIVORS)
    arena.sample(outcome)
    findings = arena.survivors.findings()
    if findings.faults():
        outcome.trouble.append(f"the survivors' learner has seen {findings.faults()}")


def run(pipe: Any, lock: str, prioritized: bool, framed: bool, chosen: list[str], seed: int, first_lap: bool) -> None:
    """Run trials at the chosen failpoints in turn. Sends the segment's name, then each plan and its outcome."""
    os.setpgid(0, 0)  # so that the parent can kill the whole group if it receives no more messages
    rng = random.Random(seed)
    arena = Arena(lock, prioritized, framed, rng, len(chosen), first_lap)
    pipe.send(arena.buffer.segment)
    try:
        with arena.with_survivors():
            for failpoint in chosen:
                plan = plan_for(lock, failpoint, rng, first_lap)
                pipe.send(plan)
                outcome = trial(arena, plan)
                pipe.send(outcome)
                if not outcome.is_clean():
                    break
    finally:
        arena.buffer.close()
        pipe.close()
