// One function for each view: it fills the panel, and returns what the keys need of it.
const VIEWS = {
  overview: { title: "Overview", draw: drawOverview },
  conversation: { title: "Conversation", draw: drawConversation },
  timeline: { title: "Timeline", draw: drawTimeline },
  tree: { title: "Tree", draw: drawTree },
  plans: { title: "Plans", draw: drawPlans, count: () => RUN.plans.length },
  votes: { title: "Votes", draw: drawVotes, count: () => RUN.votes.length },
  artifacts: { title: "Artifacts", draw: drawArtifacts, count: () => RUN.artifacts.length },
  findings: { title: "Findings", draw: drawFindings, count: () => RUN.findings.length, isBad: () => RUN.findings.some((one) => one.kind === "violation") },
};

function statusTone() {
  return { completed: "good", failed: "bad", cancelled: "bad", input_required: "warn", paused: "warn" }[RUN.status] || "";
}

function drawOverview(panel) {
  const totals = RUN.totals;
  const working = RUN.agents.filter((agent) => agent.turns && !agent.person);
  const tile = (value, label, isBad) => el("div", { class: `tile ${isBad ? "bad" : ""}` }, el("b", { text: value }), el("span", { class: "dim small", text: label }));
  const tiles = [
    tile(span(RUN.duration), RUN.over ? "from question to close" : "so far"),
    tile(number(working.length), working.length === 1 ? "agent" : "agents"),
    tile(number(working.reduce((sum, agent) => sum + agent.turns, 0)), "turns"),
    tile(number(totals.model_calls), "model calls"),
    tile(number(totals.input_tokens + totals.output_tokens), "tokens"),
    tile(number(totals.tool_calls), totals.tool_errors ? `tool calls, ${totals.tool_errors} failed` : "tool calls"),
    tile(number(totals.failures + totals.dead_letters), "failed attempts", totals.failures + totals.dead_letters > 0),
  ];
  if (RUN.cost) {
    const [amount, ...currency] = RUN.cost.split(" ");
    tiles.splice(5, 0, tile(amount, `${currency.join(" ")}, cost`));
  }
  if (RUN.findings.length) tiles.push(tile(number(RUN.findings.length), RUN.findings.length === 1 ? "finding" : "findings", RUN.findings.some((one) => one.kind === "violation")));
  const answer = RUN.answer
    ? card(RUN.answer.accepted ? "Answer" : "Answer, not accepted yet", RUN.answer.accepted ? "good" : "warn",
      el("div", { class: "text big" }, RUN.answer.text, RUN.answer.more ? el("span", { class: "more", text: ` … ${plural(RUN.answer.more, "more character")}` }) : null),
      (RUN.answer.dissent || []).map((text) => el("p", { class: "flag", text: `dissent: ${text}` })),
      el("p", { class: "small dim" }, "by ", person(RUN.answer.a), " · ", stepLink(RUN.answer.at, "where it was given")))
    : card("Answer", RUN.over ? "bad" : "warn", el("p", { class: "big", text: RUN.over ? `Ended as ${RUN.status} without an answer.` : "None yet." }), RUN.summary ? el("p", { class: "text", text: RUN.summary }) : null);
  const gravest = ["violation", "symptom", "hint"].flatMap((kind) => RUN.findings.filter((one) => one.kind === kind));
  const look = [
    ...RUN.suspects.slice(0, 2).map((one) => suspectLine(one)),
    ...gravest.slice(0, 4).map((one) => findingLine(one)),
    gravest.length > 4 || RUN.suspects.length > 2 ? el("div", {}, el("button", { class: "link", type: "button", text: `all ${plural(gravest.length, "finding")}`, onclick: () => open("findings") })) : null,
    ...RUN.notes.slice(0, 6).map((text) => el("p", { class: "small", text: short(text, 240) })),
  ].filter(Boolean);
  const [lanes, drawing] = lanesCard(true);
  const part = RUN.part ? el("p", { class: "flag", text: `Only a part of the run: ${RUN.part}. The numbers are of the whole run.` }) : null;
  panel.append(el("div", { class: "page" }, part,
    el("div", { class: "tiles" }, tiles),
    el("div", { class: "two" },
      el("div", { class: "stack" }, card("Question", "", el("div", { class: "text big" }, RUN.question || RUN.title), el("p", { class: "small dim", text: `${RUN.opened_by ? `by ${RUN.opened_by}, ` : ""}${RUN.opened}` })), answer),
      card("Worth a look", RUN.findings.some((one) => one.kind === "violation") ? "bad" : look.length ? "warn" : "", look.length ? el("div", { class: "stack" }, look) : el("p", { class: "dim", text: "Nothing stands out." }))),
    el("section", { class: "card" }, drawing),
    agentsCard(working),
    card("See it elsewhere", "", RUN.commands.map((command) => el("div", {}, el("code", { text: command })))),
  ));
  return { lanes };
}

function agentsCard(agents) {
  const most = Math.max(1, ...agents.map((agent) => agent.waited + agent.worked));
  const head = ["agent", "time", "turns", "waited", "worked", "model calls", "tokens in", "tokens out", "tool calls", "failures", ...(RUN.cost ? ["cost"] : [])];
  const rows = agents.map((agent) => {
    const place = RUN.agents.indexOf(agent);
    const meter = paint(el("div", { class: "meter", "aria-hidden": "true" }, el("i", { class: "wait" }), el("i", {})), place);
    meter.children[0].style.width = `${(100 * agent.waited) / most}%`;
    meter.children[1].style.width = `${(100 * agent.worked) / most}%`;
    const cells = [number(agent.turns), span(agent.waited), span(agent.worked), number(agent.model), number(agent.tin), number(agent.tout), number(agent.tools), number(agent.failures), ...(RUN.cost ? [agent.cost || "–"] : [])];
    return el("tr", {}, el("td", {}, person(place)), el("td", {}, meter), cells.map((text, index) => el("td", { class: `n ${index === 7 && agent.failures ? "bad-ink" : ""}`, text })));
  });
  return card("Agents", "", el("div", { class: "wide" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((text, index) => el("th", { class: index > 1 ? "n" : "", scope: "col", text })))), el("tbody", {}, rows))));
}

function listOf(panel, rows, draw, estimate, placeOf, none) {
  if (!rows.length) panel.append(empty(none));
  const list = new LongList(panel, rows, draw, estimate);
  panel.append(list.node);
  return { list, rows, placeOf };
}

const NONE = "No step is like that. Esc clears the search.";

// Where the talk goes on in another thread, a line says so.
function rowWithThread(place, index) {
  const rows = current.rows;
  const thread = RUN.steps[place].h;
  const row = stepRow(place);
  if (RUN.threads.length < 2 || (index && RUN.steps[rows[index - 1]].h === thread)) return row;
  return el("div", {}, el("div", { class: "rule" }, `thread ${short(RUN.threads[thread].title, 70)}`), row);
}

function drawConversation(panel) {
  return listOf(panel, shownSteps(), rowWithThread, 62, (row) => row, NONE);
}

function drawTimeline(panel) {
  const [lanes, drawing] = lanesCard(false);
  panel.append(el("div", { class: "page" }, el("section", { class: "card" }, drawing),
    el("p", { class: "dim small", text: "A click chooses a step. Drag to move, ctrl or shift with the wheel to zoom; with the keyboard: arrows, + and −, 0. The steps in order:" })));
  return { ...listOf(panel, shownSteps(), stepRow, 50, (row) => row, NONE), lanes };
}

function drawPlans(panel) {
  if (!RUN.plans.length) return panel.append(empty("No plan was made."));
  panel.append(el("div", { class: "page" }, RUN.plans.map((plan) => {
    const counts = ["added", "removed", "changed"].map((kind) => [kind, (plan.steps || []).filter((one) => one.kind === kind).length]).filter(([, count]) => count);
    return card(`Version ${plan.version} · ${RUN.threads[plan.h].title}`, "",
      el("p", { class: "small dim" }, person(plan.a), ` at ${since(plan.t)} · `, stepLink(plan.at, "show the step"), counts.length ? ` · ${counts.map(([kind, count]) => `${count} ${kind}`).join(", ")}` : ""),
      (plan.reasons || []).map((reason) => el("p", { class: "text", text: `because ${reason}` })),
      el("ol", { class: "plan" }, (plan.steps || []).map((one) => el("li", { class: one.kind }, marked(one.title), one.who ? el("span", { class: "dim", text: ` (${one.who}${one.was ? `, was ${one.was}` : ""})` }) : null,
        one.kind === "same" ? null : el("span", { class: "tag", text: one.kind }), one.detail ? el("div", { class: "text small dim", text: one.detail }) : null))));
  })));
  return undefined;
}

function drawVotes(panel) {
  if (!RUN.votes.length) return panel.append(empty("Nothing was put to the vote."));
  panel.append(el("div", { class: "page" }, RUN.votes.map((vote) => card(
    vote.result ? (vote.result === "reached" ? "Consensus reached" : "No consensus") : "Open", vote.result === "reached" ? "good" : vote.result ? "bad" : "warn",
    el("div", { class: "text big" }, marked(vote.text)),
    el("p", { class: "small dim" }, "put to the vote by ", person(vote.a), ` at ${since(vote.t)}, ${plural(vote.needed || 0, "approval")} needed · `, stepLink(vote.at, "show the step")),
    el("div", { class: "votes" }, (vote.votes || []).map(([name, verdict]) => el("span", { class: `vote ${verdict}`, text: `${name}: ${verdict}` })), (vote.silent || []).map((name) => el("span", { class: "vote dim", text: `${name}: no vote` })))))));
  return undefined;
}

function drawArtifacts(panel) {
  if (!RUN.artifacts.length) return panel.append(empty("Nothing was saved."));
  panel.append(el("div", { class: "page" }, card("Artifacts", "", el("table", {},
    el("thead", {}, el("tr", {}, ["name", "by", "type", "size", "sha256"].map((text) => el("th", { scope: "col", class: text === "size" ? "n" : "", text })))),
    el("tbody", {}, RUN.artifacts.map((one) => el("tr", {}, el("td", {}, stepLink(one.at, one.name)), el("td", {}, person(one.a)), el("td", { text: one.type }), el("td", { class: "n", text: one.size }), el("td", {}, el("code", { text: (one.sha || "").slice(0, 16), title: one.sha })))))))));
  return undefined;
}

function suspectLine(one) {
  const more = one.reasons.length > 1 ? `, and ${plural(one.reasons.length - 1, "more reason")}` : "";
  return el("div", {}, el("span", { class: "kind violation", text: `suspect, ${Math.round(one.score * 100)} of 100` }), " ", one.a === undefined ? "" : person(one.a), ` at step ${one.s}: ${short(one.reasons[0] || "", 160)}${more} `, stepLink(one.at, "show"));
}

function findingLine(one) {
  return el("div", {}, el("span", { class: `kind ${one.kind}`, text: `${one.kind} ${one.id}` }), " ", ...marked(one.text, 240), " ", stepLink(one.at, "show"));
}

function drawFindings(panel) {
  if (!RUN.findings.length && !RUN.suspects.length) return panel.append(empty("No finding."));
  const matches = RUN.findings.filter((one) => !state.query || `${one.id} ${one.name} ${one.text}`.toLowerCase().includes(state.query));
  panel.append(el("div", { class: "page" },
    RUN.suspects.length ? card("Suspected causes, the likeliest first", "bad", RUN.suspects.map((one) => el("div", { class: "finding" },
      el("span", { class: "kind violation", text: `${Math.round(one.score * 100)} of 100` }),
      el("div", {}, one.a === undefined ? null : person(one.a), el("ul", {}, one.reasons.map((reason) => el("li", { text: reason }))), (one.findings || []).length ? el("span", { class: "dim small", text: `from ${one.findings.join(", ")}` }) : null), stepLink(one.at, `step #${one.s}`)))) : null,
    card("Findings", "", matches.map((one) => el("div", { class: "finding" }, el("span", { class: `kind ${one.kind}`, text: one.kind }),
      el("div", {}, el("b", { text: `${one.id} · ${one.name}` }), el("div", {}, marked(one.text)), el("div", { class: "small dim" }, one.a === undefined ? null : [person(one.a), " "], (one.evidence || []).length > 1 ? ["evidence: ", one.evidence.slice(0, 12).map((place, index) => [index ? ", " : "", stepLink(place, `#${RUN.steps[place].s}`)])].flat(2) : null)), stepLink(one.at, `step #${one.s}`))))));
  return undefined;
}
