"""The look-up page in headless Chromium: every control works, and its numbers match `results/frames.py`."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reports.build import build
from reports.figures.formatting import NOTHING
from reports.site import __main__ as site
from reports.site.data import payload
from reports.site.replication import replications
from results import REFERENCE, RUNS, frames, load, save

from .synthetic_runs import throughput_run

playwright = pytest.importorskip("playwright.sync_api")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
QUICK = "2core-intel-xeon-20261122-quick"
SURVEY = "2core-intel-xeon-20261122-survey"
NAMES = [QUICK, SURVEY, "2core-amd-epyc-20261125-learners-speed", "2core-intel-xeon-20261122-sweep"]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("site") / "site.html"
    assert site.main([*(str(REFERENCE / f"{name}.json") for name in NAMES), "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser) -> object:
    """Return one tab for all tests, since starting the process of a new tab takes longer than loading the page."""
    return browser.new_page()


@contextmanager
def opened(tab, file: Path) -> Iterator[object]:
    """Open a page at a place. Fails on an error in the console, or if anything else is loaded."""
    troubles = []
    events = {
        "console": lambda message: troubles.append(message.text) if message.type == "error" else None,
        "pageerror": lambda error: troubles.append(str(error)),
        "request": lambda request: troubles.append(request.url) if not request.url.startswith("file:") else None,
    }
    for event, listener in events.items():
        tab.on(event, listener)

    def visit(place: str = "", width: int = 1280, height: int = 800):
        tab.goto("about:blank")  # since a different fragment alone would not reload the page
        tab.set_viewport_size({"width": width, "height": height})
        tab.goto(f"{file.as_uri()}#{place}")
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield visit
    for event, listener in events.items():
        tab.remove_listener(event, listener)
    assert not troubles


@pytest.fixture
def visit(tab, file) -> Iterator[object]:
    with opened(tab, file) as visit:
        yield visit


def peers(page) -> list[str]:
    return [name.removesuffix(" †") for name in page.locator("#map tbody th").all_inner_texts()]


def table(page) -> str:
    return page.locator("#map").inner_text()


@needs_browser
def test_ratios_and_intervals_match_results_frames(visit):
    """Compares the median, its interval, the launches, and the ratio to cpprb for every cell of a record."""
    found = visit().evaluate(
        """async (name) => {
          const data = await unpack(document.getElementById("data"));
          const run = data.runs.find((each) => each.name === name);
          const measured = (job) => [...job.cells].filter(([, cell]) => cell.samples.size);
          return run.jobs.flatMap((job) => measured(job).map(([peer, cell]) => ({
            key: [job.suite, job.benchmark, job.workload, JSON.stringify(Object.entries(job.params).sort()), peer],
            figure: figure([...cell.samples.values()]),
            ratio: job.cells.has("cpprb") ? ratio(cell, job.cells.get("cpprb"), job.better, data.fewestCalls) : null,
          })));
        }""",
        QUICK,
    )
    samples = frames.read(REFERENCE / f"{QUICK}.json")
    names = {
        frames.params_text(record.params): json.dumps(sorted(record.params.items()), separators=(",", ":"))
        for record in load(REFERENCE / f"{QUICK}.json").records
    }

    def keyed(rows):
        return {(row.suite, row.benchmark, row.workload, names[row.params], row.peer): row for row in rows.itertuples()}

    figures, ratios = keyed(frames.figures(samples)), keyed(frames.ratios(samples, "cpprb"))
    assert len(found) == len(figures) > 500 and len(ratios) > 300
    compared = 0
    for each in found:
        key = tuple(each["key"])
        row = figures[key]
        seen = [each["figure"][name] for name in ("value", "low", "high", "launches")]
        assert seen == pytest.approx([row.value, row.low, row.high, row.launches], rel=1e-4)
        row, ratio = ratios.get(key), each["ratio"]
        assert (row is None) == (ratio is None)
        if row is not None:
            seen = [ratio[name] for name in ("value", "low", "high", "launches")]
            assert seen == pytest.approx([row.value, row.low, row.high, row.launches], rel=2e-4)
            assert ratio["isBound"] == row.is_bound
            compared += 1
    assert compared == len(ratios)


@needs_browser
@pytest.mark.parametrize(
    ("control", "value"),
    [
        ("suite", "memory"),
        ("record", "2core-intel-xeon-20261122-sweep"),
        ("workload", "ALE/Seaquest-v5"),
        ("reference", "rlox"),
        ("show", "absolute"),
        ("of.benchmark", "sample"),
        ("of.batch", "256"),
    ],
)
def test_a_selection_changes_the_table_and_its_link_restores_it(visit, control, value):
    page = visit(f"record={QUICK}")
    before = table(page)
    page.locator(f"[id='{control}']").select_option(value)
    after = table(page)
    assert after != before
    assert table(visit(page.url.partition("#")[2])) == after


@needs_browser
@pytest.mark.parametrize(
    ("box", "gone", "kept"),
    [
        ("safe", "cpprb", None),
        ("copies", "baselines-style", "cpprb"),
        ("torch", "rlox", "cpprb"),
        ("sound", "cpprb", "rlox"),
    ],
)
def test_a_filter_hides_the_buffers_that_do_not_pass_it(visit, box, gone, kept):
    page = visit(f"record={QUICK}")
    assert gone in peers(page)
    page.locator(f"#{box}").check()
    assert gone not in peers(page)
    assert kept is None or kept in peers(page)
    page.locator(f"#{box}").uncheck()
    assert gone in peers(page)


@needs_browser
def test_search_and_checkboxes_select_buffers(visit):
    page = visit(f"record={QUICK}")
    everything = peers(page)
    page.locator("#find").fill("CPPRB")
    assert peers(page) == [name for name in everything if "cpprb" in name]
    page.locator("#reset").click()
    assert page.locator("#find").input_value() == ""
    page = visit(f"record={QUICK}")
    page.locator("summary", has_text="Libraries").click()
    page.locator("#libraries label", has_text="rlox").locator("input").uncheck()
    assert peers(page) == [name for name in everything if name != "rlox"]
    page.locator("#no").click()
    assert peers(page) == [] and page.locator("#none").is_visible()
    page.locator("#all").click()
    assert peers(page) == everything


@needs_browser
def test_a_heading_sorts_the_rows_in_both_directions_with_missing_figures_last(visit):
    page = visit(f"record={QUICK}&of.benchmark=learner_step")
    heading = page.locator("#map thead button", has_text="1,000,000")
    heading.click()
    assert page.locator("#map th[aria-sort='descending']").count() == 1
    column = page.locator("#map th[aria-sort='descending']").evaluate("header => header.cellIndex")
    shown = page.locator(f"#map tbody tr td:nth-child({column + 1})")
    down = shown.all_inner_texts()
    numbers = [float(text) for text in down if text != NOTHING]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) < len(down)
    assert down[len(numbers) :] == [NOTHING] * (len(down) - len(numbers))
    heading.click()
    up = shown.all_inner_texts()
    assert up[: len(numbers)] == down[: len(numbers)][::-1] and up[len(numbers) :] == down[len(numbers) :]


@needs_browser
def test_a_cell_shows_its_samples_and_how_to_measure_it_again(visit):
    page = visit(f"record={QUICK}&of.benchmark=sample&of.batch=256")
    page.locator("#map tbody tr", has_text="rlox").locator("td button").click()
    panel = page.locator("#cell")
    playwright.expect(panel.locator(".close")).to_be_in_viewport()
    assert panel.locator("circle").count() == 10  # five launches each of rlox and cpprb
    assert "--peers=rlox --suites=throughput" in panel.inner_text().replace("'", "")
    assert panel.inner_text() in visit(page.url.partition("#")[2]).locator("#cell").inner_text()
    panel.locator(".close").click()
    assert panel.inner_text() == ""


@needs_browser
def test_two_buffers_are_compared_record_by_record(visit):
    page = visit(f"record={QUICK}")
    page.locator("#one").select_option("rlox")
    page.locator("#other").select_option("cpprb")
    shown = page.locator("#compared").inner_text()
    page.locator("#one").select_option("cpprb")
    page.locator("#other").select_option("rlox")
    assert page.locator("#compared").inner_text() != shown
    assert page.locator("#compared tbody tr").count() > 5


@needs_browser
@pytest.mark.parametrize("suite", ["throughput", "latency", "memory", "startup", "integrity", "conformance", "apex"])
@pytest.mark.parametrize("show", ["ratio", "absolute"])
def test_every_cell_has_text_and_a_missing_figure_a_reason(visit, suite, show):
    page = visit(f"record={QUICK}&suite={suite}&show={show}")
    cells = page.locator("#map tbody td button").evaluate_all("all => all.map((each) => [each.innerText, each.title])")
    assert cells
    for text, title in cells:
        assert text and title.partition(": ")[2] not in ("", "undefined")
        assert "undefined" not in title and "NaN" not in text


@needs_browser
def test_arrow_keys_move_through_the_table(visit):
    page = visit(f"record={QUICK}")
    page.locator("#map tbody td button").first.focus()
    first = page.evaluate("document.activeElement.title")
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.title") != (None if key == "ArrowUp" else first)
    assert page.evaluate("document.activeElement.title") == first


@needs_browser
def test_a_narrow_screen_scrolls_the_table_and_not_the_page(visit):
    page = visit(f"record={QUICK}", 390, 844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not page.locator("#find").is_visible()
    page.locator("#more > summary").click()
    assert page.locator("#find").is_visible()
    page.evaluate("document.querySelector('#more select').add(new Option('a long choice '.repeat(9)))")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@needs_browser
def test_a_suite_opens_with_a_record_that_contains_its_figures(visit):
    """The record of the survey declares the memory suite, but left it out."""
    page = visit("suite=memory")
    assert page.locator("#record").input_value() == QUICK
    assert page.locator("#map td.better-1, #map td.same").count()


@needs_browser
def test_the_back_button_restores_the_previous_view(visit):
    page = visit(f"record={QUICK}")
    before = table(page)
    page.locator("#suite").select_option("memory")
    assert table(page) != before
    page.go_back()
    page.wait_for_function("document.getElementById('suite').value === 'throughput'")
    assert table(page) == before


@needs_browser
def test_a_figure_of_0_is_not_missing(visit):
    page = visit(f"record={QUICK}&suite=memory")
    row = page.locator("#map tbody tr", has=page.locator("th", has_text="cpprb_impl"))
    place = page.locator("#map thead th").all_inner_texts().index("memory, empty")
    assert row.locator("th, td").nth(place).inner_text() == "0"


@needs_browser
def test_another_peer_stands_in_for_a_reference_without_figures_and_the_page_says_so(browser, tmp_path):
    whole, without = (run_of("", f"2026-11-2{day}T06:30:00Z")[""] for day in (0, 1))
    without.records = [record for record in without.records if record.peer != "cpprb"]
    for name, run in {"whole": whole, "without": without}.items():
        save(tmp_path / f"{name}.json", run)
    files = [str(tmp_path / f"{name}.json") for name in ("whole", "without")]
    assert site.main([*files, "--out", str(tmp_path / "site.html")]) == 0
    page, said = browser.new_page(), "cpprb, the usual reference, has no figure here."
    page.goto(f"{(tmp_path / 'site.html').as_uri()}#record=without")
    page.wait_for_selector("body[data-ready]")
    assert said in page.locator("#about").inner_text()
    assert page.locator("#reference").input_value() in peers(page)
    page.locator("#record").select_option("whole")
    assert said not in page.locator("#about").inner_text()
    assert page.locator("#reference").input_value() == "cpprb"
    page.close()


@needs_browser
def test_checks_are_not_compared_as_speeds(visit):
    page = visit(f"record={QUICK}&suite=integrity")
    assert page.locator("#compared table").count() == 0
    assert not page.locator("#reference").is_visible() and not page.locator("#show").is_visible()


@needs_browser
def test_the_typical_ratio_needs_at_least_half_of_the_jobs(visit):
    page = visit(f"record={SURVEY}&suite=sharing")
    found = page.evaluate(
        """async () => {
          const data = await unpack(document.getElementById("data")), state = readAddress();
          data.words = JSON.parse(document.getElementById("words").textContent);
          const { rows, compared } = rowsOf(data, state, offered(data, state));
          const ratios = (row) => row.cells.map((cell) => cell.ratio ?? null);
          return rows.map((row) => [row.typical, row.jobs, compared.length, ratios(row)]);
        }"""
    )
    assert {typical is None for typical, *_ in found} == {True, False}
    for typical, jobs, compared, ratios in found:
        known = [ratio for ratio in ratios if ratio is not None]
        assert jobs == len(known) and (typical is None) == (2 * jobs < compared)
        assert typical is None or typical == pytest.approx(statistics.geometric_mean(known))


def test_the_page_of_all_committed_records_is_small(tmp_path):
    out = tmp_path / "site.html"
    records = [str(path) for folder in site.FOLDERS if folder != RUNS for path in sorted(folder.glob("*.json"))]
    assert site.main([*records, "--out", str(out)]) == 0
    assert out.stat().st_size < 2_000_000


def test_files_that_cannot_be_shown_are_listed_and_the_others_are_shown(tmp_path, capsys):
    good = REFERENCE / f"{NAMES[-1]}.json"
    newer = json.loads(good.read_text(encoding="utf-8")) | {"schema": "replaybench-run-2"}
    (tmp_path / "newer.json").write_text(json.dumps(newer), encoding="utf-8")
    (tmp_path / "damaged.json").write_text(good.read_text(encoding="utf-8")[:500], encoding="utf-8")
    save(tmp_path / good.name, replace(load(good), started="2026-01-01T00:00:00Z"))
    out = tmp_path / "site.html"
    files = [good, tmp_path / "newer.json", tmp_path / "damaged.json", tmp_path / good.name]
    assert site.main([*map(str, files), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    for name in ("newer.json: ", "damaged.json: is not JSON", f"{good.name}: another record has this name"):
        assert name in said and name in out.read_text(encoding="utf-8")
    assert site.main([str(tmp_path / "damaged.json"), "--out", str(tmp_path / "none.html")]) == 1
    assert "there is no record to show" in capsys.readouterr().err
    assert not (tmp_path / "none.html").exists()


def test_a_withdrawn_cell_shows_its_reason_and_no_samples():
    run = load(REFERENCE / f"{QUICK}.json")
    withdrawn = [number for number, record in enumerate(run.records) if record.status == "invalidated"]
    assert withdrawn and all(run.records[number].samples for number in withdrawn)
    data = payload({QUICK: run})
    statuses = {data["texts"][cell[2]]: cell for cell in data["runs"][0]["cells"]}
    assert statuses["invalidated"][5] == [] and data["texts"][statuses["invalidated"][3]]


@pytest.fixture(scope="module")
def report_file(tmp_path_factory) -> Path:
    path, _ = build(load(REFERENCE / f"{QUICK}.json"), tmp_path_factory.mktemp("report"))
    return path


@pytest.fixture
def report(browser, report_file) -> Iterator[object]:
    """Open the report of a run in a tab of its own."""
    page = browser.new_page()
    with opened(page, report_file) as visit:
        yield visit
    page.close()


@needs_browser
def test_the_report_of_a_run_has_the_same_table_and_is_short(report, visit):
    page = report()
    assert table(page) == table(visit(f"record={QUICK}"))
    assert page.evaluate("document.documentElement.scrollHeight / innerHeight") < 4


@needs_browser
def test_behaviour_that_is_promised_but_dangerous_is_marked(visit):
    dangerous = {each.seen.split(": ")[0] for each in load(REFERENCE / f"{QUICK}.json").records if each.hazard}
    shown = visit(f"suite=conformance&record={QUICK}").locator("#map td").all_inner_texts()
    assert dangerous and all(f"! {word}" in shown for word in dangerous)
    assert len([text for text in shown if text.startswith("! ")]) < len(shown) / 2


@needs_browser
def test_a_link_to_a_section_opens_it_and_keeps_the_table(report):
    page = report("suite=memory")
    shown = table(page)
    page.locator('nav a[href="#method"]').click()
    assert page.locator("#method").is_visible() and table(page) == shown
    assert page.url.endswith("#method")
    page.locator("#suite").select_option("throughput")
    assert "suite=" not in page.url and table(page) != shown  # the default suite, throughput, is not in the address
    assert report("method").locator("#method").is_visible()


def run_of(name: str, started: str, factor: float = 1.0):
    """SYNTHETIC: a run whose peers other than cpprb take `factor` times as long."""
    run = throughput_run(blocks=5)
    run.started = started
    for record in run.records:
        if record.peer != "cpprb":
            record.samples = [replace(each, value=factor * each.value) for each in record.samples]
    return {name: run}


def test_a_record_is_compared_with_one_of_a_similar_machine():
    runs = run_of("theirs", "2026-11-20T06:30:00Z") | run_of("ours", "2026-11-21T06:30:00Z")
    found = replications(runs)["theirs"]
    assert found.by == "ours" and found.agreement.within == found.agreement.compared > 20
    runs |= run_of("ours", "2026-11-21T06:30:00Z", factor=3.0)
    found = replications(runs)["theirs"]
    assert found.agreement.within == found.agreement.widened == 0 < found.agreement.compared
    runs["ours"].machine["cores"] += 1
    assert replications(runs) == {"theirs": None, "ours": None}


def test_each_record_is_marked_as_replicated_or_not(tmp_path):
    for name, run in (run_of("theirs", "2026-11-20T06:30:00Z") | run_of("ours", "2026-11-21T06:30:00Z")).items():
        save(tmp_path / f"{name}.json", run)
    out = tmp_path / "site.html"
    files = [str(tmp_path / f"{name}.json") for name in ("theirs", "ours")]
    assert site.main([files[0], "--out", str(out)]) == 0
    assert "<td>not yet</td>" in out.read_text(encoding="utf-8")
    assert site.main([*files, "--out", str(out)]) == 0
    told = r"<td>(\d+) of \1 ratios of ours are within its intervals, \1 within those for another run</td>"
    assert re.search(told, out.read_text(encoding="utf-8"))


def test_a_run_in_two_files_is_shown_once_and_is_not_a_replication(tmp_path, capsys):
    (run,) = run_of("theirs", "2026-11-20T06:30:00Z").values()
    for name in ("theirs", "bench-quick"):
        save(tmp_path / f"{name}.json", run)
    out = tmp_path / "site.html"
    assert site.main([str(tmp_path / f"{name}.json") for name in ("theirs", "bench-quick")] + ["--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("1 record, ")
    assert "<td>not yet</td>" in out.read_text(encoding="utf-8")
