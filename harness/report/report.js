"use strict";
/* Enhancements only: theme button, copy button, links into folded witnesses, charts. */
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 760px)");

  const stored = () => { try { return localStorage.getItem("inquest-theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("inquest-theme", theme); } catch { /* as it was */ } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  let redraw = () => {};
  const button = byId("theme");
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  const themed = () => { label(); redraw(); };
  if (["dark", "light"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store(root.dataset.theme);
    themed();
  });
  dark.addEventListener("change", themed);

  const copy = byId("copy");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const command = byId("repro");
    try {
      await navigator.clipboard.writeText(command.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      copy.textContent = "Selected";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });

  const unfold = () => {
    const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });

  const inflate = async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };

  /* A colour token is resolved by the browser itself, so charts and page never differ. */
  const resolver = () => {
    const probe = document.body.appendChild(document.createElement("span"));
    const known = new Map();
    const resolve = (token) => {
      if (!known.has(token)) {
        probe.style.color = token;
        known.set(token, getComputedStyle(probe).color);
      }
      return known.get(token);
    };
    const one = (value) =>
      typeof value === "string" && /^var\(--[a-z0-9-]+\)$/.test(value) ? resolve(value) : value;
    const reviver = (key, value) => {
      if (!key.endsWith("color")) return value;
      return Array.isArray(value) ? value.map(one) : one(value);
    };
    return { reviver, done: () => probe.remove() };
  };

  const showCharts = (shown) => {
    for (const charts of document.querySelectorAll(".charts")) charts.hidden = !shown;
  };
  const draw = async () => {
    const source = byId("figures").textContent;
    const names = Object.keys(JSON.parse(source));
    if (!names.length) return;
    const script = document.createElement("script");
    script.textContent = await inflate(byId("plotly").textContent.trim());
    document.head.append(script);
    if (!globalThis.Plotly) throw new Error("the chart script did not run");
    showCharts(true);

    const plots = names.map((name) => byId(`chart-${name}`));
    const config = {
      displaylogo: false, responsive: true, showTips: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    };
    const paint = async () => {
      const { reviver, done } = resolver();
      const figures = JSON.parse(source, reviver);
      done();
      for (const [position, name] of names.entries()) {
        const layout = figures[name].layouts[narrow.matches ? "narrow" : "wide"];
        const range = plots[position].layout && [...plots[position].layout.xaxis.range];
        if (range) layout.xaxis.range = range;
        layout.dragmode = narrow.matches ? false : "zoom";
        const bar = name === "rates" && !narrow.matches;
        if (narrow.matches) for (const trace of figures[name].data) trace.text = trace.meta;
        await Plotly.react(plots[position], figures[name].data, layout, { ...config, displayModeBar: bar });
      }
    };
    await paint();
    for (const strips of document.querySelectorAll(".strips")) strips.classList.add("drawn");
    redraw = paint;
    narrow.addEventListener("change", paint);

    let following = false;
    const first = plots.map((plot) => [...plot.layout.xaxis.range]);
    const follow = async (position, change) => {
      if (following || !Object.keys(change).some((key) => key.startsWith("xaxis."))) return;
      following = true;
      const reset = change["xaxis.autorange"];
      for (const [other, plot] of plots.entries()) {
        const range = reset ? first[other] : [...plots[position].layout.xaxis.range];
        await Plotly.relayout(plot, { "xaxis.range": range });
      }
      following = false;
    };
    for (const [position, plot] of plots.entries()) {
      plot.on("plotly_relayout", (change) => follow(position, change));
    }
  };

  draw().then(
    () => { root.dataset.charts = "drawn"; },
    (error) => {
      byId("chart-problem").textContent =
        `The interactive charts could not be drawn (${error.message}). The drawing below shows the same.`;
      byId("chart-problem").hidden = false;
      showCharts(false);
      root.dataset.charts = "failed";
    },
  );
})();
