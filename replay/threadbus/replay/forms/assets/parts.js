// Pieces that several views show.
function marked(text, limit) {
  const shown = limit && text.length > limit ? `${text.slice(0, limit)}…` : text;
  if (!state.query) return [shown];
  const lower = shown.toLowerCase();
  const parts = [];
  let from = 0;
  // A text may change its length in lower case; then nothing is marked rather than something else.
  while (lower.length === shown.length) {
    const found = lower.indexOf(state.query, from);
    if (found < 0) break;
    parts.push(shown.slice(from, found), el("mark", { text: shown.slice(found, found + state.query.length) }));
    from = found + state.query.length;
  }
  parts.push(shown.slice(from));
  return parts;
}

function dot(place) {
  const agent = RUN.agents[place];
  return paint(el("span", { class: agent && agent.person ? "dot person" : "dot", "aria-hidden": "true" }), place);
}
function who(place) { return paint(el("b", { class: "who" }, marked(nameOf(place))), place); }
function person(place) { return el("span", {}, dot(place), " ", who(place)); }
function card(title, tone, ...kids) { return el("section", { class: `card ${tone || ""}` }, title ? el("h2", { text: title }) : null, ...kids); }
function empty(text) { return el("p", { class: "empty", text }); }

function stepLink(place, text) {
  if (place < 0) return el("span", { text });
  return el("button", { class: "link", type: "button", text, onclick: () => choose(place, true) });
}

function flag(finding) {
  return el("span", { class: `flag ${finding.kind}` }, `${finding.kind === "hint" ? "ⓘ" : "⚠"} ${finding.id}: `, marked(finding.text));
}

function leftOut(step) {
  return step.n ? el("span", { class: "more small", text: ` … ${plural(step.n, "more character")}; --format jsonl has all of it` }) : null;
}

function planList(step) {
  return step.p.length ? el("ol", { class: "plan" }, step.p.map((item) => el("li", {}, marked(item)))) : null;
}

function stepRow(place) {
  const step = RUN.steps[place];
  const isCall = step.k !== "said";
  const facts = step.f.length ? el("span", { class: "facts", text: ` · ${step.f.join(" · ")}` }) : null;
  const head = el("span", { class: "line" }, who(step.a), " ", el("span", { class: `verb ${step.m}` }, marked(step.v, 200)), facts);
  const text = step.x ? el("span", { class: "text" }, marked(step.x, isCall ? 400 : 0), leftOut(step)) : null;
  const body = el("div", { class: isCall ? "plainly" : "bubble" }, head, planList(step), text, (findingsAt.get(place) || []).map(flag));
  const row = el("article", {
    class: `row ${isCall ? "call" : "said"} ${step.m}${place === state.chosen ? " on" : ""}`, "data-place": place,
    "aria-label": `${since(step.t)} ${nameOf(step.a)} ${step.v}`, onclick: () => choose(place, false),
  }, el("span", { class: "time", text: since(step.t) }), dot(step.a), body);
  return paint(row, step.a);
}

function short(text, limit) { return text.length > limit ? `${text.slice(0, limit - 1)}…` : text; }

function outcome(turn) {
  const words = { replied: ["✓ replied", "good"], finished: ["✓ done", "good"], failed: ["✗ failed", "bad"], dead_lettered: ["✗ given up", "bad"] };
  return words[turn.o] || [turn.begun ? "not finished" : "no answer", "warn"];
}

function describe(place) {
  const detail = document.getElementById("detail");
  if (place < 0) { detail.hidden = true; detail.replaceChildren(); return; }
  const step = RUN.steps[place];
  const rows = [];
  const fact = (name, ...value) => rows.push(el("dt", { text: name }), el("dd", {}, ...value));
  const at = new Date(RUN.start_ms + step.t / 1000);
  fact("time", `${since(step.t)} · ${Number.isNaN(at.valueOf()) ? "no known time" : at.toISOString().replace("T", " ").replace("Z", " UTC")}`);
  if (step.d) fact("took", span(step.d));
  fact("thread", RUN.threads[step.h].title);
  if (step.o.length) fact("wakes", step.o.map((agent, index) => [index ? ", " : "", who(agent)]).flat());
  if (step.f.length) fact("more", step.f.join(" · "));
  if (step.c >= 0) fact("caused by", stepLink(step.c, `#${RUN.steps[step.c].s} ${nameOf(RUN.steps[step.c].a)} ${short(RUN.steps[step.c].v, 60)}`));
  if (step.ab >= 0) fact("about", stepLink(step.ab, `#${RUN.steps[step.ab].s} ${nameOf(RUN.steps[step.ab].a)} ${short(RUN.steps[step.ab].v, 60)}`));
  if (step.u >= 0) {
    const turn = RUN.turns[step.u];
    const parts = [`of ${nameOf(turn.a)} for ${nameOf(turn.by)}`, outcome(turn)[0]];
    if (turn.waited >= 0) parts.push(`waited ${span(turn.waited)}`);
    if (turn.worked >= 0) parts.push(`worked ${span(turn.worked)}`);
    fact("turn", parts.join(" · "));
  }
  const woken = RUN.turns.filter((turn) => turn.s === step.s && turn.steps.length).slice(0, 12);
  if (woken.length) fact("led to", woken.map((turn) => el("div", {}, stepLink(turn.steps[0], `${nameOf(turn.a)}: ${plural(turn.steps.length, "step")}`))));
  if (step.y) fact("event", el("code", { text: step.y }));
  fact("id", el("code", { text: step.i }));
  detail.replaceChildren(
    el("div", { class: "head-row" }, el("span", { class: "dim small", text: `step #${step.s}` }),
      el("button", { class: "ghost", type: "button", "aria-label": "Close", text: "✕", onclick: () => choose(-1) })),
    el("h2", {}, person(step.a), " ", el("span", { class: `verb ${step.m}` }, step.v)),
    ...(findingsAt.get(place) || []).map(flag),
    ...[planList(step)].filter(Boolean),
    ...(step.x ? [el("div", { class: "text", tabindex: "0" }, marked(step.x), leftOut(step))] : []),
    el("dl", {}, rows),
  );
  detail.hidden = false;
  detail.scrollTop = 0;
}
