/* Drawings over time: the values at a cursor, zoom and pan. The drawings of the whole run share their view. */
const CLOSEST = 1e-4; /* least share of the whole that a view shows */
const TICKS = 8;

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
const amount = (text) => {
  const [whole, rest] = text.split(".");
  return grouped(whole) + (rest ? `.${rest}` : "");
};
const decimalsOf = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
const roundStep = (length) => {
  const least = length / TICKS;
  const decade = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * decade).find((step) => step >= least * (1 - 1e-9));
};
const made = (parent, tag, name, text = "") => {
  const element = parent.appendChild(document.createElement(tag));
  element.className = name;
  element.textContent = text;
  return element;
};
const tip = made(document.body, "div", "tip");
tip.hidden = true;

/* The words of a bar leave its title, so that no second tooltip of the browser's appears. */
const barOf = (rect) => {
  const [name, ...more] = rect.firstChild.textContent.split("\n");
  const detail = more.join(" ");
  rect.firstChild.remove();
  const at = (key) => Number(rect.getAttribute(key));
  return { rect, name, detail, from: at("x"), to: at("x") + at("width") };
};

const stripOf = (row) => {
  const at = row.dataset.at ? row.dataset.at.split(",").map(Number) : [];
  const values = [...row.querySelectorAll(".strip-note .value")];
  return {
    at,
    reach: at.length > 1 ? (at.at(-1) - at[0]) / (at.length - 1) : 1,
    label: row.querySelector(".strip-label").firstChild?.textContent ?? "",
    names: [...row.querySelectorAll(".series-name")].map((name) => name.textContent),
    lines: [...row.querySelectorAll("g[style]")].map((group) =>
      [...group.querySelectorAll("[data-values]")].map((path) => path.dataset.values.split(","))),
    bars: [...row.querySelectorAll("svg > rect")].map(barOf),
    values,
    notes: values.map((value) => value.textContent),
  };
};

/* What a strip has at a time: one text for each of its notes. */
const readout = (strip, time) => {
  if (!strip.at.length) {
    const here = strip.bars.filter((bar) => bar.from <= time && time < bar.to).map((bar) => bar.name);
    return [[...new Set(here)].join("; ")];
  }
  let nearest = 0;
  for (const [place, at] of strip.at.entries()) {
    if (Math.abs(at - time) < Math.abs(strip.at[nearest] - time)) nearest = place;
  }
  const far = Math.abs(strip.at[nearest] - time) > strip.reach;
  return strip.lines.map((lines) => {
    const texts = lines.map((values) => (far || values[nearest] === "" ? "–" : amount(values[nearest])));
    return texts.every((text) => text === "–") ? "–" : texts.join(" · ");
  });
};

class Drawing {
  constructor(figure) {
    this.figure = figure;
    this.rows = figure.querySelector(".rows");
    this.begin = Number(figure.dataset.begin);
    this.length = Number(figure.dataset.length);
    this.view = [0, this.length];
    this.group = [this];
    this.strips = [...figure.querySelectorAll(".strip:not(.ticks)")].map(stripOf);
    for (const rect of figure.querySelectorAll(".behind title, .behind-row title")) rect.remove();
    this.boxes = [...figure.querySelectorAll(".plot > svg, .behind")];
    this.tickRow = figure.querySelector(".ticks .plot");
    this.front = made(this.rows, "div", "front");
    this.line = made(this.front, "div", "cursor");
    this.brush = made(this.front, "div", "brush");
    this.now = made(this.front, "div", "now");
    this.line.hidden = this.brush.hidden = this.now.hidden = true;
    this.buttons();
    this.listen();
    this.show();
  }

  buttons() {
    const bar = document.createElement("div");
    bar.className = "zooming";
    const button = (text, label, act) => {
      const one = made(bar, "button", "", text);
      one.type = "button";
      one.ariaLabel = one.title = label;
      one.addEventListener("click", act);
      return one;
    };
    button("+", "Zoom in", () => this.zoom(0.5));
    button("−", "Zoom out", () => this.zoom(2));
    button("←", "Earlier", () => this.pan(-0.25));
    button("→", "Later", () => this.pan(0.25));
    this.all = button("Whole", "The whole time", () => this.look(0, this.length));
    made(bar, "span", "muted", "Drag across the drawing to zoom, with Shift to move; arrow keys move the cursor.");
    this.figure.prepend(bar);
  }

  listen() {
    const slider = this.front;
    slider.tabIndex = 0;
    slider.role = "slider";
    slider.ariaLabel = `Time: ${this.figure.ariaLabel}`;
    slider.ariaValueMin = slider.ariaValueNow = this.begin.toFixed(3);
    slider.ariaValueMax = (this.begin + this.length).toFixed(3);
    slider.addEventListener("keydown", (event) => this.key(event));
    slider.addEventListener("blur", () => this.point(null));
    this.rows.addEventListener("pointermove", (event) => this.move(event));
    this.rows.addEventListener("pointerleave", () => { if (!this.drag) this.point(null); });
    this.rows.addEventListener("pointerdown", (event) => this.down(event));
    this.rows.addEventListener("pointerup", (event) => this.up(event));
    this.rows.addEventListener("pointercancel", () => this.drop());
    this.rows.addEventListener("dblclick", () => this.look(0, this.length));
    this.rows.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /* The time below the pointer, null outside of the axis. */
  time(event) {
    const box = this.front.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    return share < 0 || share > 1 ? null : this.view[0] + share * (this.view[1] - this.view[0]);
  }

  move(event) {
    const time = this.time(event);
    if (this.drag) this.dragged(event, time);
    this.point(time);
    const bar = this.strips.flatMap((strip) => strip.bars).find((one) => one.rect === event.target);
    tip.hidden = !bar || Boolean(this.drag);
    if (tip.hidden) return;
    const digits = this.digits();
    const [from, to] = [bar.from, bar.to].map((at) => timeText(this.begin + at, digits));
    tip.textContent = "";
    made(tip, "strong", "", bar.name);
    if (bar.detail) made(tip, "div", "", bar.detail);
    made(tip, "div", "muted", `${from} to ${to}, ${(bar.to - bar.from).toFixed(digits)} s`);
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    const below = event.clientY + 18;
    tip.style.top = `${below + tip.offsetHeight < innerHeight ? below : event.clientY - tip.offsetHeight - 12}px`;
  }

  down(event) {
    const time = this.time(event);
    if (event.button || time === null || event.target.closest("button")) return;
    const pans = event.shiftKey || event.pointerType === "touch";
    this.move(event);
    this.drag = { pans, x: event.clientX, time, view: [...this.view] };
    if (!pans) event.preventDefault();
  }

  dragged(event, time) {
    const { pans, x, time: start, view } = this.drag;
    if (Math.abs(event.clientX - x) < 4 && !this.drag.far) return;
    if (!this.drag.far) this.rows.setPointerCapture(event.pointerId);
    this.drag.far = true;
    const width = view[1] - view[0];
    if (pans) {
      const by = ((x - event.clientX) / this.front.clientWidth) * width;
      this.look(view[0] + by, view[1] + by);
      return;
    }
    this.drag.end = time ?? (event.clientX < x ? view[0] : view[1]);
    const [from, to] = [start, this.drag.end].sort((a, b) => a - b);
    this.brush.hidden = false;
    this.brush.style.left = `${(100 * (from - view[0])) / width}%`;
    this.brush.style.width = `${(100 * (to - from)) / width}%`;
  }

  up() {
    const { pans, far, time, end } = this.drag ?? {};
    this.drop();
    if (far && !pans) this.look(Math.min(time, end), Math.max(time, end));
  }

  drop() {
    this.drag = null;
    this.brush.hidden = true;
  }

  wheel(event) {
    const time = this.time(event);
    if (time === null) return;
    if (event.ctrlKey || event.metaKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, time);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && this.zoomed()) this.pan(event.deltaX / 600);
    else return;
    event.preventDefault();
  }

  key(event) {
    const width = this.view[1] - this.view[0];
    const at = this.at ?? this.view[0];
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (step && event.shiftKey) this.pan(step / 10);
    else if (step) this.go(at + (step * width) / 100);
    else if (event.key === "Home") this.go(this.view[0]);
    else if (event.key === "End") this.go(this.view[1]);
    else if (event.key === "+") this.zoom(0.5, at);
    else if (event.key === "-") this.zoom(2, at);
    else if (event.key === "0" || event.key === "Escape") this.look(0, this.length);
    else return;
    event.preventDefault();
  }

  go(time) {
    const at = Math.min(Math.max(time, 0), this.length);
    const width = this.view[1] - this.view[0];
    if (at < this.view[0] || at > this.view[1]) this.look(at - width / 2, at + width / 2);
    this.point(at);
  }

  zoomed() { return this.view[1] - this.view[0] < this.length * 0.9999; }

  zoom(by, around = (this.view[0] + this.view[1]) / 2) {
    this.look(around - (around - this.view[0]) * by, around + (this.view[1] - around) * by);
  }

  pan(by) {
    const width = this.view[1] - this.view[0];
    this.look(this.view[0] + by * width, this.view[1] + by * width);
  }

  /* Show from one time to another, as far as there is one, in all drawings of the group. */
  look(from, to) {
    const width = Math.min(Math.max(to - from, this.length * CLOSEST), this.length);
    const start = Math.min(Math.max((from + to - width) / 2, 0), this.length - width);
    for (const one of this.group) {
      one.view = [start, start + width];
      one.show();
    }
    if (this.at !== undefined) this.point(this.at);
  }

  digits() { return Math.max(2, decimalsOf(roundStep(this.view[1] - this.view[0])) + 1); }

  show() {
    const [from, to] = this.view;
    for (const box of this.boxes) box.setAttribute("viewBox", `${from} 0 ${to - from} 100`);
    this.figure.style.setProperty("--from", (100 * from) / this.length);
    this.figure.style.setProperty("--zoom", this.length / (to - from));
    this.figure.classList.toggle("zoomed", this.zoomed());
    this.all.disabled = !this.zoomed();
    const step = roundStep(to - from);
    this.tickRow.textContent = "";
    for (let n = Math.ceil((this.begin + from) / step); n * step <= this.begin + to + step * 1e-6; n += 1) {
      const left = (100 * (n * step - this.begin - from)) / (to - from);
      if (onClock() && (left < 5 || left > 93)) continue;
      const tick = made(this.tickRow, "span", "tick", timeText(n * step, decimalsOf(step)));
      tick.style.left = `${left}%`;
    }
  }

  /* The cursor at a time in all drawings of the group; null: nowhere. */
  point(time) {
    for (const one of this.group) one.mark(time);
    if (time === null) tip.hidden = true;
  }

  mark(time) {
    this.at = time ?? undefined;
    this.line.hidden = this.now.hidden = time === null;
    const spoken = [];
    for (const strip of this.strips) {
      const texts = time === null ? strip.notes : readout(strip, time);
      for (const [place, value] of strip.values.entries()) value.textContent = texts[place] ?? "";
      const said = texts.map((text, place) => `${strip.names[place] ?? ""} ${text}`.trim()).filter(Boolean);
      if (said.length) spoken.push(`${strip.label}: ${said.join(", ")}`);
    }
    if (time === null) return;
    const left = `${(100 * (time - this.view[0])) / (this.view[1] - this.view[0])}%`;
    this.line.style.left = this.now.style.marginLeft = left;
    this.now.textContent = timeText(this.begin + time, this.digits());
    this.front.ariaValueNow = (this.begin + time).toFixed(3);
    this.front.ariaValueText = `${this.now.textContent}. ${spoken.join(". ")}`;
  }
}

const drawings = [...document.querySelectorAll(".drawing[data-begin]")].map((figure) => new Drawing(figure));
const together = drawings.filter((one) => "linked" in one.figure.dataset);
for (const one of together) one.group = together;
followClock.push(() => { for (const one of drawings) one.show(); });
