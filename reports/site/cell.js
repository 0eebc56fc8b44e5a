// The panel of one cell: its samples, how to measure it again, and what was found about its peer; and two peers compared.

function cellPanel(data, state, offer) {
  const [name, label] = state.cell.split("|");
  const job = offer.jobs.find((each) => each.label === label), peer = data.peer.get(name);
  if (!job || !peer || !rowsOf(data, state, offer).rows.some((row) => row.peer === peer)) return null;
  const cell = job.cells.get(name), run = offer.run;
  const facts = [
    [data.words.usage, peer.usage],
    [data.words.parameters, paramsOf(job)],
    [data.words.measured, `${run.date}, ${run.machine}, ${run.name}`],
  ];
  if (cell?.reason) facts.push([cell.status.replace("_", " "), cell.reason]);
  if (cell?.seen) facts.push([data.words.seen, cell.seen]);
  if (peer.fault) facts.push([data.words.safety, peer.fault]);
  if (peer.breach) facts.push([data.words.contract, peer.breach]);
  if (peer.keeps !== "never") facts.push(["†", data.words.keepsAbout]);
  if (run.command) facts.push([data.words.again, make("code", {}, run.command.replace("<peer>", name).replace("<suite>", job.suite))]);
  const close = make("button", { type: "button", className: "close" }, data.words.close);
  const panel = make("section", { className: "panel" }, close, make("h2", {}, `${name} ${peer.version}: ${label}, ${job.workload}`));
  if (cell?.samples.size) {
    const own = figure([...cell.samples.values()]), scale = scaleOf(job.unit, [...cell.samples.values()]);
    facts.unshift([data.words.figure, `${number(own.value / scale.factor)} ${scale.unit}, ${spread(own, scale.factor)}`]);
    const reference = job.cells.get(state.reference);
    const found = reference && !isCheck(data, state) && !isCount(data, state, job) ? ratio(cell, reference, job.better, data.fewestCalls) : null;
    if (found && name !== state.reference) {
      facts.splice(1, 0, [`${data.words.ratioTo} ${state.reference}`, `${found.isBound ? ">" : ""}${number(shown(found), 3)}, ${spread(found, 1)}`]);
      if (found.launches >= FEWEST && !found.isBound) facts.splice(2, 0, [data.words.another, spread(forAnotherRun(found), 1)]);
    }
    const compared = [name, ...(reference && name !== state.reference ? [state.reference] : [])].map((each) => [each, job.cells.get(each)]);
    panel.append(dots(compared, job));
  }
  panel.append(make("dl", {}, ...facts.flatMap(([term, what]) => [make("dt", {}, term), make("dd", {}, what)])));
  panel.close = close;
  return panel;
}

/** Every sample of these cells on one logarithmic axis, a row per peer, with the interval of the median. */
function dots(cells, job) {
  const values = cells.flatMap(([, cell]) => [...cell.samples.values()]).filter((value) => value > 0);
  const scale = scaleOf(job.unit, values), low = Math.min(...values) / 1.15, high = Math.max(...values) * 1.15;
  // On a phone, names stand above their dots.
  const [width, left, pitch, name] = innerWidth > 760 ? [640, 180, 28, 4] : [340, 0, 44, -12], height = pitch * cells.length + 26;
  const x = (value) => left + ((width - left - 40) * Math.log(value / low)) / Math.log(high / low);
  const parts = cells.map(([peer, cell], row) => {
    const y = 16 + Math.max(0, -name) + pitch * row, own = figure([...cell.samples.values()]), positive = [...cell.samples.values()].filter((value) => value > 0);
    const interval = own.low > 0 ? `<line x1="${x(own.low)}" x2="${x(own.high)}" y1="${y}" y2="${y}"/>` : "";
    const points = positive.map((value) => `<circle cx="${x(value)}" cy="${y}" r="4"><title>${number(value / scale.factor)} ${scale.unit}</title></circle>`);
    return `<g class="row-${row}"><text x="0" y="${y + name}">${escaped(peer)}</text>${interval}${points.join("")}</g>`;
  });
  const ends = distinct([Math.min(...values), Math.max(...values)]).map((value) => number(value / scale.factor)).join(" to ");
  const range = `<text class="end" x="${(left + width) / 2}" y="${height - 2}" text-anchor="middle">${ends} ${scale.unit}</text>`;
  const box = make("div", { className: "dots" });
  box.innerHTML = values.length ? `<svg viewBox="0 0 ${width} ${height}" role="img">${parts.join("")}${range}</svg>` : "";
  return box;
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** Two peers in every record that measured both: a row per job of this suite and workload, a column per record. */
function comparison(data, state, offer, one, other) {
  const keyOf = (job) => `${job.benchmark}, ${paramsOf(job)}`;
  const found = new Map(), runs = [];
  for (const run of isCheck(data, state) || one === other ? [] : data.runs) {
    const here = run.jobs.filter((job) => job.suite === state.suite && job.workload === state.workload);
    const both = narrowed(here, data.suites[state.suite].view, { ...state }).jobs.filter(
      (job) => [one, other].every((name) => job.cells.get(name)?.samples.size) && !isCount(data, state, job),
    );
    if (both.length) runs.push(run);
    for (const job of both) {
      const row = found.get(keyOf(job)) ?? { label: job.label, ratios: new Map() };
      row.ratios.set(run.name, ratio(job.cells.get(one), job.cells.get(other), job.better, data.fewestCalls));
      found.set(keyOf(job), row);
    }
  }
  if (!found.size) return make("p", { className: "about" }, one === other ? data.words.twoNeeded : data.words.nothingCompared);
  const head = make("tr", {}, make("th", { scope: "col" }, data.words.job), ...runs.map((run) => make("th", { scope: "col" }, `${run.machine}, ${run.date}, ${run.profile}`)), make("th", { scope: "col" }, data.words.order));
  const rows = [...found.values()].map(({ label, ratios }) => {
    const known = runs.map((run) => ratios.get(run.name)).filter(Boolean);
    const faster = known.filter((each) => each.value > 1).length;
    return make("tr", {}, make("th", { scope: "row" }, label),
      ...runs.map((run) => {
        const each = ratios.get(run.name);
        return each ? make("td", { className: shadeFor(each), title: spread(each, 1) }, number(each.value, 2)) : make("td", { className: "none", title: data.words.notBoth }, "–");
      }),
      make("td", {}, known.length > 1 ? `${Math.max(faster, known.length - faster)} / ${known.length}` : ""));
  });
  return make("table", { className: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows));
}
