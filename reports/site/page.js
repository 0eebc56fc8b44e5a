// Draws what is chosen, and follows the controls and the address.

(async () => {
  const data = await unpack(document.getElementById("data"));
  data.words = JSON.parse(document.getElementById("words").textContent);
  let state = readAddress();
  const $ = (id) => document.getElementById(id);

  function act(changed, push = false) {
    Object.assign(state, changed);
    draw(push);
    if (changed.cell) $("cell").scrollIntoView({ block: "nearest" });
  }

  /** Another suite, record or workload has other jobs, to which a sorted column and an open cell mean nothing. The record
   * and the workload stay if the suite has them. */
  function choose(name, value) {
    const depends = { suite: ["reference", "sort", "down"], record: ["sort", "down"], workload: ["sort", "down"] }[name] ?? [];
    const isMeasured = offered(data, state).measured.includes(data.suites[state.suite].reference);
    if (["record", "workload"].includes(name) && !isMeasured) state.reference = ""; // it only stood in for the usual one
    act({ [name]: value, cell: "", ...Object.fromEntries(depends.map((each) => [each, DEFAULTS[each]])) }, true);
  }

  /** Close the panel of a cell, and return to its button. */
  function closeCell() {
    const key = state.cell;
    act({ cell: "" });
    [...document.querySelectorAll("#map button")].find((button) => button.dataset.key === key)?.focus();
  }

  function fill(id, options, chosen) {
    const select = $(id);
    select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
    select.disabled = options.length < 2;
    select.value = chosen;
  }

  /** One parameter: its usual values, all of them, or one. */
  function selector({ name, key, usual, chosen }, options) {
    const select = make("select", { id: key });
    const first = [...(usual.length ? [["", usual.map(spoken).join(", ")]] : []), [ALL, data.words.all]];
    const others = options.filter(([value]) => usual.length !== 1 || value !== String(usual[0]));
    select.append(...[...first, ...others].map(([value, text]) => make("option", { value }, spoken(text))));
    select.value = chosen;
    select.onchange = () => act({ [key]: select.value, cell: "" });
    return make("label", {}, `${data.words.parameter[name] ?? spoken(name)} `, select);
  }

  function draw(push = false) {
    const offer = offered(data, state), suite = data.suites[state.suite];
    const same = (values) => values.map((value) => [String(value), typeof value === "number" ? value.toLocaleString("en") : String(value)]);
    fill("suite", offer.suites.map((name) => [name, data.suites[name].title]), state.suite);
    fill("record", offer.runs.map((run) => [run.name, `${run.machine}: ${run.profile}, ${run.date}`]), state.record);
    fill("workload", offer.workloads.map((name) => [name, `${name}, ${size(data.workloads[name].bytes)}`]), state.workload);
    $("choices").replaceChildren(...offer.choices.map((choice) => selector(choice, same(choice.values))));
    fill("reference", same(offer.measured), state.reference);
    fill("show", [["ratio", data.words.ratio], ["absolute", data.words.absolute]], state.show);
    fill("one", same(offer.measured), state.one || (offer.measured.find((name) => name !== state.reference) ?? state.reference));
    fill("other", same(offer.measured), state.other || state.reference);
    for (const name of ["safe", "copies", "torch", "sound", "typical"]) $(name).checked = Boolean(state[name]);
    if (document.activeElement !== $("find")) $("find").value = state.find;

    const hidden = state.hidden.split("|"), libraries = distinct(offer.peers.map((name) => data.peer.get(name).library));
    $("libraries").replaceChildren(...libraries.map((library) => {
      const box = make("input", { type: "checkbox", checked: !hidden.includes(library) });
      box.onchange = () => act({ hidden: libraries.filter((each) => (each === library ? !box.checked : hidden.includes(each))).join("|") });
      return make("label", {}, box, ` ${library}`);
    }));
    const usual = isCheck(data, state) || offer.measured.includes(suite.reference) ? undefined : data.words.noUsual.replace("{usual}", suite.reference);
    const about = distinct([usual, suite.note || undefined, ...offer.jobs.map((job) => suite.about[job.benchmark])]);
    $("about").replaceChildren(...about.map((text) => make("p", {}, text)));
    const focused = document.activeElement?.dataset?.key;
    const table = heatTable(data, state, offer, act);
    $("map").replaceChildren(table);
    if (focused) [...table.querySelectorAll("button")].find((button) => button.dataset.key === focused)?.focus();
    $("none").hidden = table.tBodies[0].rows.length > 0;
    const panel = state.cell ? cellPanel(data, state, offer) : null;
    $("cell").replaceChildren(...(panel ? [panel] : []));
    if (panel) panel.close.onclick = closeCell;
    $("compared").replaceChildren(comparison(data, state, offer, $("one").value, $("other").value));
    document.querySelector(".lookup").dataset.show = isCheck(data, state) ? "checks" : state.show;
    $("now").textContent = `${suite.title}: ${state.reference}`;
    writeAddress(state, push);
  }

  for (const name of ["suite", "record", "workload", "reference", "show", "one", "other"])
    $(name).onchange = () => choose(name, $(name).value);
  for (const name of ["safe", "copies", "torch", "sound", "typical"]) $(name).onchange = () => act({ [name]: $(name).checked ? "1" : "" });
  $("find").oninput = () => act({ find: $("find").value });
  $("reset").onclick = () => { state = { ...DEFAULTS, suite: state.suite, record: state.record, workload: state.workload }; draw(true); };
  $("all").onclick = () => act({ hidden: "" });
  $("no").onclick = () => act({ hidden: distinct(data.peers.map((peer) => peer.library)).join("|") });
  $("map").addEventListener("keydown", (event) => move(event));
  addEventListener("keydown", (event) => { if (event.key === "Escape" && state.cell) closeCell(); });
  addEventListener("hashchange", () => { if (!isPlace()) { state = readAddress(); draw(); } });
  for (const id of ["more", "guide"]) if ($(id)) $(id).open = innerWidth > 760;
  $("pair").open = data.runs.length > 1;
  draw();
  document.body.dataset.ready = "yes";
})();

/** A parameter, its value or a benchmark in words: "explorers blocked", "100,000". */
function spoken(name) {
  return typeof name === "number" ? name.toLocaleString("en") : String(name).replaceAll("_", " ").replace(/ us$/, " µs");
}

/** Arrow keys move between the buttons of the table. */
function move(event) {
  const [rows, columns] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
  const cell = event.target.closest("td, th");
  if (!cell || !(rows || columns)) return;
  const row = cell.closest("table").rows[cell.parentElement.rowIndex + rows];
  for (let place = cell.cellIndex + columns; row?.cells[place]; place += columns || row.cells.length) {
    const button = row.cells[place].querySelector("button");
    if (button) {
      event.preventDefault();
      return button.focus();
    }
  }
}

function size(bytes) {
  const scale = scaleOf("bytes", [bytes]);
  return `${number(bytes / scale.factor)} ${scale.unit}`;
}
