// The tree: threads, their turns, the steps of those. One row is where the keys are.
const folded = new Set();
let treeCursor = "";
let foldsAll = RUN.steps.length > 1500;

function isFolded(key) { return foldsAll !== folded.has(key); }

// With a search or a filter the steps that are left are shown, folded or not.
function isNarrowed() { return Boolean(state.query || state.onlyFindings || state.kinds.size); }
function rowKey(row) { return row.key || `s${row.step}`; }

function treeRows() {
  const rows = [];
  const shown = new Set(shownSteps());
  const isNarrow = isNarrowed();
  const children = new Map();
  RUN.threads.forEach((thread, place) => {
    const parent = thread.parent === undefined ? -1 : thread.parent;
    const key = parent === place ? -1 : parent;
    if (!children.has(key)) children.set(key, []);
    children.get(key).push(place);
  });
  const entries = RUN.threads.map(() => []);
  RUN.turns.forEach((turn, place) => { if (turn.steps.length || !RUN.agents[turn.a].person) entries[turn.h].push({ turn: place, s: turn.s }); });
  RUN.steps.forEach((step, place) => { if (step.u < 0 || RUN.turns[step.u].h !== step.h) entries[step.h].push({ step: place, s: step.s }); });
  const seen = new Set();
  const visit = (thread, depth) => {
    if (seen.has(thread)) return;
    seen.add(thread);
    const key = `h${thread}`;
    rows.push({ thread, depth, key });
    if (folded.has(key)) return;
    for (const entry of entries[thread].sort((a, b) => a.s - b.s || (a.step === undefined) - (b.step === undefined))) {
      if (entry.step !== undefined) { if (shown.has(entry.step)) rows.push({ step: entry.step, depth: depth + 1 }); continue; }
      const turn = RUN.turns[entry.turn];
      const steps = turn.steps.filter((step) => shown.has(step));
      if (isNarrow ? !steps.length : state.agents.has(turn.a) || (state.thread >= 0 && turn.h !== state.thread)) continue;
      rows.push({ turn: entry.turn, depth: depth + 1, key: `u${entry.turn}`, isLeaf: !steps.length });
      if (isNarrow || !isFolded(`u${entry.turn}`)) for (const step of steps) rows.push({ step, depth: depth + 2 });
    }
    for (const child of children.get(thread) || []) visit(child, depth + 1);
  };
  if (state.thread >= 0) { seen.clear(); RUN.threads.forEach((_, place) => { if (place !== state.thread) seen.add(place); }); visit(state.thread, 0); return rows; }
  for (const root of children.get(-1) || []) visit(root, 0);
  RUN.threads.forEach((_, place) => visit(place, 0));
  return rows;
}

function treeNode(row) {
  const isOpen = row.turn !== undefined ? isNarrowed() || !isFolded(row.key) : !folded.has(row.key);
  const indent = el("span", { class: "indent" });
  indent.style.setProperty("--depth", row.depth);
  const place = row.step !== undefined ? row.step : row.turn !== undefined ? placeOfSeq.get(RUN.turns[row.turn].s) : undefined;
  const twist = row.step === undefined && !row.isLeaf
    ? el("button", { class: "twist", type: "button", tabindex: "-1", "aria-label": isOpen ? "Fold" : "Unfold", text: isOpen ? "▾" : "▸", onclick: (event) => { event.stopPropagation(); fold(row.key); } })
    : el("span", { class: "twist" });
  const node = el("div", {
    class: `node ${row.thread !== undefined ? "thread" : ""}${rowKey(row) === treeCursor ? " on" : ""}`, role: "treeitem", "aria-level": String(row.depth + 1),
    "aria-expanded": row.step === undefined && !row.isLeaf ? String(isOpen) : null, "data-place": row.step,
    onclick: () => { treeCursor = rowKey(row); if (row.step !== undefined) choose(row.step); else if (!row.isLeaf) fold(row.key); },
  });
  if (row.thread !== undefined) {
    const thread = RUN.threads[row.thread];
    node.append(indent, twist, el("span", { class: "what" }, `thread ${thread.title}`, el("span", { class: "dim small", text: ` ${(thread.members || []).slice(0, 8).join(", ")}${thread.outcome ? ` · ${thread.outcome}` : ""}${thread.summary ? ` · ${short(thread.summary, 80)}` : ""}` })));
  } else if (row.turn !== undefined) {
    const turn = RUN.turns[row.turn];
    const [word, tone] = outcome(turn);
    const parts = [];
    if (turn.waited >= 0) parts.push(`waited ${span(turn.waited)}`);
    if (turn.worked >= 0) parts.push(`worked ${span(turn.worked)}`);
    if (turn.n > 1) parts.push(`attempt ${turn.n}`);
    node.append(el("span", { class: "time", text: since(turn.q) }), indent, twist, dot(turn.a),
      el("span", { class: "what" }, who(turn.a), " ← ", turn.by >= 0 ? who(turn.by) : "a mention that is not in this log", el("span", { class: "dim small", text: parts.length ? ` · ${parts.join(" · ")} · ` : " · " }), el("span", { class: `verb ${tone}`, text: word }), turn.x ? el("span", { class: "dim" }, ": ", marked(turn.x, 160)) : null));
  } else {
    const step = RUN.steps[place];
    const found = findingsAt.get(place) || [];
    const isOwn = step.u >= 0;
    node.append(el("span", { class: "time", text: since(step.t) }), indent, twist, el("span", { class: "what" }, isOwn ? null : [who(step.a), " "], el("span", { class: `verb ${step.m}` }, marked(step.v, 120)), step.f.length ? el("span", { class: "dim small", text: ` · ${step.f.join(" · ")}` }) : null, step.x ? [": ", ...marked(step.x.replace(/\n/g, " "), 200)] : null, found.map((one) => el("span", { class: `tag kind ${one.kind}`, text: `⚠ ${one.id}` }))));
  }
  return node;
}

function drawTree(panel) {
  const all = el("button", { class: "chip", type: "button", text: foldsAll ? "unfold all turns" : "fold all turns", onclick: () => { foldsAll = !foldsAll; folded.clear(); redraw(); } });
  panel.append(el("div", { class: "list" }, all));
  const chosen = RUN.steps[state.chosen];
  if (chosen) {
    treeCursor = `s${state.chosen}`;
    if (chosen.u >= 0 && isFolded(`u${chosen.u}`)) flipFold(`u${chosen.u}`);
  }
  const rows = treeRows();
  const made = listOf(panel, rows, treeNode, 27, (row) => row.step, "");
  const index = () => rows.findIndex((row) => rowKey(row) === treeCursor);
  made.list.node.setAttribute("role", "tree");
  made.list.node.setAttribute("aria-label", "Threads, turns and steps");
  made.move = (by) => {
    const now = index();
    const next = now < 0 ? (by === -1 || by > 1 ? rows.length - 1 : 0) : Math.min(Math.max(now + by, 0), rows.length - 1);
    for (const node of made.list.node.querySelectorAll(".on")) node.classList.remove("on");
    treeCursor = rowKey(rows[next]);
    if (rows[next].step !== undefined) choose(rows[next].step);
    else { choose(-1); made.list.reveal(next); }
    const node = made.list.at(next);
    if (node) { node.classList.add("on"); say(node.textContent); }
  };
  made.turn = (isToOpen) => {
    const row = rows[index()];
    if (!row || row.step !== undefined || row.isLeaf) return;
    const isOpen = row.turn !== undefined ? !isFolded(row.key) : !folded.has(row.key);
    if (isOpen !== isToOpen) fold(row.key);
  };
  return made;
}

function flipFold(key) { if (folded.has(key)) folded.delete(key); else folded.add(key); }

function fold(key) {
  flipFold(key);
  redraw(true);
}
