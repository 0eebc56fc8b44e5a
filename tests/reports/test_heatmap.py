"""The first screen: the cells, picture and sentences of the heat map agree with the records."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from reports.answer.heatmap import heat_map, shade_of
from reports.answer.heatmap_svg import PAGES, picture
from reports.answer.sentences import sentences
from reports.answer.shades import SHADES
from reports.figures.formatting import NOTHING
from reports.figures.ratios import Ratio
from reports.sections import context_of
from results.statistics import Figure

from .synthetic_runs import add_apex_job, empty_run, throughput_run
from .synthetic_use import add_shared, use_run

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def run():
    return use_run()


def table(run, title="One process"):
    return next(each for each in heat_map(context_of(run)).tables if each.title == title)


def cell(found, peer, label, group=""):
    place = next(
        place for place, column in enumerate(found.columns) if column.label == label and column.group.startswith(group)
    )
    return next(row for row in found.rows if row.peer == peer).cells[place]


def test_peers_are_rows_and_jobs_are_columns_grouped_by_workload(run):
    found = table(run)
    assert [row.peer for row in found.rows[:2]] == ["cpprb_impl", "cpprb"]
    assert [column.label for column in found.columns] == [
        "step, 10⁵ rows", "step, 10⁶ rows", "add 1", "add 100", "sample 32", "sample, 8 held", "sample beside work",
        "cycle 32", "add 1", "sample 32", "sample 256", "cycle 32", "add 100", "cycle 256",
    ]  # fmt: skip
    assert list(found.groups) == ["CartPole-v1, 46 B", "ALE/Seaquest-v5, 55.1 KiB"]
    shared = table(run, "Many processes")
    assert shared.reference == "cpprb[MP]"
    assert list(shared.groups) == ["Ape-X, 4 explorers", "empty loops, 8 explorers"]


def test_without_variants_one_process_has_a_row_per_library(run):
    one, many = heat_map(context_of(run), with_variants=False).tables
    assert [row.peer for row in one.rows] == [row.peer for row in table(run).rows if "[" not in row.peer]
    assert many.rows == table(run, "Many processes").rows


def test_batch_sizes_of_a_user_workload_have_columns():
    run = use_run()
    own = {1: 2, 100: 50, 32: 64, 256: 512}
    before = [column.label for column in table(run).columns]
    for record in run.records:
        if record.suite == "throughput" and record.benchmark in ("add", "sample", "prioritized"):
            record.params["batch"] = own[record.params["batch"]]
    calls = re.compile(r"^(add|sample|cycle) (\d+)$")
    expected = [calls.sub(lambda call: f"{call[1]} {own[int(call[2])]}", label) for label in before]
    assert [column.label for column in table(run).columns] == expected != before


def test_cells_are_ratios_with_marks_bounds_and_colours(run):
    found, shared = table(run), table(run, "Many processes")
    assert (cell(found, "cpprb_impl", "step, 10⁵ rows").text, cell(found, "cpprb_impl", "step, 10⁵ rows").shade) == (
        "13",
        3,
    )
    assert (cell(found, "cpprb", "add 1").text, cell(found, "cpprb", "add 1").shade) == ("1", 0)
    kept = cell(found, "baselines-style", "add 1", "CartPole")
    assert kept.text.endswith("†") and kept.shade == 4
    assert cell(found, "reverb", "step, 10⁵ rows").shade == -4
    assert cell(shared, "cpprb_impl[lock=none]", "samples").text == f">200{TIMES}"
    assert next(row for row in shared.rows if row.peer == "cpprb[MP]").marks == "✗"


def test_a_call_without_a_batch_has_no_column():
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=1)
    for record in run.records:
        if record.benchmark == "sample" and record.params["batch"] == 32:
            del record.params["batch"]
    assert [column.label for column in table(run).columns] == [
        "add 1",
        "add 100",
        "sample 256",
        "cycle 32",
        "cycle 256",
    ]


@pytest.mark.parametrize("change", [{"samples": [], "status": "left_out"}, {"status": "invalidated"}])
def test_a_cell_without_a_figure_is_hatched(change):
    """A withdrawn figure is not shown, either."""
    changed = use_run(blocks=1)
    (record,) = (each for each in changed.records if (each.peer, each.benchmark) == ("rllib", "sample_held"))
    vars(record).update(change)
    missing = cell(table(changed), "rllib", "sample, 8 held")
    assert (missing.text, missing.css) == (NOTHING, "none")


@pytest.mark.parametrize("theme", PAGES)
def test_the_picture_is_complete_and_deterministic(run, theme):
    heat = heat_map(context_of(run))
    drawn = picture(heat, theme)
    assert drawn == picture(heat_map(context_of(run)), theme)
    texts = [text for element in ElementTree.fromstring(drawn).iter() if (text := (element.text or "").strip())]
    for peer in ("cpprb_impl", "torchrl[shared]", "cpprb[MP] ✗"):
        assert peer in texts
    assert f">200{TIMES}" in texts and "step, 10⁵" in texts


@pytest.mark.parametrize("theme", PAGES)
def test_text_contrasts_enough_with_its_shade(theme):
    """The contrast must be at least 4.5 to 1, the minimum of WCAG for small text."""

    def luminance(color):
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    for name, shade in SHADES.items():
        darker, lighter = sorted(map(luminance, getattr(shade, theme)))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, name


def test_each_kind_of_reader_has_one_sentence(run):
    said = {each.reader: each.text for each in sentences(context_of(run))}
    assert list(said) == [
        "One process, small rows", "One process, large rows", "Many processes",
        "Correctness first",
    ]  # fmt: skip
    among, fastest = said["One process, small rows"].split(", ")[:2]
    assert among == "among the buffers that copy what they add"
    assert fastest == "cpprb_impl is clearly the fastest at 14 of 15 jobs on CartPole-v1"
    assert "; as fast as its best rival, within 10%, at 1" in said["One process, small rows"]
    checked = "cpprb_impl[lock=buffer] clearly has the fastest learner of the buffers that were checked and found sound"
    assert f"in Ape-X with 4 explorers, {checked}" in said["Many processes"]
    assert ". Not checked: cpprb_impl[lock=none]" in said["Many processes"]
    assert "as fast as with cpprb[MP] (unsafe: broken rows in Ape-X, torn rows" in said["Many processes"]
    assert "cpprb[MP] (broken rows in Ape-X" in said["Correctness first"]


def with_work(rates: dict[str, float], blocks: int = 5):
    run = throughput_run(blocks=1)
    add_shared(run)
    for peer, rate in rates.items():
        figures = {"learner": rate, "explorers": 1e4}
        add_apex_job(run, peer, figures, blocks, explorers=4, environment="real", learner="1000 us")
    return run


def many_processes(run) -> str:
    return {each.reader: each.text for each in sentences(context_of(run))}["Many processes"]


def test_a_learner_with_work_is_compared_first_even_if_an_unsafe_rival_is_faster():
    run = with_work({"cpprb[MP]": 300.0, "cpprb_impl[lock=none]": 150.0})
    told = many_processes(run)
    assert "and a learner that works 1 ms between samples, cpprb_impl[lock=none] had the fastest learner" in told
    assert f"without a verdict (too close to call): 0.500{TIMES} (0.500 to 0.500) as fast as with cpprb[MP] (un" in told
    assert f"; without work, 50.5{TIMES} (" in told
    labels = [column.label for column in table(run, "Many processes").columns]
    assert labels[:3] == ["adds", "learner, 1 ms of work", "learner, no work"]


@pytest.mark.parametrize("rates", [{}, {"cpprb_impl[lock=none]": 150.0, "cpprb_impl[lock=buffer]": 100.0}])
def test_a_learner_with_work_is_not_compared_without_a_figure_of_another_library(rates):
    told = many_processes(with_work(rates))
    assert "works" not in told and f": 50.5{TIMES} (" in told


def test_a_variant_does_not_count_as_another_library():
    run = with_work({})
    run.records[:] = [record for record in run.records if record.peer.startswith("cpprb_impl")]
    told = many_processes(run)
    assert "cpprb_impl[lock=none] clearly has the fastest learner" in told
    assert "It was compared with no buffer of another library" in told


def test_without_a_common_block_nothing_is_compared():
    run = with_work({})
    for record in run.records:
        if (record.suite, record.peer) == ("apex", "cpprb_impl[lock=none]"):
            record.samples[:] = [replace(sample, block=90 + sample.block) for sample in record.samples]
    told = many_processes(run)
    assert "cpprb_impl[lock=none] had the fastest learner" in told and "as fast as" not in told


def test_the_heat_map_explains_what_style_means(run):
    assert "-style" in dict(heat_map(context_of(run)).notes)
    others = throughput_run(peers=("cpprb_impl", "cpprb"))
    assert "-style" not in dict(heat_map(context_of(others)).notes)


def test_unmeasured_cells_are_left_out():
    empty, alone = context_of(empty_run()), context_of(throughput_run(blocks=1))
    assert sentences(empty) == [] and heat_map(empty).tables == []
    assert [each.reader for each in sentences(alone)] == ["One process, small rows"]
    shared = throughput_run(blocks=1)
    shared.records.clear()
    add_shared(shared)
    assert [each.title for each in heat_map(context_of(shared)).tables] == ["Many processes"]


@pytest.mark.parametrize(
    ("figure", "shade"),
    [
        (Figure(1.3, 1.2, 1.5, 5), 1),
        (Figure(1.3, 0.9, 1.5, 5), 0),
        (Figure(1.05, 1.04, 1.06, 5), 0),
        (Figure(0.4, 0.3, 0.5, 3), -2),
        (Figure(1.3, 0.9, 1.5, 2), 1),  # figures of two launches have no interval
    ],
)
def test_a_ratio_is_grey_within_10_percent_or_if_its_interval_contains_1(figure, shade):
    assert shade_of(Ratio(figure)) == shade
