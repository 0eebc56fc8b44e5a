"""The figures in README match the committed records, and the program that writes them accepts any records."""

import pytest

from reports import memory_task, readme
from reports.planning import page as planning
from reports.readme import MARKED, PARTS, Reference, files, generated, references
from results import BadRecord, save

from .synthetic_runs import empty_run, throughput_run
from .synthetic_use import use_run

TIMES = "\N{MULTIPLICATION SIGN}"
BLANK = "".join(f"<!-- generated: {name} -->\n<!-- end -->\n\n" for name in PARTS)


def differing() -> list[str]:
    return [path.name for path, text in files().items() if path.read_text(encoding="utf-8") != text]


def test_readme_and_its_pictures_match_the_records(monkeypatch):
    """If this fails, run make report, and commit what it writes. The next test simulates plans, which takes minutes."""
    page = (readme.ROOT / "docs/planning.md").read_text(encoding="utf-8")
    for name in planning.PARTS:
        monkeypatch.setitem(readme.PARTS, name, lambda _found, name=name: part(page, name).splitlines())
    assert differing() == []


@pytest.mark.slow
def test_the_planning_page_matches_the_records():
    """If this fails, run make report, and commit what it writes."""
    assert differing() == []


def test_the_pages_contain_every_generated_part_once():
    text = "".join((readme.ROOT / name).read_text(encoding="utf-8") for name in readme.PAGES)
    assert sorted(match["name"] for match in MARKED.finditer(text)) == sorted(PARTS)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return (README, its folder) of two synthetic records."""
    root = tmp_path_factory.mktemp("checkout")
    folder = root / "reference"
    quick, survey = use_run(), use_run(blocks=2)
    quick.profile, survey.profile = "quick", "survey"
    save(folder / "a-quick.json", quick)
    save(folder / "a-survey.json", survey)
    (root / "README.md").write_text(f"# Title\n\n{BLANK}Kept as it is.\n", encoding="utf-8")
    wanted = files(root, folder)
    return wanted[root / "README.md"], root, wanted


def part(text, name):
    return next(match["old"] for match in MARKED.finditer(text) if match["name"] == name)


def test_pictures_are_written_in_light_and_dark(written):
    _, root, wanted = written
    assert {path.relative_to(root).as_posix() for path in wanted} == {
        "README.md", "docs/answer-light.svg", "docs/answer-dark.svg",
    }  # fmt: skip
    assert 'srcset="docs/answer-dark.svg"' in part(written[0], "picture")


def test_text_outside_the_markers_is_kept_and_a_second_run_changes_nothing(written):
    text, root, _ = written
    assert text.startswith("# Title\n") and text.endswith("Kept as it is.\n")
    assert generated(text, references(root / "reference")) == text


def test_the_newest_record_of_a_profile_is_used(tmp_path):
    for name, started in (("b", "2026-11-19T06:30:00Z"), ("a", "2026-11-20T06:30:00Z")):
        run = throughput_run(peers=("cpprb",), blocks=1)
        run.profile, run.started = "quick", started
        save(tmp_path / f"{name}.json", run)
    assert references(tmp_path)["quick"].paths[0].name == "a.json"


def test_records_about_one_question_are_merged_only_if_they_are_of_one_machine(tmp_path):
    for name, profile, peers, cpu in (
        ("a", "paired_training", ("cpprb", "cpprb_impl"), "one"),
        ("b", "paired_speed", ("cpprb", "baselines-style"), "one"),
        ("c", "paired_speed", ("cpprb",), "another"),
    ):
        run = throughput_run(peers=peers, blocks=1)
        for record in run.records:
            record.params["step"] = name  # so that the records share no cell
        run.profile, run.machine["cpu"] = profile, cpu
        save(tmp_path / f"{name}.json", run)
    found = references(tmp_path)["paired_training"]
    assert [path.name for path in found.paths] == ["a.json", "b.json"]
    assert [peer.name for peer in found.run.peers] == ["cpprb", "cpprb_impl", "baselines-style"]
    assert {record.params["step"] for record in found.run.records} == {"a", "b"}
    shown = [f"`make report RUN=results/reference/{name}.json`" for name in ("a", "b")]
    assert found.source.endswith(f"; {shown[0]} shows the record, and {shown[1]} the figures added to it.")


def test_records_that_share_a_cell_are_not_merged(tmp_path):
    for profile in ("paired_training", "paired_speed"):
        run = throughput_run(peers=("cpprb",), blocks=1)
        run.profile = profile
        save(tmp_path / f"{profile}.json", run)
    with pytest.raises(BadRecord, match="is the same cell as"):
        references(tmp_path)


def test_figures_without_a_record_are_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_task, "FOLDER", tmp_path)
    assert generated(BLANK, {}) == BLANK
    found = {"quick": Reference([readme.REFERENCE / "x.json"], empty_run())}
    assert generated(BLANK, found) == BLANK
