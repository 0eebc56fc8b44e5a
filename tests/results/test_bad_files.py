"""A bad run file raises an error that names the file, the record and the field, and says what is wrong."""

import copy
import json

import pytest

from results import BadRecord, load

#: SYNTHETIC: the smallest complete run file; its figures are invented.
GOOD = {
    "schema": "replaybench-run-1",
    "run": {
        "kind": "bench",
        "profile": "quick",
        "started": "2026-11-20T06:30:00Z",
        "finished": None,
        "revision": "0123456+dirty",
        "command": "",
        "interrupted": False,
        "declared": 2,
        "machine": {
            "cpu": "synthetic",
            "cores": 2,
            "memory_bytes": 1,
            "kernel": "k",
            "os": "o",
            "python": "3",
            "numpy": "1",
            "compiler": "c",
        },
    },
    "peers": [{"name": "cpprb", "version": None, "usage": "", "features": {}, "reason": None}],
    "workloads": [
        {
            "name": "CartPole-v1",
            "version": "1",
            "source": "s",
            "transitions": 1,
            "row_bytes": 1,
            "sha256": "0" * 64,
            "fields": {"rew": {"shape": [], "dtype": "float32"}},
        }
    ],
    "records": [
        {
            "suite": "throughput",
            "benchmark": benchmark,
            "peer": "cpprb",
            "workload": "CartPole-v1",
            "params": {"batch": 1},
            "unit": "s/call",
            "better": "lower",
            "status": "ok",
            "reason": None,
            "samples": [{"block": 0, "value": 1.0}, {"block": 1, "value": 2.0}],
        }
        for benchmark in ("add", "sample")
    ],
}
RECORD = r"records\[1\] \(peer cpprb, benchmark sample, workload CartPole-v1\): "


def change(path, value):
    """Return a change to the file, at a path such as "records.1.samples.0.value"; the value `...` deletes the entry."""

    def apply(data):
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            data = data[step]
        if value is ...:
            del data[last]
        else:
            data[last] = value

    return apply


@pytest.fixture
def file(tmp_path):
    def write(*changes):
        data = copy.deepcopy(GOOD)
        for apply in changes:
            apply(data)
        path = tmp_path / "broken.json"
        path.write_text(json.dumps(data))  # NaN and Infinity are written without quotes
        return path

    return write


def test_the_intact_file_is_loaded(file):
    assert len(load(file()).records) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([change("schema", "replaybench-run-0")], "schema: must be 'replaybench-run-1', got 'replaybench-run-0'"),
        ([change("schema", "replaybench-run-2"), change("added", 1)], "schema: must be .*, got 'replaybench-run-2'"),
        ([change("run.kind", "race")], "run.kind: 'race' is not one of bench, gate"),
        ([change("run.started", "yesterday")], "run.started: 'yesterday' does not match"),
        ([change("run.finished", "later")], "run.finished: 'later' is neither a UTC time .* nor null"),
        ([change("run.machine.cores", 0)], "run.machine.cores: 0 is less than the minimum"),
        ([change("run.declared", 1)], "run.declared: 1 is fewer than the 2 records"),
        ([change("run.hostname", "x")], "run: unknown field .'hostname'"),
        ([change("peers", {})], "peers: {} is not of type array"),
        ([change("peers.0.name", ...)], r"peers\[0\]: name: is missing"),
        ([change("peers.0.features.gives", 3)], r"peers\[0\] \(name cpprb\): features.gives: 3 is not of type string"),
        ([change("workloads.0.sha256", "abc")], r"workloads\[0\] \(name CartPole-v1\): sha256: 'abc' does not match"),
        ([change("workloads.0.fields.rew.shape", [0])], r"fields.rew.shape\[0\]: 0 is less than the minimum"),
        ([change("records.1.unit", ...)], RECORD + "unit: is missing"),
        ([change("records.1.status", "fine")], RECORD + "status: 'fine' is not one of ok, failed"),
        ([change("records.1.better", "faster")], RECORD + "better: 'faster' is not one of lower, higher"),
        ([change("records.1.params.batch", None)], RECORD + "params.batch: None is not of type number or string"),
        ([change("records.1.samples.0.value", "1")], RECORD + r"samples\[0\].value: '1' is not of type number"),
        ([change("records.1.samples.0.value", True)], RECORD + r"samples\[0\].value: True is not of type number"),
        ([change("records.1.samples.1.value", -1)], RECORD + r"samples\[1\].value: -1 is less than the minimum of 0"),
        (
            [change("records.1.samples.0.value", float("nan"))],
            RECORD + r"samples\[0\].value: nan is not a finite number",
        ),
        (
            [change("records.1.samples.0.value", float("inf"))],
            RECORD + r"samples\[0\].value: inf is not a finite number",
        ),
        ([change("records.1.samples.0.block", -1)], RECORD + r"samples\[0\].block: -1 is less than the minimum"),
        (
            [change("run.command", "make 'bench")],
            r'run.command: must be a shell command, got "make \'bench" \(No closing quotation\)',
        ),
        ([change("records.1.samples.1.block", 0)], RECORD + "samples: block 0 appears more than once"),
        ([change("records.1.samples", [])], RECORD + 'samples: must not be empty if status is "ok"'),
        ([change("records.1.reason", "none")], RECORD + "reason: 'none' is not of type null"),
        ([change("records.1.status", "failed")], RECORD + "reason: None is not of type string"),
        (
            [change("records.1.status", "failed"), change("records.1.reason", " ")],
            RECORD + 'reason: must say why if status is not "ok"',
        ),
        ([change("records.1.peer", "nobody")], r"records\[1\] \(peer nobody.*\): peer: 'nobody' is not among .*cpprb"),
        ([change("records.1.workload", "Pong")], r"workload: 'Pong' is not among the file's workloads \(CartPole-v1\)"),
        ([change("records.1.benchmark", "add")], r"records\[1\] \(.*\): is the same cell as records\[0\]"),
        (
            [change("records.1.benchmark", "add"), change("records.1.params.batch", 2), change("records.1.unit", "s")],
            r"records\[1\] \(.*\): unit: other records of this benchmark are in s/call",
        ),
        ([change("records.1.samples.0.value", -1), change("run.kind", "race")], r"\(and 1 more\)"),
    ],
)
def test_the_error_names_the_file_the_record_and_the_field(file, changes, message):
    path = file(*changes)
    with pytest.raises(BadRecord, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("listed", ["peers", "workloads"])
def test_a_name_is_listed_once(file, listed):
    path = file(lambda data: data[listed].append(data[listed][0]))
    with pytest.raises(BadRecord, match=rf"{listed}\[1\] \(name .*\): name: already used by {listed}\[0\]"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"a": 1} x', b"[" * 100_000])
def test_invalid_json_is_reported_as_such(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(BadRecord, match=r"broken.json: is not JSON: "):
        load(path)


@pytest.mark.parametrize("content", ["null", "[]", "3", "{}"])
def test_json_that_is_not_a_run_is_refused(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(BadRecord, match=r"broken.json: "):
        load(path)


def test_a_missing_file_raises_the_same_error(tmp_path):
    with pytest.raises(BadRecord, match=r"none.json: cannot be read: No such file"):
        load(tmp_path / "none.json")
