// What is chosen, the keys, and the address.
let current = {};

function redraw(keepsPlace) {
  const panel = document.getElementById("view");
  const top = panel.scrollTop;
  for (const part of [current.list, current.lanes]) if (part) part.close();
  panel.replaceChildren();
  current = VIEWS[state.view].draw(panel) || {};
  if (!keepsPlace) panel.scrollTop = 0;
  else panel.scrollTop = top;
  for (const tab of document.getElementById("tabs").children) {
    const isOn = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(isOn));
    tab.tabIndex = isOn ? 0 : -1;
  }
  panel.setAttribute("aria-label", VIEWS[state.view].title);
  document.getElementById("filters").hidden = !["conversation", "timeline", "tree"].includes(state.view);
}

function open(view, isQuiet) {
  state.view = view;
  redraw();
  if (state.chosen >= 0) reveal();
  if (!isQuiet && state.chosen < 0) address(`#${view}`);
  say(`${VIEWS[view].title}`);
}

// An address may not be changed in every place that a page can be opened from.
function address(hash) { try { history.replaceState(null, "", hash); } catch { /* it stays as it was */ } }
function say(text) { document.getElementById("say").textContent = text; }

function reveal() {
  if (current.lanes && current.lanes.plan) current.lanes.show(state.chosen);
  if (!current.list) return;
  const index = current.rows.findIndex((row) => current.placeOf(row) === state.chosen);
  if (index >= 0) current.list.reveal(index);
}

function choose(place, opens) {
  const before = document.querySelector(`[data-place="${state.chosen}"]`);
  if (before) before.classList.remove("on");
  state.chosen = place;
  describe(place);
  if (place < 0) { address(`#${state.view}`); if (current.lanes) current.lanes.draw(); return; }
  address(`#seq-${RUN.steps[place].s}`);
  if (opens && !["conversation", "timeline", "tree"].includes(state.view)) { state.view = "conversation"; }
  if (opens) {
    if (!isShown(place)) clearFilters();
    redraw();
  }
  reveal();
  const row = document.querySelector(`[data-place="${place}"]`);
  if (row) row.classList.add("on");
}

function move(by) {
  if (current.move) { current.move(by); return; }
  if (!current.rows) open("conversation");
  const places = current.rows.map(current.placeOf).filter((place) => place !== undefined);
  if (!places.length) return;
  const index = places.indexOf(state.chosen);
  const next = index < 0 ? (by === 1 || by < -1 ? 0 : places.length - 1) : Math.min(Math.max(index + by, 0), places.length - 1);
  choose(places[next]);
}

function clearFilters() {
  Object.assign(state, { query: "", thread: -1, onlyFindings: false });
  state.agents.clear();
  state.kinds.clear();
  document.getElementById("search").value = "";
  drawFilters();
}

function search(text) {
  state.query = text.trim().toLowerCase();
  if (state.query && ["overview", "plans", "votes", "artifacts"].includes(state.view)) state.view = "conversation";
  redraw();
  drawFilters();
  if (state.query) say(`${plural(shownSteps().length, "step")} found`);
}

function drawFilters() {
  const host = document.getElementById("filters");
  const chip = (label, isOn, does, mark) => el("button", { class: "chip", type: "button", "aria-pressed": String(isOn), onclick: () => { does(); drawFilters(); redraw(); } }, mark, label);
  const flip = (set, value) => () => { if (set.has(value)) set.delete(value); else set.add(value); };
  const parts = [];
  if (state.query) parts.push(el("span", { class: "small dim", text: `${number(shownSteps().length)} of ${number(RUN.steps.length)}` }));
  if (RUN.threads.length > 1) {
    const select = el("select", { "aria-label": "Thread", onchange: () => { state.thread = Number(select.value); redraw(); } },
      el("option", { value: "-1", text: "all threads" }), RUN.threads.map((thread, place) => el("option", { value: String(place), text: short(thread.title, 50) })));
    select.value = String(state.thread);
    parts.push(select);
  }
  if (RUN.agents.length <= 10) RUN.agents.forEach((agent, place) => parts.push(chip(agent.name, !state.agents.has(place), flip(state.agents, place), dot(place))));
  else {
    const select = el("select", { "aria-label": "Agent", onchange: () => {
      state.agents.clear();
      if (select.value !== "-1") RUN.agents.forEach((_, place) => { if (String(place) !== select.value) state.agents.add(place); });
      redraw();
    } }, el("option", { value: "-1", text: "all agents" }), RUN.agents.map((agent, place) => el("option", { value: String(place), text: agent.name })));
    const left = RUN.agents.findIndex((_, place) => !state.agents.has(place));
    select.value = state.agents.size ? String(left) : "-1";
    parts.push(select);
  }
  for (const [kind, label] of Object.entries(KINDS)) if (RUN.steps.some((step) => step.k === kind)) parts.push(chip(label, !state.kinds.has(kind), flip(state.kinds, kind)));
  if (RUN.findings.length) {
    const only = chip("only findings", state.onlyFindings, () => { state.onlyFindings = !state.onlyFindings; });
    only.classList.add("only");
    parts.push(only);
  }
  host.replaceChildren(...parts);
}

function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  if (current.lanes) current.lanes.draw();
}

function nextFinding() {
  const places = [...findingsAt.keys()].sort((a, b) => a - b);
  if (places.length) choose(places.find((place) => place > state.chosen) ?? places[0], true);
}

function escape() {
  if (state.query) { document.getElementById("search").value = ""; search(""); document.getElementById("view").focus(); } else if (state.chosen >= 0) choose(-1);
}

const KEYS = [
  ["j  k", "next, previous step"], ["/", "search; Esc clears it"], ["1 … 8", "views"], ["← →", "views, on the tabs"],
  ["↓ ↑ ← →", "on the tree: move, fold and unfold"], ["g  G", "first, last step"], ["f", "next finding"], ["d", "dark or light"], ["Esc", "close what is open"], ["arrows + − 0", "on the time line: choose, zoom, everything"], ["?", "this list"],
];

function onKey(event) {
  const dialog = document.getElementById("help");
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const field = event.target.closest("input, select, textarea");
  if (event.key === "Escape") { escape(); if (field) field.blur(); return; }
  if (field) { if (event.key === "Enter" && field.id === "search") { document.getElementById("view").focus(); move(1); } return; }
  const does = {
    j: () => move(1), k: () => move(-1), g: () => move(-1e9), G: () => move(1e9), f: nextFinding,
    d: () => setTheme(state.theme === "dark" ? "light" : "dark"), "?": () => dialog.showModal(), "/": () => document.getElementById("search").focus(),
  };
  if (state.view === "tree" && !event.target.closest("[role=tab]")) {
    Object.assign(does, { ArrowDown: () => move(1), ArrowUp: () => move(-1), ArrowRight: () => current.turn(true), ArrowLeft: () => current.turn(false) });
  }
  const view = Object.keys(VIEWS)[Number(event.key) - 1];
  if (view) open(view);
  else if (does[event.key]) does[event.key]();
  else return;
  event.preventDefault();
}

function onTabKey(event) {
  const names = Object.keys(VIEWS);
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const index = { Home: 0, End: names.length - 1 }[event.key] ?? (by ? (names.indexOf(state.view) + by + names.length) % names.length : -1);
  if (index < 0) return;
  event.preventDefault();
  open(names[index]);
  document.getElementById("tabs").children[index].focus();
}

function onAddress(isFirst) {
  const hash = location.hash.slice(1);
  const seq = /^seq-(\d+)$/.exec(hash);
  if (seq && placeOfSeq.has(Number(seq[1]))) { state.chosen = placeOfSeq.get(Number(seq[1])); choose(state.chosen, true); } else if (Object.hasOwn(VIEWS, hash)) open(hash, true); else if (isFirst) redraw();
}

function start() {
  const status = document.getElementById("status");
  status.textContent = RUN.status.replace("_", " ");
  status.className = `pill ${statusTone()}`;
  document.getElementById("title").textContent = RUN.title;
  document.getElementById("title").title = RUN.title;
  document.getElementById("tabs").append(...Object.entries(VIEWS).map(([name, view], index) => el("button", { role: "tab", type: "button", id: `tab-${name}`, "data-view": name, "aria-controls": "view", title: `${view.title} (${index + 1})`, onclick: () => open(name) },
    view.title, view.count && view.count() ? el("span", { class: `count ${view.isBad && view.isBad() ? "bad" : ""}`, text: number(view.count()) }) : null)));
  document.getElementById("help").append(el("h2", { text: "Keys" }), el("dl", {}, KEYS.map(([keys, text]) => [el("dt", {}, el("kbd", { text: keys })), el("dd", { text })]).flat()),
    el("form", { method: "dialog" }, el("button", { class: "ghost", text: "Close" })));
  let waiting = 0;
  const field = document.getElementById("search");
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => search(field.value), 120); });
  document.getElementById("theme").addEventListener("click", () => setTheme(state.theme === "dark" ? "light" : "dark"));
  document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
  document.getElementById("tabs").addEventListener("keydown", onTabKey);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => onAddress(false));
  window.addEventListener("beforeprint", () => { if (current.list) current.list.fillAll(); });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  setTheme(dark.matches ? "dark" : "light");
  drawFilters();
  onAddress(true);
}

start();
