// Polls `overview` and shows it. Everything from the host becomes text of nodes, never markup.
"use strict";

const POLL_MILLIS = 2000;
const PATIENCE_MILLIS = 10000;

const byId = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Numbers as text ---------------------------------------------------------------------------------------------------

function number(value) {
  if (value === 0) return "0";
  if (value < 0.01) return "<0.01";
  return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

function count(value) {
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1);
}

function bytes(value) {
  if (value === undefined || value === null) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

function seconds(value) {
  if (value === undefined || value === null) return "–";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${value < 0.01 ? (value * 1000).toFixed(1) : Math.round(value * 1000)} ms`;
  return value < 120 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
}

function age(value) {
  if (value < 120) return `${value} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min`;
  return value < 172800 ? `${Math.floor(value / 3600)} h` : `${Math.floor(value / 86400)} d`;
}

// Plots -------------------------------------------------------------------------------------------------------------

const PLOTS = [
  { title: "Runs per second", format: number, lines: [["runs", "runsPerSecond"], ["faults", "faultsPerSecond"]] },
  { title: "Time of a run", format: seconds, lines: [["median", "p50Seconds"], ["P99", "p99Seconds"]] },
  { title: "Keys", format: count, whole: true, lines: [["queued", "ready"], ["running", "running"]] },
  { title: "Memory", format: bytes, binary: true, lines: [["memory", "memoryBytes"]] },
];
const CLASSES = ["first", "second"];
const HEIGHT = 144;
const MARGIN = { left: 58, right: 8, top: 8, bottom: 18 };

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

// The least round number that is not below the value.
function ceiling(value, plot) {
  if (!(value > 0)) return 1;
  const base = plot.binary ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const power = base * 10 ** Math.floor(Math.log10(value / base));
  const found = [1, 2, 4, 5, 10].map((step) => step * power).find((round) => round >= value) ?? 10 * power;
  return plot.whole ? Math.max(2, found) : found;
}

function draw(figure, plot, series) {
  const ago = series.secondsAgo ?? [];
  const lines = plot.lines.map(([name, field]) => [name, series[field] ?? []]);
  const values = lines.flatMap(([, points]) => points.filter((value) => value !== null));
  const highest = ceiling(Math.max(0, ...values), plot);
  const span = Math.max(60, ...ago);
  const drawing = figure.querySelector("svg");
  const width = Math.max(160, drawing.clientWidth || 400);
  const x = (seconds) => width - MARGIN.right - (seconds / span) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => HEIGHT - MARGIN.bottom - (value / highest) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const parts = [];
  for (const part of [0, 0.5, 1]) {
    const at = y(highest * part);
    parts.push(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
    const label = part === 0 ? "0" : plot.format(highest * part);
    parts.push(svg("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, label));
  }
  const minutes = span / 60;
  const first = minutes >= 1.5 ? `${Math.round(minutes)} min ago` : `${Math.round(span)} s ago`;
  parts.push(svg("text", { x: MARGIN.left, y: HEIGHT - 3 }, first));
  parts.push(svg("text", { x: width - MARGIN.right, y: HEIGHT - 3, "text-anchor": "end" }, "now"));
  lines.forEach(([, points], n) => {
    let path = "";
    points.forEach((value, i) => {
      if (value === null) return;
      const continues = i > 0 && points[i - 1] !== null;
      path += `${continues ? "L" : "M"}${x(ago[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      const alone = !continues && (i + 1 >= points.length || points[i + 1] === null);
      if (alone) parts.push(svg("circle", { class: CLASSES[n], cx: x(ago[i]), cy: y(value), r: 2 }));
    });
    parts.push(svg("path", { class: CLASSES[n], d: path || "M0 0" }));
  });
  const shown = (i) => lines.map(([name, points]) => `${name} ${i in points && points[i] !== null ? plot.format(points[i]) : "–"}`);
  const latest = shown(ago.length - 1);
  drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  drawing.setAttribute("aria-label", ago.length ? `${plot.title}, now: ${latest.join(", ")}` : `${plot.title}: no values yet`);
  drawing.replaceChildren(...parts);
  const keys = figure.querySelectorAll("figcaption .key");
  const read = (texts) => keys.forEach((key, n) => { key.textContent = texts[n]; });
  read(latest);
  drawing.onpointerleave = () => {
    drawing.querySelector(".cursor")?.remove();
    read(latest);
  };
  drawing.onpointermove = (event) => {
    const at = event.clientX - drawing.getBoundingClientRect().left;
    const distances = ago.map((value) => Math.abs(x(value) - at));
    const nearest = distances.indexOf(Math.min(...distances));
    if (nearest < 0) return;
    drawing.querySelector(".cursor")?.remove();
    const line = x(ago[nearest]);
    drawing.append(svg("line", { class: "cursor", x1: line, x2: line, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    read(shown(nearest));
  };
}

function plots(container, series) {
  if (!container.children.length) {
    for (const plot of PLOTS) {
      const figure = element("figure");
      const caption = element("figcaption", plot.title);
      const legend = element("span");
      plot.lines.forEach((_, n) => legend.append(" ", element("span", "", `key ${CLASSES[n]}`)));
      caption.append(legend);
      figure.append(caption, svg("svg", { role: "img" }));
      container.append(figure);
    }
  }
  PLOTS.forEach((plot, i) => draw(container.children[i], plot, series));
}

// Table -------------------------------------------------------------------------------------------------------------

const failed = (plugin) => plugin.runs.error + plugin.runs.terminalError + plugin.runs.fault;
const COLUMNS = [
  { title: "Name", key: (plugin) => plugin.name },
  { title: "Phase", key: (plugin) => plugin.phase, text: (plugin) => (plugin.problem ? `${plugin.phase} !` : plugin.phase), bad: (plugin) => plugin.problem && plugin.phase !== "Starting" },
  { title: "Queued", number: true, key: (plugin) => plugin.queue.ready },
  { title: "Delayed", number: true, key: (plugin) => plugin.queue.delayed },
  { title: "Held", number: true, key: (plugin) => plugin.queue.held },
  { title: "Running", number: true, key: (plugin) => plugin.queue.running, text: (plugin) => `${plugin.queue.running}/${plugin.workers}` },
  { title: "Runs/s", number: true, key: (plugin) => plugin.runsPerSecond, text: (plugin) => number(plugin.runsPerSecond) },
  { title: "Median", number: true, key: (plugin) => plugin.latency?.p50Seconds ?? -1, text: (plugin) => seconds(plugin.latency?.p50Seconds) },
  { title: "P99", number: true, key: (plugin) => plugin.latency?.p99Seconds ?? -1, text: (plugin) => seconds(plugin.latency?.p99Seconds) },
  { title: "Failed", number: true, key: failed },
  { title: "Faults", number: true, key: (plugin) => plugin.faults, bad: (plugin) => plugin.faults > 0 },
  { title: "Memory", number: true, key: (plugin) => plugin.memoryBytes, text: (plugin) => bytes(plugin.memoryBytes) },
];

const state = { overview: null, detail: null, selected: null, column: 0, descending: false, waits: false };
const rows = new Map();

function compare(left, right) {
  const key = COLUMNS[state.column].key;
  const [a, b] = [key(left), key(right)];
  const order = a < b ? -1 : a > b ? 1 : 0;
  return (state.descending ? -order : order) || (left.name < right.name ? -1 : 1);
}

function header() {
  const cells = COLUMNS.map((column, i) => {
    const cell = element("th", undefined, column.number ? "number" : "");
    cell.scope = "col";
    const button = element("button", column.title);
    button.type = "button";
    button.addEventListener("click", () => {
      state.descending = state.column === i ? !state.descending : Boolean(column.number);
      state.column = i;
      table();
    });
    cell.append(button);
    return cell;
  });
  byId("plugins").tHead.rows[0].replaceChildren(...cells);
}

function row(plugin) {
  const known = rows.get(plugin.name);
  if (known) return known;
  const made = element("tr");
  COLUMNS.forEach((column, i) => {
    const cell = element(i === 0 ? "th" : "td", undefined, column.number ? "number" : "");
    if (i === 0) {
      cell.scope = "row";
      const button = element("button", plugin.name);
      button.type = "button";
      button.title = plugin.name;
      button.addEventListener("click", () => select(plugin.name));
      cell.append(button);
    }
    made.append(cell);
  });
  rows.set(plugin.name, made);
  return made;
}

function table() {
  const { plugins, omitted } = state.overview;
  const wanted = byId("filter").value.trim().toLowerCase();
  const shown = plugins.filter((plugin) => plugin.name.toLowerCase().includes(wanted)).sort(compare);
  const names = new Set(plugins.map((plugin) => plugin.name));
  for (const name of rows.keys()) if (!names.has(name)) rows.delete(name);
  const body = byId("plugins").tBodies[0];
  const made = shown.map((plugin) => {
    const found = row(plugin);
    found.className = plugin.name === state.selected ? "selected" : "";
    COLUMNS.forEach((column, i) => {
      if (i === 0) return;
      const cell = found.cells[i];
      cell.textContent = column.text ? column.text(plugin) : String(column.key(plugin));
      cell.classList.toggle("bad", Boolean(column.bad?.(plugin)));
      if (column.title === "Phase") cell.title = plugin.problem ?? "";
    });
    return found;
  });
  // Only what moves is touched, so that the focus stays.
  made.forEach((wantedRow, i) => {
    if (body.rows[i] !== wantedRow) body.insertBefore(wantedRow, body.rows[i] ?? null);
  });
  while (body.rows.length > made.length) body.rows[made.length].remove();
  [...byId("plugins").tHead.rows[0].cells].forEach((cell, i) => {
    cell.setAttribute("aria-sort", i !== state.column ? "none" : state.descending ? "descending" : "ascending");
  });
  const more = omitted ? `; ${omitted} more are not shown` : "";
  byId("count").textContent = plugins.length ? `${shown.length} of ${plugins.length} plugins${more}` : "No plugins are loaded.";
}

// Parts of the page ---------------------------------------------------------------------------------------------------

function facts(list, pairs) {
  const made = pairs.map(([name, value, className]) => {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value, className));
    return pair;
  });
  list.replaceChildren(...made);
}

function role(host) {
  const { elections } = host;
  if (!elections.length) return ["No leader election: this host works alone", ""];
  const parts = elections.map((election) => {
    if (election.leads) return `Leads ${election.lease}`;
    const holder = election.holder === undefined ? "the Lease was not read yet" : election.holder ? `${election.holder} leads` : "nobody leads";
    return `On standby for ${election.lease}: ${holder}`;
  });
  return [parts.join("; "), elections.some((election) => election.leads) ? "leads" : "standby"];
}

function overview() {
  const { host, series, at } = state.overview;
  const [text, className] = role(host);
  byId("role").textContent = text;
  byId("role").className = `role ${className}`;
  facts(byId("facts"), [
    ["Version", host.version],
    ["Up", age(host.upSeconds)],
    ["Memory", bytes(host.residentBytes)],
    ["API server", host.apiServerProblem ?? "answers", host.apiServerProblem ? "bad" : ""],
    ["At", at.slice(11, 19) + " UTC"],
  ]);
  plots(byId("plots"), series);
  table();
}

function detail() {
  byId("detail").hidden = !state.selected;
  if (!state.selected) return;
  byId("detail-title").textContent = state.selected;
  const found = state.detail;
  if (!found) {
    facts(byId("detail-facts"), []);
    byId("detail-plots").replaceChildren();
    byId("detail-error").textContent = "";
    byId("keys").tBodies[0].replaceChildren();
    return;
  }
  const { plugin, queues } = found;
  facts(byId("detail-facts"), [
    ["Version", plugin.version],
    ["Phase", plugin.phase],
    ...(plugin.problem ? [["Problem", plugin.problem, "bad"]] : []),
    ["Runs", `${(plugin.runs.success + plugin.runs.requeueAfter).toLocaleString("en")} good, ${failed(plugin).toLocaleString("en")} failed`],
    ["P90", seconds(plugin.latency?.p90Seconds)],
    ["Instances", `${plugin.instances}, ${bytes(plugin.instanceBytes)}`],
    ["Caches", `${plugin.cachedObjects.toLocaleString("en")} objects, ${bytes(plugin.cachedBytes)}`],
    ["Held for runs", bytes(plugin.heldBytes)],
  ]);
  plots(byId("detail-plots"), found.series);
  byId("detail-error").textContent = plugin.lastError ?? "none";
  const keys = queues.flatMap((queue) => queue.keys.map((key) => [queue.name, key]));
  const made = keys.map(([queue, key]) => {
    const line = element("tr");
    const time = key.state === "delayed" ? `in ${seconds((key.afterMs ?? 0) / 1000)}` : key.forMs === undefined ? "–" : seconds(key.forMs / 1000);
    const name = element("td", key.key);
    name.title = key.key;
    line.append(element("td", key.state === "ready" ? "queued" : key.state), name, element("td", queue), element("td", time, "number"));
    line.append(element("td", String(key.failures + key.faults), "number"));
    return line;
  });
  byId("keys").tBodies[0].replaceChildren(...made);
  const all = queues.reduce((sum, queue) => sum + queue.ready + queue.delayed + queue.running + queue.held, 0);
  byId("keys-count").textContent = all ? `${keys.length} of ${all} keys` : "Its queues are empty.";
}

function select(name) {
  state.selected = name;
  state.detail = null;
  table();
  detail();
  if (name) {
    byId("detail-title").scrollIntoView({ block: "nearest" });
    refresh();
  }
}

// Polling -------------------------------------------------------------------------------------------------------------

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MILLIS) });
  if (answer.status === 401 || answer.status === 403) throw new Error("You may not read this page any more");
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`The host answers ${answer.status}`);
  return answer.json();
}

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
  document.body.classList.toggle("stale", Boolean(text));
}

async function refresh() {
  if (state.waits || document.hidden) return;
  state.waits = true;
  const asked = state.selected;
  try {
    state.overview = await get("overview");
    const found = asked && (await get(`overview/${encodeURIComponent(asked)}`));
    if (asked === state.selected) state.detail = found;
    if (!state.overview) throw new Error("The host has no such page; is it of another version?");
    overview();
    detail();
    notice(asked && !found ? `${asked} is not loaded any more` : "");
  } catch (why) {
    const what = why instanceof TypeError || why.name === "TimeoutError" ? "The host does not answer" : why.message;
    const since = state.overview ? `; these are the values of ${state.overview.at.slice(11, 19)} UTC` : "";
    notice(`${what}${since}. Trying again.`);
  } finally {
    state.waits = false;
  }
}

header();
byId("filter").addEventListener("input", () => state.overview && table());
byId("close").addEventListener("click", () => select(null));
document.addEventListener("visibilitychange", refresh);
window.addEventListener("resize", () => {
  if (!state.overview) return;
  plots(byId("plots"), state.overview.series);
  if (state.detail) plots(byId("detail-plots"), state.detail.series);
});
setInterval(refresh, POLL_MILLIS);
refresh();
