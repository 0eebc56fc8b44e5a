import json

import pytest

from adapters.base import Unavailable
from adapters.registry import adapter_class

pytestmark = pytest.mark.slow

SMALL = """
import sys
from suites import reverb_settings as tried
tried.WORKERS, tried.IN_FLIGHT, tried.FLUSHES, tried.BATCHES = (2,), (1,), ((16, 16),), (32,)
tried.WARM_BATCHES = tried.TIMED_BATCHES = 2
sys.exit(tried.main())
"""


@pytest.mark.timeout(120)
def test_every_setting_has_a_figure_for_each_round(surroundings):
    try:
        adapter_class("reverb").version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    out = surroundings.folder / "settings.json"
    done = surroundings.run("-c", SMALL, "--capacity=400", "--rounds=2", f"--out={out}")
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())["figures"]
    assert [(each["benchmark"], each["peer"]) for each in figures] == [
        ("add", "reverb"),
        ("add", "reverb[TrajectoryWriter]"),
        ("add", "reverb[shared chunks]"),
        ("sample", "reverb"),
    ]
    assert all(len(each["rounds"]) == 2 and each["seconds"] > 0 for each in figures)
    assert len(done.stdout.splitlines()) == len(figures)
    assert surroundings.leftovers() == []
