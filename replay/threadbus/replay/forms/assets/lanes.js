// Time from left to right, a lane for each agent: waiting, working, calls, messages, findings.
const GUTTER = 132;
const AXIS = 26;

function usedAgents() {
  const used = new Set();
  for (const turn of RUN.turns) if (turn.begun || !RUN.agents[turn.a].person) used.add(turn.a);
  for (const step of RUN.steps) used.add(step.a);
  return RUN.agents.map((_, place) => place).filter((place) => used.has(place) && !state.agents.has(place));
}

// Long stretches in which nothing happens are drawn short, or they would hide all that does.
function timeScale(isShort) {
  const spans = [];
  for (const step of RUN.steps) spans.push([step.t, step.t + step.d]);
  spans.sort((a, b) => a[0] - b[0]);
  const last = spans.reduce((most, one) => Math.max(most, one[1]), 0) || 1;
  const gaps = [];
  let busyUntil = 0;
  for (const [from, to] of spans) {
    if (isShort && from - busyUntil > last * 0.1) gaps.push([busyUntil, from]);
    busyUntil = Math.max(busyUntil, to);
  }
  const idle = gaps.reduce((sum, [from, to]) => sum + to - from, 0);
  const width = Math.max(last - idle, 1) * 0.04;
  const total = last - idle + gaps.length * width;
  const toX = (time) => {
    let x = time;
    for (const [from, to] of gaps) {
      if (time >= to) x -= to - from - width;
      else if (time > from) { x -= (time - from) * (1 - width / (to - from)); break; } else break;
    }
    return x / total;
  };
  return { toX, gaps, last, total };
}

class Lanes {
  constructor(isSmall) {
    this.isSmall = isSmall;
    this.from = 0;
    this.to = 1;
    this.isShort = true;
    this.boxes = [];
    this.canvas = el("canvas", { role: "img", tabindex: "0", "aria-label": this.words() });
    this.tip = el("div", { class: "tip", hidden: true });
    this.node = el("div", { class: "lanes" }, this.canvas, this.tip);
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.node);
    this.listen();
  }

  words() {
    const agents = RUN.agents.filter((agent) => agent.turns && !agent.person).slice(0, 12);
    return `Time line. ${agents.map((one) => `${one.name} worked ${span(one.worked)} in ${plural(one.turns, "turn")}`).join("; ")}. Arrow keys choose steps, plus and minus zoom.`;
  }

  layout() {
    const shownAgents = usedAgents();
    const lanes = new Map(shownAgents.map((agent) => [agent, []]));
    const turns = RUN.turns.filter((turn) => lanes.has(turn.a) && (turn.begun || !RUN.agents[turn.a].person) && (state.thread < 0 || turn.h === state.thread));
    turns.sort((a, b) => a.b - b.b);
    const place = new Map();
    for (const turn of turns) {
      const ends = lanes.get(turn.a);
      let row = ends.findIndex((until) => until <= turn.b);
      if (row < 0) row = ends.length < 6 ? ends.push(0) - 1 : 5;
      ends[row] = Math.max(ends[row], turn.begun ? turn.e : turn.b);
      place.set(turn, row);
    }
    let y = AXIS;
    const height = this.isSmall ? 22 : shownAgents.length < 8 ? 38 : 30;
    const tops = new Map();
    for (const agent of shownAgents) {
      tops.set(agent, y);
      y += Math.max(lanes.get(agent).length, 1) * height + (this.isSmall ? 6 : 10);
    }
    return { shownAgents, turns, place, tops, height, bottom: y };
  }

  draw() {
    const wide = this.node.clientWidth;
    if (!wide) return;
    const plan = this.layout();
    this.plan = plan;
    this.scale = timeScale(this.isShort);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = wide * ratio;
    this.canvas.height = plan.bottom * ratio;
    this.canvas.style.height = `${plan.bottom}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const look = getComputedStyle(document.documentElement);
    const ink = (name) => look.getPropertyValue(name).trim();
    const colors = RUN.agents.map((_, place) => `oklch(${ink("--agent-l")} ${ink("--agent-c")} ${hueOf(place)})`);
    const color = (agent) => colors[agent];
    const room = wide - GUTTER - 10;
    const x = (time) => GUTTER + ((this.scale.toX(time) - this.from) / (this.to - this.from)) * room;
    this.boxes = [];
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.axis(pen, plan, x, wide, ink);

    pen.save();
    pen.beginPath();
    pen.rect(GUTTER - 6, 0, wide - GUTTER + 6, plan.bottom);
    pen.clip();
    this.turns(pen, plan, x, color);
    if (plan.turns.length < 600) this.mentions(pen, plan, x, ink);
    this.steps(pen, plan, x, color, ink);
    pen.restore();
    for (const agent of plan.shownAgents) {
      pen.fillStyle = color(agent);
      pen.font = "600 13px system-ui, sans-serif";
      pen.fillText(short(RUN.agents[agent].name, 17), 2, plan.tops.get(agent) + plan.height / 2);
    }
  }

  axis(pen, plan, x, wide, ink) {
    plan.shownAgents.forEach((agent, index) => {
      if (index === 0) return;
      pen.fillStyle = ink("--line");
      pen.fillRect(0, plan.tops.get(agent) - (this.isSmall ? 3 : 5), wide, 1);
    });
    const { last, gaps, total } = this.scale;
    const shown = total * (this.to - this.from);
    const raw = shown / Math.max(2, Math.floor((wide - GUTTER) / 110));
    const unit = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
    const step = [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= raw) || unit * 10;
    let right = -99;
    for (let time = 0; time <= last; time += step) {
      const at = x(time);
      if (at < GUTTER - 1 || at > wide) continue;
      if (gaps.some(([from, to]) => time > from && time < to)) continue;
      pen.fillStyle = ink("--line");
      pen.fillRect(at, AXIS - 8, 1, plan.bottom);
      const label = since(time);
      const size = pen.measureText(label).width;
      if (at < right + 8 || at + size > wide) continue;
      pen.fillStyle = ink("--dim");
      pen.fillText(label, at + 3, 10);
      right = at + size + 3;
    }
    for (const [from, to] of gaps) {
      const [left, end] = [Math.max(x(from), GUTTER), x(to)];
      if (end < GUTTER || left > wide) continue;
      pen.fillStyle = ink("--soft");
      pen.fillRect(left, AXIS - 4, end - left, plan.bottom);
      pen.save();
      pen.translate((left + end) / 2, AXIS + (plan.bottom - AXIS) / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillStyle = ink("--dim");
      pen.fillText(`${span(to - from)} quiet`, 0, 0);
      pen.restore();
      this.boxes.push({ left, top: AXIS, width: end - left, height: plan.bottom, text: `${span(to - from)} in which nothing happened` });
    }
  }

  turns(pen, plan, x, color) {
    for (const turn of plan.turns) {
      const top = plan.tops.get(turn.a) + plan.place.get(turn) * plan.height;
      const [asked, begin, end] = [x(turn.q), x(turn.b), x(turn.begun ? turn.e : turn.b)];
      const step = turn.steps.length ? turn.steps[0] : placeOfSeq.get(turn.s);
      const parts = [`${nameOf(turn.a)} ← ${nameOf(turn.by)}: ${outcome(turn)[0]}`];
      if (turn.waited >= 0) parts.push(`waited ${span(turn.waited)}`);
      if (turn.worked >= 0) parts.push(`worked ${span(turn.worked)}`);
      if (turn.x) parts.push(turn.x);
      pen.fillStyle = color(turn.a);
      pen.globalAlpha = 0.28;
      pen.fillRect(asked, top + plan.height * 0.42, Math.max(begin - asked, 0), plan.height * 0.16);
      if (turn.begun) {
        pen.beginPath();
        pen.roundRect(begin, top + 1, Math.max(end - begin, 2), plan.height - 3, 4);
        pen.fill();
      }
      pen.globalAlpha = 1;
      this.boxes.push({ left: asked, top, width: Math.max(end - asked, 3), height: plan.height, place: step, text: parts.join("\n") });
    }
  }

  // Who woke whom: a line from the lane of the one to the turn of the other.
  mentions(pen, plan, x, ink) {
    pen.strokeStyle = ink("--dim");
    pen.lineWidth = 1;
    pen.globalAlpha = 0.55;
    for (const turn of plan.turns) {
      if (!plan.tops.has(turn.by) || turn.by === turn.a) continue;
      const from = plan.tops.get(turn.by) + plan.height / 2;
      const to = plan.tops.get(turn.a) + (plan.place.get(turn) + 0.5) * plan.height;
      const at = x(turn.q);
      pen.beginPath();
      pen.moveTo(at, from);
      pen.lineTo(at, to - Math.sign(to - from) * 2);
      pen.moveTo(at - 3, to - Math.sign(to - from) * 7);
      pen.lineTo(at, to - Math.sign(to - from) * 2);
      pen.lineTo(at + 3, to - Math.sign(to - from) * 7);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  steps(pen, plan, x, color, ink) {
    const floor = this.isSmall ? 4 : 6;
    // Where there is no room for edges, edges would be all that is seen.
    const inView = RUN.steps.reduce((sum, step) => { const at = this.scale.toX(step.t); return sum + (at >= this.from && at <= this.to); }, 0);
    const cardColor = ink("--card");
    const isDense = inView > 40 * plan.shownAgents.length;
    RUN.steps.forEach((step, place) => {
      if (!plan.tops.has(step.a) || (state.thread >= 0 && step.h !== state.thread) || state.kinds.has(step.k)) return;
      const turn = step.u >= 0 ? RUN.turns[step.u] : null;
      const row = turn && plan.place.has(turn) ? plan.place.get(turn) : 0;
      const top = plan.tops.get(step.a) + row * plan.height;
      const [left, wide] = [x(step.t), Math.max(x(step.t + step.d) - x(step.t), 2)];
      const fades = state.query && !haystack(place).includes(state.query);
      pen.globalAlpha = fades ? 0.15 : 1;
      pen.fillStyle = pen.strokeStyle = step.m === "bad" ? ink("--bad") : color(step.a);
      let box = [left, top + floor, wide, plan.height - 2 * floor - 1];
      if (step.k === "model") pen.fillRect(...box);
      else if (step.k === "tool") {
        box[1] += 2; box[3] -= 4;
        pen.lineWidth = isDense ? 1 : 1.6;
        pen.strokeRect(...box);
      } else {
        const size = isDense ? 2 : this.isSmall ? 3 : 4.5;
        pen.beginPath();
        if (step.k === "failure") { pen.fillStyle = ink("--bad"); pen.rect(left - size, top + plan.height / 2 - size, 2 * size, 2 * size); } else pen.arc(left, top + plan.height / 2, size, 0, 7);
        pen.fill();
        pen.lineWidth = 1.5;
        pen.strokeStyle = cardColor;
        if (!isDense) pen.stroke();
        box = [left - size - 1, top, 2 * size + 2, plan.height];
      }
      if (findingsAt.has(place)) {
        pen.fillStyle = findingsAt.get(place).some((one) => one.kind === "violation") ? ink("--bad") : ink("--warn");
        pen.beginPath();
        pen.moveTo(left - 6, top - 3); pen.lineTo(left + 6, top - 3); pen.lineTo(left, top + 7);
        pen.fill();
      }
      if (place === state.chosen) {
        pen.strokeStyle = ink("--ink");
        pen.lineWidth = 2;
        pen.strokeRect(box[0] - 2, top - 1, box[2] + 4, plan.height);
      }
      pen.globalAlpha = 1;
      this.boxes.push({ left: box[0] - 1, top, width: box[2] + 2, height: plan.height, place, text: `${since(step.t)} ${nameOf(step.a)} ${step.v}${step.f.length ? ` · ${step.f.join(" · ")}` : ""}${step.x ? `\n${short(step.x, 200)}` : ""}` });
    });
  }

  boxAt(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    return this.boxes.findLast((box) => x >= box.left && x <= box.left + box.width && y >= box.top && y <= box.top + box.height);
  }

  zoom(factor, around = 0.5) {
    const width = Math.min(Math.max((this.to - this.from) * factor, 1e-5), 1);
    const center = this.from + (this.to - this.from) * around;
    this.from = Math.min(Math.max(center - width * around, 0), 1 - width);
    this.to = this.from + width;
    this.draw();
  }

  pan(share) {
    const width = this.to - this.from;
    this.from = Math.min(Math.max(this.from + share * width, 0), 1 - width);
    this.to = this.from + width;
    this.draw();
  }

  show(place) {
    const at = this.scale ? this.scale.toX(RUN.steps[place].t) : 0;
    if (at < this.from || at > this.to) this.pan((at - (this.from + this.to) / 2) / (this.to - this.from));
    else this.draw();
  }

  // The next step of the same agent, or the nearest in time of another one.
  step(key) {
    const steps = RUN.steps;
    const now = steps[state.chosen];
    if (!now) return choose(0);
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const by = key === "ArrowRight" ? 1 : -1;
      for (let place = state.chosen + by; steps[place]; place += by) if (steps[place].a === now.a) return choose(place);
      return undefined;
    }
    const agents = this.plan.shownAgents;
    const next = agents[agents.indexOf(now.a) + (key === "ArrowDown" ? 1 : -1)];
    let best = -1;
    steps.forEach((one, place) => { if (one.a === next && (best < 0 || Math.abs(one.t - now.t) < Math.abs(steps[best].t - now.t))) best = place; });
    return best >= 0 ? choose(best) : undefined;
  }

  listen() {
    let grabbed = null;
    this.canvas.addEventListener("mousemove", (event) => {
      if (grabbed !== null && event.buttons) {
        this.pan((grabbed - event.clientX) / (this.node.clientWidth - GUTTER));
        grabbed = event.clientX;
        return;
      }
      const box = this.boxAt(event);
      this.tip.hidden = !box;
      if (!box) return;
      this.tip.textContent = box.text;
      this.tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 440)}px`;
      this.tip.style.top = `${event.clientY + 16}px`;
    });
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    let down = 0;
    this.canvas.addEventListener("mousedown", (event) => { grabbed = down = event.clientX; });
    this.canvas.addEventListener("click", (event) => {
      grabbed = null;
      const box = this.boxAt(event);
      if (Math.abs(event.clientX - down) < 4 && box && box.place !== undefined) choose(box.place);
    });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      const around = (event.offsetX - GUTTER) / (this.node.clientWidth - GUTTER);
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(Math.max(around, 0), 1));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const does = { "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1.6), 0: () => this.zoom(1e9) };
      if (event.key.startsWith("Arrow")) this.step(event.key);
      else if (does[event.key]) does[event.key]();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  close() { this.watcher.disconnect(); }
}

function lanesCard(isSmall) {
  const lanes = new Lanes(isSmall);
  const button = (text, label, does) => el("button", { class: "ghost", type: "button", text, "aria-label": label, title: label, onclick: does });
  const quiet = el("button", { class: "chip", type: "button", "aria-pressed": "true", text: "shorten quiet stretches", onclick: () => {
    lanes.isShort = !lanes.isShort;
    quiet.setAttribute("aria-pressed", String(lanes.isShort));
    lanes.draw();
  } });
  const legend = el("div", { class: "legend" }, [["wait", "waits"], ["work", "works"], ["", "model"], ["tool", "tool"], ["said", "says"]].map(([name, text]) => el("span", {}, el("i", { class: name }), text)));
  const tools = isSmall ? [] : [button("+", "Zoom in", () => lanes.zoom(0.6)), button("−", "Zoom out", () => lanes.zoom(1.6)), button("⤢", "Everything", () => lanes.zoom(1e9)), quiet];
  return [lanes, el("div", {}, el("div", { class: "lane-tools" }, tools, isSmall ? el("span", { class: "h", text: "Who worked when" }) : null, legend), lanes.node)];
}
