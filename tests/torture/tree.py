"""The coordinator of a random sequence: it runs the steps, tracks what each process has open, and ends them all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

from .fleet import HangError
from .member import BUFFERS, OWN, WRITERS, Kind, Member, MemberError

GONE_WITHIN = 20  # time limit in seconds for watchdogs to remove segments and to end


class SequenceError(Exception):
    """A sequence revealed a fault."""


@dataclass
class Peer:
    """A member as seen by the coordinator."""

    number: int
    pid: int
    pipe: Connection
    buffers: set[int] = field(default_factory=set)
    busy: tuple[int, str] | None = None
    stopped: bool = False
    asked: str = ""  # the request that has not been answered

    def is_able(self) -> bool:
        return not self.stopped and not self.asked


@dataclass
class Made:
    kind: Kind
    segment: str
    maker: int
    named: bool | None = True  # None: it may be removed at any moment


class Tree:
    def __init__(self, folder: Path, limit: float) -> None:
        self.folder, self.limit = folder, limit
        self.members: dict[int, Peer] = {}
        self.buffers: dict[int, Made] = {}
        self.pids: list[int] = []
        (folder / "begun").write_bytes(bytes(8 * BUFFERS * WRITERS))
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(folder / "socket"))
        self.door.listen(16)
        self.door.settimeout(limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.door.close()

    # Which steps are possible.

    def can(self, step: tuple) -> bool:
        return getattr(self, f"_can_{step[0]}")(*step[1:])

    def _has(self, number: int, buffer: int | None = None) -> bool:
        member = self.members.get(number)
        return member is not None and member.is_able() and (buffer is None or buffer in member.buffers)

    def _waits_for_nobody(self, number: int, calls: tuple = ()) -> bool:
        """Return whether the member, if stopped now, would block no other; with a lock it would, by design."""
        inside = {call[2] for call in calls if call[0] == number}
        inside |= {self.members[number].busy[0]} if self.members[number].busy else set()
        return all(self.buffers[buffer].kind.lock in ("none", OWN) for buffer in inside)

    def _can_new(self, number):
        return number not in self.members

    _can_spawn = _can_new

    def _can_fork(self, number, child):
        return self._has(number) and child not in self.members

    def _can_make(self, number, buffer, kind):
        return self._has(number) and buffer not in self.buffers

    def _can_attach(self, number, buffer):
        return self._has(number) and self._is_shared(buffer) and not self._has(number, buffer)

    def _can_hand(self, giver, number, buffer):
        shared = self._is_shared(buffer)
        return shared and self._has(giver, buffer) and self._has(number) and not self._has(number, buffer)

    def _is_shared(self, buffer):
        return buffer in self.buffers and self.buffers[buffer].kind.lock != OWN

    def _can_calls(self, calls, deed):
        for number, name, buffer, *_ in calls:
            if not self._has(number, buffer) or (name == "add" and self._is_played(number, buffer)):
                return False
            if name == "close" and self._is_busy_with(number, buffer):
                return False
        return deed is None or (
            self._has(deed[0]) and (deed[1] == "kill" or (self._may_stop() and self._waits_for_nobody(deed[0], calls)))
        )

    def _is_busy_with(self, number, buffer):
        busy = self.members[number].busy
        return busy is not None and busy[0] == buffer

    def _is_played(self, number, buffer):
        """Return whether another thread adds: the steps of a window must belong to one episode."""
        return self.members[number].busy == (buffer, "add") and self.buffers[buffer].kind.steps > 1

    def _can_busy(self, number, buffer, what):
        return self._has(number, buffer) and self.members[number].busy is None

    def _can_halt(self, number):
        return self._has(number) and self.members[number].busy is not None

    def _can_kill(self, number):
        return number in self.members

    def _may_stop(self):
        return sum(member.stopped for member in self.members.values()) < 2

    def _can_stop(self, number):
        return self._has(number) and self._may_stop() and self._waits_for_nobody(number)

    def _can_cont(self, number):
        return number in self.members and self.members[number].stopped

    def _can_end(self, number, closes):
        return self._has(number)

    def _can_wait(self, seconds):
        return True

    def _can_rest(self, buffer):
        return buffer in self.buffers and any(buffer in member.buffers for member in self.members.values())

    # Executing steps.

    def take(self, step: tuple) -> None:
        getattr(self, f"_take_{step[0]}")(*step[1:])

    def _take_new(self, number):
        pid = os.fork()
        if pid == 0:
            for member in self.members.values():
                member.pipe.close()
            self.door.close()
            Member(number, self.folder).run_and_exit()
        self._welcome(number)

    def _take_spawn(self, number):
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-m", "tests.torture.member"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        started = subprocess.Popen([*command, str(self.folder), str(number)], env=environment)
        started.returncode = 0  # it is reaped together with all others
        self._welcome(number)

    def _take_fork(self, number, child):
        self._ask(number, "fork", child)
        self._welcome(child, f"forked by {number}")
        self._answer(number)
        self.members[child].buffers = set(self.members[number].buffers)

    def _welcome(self, number: int, whose: str = "") -> None:
        try:
            caller, _ = self.door.accept()
        except TimeoutError:
            raise self._hang(f"member {number}, {whose or 'new'}, does not begin") from None
        pipe = Connection(caller.detach())
        answered, pid = pipe.recv()
        assert answered == number
        self.members[number] = Peer(number, pid, pipe)
        self.pids.append(pid)

    def _take_make(self, number, buffer, kind):
        segment = self._call(number, "make", buffer, Kind(*kind))
        self.buffers[buffer] = Made(Kind(*kind), segment, number)
        self.members[number].buffers.add(buffer)

    def _take_attach(self, number, buffer):
        made = self.buffers[buffer]
        self._found(number, buffer, self._call(number, "attach", buffer, made.kind, made.segment))

    def _take_hand(self, giver, number, buffer):
        pickled = self._call(giver, "dumps", buffer)
        self._found(number, buffer, self._call(number, "loads", buffer, self.buffers[buffer].kind, pickled))

    def _found(self, number: int, buffer: int, found: bool) -> None:
        named = self.buffers[buffer].named
        if named is not None and found != named:
            raise SequenceError(f"buffer {buffer} can {'' if found else 'not '}be attached to")
        if found:
            self.members[number].buffers.add(buffer)

    def _take_calls(self, calls, deed):
        for number, name, buffer, *args in calls:
            self._ask(number, name, buffer, *args)
            if name == "close" and self.buffers[buffer].maker == number:
                self.buffers[buffer].named = None  # until it answers; it may be stopped before that
        if deed is not None:
            time.sleep(deed[2])
            self.take((deed[1], deed[0]))
        for number, name, buffer, *_ in calls:
            member = self.members.get(number)
            if member is None or member.stopped:
                continue
            self._answer(number)
            if name == "close":
                self._closed(number, buffer)

    def _closed(self, number: int, buffer: int) -> None:
        self.members[number].buffers.discard(buffer)
        if self.buffers[buffer].maker == number:
            self.buffers[buffer].named = False

    def _take_busy(self, number, buffer, what):
        self._call(number, "start", buffer, what)
        self.members[number].busy = buffer, what

    def _take_halt(self, number):
        self._call(number, "halt")
        self.members[number].busy = None

    def _take_kill(self, number):
        os.kill(self.members[number].pid, signal.SIGKILL)
        self._left(number)

    def _left(self, number: int) -> None:
        self.members.pop(number).pipe.close()
        for made in self.buffers.values():
            if made.maker == number and made.named:
                made.named = None

    def _take_stop(self, number):
        os.kill(self.members[number].pid, signal.SIGSTOP)
        self.members[number].stopped = True

    def _take_cont(self, number):
        member = self.members[number]
        os.kill(member.pid, signal.SIGCONT)
        member.stopped = False
        if asked := member.asked:
            self._answer(number)
            if asked[0] == "close":
                self._closed(number, asked[1])

    def _take_end(self, number, closes):
        member = self.members[number]
        if member.busy:
            self._take_halt(number)
        for buffer in sorted(member.buffers) if closes else ():
            self._call(number, "close", buffer)
            self._closed(number, buffer)
        member.pipe.send(("end", ()))
        if not wait([member.pipe], self.limit):
            raise self._hang(f"member {number} does not end")
        with suppress(EOFError, ConnectionResetError):
            member.pipe.recv()
        self._left(number)

    def _take_wait(self, seconds):
        time.sleep(seconds)

    def _take_rest(self, buffer):
        """Check, while no other call runs, that all added rows are stored and that all processes see the same rows."""
        for number in [n for n, member in self.members.items() if member.stopped]:
            self._take_cont(number)
        for number in [n for n, member in self.members.items() if member.busy]:
            self._take_halt(number)
        users = [number for number, member in self.members.items() if buffer in member.buffers]
        count = max(1, self.buffers[buffer].kind.capacity // 2 // len(users))
        if not self._is_shared(buffer):
            for number in users:
                self._call(number, "look_at_rest", buffer, [self._call(number, "add", buffer, count)])
            return
        before = {self._call(number, "look_at_rest", buffer, []) for number in users}
        for number in users:
            self._ask(number, "add", buffer, count)
        due = [self._answer(number) for number in users]
        after = {self._call(number, "look_at_rest", buffer, due) for number in users}
        if len(before) > 1 or len(after) > 1:
            raise SequenceError(f"of buffer {buffer} processes see different rows: {before}, then {after}")

    # Requests and answers.

    def _call(self, number: int, name: str, *args: Any) -> Any:
        self._ask(number, name, *args)
        return self._answer(number)

    def _ask(self, number: int, name: str, *args: Any) -> None:
        member = self.members[number]
        member.asked = name, *args
        with suppress(BrokenPipeError):  # the process has ended, which the missing answer shows
            member.pipe.send((name, args))

    def _answer(self, number: int) -> Any:
        member = self.members[number]
        if not member.pipe.poll(self.limit):
            raise self._hang(f"member {number}, process {member.pid}: {member.asked} takes more than {self.limit} s")
        try:
            answer = member.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise SequenceError(f"member {number} is gone, in {member.asked}\n{self._stacks(number)}") from None
        asked, member.asked = member.asked, ""
        if isinstance(answer, MemberError):
            raise SequenceError(f"member {number}, {asked}: {answer}")
        return answer

    def _hang(self, what: str) -> HangError:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGUSR1)
        time.sleep(1)
        numbers = sorted(int(path.name.partition("-")[2]) for path in self.folder.glob("stacks-*"))
        return HangError("\n".join([what, *(f"member {number}:\n{self._stacks(number)}" for number in numbers)]))

    def _stacks(self, number: int) -> str:
        path = self.folder / f"stacks-{number}"
        return path.read_text() if path.exists() else ""

    # Ending.

    def end_all(self) -> None:
        """End every process, then check that nothing is left."""
        for number in [n for n, member in self.members.items() if member.stopped]:
            self._take_cont(number)
        for number in [*self.members]:
            self._take_end(number, number % 2 == 0)
        self._wait_for_processes()
        self._wait_for_segments()

    def _wait_for_processes(self) -> None:
        """Wait for all processes that ours left behind, including watchdogs: they became children of this process."""
        deadline = time.monotonic() + GONE_WITHIN
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid and os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
                    raise SequenceError(f"process {pid} ended with signal {os.WTERMSIG(status)}")
                if not pid:
                    if time.monotonic() > deadline:
                        raise SequenceError("processes are left: " + _children())
                    time.sleep(0.002)
        except ChildProcessError:
            return

    def _wait_for_segments(self) -> None:
        deadline = time.monotonic() + GONE_WITHIN
        while left := [path for pid in self.pids for path in Path("/dev/shm").glob(f"cpprb_impl-{pid}-*")]:
            if time.monotonic() > deadline:
                raise SequenceError(f"segments are left: {left}")
            time.sleep(0.01)

    def kill_all(self) -> None:
        """Kill every process after a failure."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(SequenceError):
            self._wait_for_processes()


def _children() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(f"{path.parent.name} {(path.parent / 'cmdline').read_bytes()!r}")
    return ", ".join(found)
