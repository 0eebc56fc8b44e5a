// What is chosen, kept in the address, so that a link shows the same view.

const DEFAULTS = {
  suite: "throughput", record: "", workload: "", reference: "", show: "ratio", sort: "typical", down: "1", find: "",
  hidden: "", safe: "", copies: "", torch: "", sound: "", typical: "1", one: "", other: "", cell: "",
};
const ALL = "*";
/** What rows can be sorted by, beside a job's label. */
const SORTS = {
  typical: (row) => row.typical,
  name: (row) => row.peer.name.toLowerCase(),
  safety: (row) => row.peer.safety,
  contract: (row) => row.peer.contract,
};

/** `of.batch` and the like choose a value of a parameter, and `of.benchmark` a kind of figure. */
function readAddress() {
  const given = [...new URLSearchParams(location.hash.slice(1))].filter(([name]) => name in DEFAULTS || name.startsWith("of."));
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}

/** Whether the address names a place of the page instead of a view: "#method". */
function isPlace() {
  return location.hash.length > 1 && !location.hash.includes("=");
}

/** `push`: the browser's "back" returns to the view before. The first view leaves the name of a place as it is. */
function writeAddress(state, push) {
  if (isPlace() && !document.body.dataset.ready) return;
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]), address = `#${new URLSearchParams(kept)}`;
  if (address !== location.hash) history[push ? "pushState" : "replaceState"](null, "", address);
}

/** The browser's copy of the data: a run's cells by job and peer, with samples by block. */
async function unpack(element) {
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  for (const run of data.runs) {
    for (const job of run.jobs) job.cells = new Map();
    for (const [job, peer, status, reason, seen, values, blocks, calls, hazard] of run.cells) {
      run.jobs[job].cells.set(data.peers[peer].name, {
        status: data.texts[status],
        reason: data.texts[reason] ?? "",
        seen: data.texts[seen] ?? "",
        samples: new Map(values.map((value, place) => [blocks ? blocks[place] : place, value])),
        calls,
        hazard: Boolean(hazard),
      });
    }
  }
  data.peer = new Map(data.peers.map((peer) => [peer.name, peer]));
  return data;
}

/** The options that the data offers for the present choice; choices that it does not offer are replaced. */
function offered(data, state) {
  const suites = Object.keys(data.suites);
  if (!suites.includes(state.suite)) state.suite = suites[0];
  const hasFigures = (job) => job.suite === state.suite && [...job.cells.values()].some((cell) => cell.samples.size);
  const holding = data.runs.filter((run) => run.jobs.some(hasFigures));
  const runs = holding.length ? holding : data.runs.filter((run) => run.jobs.some((job) => job.suite === state.suite));
  const run = runs.find((each) => each.name === state.record) ?? mostFigures(runs, state.suite);
  state.record = run.name;
  const ofSuite = run.jobs.filter((job) => job.suite === state.suite);
  const workloads = distinct(ofSuite.map((job) => job.workload));
  if (!workloads.includes(state.workload)) state.workload = workloads[0];
  const ofWorkload = ofSuite.filter((job) => job.workload === state.workload);
  const { jobs, choices } = narrowed(ofWorkload, data.suites[state.suite].view, state);
  for (const name of Object.keys(state)) if (name.startsWith("of.") && !choices.some((choice) => choice.key === name)) delete state[name];
  const peers = data.peers.map((peer) => peer.name).filter((name) => jobs.some((job) => job.cells.has(name)));
  const measured = peers.filter((name) => jobs.some((job) => job.cells.get(name)?.samples.size));
  if (!measured.includes(state.reference)) {
    const usual = data.suites[state.suite].reference;
    state.reference = measured.includes(usual) ? usual : measured[0] ?? "";
  }
  for (const name of ["one", "other"]) if (!measured.includes(state[name])) state[name] = "";
  if (!["ratio", "absolute"].includes(state.show)) state.show = DEFAULTS.show;
  if (!(state.sort in SORTS) && !jobs.some((job) => job.label === state.sort)) Object.assign(state, { sort: DEFAULTS.sort, down: DEFAULTS.down });
  return { suites, runs, run, workloads, choices, jobs, peers, measured };
}

/** The jobs of the chosen parameters, and the values offered of each: those of the suite's view, unless chosen. */
function narrowed(jobs, view, state) {
  const choices = [];
  for (const name of ["benchmark", ...distinct(jobs.flatMap((job) => Object.keys(job.params)))]) {
    const valueOf = (job) => (name === "benchmark" ? job.benchmark : job.params[name]);
    const values = distinct(jobs.map(valueOf)), usual = [view[name] ?? []].flat().filter((value) => values.includes(value));
    if (values.length < 2) continue;
    const key = `of.${name}`, chosen = values.map(String).includes(state[key]) || state[key] === ALL ? state[key] : "";
    if (!chosen) delete state[key];
    const kept = chosen === ALL || !(chosen || usual.length) ? null : chosen ? [chosen] : usual.map(String);
    choices.push({ name, key, values, usual, chosen: chosen || (usual.length ? "" : ALL) });
    if (kept) jobs = jobs.filter((job) => valueOf(job) === undefined || kept.includes(String(valueOf(job))));
  }
  return { jobs, choices };
}

function mostFigures(runs, suite) {
  const measured = (job) => [...job.cells.values()].filter((cell) => cell.samples.size).length;
  const size = (run) => run.jobs.filter((job) => job.suite === suite).reduce((sum, job) => sum + measured(job), 0);
  return runs.reduce((best, run) => (size(run) > size(best) ? run : best));
}

/** The different values, numbers by size and others as they come. */
function distinct(values) {
  const found = [...new Set(values.filter((value) => value !== undefined))];
  return found.every((value) => typeof value === "number") ? found.sort((one, other) => one - other) : found;
}
