"""The report agrees with the record, loads nothing external, and can be built from any run, complete or not."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from reports import build as command
from reports.build import build
from results import Sample, save

from .conftest import figures_of, pages_of
from .synthetic_runs import (
    BYTES,
    FIELDS,
    PEERS,
    add_apex,
    add_memory,
    empty_run,
    gate_run,
    large_run,
    throughput_run,
)

CARTPOLE, FRAMES = "Throughput: CartPole-v1", "Throughput: ALE/Seaquest-v5"


@pytest.fixture(scope="module")
def pages(large, tmp_path_factory):
    """Return (html, markdown, folder) of the large run."""
    out = tmp_path_factory.mktemp("report")
    return *(path.read_text(encoding="utf-8") for path in build(large, out)), out


class Page(HTMLParser):
    """Collects what a browser would load, and checks that tags close in order."""

    VOID = frozenset(["meta", "link", "br", "img", "path", "use", "wbr", "input", "source"])

    def __init__(self, text):
        super().__init__()
        self.loads, self.ids, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.loads += [value for name, value in attributes if name in {"src", "href", "xlink:href", "srcset"}]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def tables(markdown):
    """Return every Markdown table as a list of its lines."""
    return [part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE)]


def columns(line):
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_the_page_loads_no_external_resource(pages):
    page = Page(pages[0])
    assert page.open == []
    assert all(load.startswith(("#", "data:")) for load in page.loads)
    assert "@import" not in pages[0]
    assert "<script src" not in pages[0]
    assert set(re.findall(r"url\((.)", pages[0])) <= {"#"}


def test_ids_are_unique_and_links_have_targets(pages):
    page = Page(pages[0])
    assert len(page.ids) == len(set(page.ids))
    assert {load[1:] for load in page.loads if load.startswith("#")} <= set(page.ids)


def test_pictures_follow_the_theme_and_have_labels(pages):
    pictures = re.findall(r"<svg.*?</svg>", pages[0].split("</script>")[-1], re.DOTALL)
    assert len(pictures) == 2
    for picture in pictures:
        assert 'role="img" aria-label="' in picture
        assert not re.search(r"#[0-9a-f]{6}\b(?!\w)", re.sub(r"(id|href|clip-path)=\"[^\"]*\"", "", picture))


def test_markdown_tables_are_well_formed(pages):
    found = tables(pages[1])
    assert len(found) >= 12
    for table in found:
        assert re.fullmatch(r"\|(:?-+:?\|)+", table[1].replace(" ", "")), table[:2]
        assert {columns(line) for line in table} == {columns(table[0])}, table[0]


def test_markdown_refers_to_existing_pictures(pages):
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", pages[1])
    assert len(shown) == 2
    assert all((pages[2] / name).read_bytes().startswith(b"\x89PNG") for name in shown)


@pytest.mark.parametrize("which", [0, 1])
def test_both_pages_contain_the_same_facts(pages, large, which):
    page = pages[which].replace("&#39;", "'")
    for fact in (
        *(peer.name for peer in large.peers),
        *FIELDS,
        "the process was killed by signal 9 (synthetic)",
        "wrong content: 3 of 256 rows were never added (synthetic)",
        "not installed: an environment of its own (synthetic)",
        "SYNTHETIC processor, not a real one",
        large.revision,
        "20 November 2026, 06:30 UTC",
        "python -m suites --profile synthetic",
        "keeps references to the caller's arrays",
        "84\N{MULTIPLICATION SIGN}84\N{MULTIPLICATION SIGN}4",
        "abababababab",
        "µs/call",
        "transitions/s",
        "132 of 132 declared cells",
    ):
        assert fact in page


def test_the_answer_comes_first(pages):
    order = [
        "## The answer",
        "## Which peer is fastest",
        "## Ape-X",
        "## What was found",
        "## Missing figures",
        "## What each peer",
        "## How it was",
        "### Measure it again",
        "## All figures",
    ]
    places = [pages[1].index(f"\n{heading}") for heading in order]
    assert places == sorted(places)
    row = next(line for line in pages[1].splitlines() if line.startswith("| CartPole-v1 | sample 32 |"))
    assert "**cpprb_impl**" in row and "clear (5 of 5 blocks)" in row


def test_a_failed_cell_is_never_a_zero(pages):
    told = figures_of(pages[1])
    failed = told[FRAMES, "rllib", "prioritized cycle 32, µs/call"]
    assert re.fullmatch(r"[\d,.]+ ~?[\d.]+\N{MULTIPLICATION SIGN} .* ¶", failed)
    assert told[CARTPOLE, "chainerrl-style", "sample 256, µs/call"] == "wrong"
    assert not any(re.match(r"0(\.0+)?\b(?!\.)", text) for text in told.values())


def test_marks_appear_next_to_their_figures(pages):
    told = {(peer, job.partition(",")[0]): text for (_, peer, job), text in figures_of(pages[1]).items()}
    assert told["baselines-style", "add 1"].endswith(" †")
    assert told["reverb", "add 100"].endswith(" §")
    assert told["chainerrl-style", "sample 32"].endswith(" ‡")
    assert not any(re.search("[†‡§]", text) for (peer, _), text in told.items() if peer == "cpprb")


def test_the_same_record_gives_the_same_report(large, pages, tmp_path):
    assert [path.read_text(encoding="utf-8") for path in build(large, tmp_path)] == list(pages[:2])


def one_launch():
    run = throughput_run(blocks=1)
    run.finished, run.interrupted = None, True
    return run


def nothing_reached():
    run = throughput_run()
    for record in run.records:
        record.samples, record.status, record.reason = [], "interrupted", "not reached"
    return run


def one_peer():
    return throughput_run(peers=("cpprb",))


def without_reference():
    return throughput_run(peers=("rllib", "reverb"))


def only_apex():
    run = empty_run()
    run.add_workload(**vars(throughput_run(blocks=1).workloads[0]))
    add_apex(run, blocks=3)
    return run


def peers_without_features():
    run = throughput_run(peers=("cpprb", "rllib"))
    run.peers = [type(peer)(peer.name, None, "") for peer in run.peers]
    return run


def unknown_suite():
    run = throughput_run(peers=("cpprb",))
    run.cell(
        suite="endurance", benchmark="pss", peer="cpprb", workload="CartPole-v1",
        params={"shared": True, "note": "a|b<c>"}, unit="bytes", better="lower",
    ).add_sample(3, 1e9)  # fmt: skip
    return run


def only_memory():
    run = throughput_run(peers=tuple(BYTES))
    run.records.clear()
    add_memory(run, blocks=4)
    return run


def memory_nobody_has():
    run = throughput_run(peers=("cpprb",))
    run.cell(
        suite="memory", benchmark="pss", peer="cpprb", workload="CartPole-v1", params={}, unit="B/transition",
        better="lower",
    ).fail("failed", "out of memory")  # fmt: skip
    return run


def zeros():
    """Return a run in which some times and sizes are 0."""
    run = large_run()
    add_memory(run)
    for record in run.records:
        if record.peer == "cpprb_impl" or record.benchmark == "sample":
            record.samples = [Sample(sample.block, 0.0) for sample in record.samples]
    return run


def tiny():
    run = throughput_run(blocks=1)
    run.profile = "tiny"
    return run


def hostile_text():
    run = throughput_run(peers=("cpprb", "rllib"))
    run.records[0].fail("failed", "a | b\n<script>alert(1)</script> {{ x }} `c`")
    return run


@pytest.mark.parametrize(
    "make",
    [
        empty_run, one_launch, nothing_reached, one_peer, without_reference, only_apex, peers_without_features,
        unknown_suite, only_memory, memory_nobody_has, zeros, hostile_text, gate_run,
    ],
)  # fmt: skip
def test_any_run_yields_a_report(make):
    html, markdown = pages_of(make())
    assert Page(html).open == []
    assert "<script>alert" not in html
    for page in (html, markdown):
        assert "None" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
        assert not re.search(r"\bnan\b|\binf\b", page)
    for table in tables(markdown):
        assert {columns(line) for line in table} == {columns(table[0])}, table[0]


@pytest.mark.parametrize(
    ("make", "warning"),
    [
        (one_launch, "This run was interrupted"),
        (tiny, "its figures mean nothing"),
        (without_reference, "cpprb has no figure in this suite, so ratios are relative to rllib, the first peer"),
    ],
)
def test_both_pages_state_what_limits_a_run(make, warning):
    assert all(warning in page for page in pages_of(make()))


def test_pictures_of_an_earlier_report_are_removed(tmp_path):
    build(throughput_run(), tmp_path)
    build(empty_run(), tmp_path)
    assert not list(tmp_path.glob("plots/*"))


def test_the_command_line_builds_a_report(tmp_path, capsys):
    save(tmp_path / "run.json", throughput_run(peers=tuple(PEERS)[:2]))
    assert command.main([str(tmp_path / "run.json"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").exists()
    assert "report.html" in capsys.readouterr().out
    (tmp_path / "bad.json").write_text("{")
    assert command.main([str(tmp_path / "bad.json"), "--out", str(tmp_path / "out")]) == 1
    assert "bad.json: is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("terminal", "variables", "opened"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "w"}, True),
        (True, {}, False),
        (False, {"DISPLAY": ":0"}, False),
        (True, {"DISPLAY": ":0", "SSH_CONNECTION": "x"}, False),
    ],
)
def test_the_page_opens_only_from_a_terminal_on_a_machine_with_a_screen(
    terminal, variables, opened, tmp_path, monkeypatch
):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    pages = []
    monkeypatch.setattr(command.webbrowser, "open", pages.append)
    monkeypatch.setattr(command.sys, "stdout", SimpleNamespace(isatty=lambda: terminal, write=len, flush=lambda: None))
    save(tmp_path / "run.json", empty_run())
    assert command.main([str(tmp_path / "run.json"), "--out", str(tmp_path / "out"), "--show"]) == 0
    assert pages == ([f"file://{tmp_path}/out/report.html"] if opened else [])


def test_without_any_run_the_command_says_what_to_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "latest", lambda: None)
    assert command.main(["--out", str(tmp_path)]) == 1
    assert "make bench" in capsys.readouterr().err


def test_no_peer_is_named_in_the_code_of_reports():
    """The reference is an exception. A new peer requires no change here. Advice names some peers (test_advice.py)."""
    from results.verdicts import REFERENCE

    sources = {*command.HERE.rglob("*.py"), *command.HERE.rglob("*.j2")} - {*(command.HERE / "advice").iterdir()}
    for path in sources:
        text = path.read_text(encoding="utf-8").lower()
        for peer in large_run().peers:
            if peer.name != REFERENCE:
                assert not re.search(rf"\b{re.escape(peer.name)}\b", text), f"{path.name} names {peer.name}"
