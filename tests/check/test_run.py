"""A check survives whatever a buffer does, goes on with the next checks, and names the check and the last call."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from suites.check import __main__, check, last_call, output
from suites.check.outcome import CheckVerdict
from suites.check.run import Checked, CouldNotCheck, Report, run
from suites.check.subject import CheckSettings
from suites.check.watching import Limits, Worker, observe

CHECKOUT = Path(__file__).resolve().parents[2]
SETTINGS = CheckSettings(draws=2_000, patience=1.0, seconds=30.0)
PLAIN = """
import os, random, sys, time
import numpy as np

def make(capacity, seed):
    return {"rows": [], "capacity": capacity, "random": random.Random(seed)}

def add(buffer, obs, act, rew, next_obs, done):
    rows = buffer["rows"] + [(obs.copy(), act, np.float32(rew), next_obs.copy(), done)]
    buffer["rows"] = rows[-buffer["capacity"]:]

def sample(buffer, size):
    BEFORE
    rows = buffer["random"].choices(ROWS, k=size)
    return dict(zip(("obs", "act", "rew", "next_obs", "done"), map(np.array, zip(*rows))))

def size(buffer):
    return len(buffer["rows"])
"""
OWN = """
import their_buffer

def make(capacity, seed):
    return their_buffer.make(capacity, seed)

def add(buffer, obs, act, rew, next_obs, done):
    their_buffer.add(buffer, obs, act, rew, next_obs, done)

def sample(buffer, size):
    return their_buffer.sample(buffer, size)

def size(buffer):
    return their_buffer.size(buffer)
"""
ALL_BUT_THE_LAST = 'buffer["rows"][:-1] or buffer["rows"]'


def written(folder: Path, before_sample: str = "pass", at_import: str = "", rows: str = 'buffer["rows"]') -> str:
    source = PLAIN.replace("BEFORE", before_sample).replace("ROWS", rows)
    file = folder / "buffer.py"
    file.write_text(f"{at_import}\n{source}")
    return str(file)


def report_of(file: str, *only: str, settings: CheckSettings = SETTINGS) -> Report:
    return run(Checked(file, only=frozenset(only)), settings)


def test_a_sound_buffer_has_no_faults(tmp_path):
    report = report_of(written(tmp_path), "round_trip", "uniform", "ring_order", "references", "empty")
    assert report and {each.verdict for each in report.outcomes} == {CheckVerdict.PASSED}


def test_checks_that_do_not_apply_do_not_count_as_passed(tmp_path):
    report = report_of(written(tmp_path), "uniform", "prioritized")
    assert [(each.check, each.verdict) for each in report.outcomes] == [
        ("uniform", CheckVerdict.PASSED),
        ("prioritized", CheckVerdict.ABSENT),
    ]
    assert output.summary(report)["made"] == 1


def test_a_fault_that_explains_others_is_their_cause(tmp_path):
    report = report_of(written(tmp_path, rows=ALL_BUT_THE_LAST), "uniform", "ring_order")
    found = {each.check: each for each in report.outcomes}
    assert found["ring_order"].verdict is found["uniform"].verdict is CheckVerdict.FAULT
    assert found["uniform"].cause == "ring_order" and found["ring_order"].cause == ""
    assert [each.check for each in output.roots(report)] == ["ring_order"]


@pytest.mark.parametrize(
    ("does", "evidence"),
    [
        ("os.kill(os.getpid(), 11)", "signal 11 (SIGSEGV), in sample(8)"),
        ("os._exit(0)", "exit status 0, in sample(8)"),
        ("sys.exit(4)", "exit status 4, in sample(8)"),
        ("time.sleep(60)", "sample(8) did not return within 1 s, after make(16, seed=0); 10 x add"),
        ("buffer.setdefault('much', []).append(np.ones(1 << 24))", "more than 0.25 GiB of memory, in sample(8)"),
        (
            "__import__('subprocess').run([sys.executable, '-c', 'much = b\"x\" * (1 << 29); input()'], stdin=-1)",
            "more than 0.25 GiB of memory, in sample(8)",
        ),
        ("raise KeyError('some key')", "KeyError: 'some key'"),
    ],
)
def test_a_crash_a_hang_and_an_exception_are_faults(tmp_path, does, evidence):
    """The wrong call is one that only this check makes: after ten rows were added."""
    seconds = 3.0 if "sleep" in does else 30.0
    settings = CheckSettings(draws=2_000, patience=1.0, seconds=seconds, memory=1 << 28)
    file = written(tmp_path, before_sample=f"if len(buffer['rows']) == 10: {does}")
    report = report_of(file, "ring_order", "references", settings=settings)
    found = {each.check: each for each in report.outcomes}
    assert found["ring_order"].verdict is CheckVerdict.FAULT and found["ring_order"].evidence == evidence
    assert found["references"].verdict in (CheckVerdict.PASSED, CheckVerdict.UNCHECKED)


def test_a_call_that_hangs_in_many_checks_is_one_finding_and_costs_little_time(tmp_path):
    """As in Rainbow's memory, whose draws never end while it holds few rows."""
    file = written(tmp_path, before_sample="while buffer['rows'] and buffer['capacity'] != 8: pass")
    report = report_of(file, "dtype", "shape", "references", "returned_batch", "uniform", "empty")
    found = {each.check: each for each in report.outcomes}
    (root,) = output.roots(report)
    assert root.title == "Every call returns"
    assert root.evidence == "sample(16) did not return within 7.5 s, after make(16, seed=0); 16 x add"
    assert root.check == "dtype" and [each.check for each in output.following(report, root)] == ["shape"]
    assert found["uniform"].verdict is CheckVerdict.UNCHECKED
    assert found["uniform"].evidence == "sample did not return within 0.5 s, and had hung before"
    assert found["empty"].verdict is CheckVerdict.PASSED


SLOW = """
import os, sys, time
from suites.check import last_call
worker, page = (int(each.partition("=")[2]) for each in sys.argv[1:])
last_call.write_to(page)
os.write(worker, b'"ready"\\n"risk"\\n')
for call in range(15):
    last_call.note("sample(8)")
    time.sleep(SECONDS)
os.write(worker, b'{"empty": {}}\\n')
"""


@pytest.mark.parametrize(("seconds", "hung"), [(0.1, False), (60, True)])
def test_slow_calls_after_a_risky_one_are_not_blocked(seconds, hung):
    """JAX compiles a function at its first call, and other processes may use the machine."""
    limits = Limits(patience=0.8, part=100.0, start=60.0)
    worker = Worker([sys.executable, "-c", SLOW.replace("SECONDS", str(seconds))], limits)
    reports, ended = observe(worker, ["empty"], limits, lambda _, end: {"hung": end.hung})
    assert (reports, ended) == ({"empty": {"hung": True} if hung else {}}, hung)
    if not ended:
        worker.end()


@pytest.mark.parametrize(
    ("calls", "before"),
    [
        (["make(8)"], ""),
        (["make(9)", "add", "make(8)", "add", "add", "sample(2)"], "make(8); 2 x add"),
        (["make(8)", "sample(2)", "sample(2)", "sample(2)"], "make(8); 2 x sample(2)"),
        (["make(8)", *["add", "sample(2)"] * 4], "make(8); ...; add; sample(2); add"),
    ],
)
def test_calls_before_the_last_one_are_those_of_its_buffer(monkeypatch, calls, before):
    page = last_call.shared()
    monkeypatch.setattr(last_call, "_page", None)  # set by write_to
    last_call.write_to(page)
    for call in calls:
        last_call.note(call)
    assert (last_call.read(page), last_call.before(page)) == (calls[-1], before)
    assert last_call.in_progress(page)
    last_call.returned()
    assert not last_call.in_progress(page)


def test_pages_that_forked_children_share_count_once(tmp_path):
    file = written(
        tmp_path,
        at_import="import signal; import numpy; much, forked = numpy.ones(1 << 24), []",
        before_sample="if len(forked) < 3: forked.append(os.fork() or signal.pause())",
    )
    report = report_of(file, "uniform", settings=CheckSettings(draws=2_000, patience=1.0, memory=1 << 28))
    assert report and report.outcomes[0].verdict is CheckVerdict.PASSED


def test_output_of_a_buffer_changes_no_outcome(tmp_path):
    report = report_of(written(tmp_path, before_sample="print('{}', flush=True)"), "uniform")
    assert report and report.outcomes[0].verdict is CheckVerdict.PASSED


def test_children_of_a_buffer_do_not_outlive_the_check(tmp_path):
    file = written(tmp_path, at_import="import subprocess; child = subprocess.Popen(['sleep', '3612.25'])")
    assert report_of(file, "uniform")
    assert not subprocess.run(["pgrep", "-f", "sleep 3612.25"], capture_output=True).stdout


@pytest.mark.parametrize(
    ("check", "at_import", "before_sample"),
    [
        ("ring_order", "import subprocess; child = subprocess.Popen(['sleep', '3612.5'])", "pass"),
        ("spawned_workers", "", "if len(buffer['rows']) == buffer['capacity']: os._exit(3)"),
    ],
)
def test_script_that_leaves_processes_or_loses_them_ends(tmp_path, monkeypatch, check, at_import, before_sample):
    monkeypatch.setattr("suites.check.run.SCRIPT_SECONDS", 10.0)
    rows = ALL_BUT_THE_LAST if check == "ring_order" else 'buffer["rows"]'
    written(tmp_path, before_sample, at_import, rows)
    (tmp_path / "buffer.py").rename(tmp_path / "their_buffer.py")
    (tmp_path / "own.py").write_text(OWN)
    (found,) = report_of(str(tmp_path / "own.py"), check).outcomes
    assert found.script, found.evidence
    assert not subprocess.run(["pgrep", "-f", "sleep 3612.5"], capture_output=True).stdout


@pytest.mark.parametrize(
    ("at_import", "said"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("os._exit(5)", "exit status 5"),
        ("much = np.ones(1 << 28)\nwhile True: pass", "more than 1 GiB of memory"),
        ("del make; make = None", "lacks make"),
        ("def make(capacity): raise TypeError('needs a space')\nmade = make", ""),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, at_import, said):
    source = tmp_path / "buffer.py"
    source.write_text(PLAIN + f"\n{at_import}\n")
    with pytest.raises(CouldNotCheck, match=said.replace("(", r"\(") or "needs a space"):
        report_of(str(source), "uniform", settings=replace(SETTINGS, memory=1 << 30))


@pytest.mark.parametrize("through", [None, sys.executable])
def test_a_missing_file_is_named(tmp_path, through):
    with pytest.raises(CouldNotCheck, match=r"existing Python file, got '.*missing\.py'"):
        run(Checked(str(tmp_path / "missing.py"), through=through), SETTINGS)


def test_a_trial_that_fails_deep_in_a_library_names_the_line_of_the_file(tmp_path):
    deep = "def dig(left):\n    return dig(left - 1) if left else {}['no row']"
    (tmp_path / "library.py").write_text(deep)
    file = written(tmp_path, before_sample="dig(5)", at_import="from library import dig")
    with pytest.raises(CouldNotCheck, match=r"buffer.py, line \d+, in sample, as a few rows(.|\n)*KeyError: 'no row'"):
        report_of(file)


def test_a_trial_of_a_family_that_fails_names_the_call_and_shows_a_file_to_fill_in(tmp_path):
    source = "import random\nclass Ring:\n    def __init__(self, size): ...\n"
    source += "    def add(self, obs, action, reward, next_obs, done): ...\n"
    (tmp_path / "their_ring.py").write_text(source + "    def sample(self, batch_size): random.choice([])\n")
    with pytest.raises(CouldNotCheck) as error:
        run(Checked("their_ring:Ring", project=tmp_path), SETTINGS)
    said = str(error.value)
    assert re.search(r"^Ring is called like .*\nsample raised IndexError: .*their_ring.py, line 5, in sample", said)
    assert "Traceback" not in said and "docs/check-own-api.md" in said and "return Buffer(size)" in said


def test_a_trial_that_does_not_return_names_its_last_call(tmp_path):
    with pytest.raises(CouldNotCheck, match="exit status 3, in sample"):
        report_of(written(tmp_path, before_sample="os._exit(3)"))


def test_rows_of_batches_are_no_evidence_where_batches_cannot_be_added(tmp_path):
    (found,) = report_of(written(tmp_path), "references").outcomes
    assert "rows added with add had changed" in found.evidence


def test_a_class_in_main_or_in_a_function_is_refused():
    class Local:
        pass

    with pytest.raises(ValueError, match="buffer must be importable by its name"):
        check(Local)


def test_the_command_writes_every_form_of_the_report(tmp_path):
    file = written(tmp_path, rows=ALL_BUT_THE_LAST)
    command = [sys.executable, "-m", "suites.check", file, "--only=uniform,prioritized,empty", "--quick"]
    done = subprocess.run([*command, f"--out={tmp_path}/out"], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "✗ Every stored row is equally likely: uneven" in done.stdout
    assert "faults: 1, hazards: 0, not applicable: 1" in done.stdout
    said = json.loads((tmp_path / "out" / "check.json").read_text())
    assert said["summary"]["fault"] == 1 and [each["check"] for each in said["checks"]] == [
        "uniform",
        "prioritized",
        "empty",
    ]
    suite = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert "1 of 2" in (tmp_path / "out" / "badge.svg").read_text()
    assert "| ✗ fault |" in (tmp_path / "out" / "check.md").read_text()


def test_a_buffer_too_slow_for_any_check_is_not_free_of_faults(tmp_path, monkeypatch):
    file = written(tmp_path, before_sample="time.sleep(0.3)")
    monkeypatch.setattr(__main__, "run", lambda checked, *_: run(checked, replace(SETTINGS, seconds=0.5)))
    monkeypatch.setattr(sys, "argv", ["check", file, "--only=uniform", f"--out={tmp_path}/out"])
    assert __main__.main() == 2


def test_the_report_of_an_earlier_check_does_not_stay_after_one_that_fails(tmp_path):
    command = [sys.executable, "-m", "suites.check", written(tmp_path, rows=ALL_BUT_THE_LAST), "--only=ring_order"]
    written_to = [*command, "--quick", f"--out={tmp_path}/out"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    assert subprocess.run(written_to, cwd=CHECKOUT, capture_output=True).returncode == 1
    written(tmp_path, at_import="import no_such_module")
    assert subprocess.run(written_to, cwd=CHECKOUT, capture_output=True).returncode == 2
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_the_printed_command_repeats_a_finding(tmp_path):
    written(tmp_path, rows=ALL_BUT_THE_LAST)
    (tmp_path / "buffer.py").rename(tmp_path / "their_buffer.py")
    (tmp_path / "own.py").write_text(OWN)
    command = [
        sys.executable,
        "-m",
        "suites.check",
        str(tmp_path / "own.py"),
        "--only=ring_order,stored_rows",
        "--quick",
    ]
    done = subprocess.run([*command, f"--out={tmp_path}/out"], cwd=CHECKOUT, capture_output=True, text=True)
    said = re.search(r"^to repeat a finding: (PYTHONPATH=.*\.py)$", done.stdout, re.M)
    assert said is not None, done.stdout
    repeated = subprocess.run(said[1], shell=True, cwd=CHECKOUT, capture_output=True, text=True)
    assert repeated.returncode == 1 and "AssertionError" in repeated.stderr, repeated.stderr


PREPARED = """
import os, sys
import numpy as np

sys.path.append(os.path.join(os.path.dirname(__file__), "old"))
np.float = float
import their_buffer

generator = np.random.default_rng(0)
names = ("obs", "act", "rew", "next_obs", "done")

def as_reward(value):
    return np.float32(np.float(value))

def make(capacity):
    return {"rows": [], "capacity": capacity, "random": generator}

def add(buffer, obs, act, rew, next_obs, done):
    their_buffer.add(buffer, obs, act, *map(as_reward, [rew]), next_obs, done)

def sample(buffer, size):
    return {name: values for name, values in their_buffer.sample(buffer, size).items() if name in names}

def size(buffer):
    return their_buffer.size(buffer)
"""


def test_a_script_does_what_the_file_does_at_its_import(tmp_path):
    """Otherwise it would fail for a sound buffer, too."""
    (tmp_path / "own.py").write_text(PREPARED)
    their = tmp_path / "old" / "their_buffer.py"
    their.parent.mkdir()
    program, failures = "", []
    for rows in (ALL_BUT_THE_LAST, 'buffer["rows"]'):
        source = Path(written(tmp_path, rows=rows)).read_text().replace("choices(", "choice(").replace("k=", "size=")
        their.write_text(f"{source}\nnp.float(0)\n".replace(f"choice({rows}", f"choice(np.array({rows}, object)"))
        program = program or report_of(str(tmp_path / "own.py"), "ring_order").outcomes[0].script
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        failures.append(done.stderr.splitlines()[-1].partition(":")[0] if done.returncode else "")
    assert failures == ["AssertionError", ""], program


def test_a_script_that_fails_for_another_reason_is_not_shown(tmp_path, monkeypatch):
    """The file finds the module in a folder that is relative to the one in which the check was started."""
    written(tmp_path, rows=ALL_BUT_THE_LAST)
    (tmp_path / "old").mkdir()
    (tmp_path / "buffer.py").rename(tmp_path / "old" / "their_buffer.py")
    (tmp_path / "own.py").write_text(f"import sys\nsys.path.append('old')\n{OWN}")
    monkeypatch.chdir(tmp_path)
    (found,) = report_of(str(tmp_path / "own.py"), "ring_order").outcomes
    assert found.verdict is CheckVerdict.FAULT and not found.script


def test_checks_without_an_outcome_for_one_reason_share_a_line(tmp_path):
    report = report_of(written(tmp_path), "uniform", "empty", "seed", settings=replace(SETTINGS, seconds=0.0))
    table = io.StringIO()
    output.table(report, table)
    unchecked = [line for line in table.getvalue().splitlines() if line.startswith("?")]
    assert len(unchecked) == 1 and unchecked[0].endswith("seed, empty: no time was left")


def test_an_unknown_check_is_refused(tmp_path):
    command = [sys.executable, "-m", "suites.check", written(tmp_path), "--only=unifrom"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 2 and "check must be one of" in done.stderr


def test_an_unknown_check_is_refused_by_the_function():
    """A report without outcomes would be true."""
    with pytest.raises(CouldNotCheck, match=r"check must be one of .*, got unifrom"):
        check("buffer:Ring", only=("unifrom",))


def test_a_test_of_another_project_checks_its_buffer_in_one_line(tmp_path):
    source = "def test_replay(check_buffer):\n    check_buffer('buffer.py', only=('uniform', 'empty'), draws=2_000)\n"
    (tmp_path / "test_mine.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "suites.check.plugin", "-p", "no:cacheprovider"]
    for rows, status, said in (('buffer["rows"]', 0, "1 passed"), (ALL_BUT_THE_LAST, 1, "Every stored row is equally")):
        written(tmp_path, rows=rows)
        more = {"PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **more})
        assert done.returncode == status and said in done.stdout, done.stdout


def test_an_interrupted_check_leaves_no_process(tmp_path):
    hangs = f"os.makedirs({str(tmp_path)!r} + '/pids/' + str(os.getpid())); time.sleep(60)"
    command = [sys.executable, "-m", "suites.check", written(tmp_path, hangs), f"--out={tmp_path / 'out'}"]
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs and their children ignore it
    with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGINT, before)
        while not (pids := [*tmp_path.glob("pids/*")]) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130 and process.stderr.read() == "interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0].name), 0)
