// What is chosen, kept in the address, so that a link shows the same view.

const DEFAULTS = {
  suite: "throughput", record: "", workload: "", reference: "", show: "ratio", sort: "typical", down: "1", find: "",
  hidden: "", safe: "", copies: "", torch: "", sound: "", typical: "1", one: "", other: "", cell: "",
};
const ALL = "*";

/** `of.batch` and the like choose a value of a parameter, and `of.benchmark` a kind of figure. */
function readAddress() {
  const given = [...new URLSearchParams(location.hash.slice(1))].filter(([name]) => name in DEFAULTS || name.startsWith("of."));
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}

function writeAddress(state) {
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
}

/** The browser's copy of the data: a run's cells by job and peer, with samples by block. */
async function unpack(element) {
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  data.fewest = data.fewestCalls;
  for (const run of data.runs) {
    for (const job of run.jobs) job.cells = new Map();
    for (const [job, peer, status, reason, seen, values, blocks, calls] of run.cells) {
      run.jobs[job].cells.set(data.peers[peer].name, {
        status: data.texts[status],
        reason: data.texts[reason] ?? "",
        seen: data.texts[seen] ?? "",
        samples: new Map(values.map((value, place) => [blocks ? blocks[place] : place, value])),
        calls,
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
  const runs = data.runs.filter((run) => run.jobs.some((job) => job.suite === state.suite));
  const run = runs.find((each) => each.name === state.record) ?? mostSamples(runs, state.suite);
  state.record = run.name;
  const ofSuite = run.jobs.filter((job) => job.suite === state.suite);
  const workloads = distinct(ofSuite.map((job) => job.workload));
  if (!workloads.includes(state.workload)) state.workload = workloads[0];
  const ofWorkload = ofSuite.filter((job) => job.workload === state.workload);
  const { jobs, choices } = narrowed(ofWorkload, data.suites[state.suite].view, state);
  const peers = data.peers.map((peer) => peer.name).filter((name) => jobs.some((job) => job.cells.has(name)));
  const measured = peers.filter((name) => jobs.some((job) => job.cells.get(name)?.samples.size));
  if (!measured.includes(state.reference)) {
    const usual = data.suites[state.suite].reference;
    state.reference = measured.includes(usual) ? usual : measured[0] ?? "";
  }
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
    const kept = chosen === ALL || !(chosen || usual.length) ? null : chosen ? [chosen] : usual.map(String);
    choices.push({ name, key, values, usual, chosen: chosen || (usual.length ? "" : ALL) });
    if (kept) jobs = jobs.filter((job) => valueOf(job) === undefined || kept.includes(String(valueOf(job))));
  }
  return { jobs, choices };
}

function mostSamples(runs, suite) {
  const size = (run) => run.jobs.filter((job) => job.suite === suite).reduce((sum, job) => sum + job.cells.size, 0);
  return runs.reduce((best, run) => (size(run) > size(best) ? run : best));
}

function distinct(values) {
  return [...new Set(values.filter((value) => value !== undefined))];
}
