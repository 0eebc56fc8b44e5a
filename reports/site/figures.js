// Medians, intervals and ratios, by the rules of results/frames.py. tests/reports/test_site.py compares both.

/** P(X <= k) of a binomial distribution with n trials of probability 1/2. */
function binomial(k, n) {
  let term = 0.5 ** n, sum = 0;
  for (let i = 0; i <= k; i++) {
    sum += term;
    term *= (n - i) / (i + 1);
  }
  return sum;
}

/** The median and its exact 95% interval; with fewer than six values, the interval is their range. */
function figure(values) {
  const sorted = [...values].sort((one, other) => one - other), n = sorted.length;
  let rank = 1;
  while (rank < n / 2 && binomial(rank, n) <= 0.025) rank += 1;
  const middle = Math.floor(n / 2);
  return {
    value: n % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2,
    low: sorted[rank - 1],
    high: sorted[n - rank],
    launches: n,
  };
}

/** How many times as fast (or as small) `mine` is as `theirs`, within blocks; null without a common block. */
function ratio(mine, theirs, better, fewestCalls) {
  const values = [];
  for (const [block, value] of mine.samples) {
    const other = theirs.samples.get(block);
    if (value > 0 && other > 0) values.push(better === "lower" ? other / value : value / other);
  }
  if (!values.length) return null;
  const found = figure(values);
  const few = theirs.calls > 0 && theirs.calls < fewestCalls;
  return { ...found, isBound: few && mine !== theirs && found.low > 1 };
}

/** The interval in which the ratio of another run of the same machine lies in most jobs. */
function forAnotherRun(found) {
  const factor = Math.max(found.high / found.low, BETWEEN_RUNS);
  return { ...found, low: found.value / factor, high: found.value * factor };
}

function geometricMean(values) {
  return values.length ? Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length) : null;
}

/** Three significant digits, two below 0.1, without an exponent. */
function number(value, digits = 3) {
  if (value === 0) return "0";
  const significant = Math.abs(value) >= 0.1 ? digits : Math.min(digits, 2);
  const rounded = Number(value.toPrecision(significant));
  const places = Math.min(20, Math.max(0, significant - 1 - Math.floor(Math.log10(Math.abs(rounded)) + 1e-12)));
  return rounded.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}

const TIME_UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const SIZE_UNITS = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

/** One scale for all values of a job: seconds as ns to s, bytes as B to GiB, other units as they are. */
function scaleOf(unit, values) {
  const [what, per] = unit.split("/"), least = Math.min(...values.filter((value) => value > 0));
  const units = what === "s" ? TIME_UNITS : what === "bytes" ? SIZE_UNITS : [[1, what]];
  const [factor, name] = units.find(([size]) => size <= least) ?? units.at(-1);
  return { factor, unit: per ? `${name}/${per}` : name };
}
