// The run, and small helpers. Every text becomes a text node: nothing of it is ever parsed.
const RUN = JSON.parse(document.getElementById("run").textContent);
const KINDS = { said: "messages", model: "model calls", tool: "tool calls", failure: "failures" };

for (const step of RUN.steps) {
  for (const [name, value] of Object.entries({ y: "", d: 0, m: "plain", f: [], x: "", n: 0, o: [], p: [], r: false, u: -1, c: -1, ab: -1 })) {
    if (step[name] === undefined) step[name] = value;
  }
}
for (const turn of RUN.turns) {
  for (const [name, value] of Object.entries({ by: -1, q: 0, b: 0, e: 0, o: "", n: 0, begun: false, waited: -1, worked: -1, tin: 0, tout: 0, x: "" })) {
    if (turn[name] === undefined) turn[name] = value;
  }
  turn.steps = [];
}
for (const agent of RUN.agents) {
  for (const name of ["turns", "waited", "worked", "model", "tin", "tout", "tools", "failures", "messages"]) agent[name] ||= 0;
}
const findingsAt = new Map();
RUN.findings.forEach((finding) => {
  if (!findingsAt.has(finding.at)) findingsAt.set(finding.at, []);
  findingsAt.get(finding.at).push(finding);
});
const placeOfSeq = new Map();
RUN.steps.forEach((step, place) => {
  placeOfSeq.set(step.s, place);
  if (step.u >= 0) RUN.turns[step.u].steps.push(place);
});

const state = {
  view: "overview", chosen: -1, query: "", thread: -1, theme: "",
  agents: new Set(), kinds: new Set(), onlyFindings: false,
};

function el(tag, attributes, ...kids) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...kids.flat().filter((kid) => kid !== null && kid !== undefined && kid !== false && kid !== ""));
  return node;
}

function number(value) { return value.toLocaleString("en-US"); }
function plural(count, word) { return `${number(count)} ${word}${count === 1 ? "" : "s"}`; }

function span(us) {
  if (us < 1000) return us < 100 ? "0 ms" : `${(us / 1000).toFixed(1)} ms`;
  if (us < 1e6) return `${Math.floor(us / 1000)} ms`;
  if (us < 6e7) return us < 1e7 ? `${(us / 1e6).toFixed(2)} s` : `${(us / 1e6).toFixed(1)} s`;
  if (us < 3.6e9) return `${Math.floor(us / 6e7)} min ${Math.floor((us % 6e7) / 1e6)} s`;
  if (us < 8.64e10) return `${Math.floor(us / 3.6e9)} h ${Math.floor((us % 3.6e9) / 6e7)} min`;
  return `${number(Math.floor(us / 8.64e10))} d ${Math.floor((us % 8.64e10) / 3.6e9)} h`;
}

function since(us) {
  if (us < 1e6) return `+${Math.floor(us / 1000)}ms`;
  if (us < 1e8) return `+${(us / 1e6).toFixed(2)}s`;
  if (us < 6e9) return `+${Math.floor(us / 6e7)}m${String(Math.floor((us % 6e7) / 1e6)).padStart(2, "0")}s`;
  if (us < 3.6e11) return `+${Math.floor(us / 3.6e9)}h${String(Math.floor((us % 3.6e9) / 6e7)).padStart(2, "0")}m`;
  return `+${Math.floor(us / 8.64e10)}d`;
}

function nameOf(place) { return place >= 0 && RUN.agents[place] ? RUN.agents[place].name : "unknown"; }
function hueOf(place) { return place < 0 ? 0 : Math.round((255 + place * 137.508) % 360); }
function paint(node, place) { node.classList.add("agent"); node.style.setProperty("--hue", hueOf(place)); return node; }

const known = new Array(RUN.steps.length);
function haystack(place) {
  if (known[place] === undefined) {
    const step = RUN.steps[place];
    known[place] = `${nameOf(step.a)} ${step.v} ${step.x} ${step.p.join(" ")} ${step.f.join(" ")} ${step.y} #${step.s} ${(findingsAt.get(place) || []).map((one) => `${one.id} ${one.text}`).join(" ")}`.toLowerCase();
  }
  return known[place];
}

function isShown(place) {
  const step = RUN.steps[place];
  return (state.thread < 0 || step.h === state.thread) && !state.agents.has(step.a) && !state.kinds.has(step.k)
    && (!state.onlyFindings || findingsAt.has(place)) && (!state.query || haystack(place).includes(state.query));
}

function shownSteps() {
  const found = [];
  for (let place = 0; place < RUN.steps.length; place += 1) if (isShown(place)) found.push(place);
  return found;
}
