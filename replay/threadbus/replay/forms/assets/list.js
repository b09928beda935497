// A long list: rows are made in chunks when they come near, and unmade when they are far away.
const CHUNK = 40;

class LongList {
  constructor(scroller, rows, draw, estimate) {
    this.rows = rows;
    this.draw = draw;
    this.node = el("div", { class: "list" });
    this.chunks = [];
    for (let from = 0; from < rows.length; from += CHUNK) {
      const count = Math.min(CHUNK, rows.length - from);
      const chunk = el("div", { class: "chunk" });
      chunk.style.height = `${count * estimate}px`;
      this.chunks.push(chunk);
      this.node.append(chunk);
    }
    this.watcher = new IntersectionObserver((seen) => {
      for (const one of seen) (one.isIntersecting ? this.fill : this.clear).call(this, this.chunks.indexOf(one.target));
    }, { root: scroller, rootMargin: "1500px 0px" });
    for (const chunk of this.chunks) this.watcher.observe(chunk);
  }

  fill(index) {
    const chunk = this.chunks[index];
    if (!chunk || chunk.firstChild) return;
    chunk.style.height = "";
    const from = index * CHUNK;
    chunk.append(...this.rows.slice(from, from + CHUNK).map((row, number) => this.draw(row, from + number)));
  }

  clear(index) {
    const chunk = this.chunks[index];
    if (!chunk || !chunk.firstChild || this.isWhole) return;
    chunk.style.height = `${chunk.offsetHeight}px`;
    chunk.replaceChildren();
  }

  fillAll() {
    this.isWhole = true;
    this.chunks.forEach((_, index) => this.fill(index));
  }

  reveal(index) {
    const chunk = Math.floor(index / CHUNK);
    for (const near of [chunk - 1, chunk, chunk + 1]) this.fill(near);
    const row = this.at(index);
    if (row) row.scrollIntoView({ block: "nearest" });
  }

  at(index) {
    const chunk = this.chunks[Math.floor(index / CHUNK)];
    return chunk && chunk.children[index % CHUNK];
  }

  close() { this.watcher.disconnect(); }
}
