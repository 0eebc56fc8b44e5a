"""Jobs as lines of JSON: each is read as it was written, and other lines are refused."""

from __future__ import annotations

import math

import pytest

from suites.apex.spec import REAL, ApexJob
from suites.hosts.spec import UNLIMITED, HostsJob
from suites.runner.jobs import decoded, encoded
from suites.sharing.spec import SharingJob
from suites.throughput.tasks import SizedBenchmark, ThroughputJob

TASK = SizedBenchmark.of("learner_step", adds=4, batch=32)


@pytest.mark.parametrize(
    "job",
    [
        ApexJob("CartPole-v1", 8, 100, 100_000, REAL, 0),
        HostsJob("CartPole-v1", 2, "2.5gbit", 32, "killed"),
        HostsJob("CartPole-v1", 2, UNLIMITED, 32),
        SharingJob("fleet", "CartPole-v1", 2000, 1, 2),
        ThroughputJob(TASK, "my:Env/x-v0", 64, 15),
        ThroughputJob(TASK, "CartPole-v1", 64, math.inf),
    ],
)
def test_a_job_is_read_as_it_is_written(job):
    line = encoded(job)
    read = decoded(type(job), line)
    assert read == job and hash(read) == hash(job) and read.params == job.params and "\n" not in line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("CartPole-v1:8:100", "Expecting value"),
        ("3", "must be an object, got 3"),
        ('{"workload": "CartPole-v1"}', "missing"),
        (
            encoded(ThroughputJob(TASK, "CartPole-v1", 64)).replace("capacity", "size"),
            "unexpected keyword argument 'size'",
        ),
        (
            encoded(ThroughputJob(TASK, "CartPole-v1", 64)).replace("learner_step", "dance"),
            "benchmark must be one of add",
        ),
        (encoded(ThroughputJob(TASK, "CartPole-v1", 64)).replace("64", '"64"'), "must be int, got '64'"),
    ],
)
def test_a_line_that_is_not_a_job_is_refused(line, said):
    with pytest.raises(ValueError, match="job must be the fields of ThroughputJob as JSON, got .*" + said):
        decoded(ThroughputJob, line)


def test_a_kind_of_job_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"kind of job must be one of .*, got 'dance'"):
        SharingJob("dance", "CartPole-v1", 2000, 1, 2)
