"""Tables of run files contain each sample once; medians, intervals and ratios follow their definitions."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from results import REFERENCE, BadRecord, Run, frames, load, machine, save
from results.machine import processor

from .test_record import WORKLOAD

README = Path(frames.__file__).with_name("README.md")
QUICK = REFERENCE / "2core-intel-xeon-20261122-quick.json"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def run_of(cells: dict[tuple[str, int], list[float]], better: str = "lower", calls: int | None = None) -> Run:
    """Return a SYNTHETIC run of one benchmark, with a cell per (peer, batch) and these values in blocks 0, 1, ..."""
    run = Run(kind="bench", profile="test", revision="unknown", command="test", machine=machine.describe())
    run.add_workload(**WORKLOAD)
    for peer in dict.fromkeys(peer for peer, _ in cells):
        run.add_peer(peer, "1.0", "as documented")
    for (peer, batch), values in cells.items():
        record = run.cell(
            suite="throughput",
            benchmark="add",
            peer=peer,
            workload="CartPole-v1",
            params={"batch": batch, "capacity": 1000},
            unit="s/transition" if better == "lower" else "transitions/s",
            better=better,
        )
        for block, value in enumerate(values):
            if not math.isnan(value):
                record.add_sample(block, value, calls)
    run.finish()
    return run


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a run through a file."""

    def read(run: Run, name: str = "run") -> pd.DataFrame:
        save(tmp_path / f"{name}.json", run)
        return frames.read(tmp_path / f"{name}.json")

    return read


def test_each_sample_and_each_parameter_has_its_column(read):
    run = run_of({("cpprb", 1): [1.0, 2.0], ("cpprb[MP]", 100): [3.0]})
    table = read(run)
    assert table["value"].tolist() == [1.0, 2.0, 3.0]
    assert table["launch"].tolist() == [1, 2, 1]
    assert table["block"].tolist() == [0, 1, 0]
    assert table["param.batch"].tolist() == [1, 1, 100]
    assert table["params"].tolist() == ["batch=1, capacity=1000"] * 2 + ["batch=100, capacity=1000"]
    assert table[["library", "variant"]].values.tolist() == [["cpprb", ""]] * 2 + [["cpprb", "MP"]]
    assert set(table["machine"]) == {processor(run.machine)}
    assert set(table["date"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")) == {run.started}


def test_a_cell_without_samples_is_a_row_with_its_reason(read):
    run = run_of({("cpprb", 1): [1.0], ("rlox", 1): []})
    run.records[1].fail("failed", "it crashed")
    row = read(run).iloc[1]
    assert (row["peer"], row["status"], row["reason"]) == ("rlox", "failed", "it crashed")
    assert math.isnan(row["value"]) and row["launch"] is pd.NA
    assert set(frames.figures(read(run))["peer"]) == {"cpprb"}


def test_a_withdrawn_cell_is_read_but_has_no_figure_and_no_ratio(read):
    run = run_of({("cpprb", 1): [2.0], ("rlox", 1): [1.0]})
    assert set(frames.ratios(read(run))["peer"]) == {"cpprb", "rlox"}
    record = run.records[1]
    record.status, record.reason, record.invalidated_at = "invalidated", "measured wrongly", "0123456"
    table = read(run)
    assert "rlox" in set(table["peer"])
    assert set(frames.figures(table)["peer"]) == set(frames.ratios(table)["peer"]) == {"cpprb"}


@pytest.mark.parametrize(
    ("launches", "low", "high", "confidence"),
    # Ranks from a table of order statistics for a median (Hahn and Meeker 1991, table A.15a).
    [(1, 1, 1, 0.0), (3, 1, 3, 0.75), (5, 1, 5, 0.9375), (6, 1, 6, 0.96875), (9, 2, 8, 0.9609375), (20, 6, 15, 0.9586)],
)
def test_an_interval_has_the_ranks_that_belong_to_its_number_of_launches(read, launches, low, high, confidence):
    values = np.random.default_rng(3).permutation(np.arange(1.0, launches + 1)).tolist()
    figure = frames.figures(read(run_of({("cpprb", 1): values}))).iloc[0]
    assert (figure["low"], figure["high"]) == (low, high)
    assert figure["value"] == statistics.median(values)
    assert figure["launches"] == launches
    assert figure["confidence"] == pytest.approx(confidence, abs=5e-5)


def test_an_interval_contains_the_median_with_its_stated_probability(read):
    draws = np.random.default_rng(1).exponential(size=(1500, 9))  # a skewed distribution, whose median is log(2)
    table = read(run_of({("cpprb", number + 1): values.tolist() for number, values in enumerate(draws)}))
    found = frames.figures(table)
    inside = ((found["low"] <= math.log(2)) & (math.log(2) <= found["high"])).mean()
    assert inside == pytest.approx(found["confidence"].iloc[0], abs=0.02)


@pytest.mark.parametrize(("better", "expected"), [("lower", [2.0, 3.0]), ("higher", [0.5, 1 / 3])])
def test_a_ratio_is_taken_within_a_block_and_is_above_1_if_faster(read, better, expected):
    # The slow block 1 affects both peers; block 2 has a sample of only one peer.
    table = read(run_of({("cpprb", 1): [2.0, 30.0, 2.0], ("rlox", 1): [1.0, 10.0, math.nan]}, better))
    found = frames.ratios(table, "cpprb").set_index("peer").loc["rlox"]
    assert (found["value"], found["launches"]) == (pytest.approx(sum(expected) / 2), 2)
    assert [found["low"], found["high"]] == pytest.approx(sorted(expected))


def test_a_ratio_to_a_reference_with_few_calls_is_a_lower_bound(read):
    cells = {("cpprb", 1): [2.0, 2.0], ("rlox", 1): [1.0, 1.0]}
    for calls, is_bound in ((None, False), (1000, False), (999, True)):
        found = frames.ratios(read(run_of(cells, calls=calls))).set_index("peer")
        assert found["is_bound"].to_dict() == {"cpprb": False, "rlox": is_bound}


def test_jobs_without_their_reference_have_no_ratio(read):
    table = read(run_of({("cpprb", 1): [2.0], ("rlox", 1): [1.0], ("rlox", 100): [1.0]}))
    assert frames.ratios(table)["params"].unique().tolist() == ["batch=1, capacity=1000"]
    assert frames.ratios(table, "rlox")["params"].nunique() == 2
    assert frames.ratios(table, "unknown").empty


def test_the_same_job_of_two_runs_remains_separate(read):
    one = read(run_of({("cpprb", 1): [1.0], ("rlox", 1): [1.0]}), "one")
    two = read(run_of({("cpprb", 1): [4.0], ("rlox", 1): [2.0]}), "two")
    found = frames.ratios(pd.concat([one, two])).set_index(["run", "peer"])["value"]
    assert (found["one", "rlox"], found["two", "rlox"]) == (1.0, 2.0)


def control_run(first: list[float], second: list[float]) -> Run:
    """Return a SYNTHETIC run with a control whose second call takes a hundred times as long as its first call."""
    run = run_of({("cpprb", 1): [7.0]})
    for call, factor in (("add", 1), ("sample", 100)):
        for side, values in (("first", first), ("second", second)):
            where = {"suite": "control", "benchmark": call, "peer": "cpprb", "workload": "CartPole-v1"}
            record = run.cell(**where, params={"batch": 1, "side": side}, unit="s/call", better="lower")
            for block, value in enumerate(values):
                record.add_sample(block, value * factor)
    return run


def test_a_control_compares_its_sides_within_a_block(read):
    # The slow block 1 affects both sides; block 3 has a sample of only one side.
    (found,) = frames.control(read(control_run([1.0, 9.0, 1.0, 5.0], [1.2, 9.0, 0.9]))).to_dict("records")
    assert (found["run"], found["peer"], found["launches"]) == ("run", "cpprb", 3)
    assert [found["value"], found["low"], found["high"]] == pytest.approx([1.0, 0.9, 1.2])


def test_a_control_ratio_above_1_means_that_the_first_side_is_faster(read):
    (found,) = frames.control(read(control_run([1.0] * 6, [1.1] * 6))).to_dict("records")
    assert found["low"] == pytest.approx(1.1) and found["confidence"] > 0.95


def test_a_run_without_a_control_has_none(read):
    assert frames.control(read(run_of({("cpprb", 1): [1.0]}))).empty


@pytest.mark.parametrize("sides", [([1.0], []), ([], [1.0])], ids=["first", "second"])
def test_a_control_of_one_side_compares_nothing(read, sides):
    assert frames.control(read(control_run(*sides))).empty


def test_two_runs_agree_on_ratios_of_the_second_that_lie_within_the_intervals_of_the_first(read):
    first = {("cpprb", 1): [2.0] * 3, ("rlox", 1): [1.0, 1.1, 1.2], ("tianshou", 1): [1.0, 1.1, 1.2]}
    second = {("cpprb", 1): [2.0] * 3, ("rlox", 1): [1.15] * 3, ("tianshou", 1): [1.4] * 3}
    one, two = read(run_of(first), "one"), read(run_of(second), "two")
    ratios = frames.ratios(pd.concat([one, two]))
    assert frames.agreement(ratios, "one", "two") == frames.Agreement(within=1, widened=1, compared=2)
    # The intervals of this run are points; widened by a fifth, one of the two contains the other ratio.
    assert frames.agreement(ratios, "two", "one") == frames.Agreement(within=0, widened=1, compared=2)


@pytest.mark.parametrize("calls", [None, 10])
def test_bounds_and_ratios_of_two_launches_are_not_compared(read, calls):
    launches = 2 if calls is None else 3
    cells = {("cpprb", 1): [2.0] * launches, ("rlox", 1): [1.0] * launches}
    ratios = frames.ratios(pd.concat([read(run_of(cells, calls=calls), name) for name in ("one", "two")]))
    assert frames.agreement(ratios, "one", "two") == frames.Agreement(0, 0, 0)


def test_the_committed_records_are_read_completely():
    paths = [QUICK, *sorted(REFERENCE.glob("*-s*.json"))]
    table = frames.read(paths)
    runs = [load(path) for path in paths]
    assert table["value"].notna().sum() == sum(len(record.samples) for run in runs for record in run.records)
    assert len(table.drop_duplicates(frames.CELL)) == sum(len(run.records) for run in runs)


@pytest.mark.parametrize("table", frames.TABLES)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_written_as_a_file_and_read_back(tmp_path, capsys, table, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"table.{suffix}"
    assert frames.main([str(QUICK), "--table", table, "--out", str(out)]) == 0
    expected = frames.TABLES[table](frames.read(QUICK))
    back = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert list(back) == list(expected)
    assert back["value"].to_numpy() == pytest.approx(expected["value"].to_numpy(), nan_ok=True)
    assert f"{len(expected):,} rows" in capsys.readouterr().out


def test_the_error_names_unreadable_and_unwritable_files(tmp_path, capsys, read):
    run = run_of({("cpprb", 1): [1.0]})
    save(tmp_path / "a" / "run.json", run)
    save(tmp_path / "b" / "run.json", run)
    (tmp_path / "damaged.json").write_text(QUICK.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    with pytest.raises(BadRecord, match=r"damaged\.json: is not JSON"):
        frames.read([QUICK, tmp_path / "damaged.json"])
    with pytest.raises(BadRecord, match=r"must have different names, got two named run\.json"):
        frames.read([tmp_path / "a" / "run.json", tmp_path / "b" / "run.json"])
    for out, message in (("table.xlsx", "must end in .csv or .parquet"), ("nowhere/table.csv", "nowhere")):
        assert frames.main([str(QUICK), "--out", str(tmp_path / out)]) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / out).exists()


def test_parameters_of_different_types_are_one_column_of_text(read, tmp_path):
    run = run_of({("cpprb", 1): [1.0], ("cpprb", 2): [2.0]})
    run.records[1].params["batch"] = "all"
    table = read(run)
    assert table["param.batch"].tolist() == ["1", "all"]
    frames.write(table, tmp_path / "table.csv")


@pytest.mark.parametrize("example", EXAMPLES, ids=["fastest", "ratios", "reasons"])
def test_the_example_of_the_readme_prints_a_table(example, capsys, monkeypatch):
    monkeypatch.chdir(README.parents[1])
    exec(example, {})
    shown = capsys.readouterr().out
    assert "rlox" in shown and len(shown.splitlines()) > 5


@pytest.mark.parametrize(
    ("values", "low", "high"), [([1.0, 1.1, 1.5], 1.1 / 1.5, 1.1 * 1.5), ([1.0, 1.0, 1.01], 1 / 1.2, 1.2)]
)
def test_the_interval_for_another_run_is_twice_as_wide_and_at_least_a_fifth_to_either_side(read, values, low, high):
    ratios = frames.ratios(read(run_of({("cpprb", 1): [1.0] * 3, ("rlox", 1): [1 / value for value in values]})))
    (found,) = frames.for_another_run(ratios[ratios["peer"] == "rlox"]).to_dict("records")
    assert (found["low"], found["high"]) == (pytest.approx(low), pytest.approx(high))
