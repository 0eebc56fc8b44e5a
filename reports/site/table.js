// The heat map: peers by jobs, with what is known of each peer's correctness before its speeds.

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

function shadeOf(value) {
  const steps = SHADE_ENDS.filter((end) => Math.max(value, 1 / value) > end).length;
  return steps === 0 ? "same" : `${value > 1 ? "better" : "worse"}-${steps}`;
}

/** What a cell shows: its text, shade, the number it is sorted by (larger is better), and a sentence for the pointer. */
function cellOf(data, state, job, peer, scale) {
  const cell = job.cells.get(peer);
  if (!cell) return { text: "–", css: "none", about: data.words.notOffered };
  if (!cell.samples.size) {
    const said = cell.seen ? cell.seen.split(": ")[0] : "–";
    return { text: said, css: said === "–" ? "none" : "said", about: `${cell.status.replace("_", " ")}: ${cell.reason || cell.seen}` };
  }
  if (isCheck(data, state)) {
    const said = cell.seen ? cell.seen.split(": ")[0] : cell.status === "ok" ? data.words.passed : cell.status;
    return { text: (cell.hazard ? "! " : "") + said, css: cell.status === "ok" ? "said" : "said fault", about: cell.seen || cell.reason || cell.status };
  }
  const own = figure([...cell.samples.values()]), mark = cell.status === "ok" ? "" : "¶";
  const amount = `${number(own.value / scale.factor)} ${scale.unit}, ${spread(own, scale.factor)}`;
  const reference = job.cells.get(state.reference);
  const found = reference && !isCount(data, state, job) ? ratio(cell, reference, job.better, data.fewestCalls) : null;
  const sortBy = job.better === "lower" ? -own.value : own.value;
  const few = own.launches < FEWEST ? " few" : "";
  if (state.show === "absolute" || isCount(data, state, job)) {
    const exact = job.unit.includes("CRC") ? String(own.value) : number(own.value / scale.factor);
    return { text: exact + mark, css: (found ? shadeFor(found) : "said") + few, sortBy, about: amount };
  }
  if (!found) return own.value === 0 ? { text: "0", css: "said" + few, sortBy: Infinity, about: amount } : { text: "–", css: "none", about: `${amount}; ${data.words.noReference}` };
  const text = (found.isBound ? `>${number(shown(found), 1)}` : number(found.value, found.value < 0.1 ? 1 : 2)) + mark;
  return {
    text,
    css: shadeFor(found) + few,
    sortBy: shown(found),
    ratio: found.isBound ? undefined : found.value,
    about: `${found.isBound ? text : number(found.value)}×, ${spread(found, 1)}; ${amount}`,
  };
}

/** Grey within 10% of the reference, or if the interval contains 1. */
function shadeFor(found) {
  return found.launches >= FEWEST && found.low <= 1 && found.high >= 1 ? "same" : shadeOf(shown(found));
}

function isCheck(data, state) {
  return data.suites[state.suite].kind === "CHECKS";
}

function isCount(data, state, job) {
  return data.suites[state.suite].counts.includes(job.benchmark);
}

function shown(found) {
  return found.isBound ? found.low : found.value;
}

function spread(found, factor) {
  if (found.launches === 1) return "1 launch";
  return `${number(found.low / factor)} to ${number(found.high / factor)}, ${found.launches} launches`;
}

/** The rows of the present view: peers that pass the filters and have a cell, each with its cells and summary. */
function rowsOf(data, state, offer) {
  const scales = offer.jobs.map((job) => scaleOf(job.unit, [...job.cells.values()].flatMap((cell) => [...cell.samples.values()])));
  const compared = offer.jobs.filter((job) => !isCount(data, state, job));
  const hidden = state.hidden.split("|"), words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = offer.peers
    .map((name) => {
      const cells = offer.jobs.map((job, place) => cellOf(data, state, job, name, scales[place]));
      const exact = cells.map((cell) => cell.ratio).filter((value) => value !== undefined);
      // A mean over fewer than half of the jobs would cover different jobs from its neighbours.
      const typical = 2 * exact.length < compared.length ? null : geometricMean(exact);
      return { peer: data.peer.get(name), cells, typical, jobs: exact.length };
    })
    .filter(({ peer, cells }) =>
      !hidden.includes(peer.library) &&
      words.every((word) => peer.name.toLowerCase().includes(word)) &&
      (!state.safe || peer.safety === "sound") &&
      (!state.copies || peer.keeps === "never") &&
      (!state.torch || !peer.framework.includes("PyTorch")) &&
      (!state.sound || !(peer.safety === "unsafe" || peer.contract === "broken")) &&
      cells.some((cell) => cell.text !== "–" || cell.about !== data.words.notOffered));
  const place = offer.jobs.findIndex((job) => job.label === state.sort), down = state.down === "1" ? -1 : 1;
  const key = SORTS[state.sort] ?? ((row) => row.cells[place]?.sortBy);
  const order = (one, other) => {
    const a = key(one), b = key(other);
    if (a == null || b == null) return (a == null) - (b == null); // without a figure: last, in either direction
    return down * (a < b ? -1 : a > b ? 1 : 0);
  };
  return { rows: rows.sort(order), scales, compared };
}

function heatTable(data, state, offer, act) {
  const { rows, scales, compared } = rowsOf(data, state, offer);
  const checks = isCheck(data, state), withTypical = state.typical && state.show === "ratio" && !checks;
  const sorter = (key, text, about, css = "") => {
    const is = state.sort === key, arrow = is ? (state.down === "1" ? " ▼" : " ▲") : "";
    const button = make("button", { type: "button", title: about }, text + arrow);
    button.dataset.key = `sort by ${key}`;
    button.onclick = () => act({ sort: key, down: is && state.down === "1" ? "" : "1" });
    const header = make("th", { scope: "col", className: css }, button);
    header.setAttribute("aria-sort", is ? (state.down === "1" ? "descending" : "ascending") : "none");
    return header;
  };
  const head = make("tr", {},
    sorter("name", data.words.peer, "", "peer"),
    sorter("safety", data.words.safety, data.words.safetyAbout),
    sorter("contract", data.words.contract, data.words.contractAbout),
    withTypical ? sorter("typical", data.words.typical, data.words.typicalAbout) : null,
    ...offer.jobs.map((job, place) => {
      const withUnit = !checks && (state.show === "absolute" || isCount(data, state, job));
      return sorter(job.label, withUnit ? `${job.label}, ${scales[place].unit}` : job.label, paramsOf(job));
    }));
  const body = rows.map(({ peer, cells, typical, jobs }) => {
    const name = make("th", { scope: "row", className: "peer", title: peer.usage }, peer.name);
    if (peer.keeps !== "never") name.append(make("small", { title: data.words.keepsAbout }, " †"));
    const row = make("tr", { className: peer.library === "cpprb_impl" ? "ours" : "" }, name,
      make("td", { className: `check ${peer.safety === "unsafe" ? "fault" : ""}`, title: peer.fault }, data.words.safetyOf[peer.safety]),
      make("td", { className: `check ${peer.contract === "broken" ? "fault" : ""}`, title: peer.breach }, data.words.contractOf[peer.contract]),
      withTypical ? make("td", { className: typical ? shadeOf(typical) : "none", title: data.words.jobsOf.replace("{jobs}", jobs).replace("{all}", compared.length) }, typical ? number(typical, 2) : "–") : null,
      ...cells.map((cell, place) => {
        const key = `${peer.name}|${offer.jobs[place].label}`;
        const about = `${peer.name}, ${offer.jobs[place].label}: ${cell.about}`;
        const button = make("button", { type: "button", title: about, ariaLabel: `${cell.text}: ${about}` }, cell.text);
        button.dataset.key = key;
        button.onclick = () => act({ cell: state.cell === key ? "" : key });
        return make("td", { className: `${cell.css} ${state.cell === key ? "chosen" : ""}` }, button);
      }));
    return row;
  });
  const caption = make("caption", { className: "unseen" }, `${data.suites[state.suite].title}, ${state.workload}`);
  return make("table", { className: checks ? "heat checks" : "heat" }, caption, make("thead", {}, head), make("tbody", {}, ...body));
}

function paramsOf(job) {
  return Object.entries(job.params).map(([name, value]) => `${name}=${value}`).join(", ");
}
