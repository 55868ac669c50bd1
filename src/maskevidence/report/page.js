"use strict";
// Switches runs and bands, reads values off the curves and lists all observations; without it, the pictures stand.
(() => {
  const REACH = 8; // in units of a picture: how far the point of a line may lie from the rule
  const HINT = "Point at the picture, or use the arrow keys in it, to read values off.";

  document.documentElement.classList.add("script");
  document.querySelectorAll(".plot").forEach(setUp);

  const listed = JSON.parse(document.getElementById("observations-data").textContent);
  if (listed) list(listed, document.getElementById("all"));

  const closed = document.querySelectorAll("details.run:not([open])");
  addEventListener("beforeprint", () => closed.forEach((details) => { details.open = true; }));

  // Lines and bands have the ids KEY-line-RUN and KEY-band-NAME-RUN.
  function setUp(figure) {
    const key = figure.id.replace("plot-", ""), off = { run: new Set(), band: new Set() };
    const drawn = [...figure.querySelectorAll(`[id^="${key}-line-"], [id^="${key}-band-"]`)].map((element) => {
      const words = element.id.slice(key.length + 1).split("-");
      return { element, run: words.at(-1), band: words.length > 2 ? words[1] : null };
    });
    const box = figure.querySelector(".read");
    const read = box && reader(box, figure.querySelector(".readout"), (line) => !off.run.has(String(line)));
    for (const input of figure.querySelectorAll("input")) {
      const [kind, name] = Object.entries(input.dataset)[0];
      input.checked = input.defaultChecked; // a reload keeps what was chosen before, and the picture does not
      const change = () => {
        off[kind][input.checked ? "delete" : "add"](name);
        for (const { element, run, band } of drawn) {
          element.style.display = off.run.has(run) || off.band.has(band) ? "none" : "";
        }
        if (read) read();
      };
      input.addEventListener("change", change);
      change();
    }
  }

  // A rule over the picture goes to the points of the lines, by pointer and keys, and their values are said below.
  function reader(box, readout, isShown) {
    const svg = box.querySelector("svg"), lines = JSON.parse(svg.dataset.points), view = svg.viewBox.baseVal;
    const area = svg.querySelector("clipPath rect"), top = Number(area.getAttribute("y"));
    const rule = document.createElementNS(svg.namespaceURI, "line");
    rule.setAttribute("class", "rule");
    rule.setAttribute("y1", top);
    rule.setAttribute("y2", top + Number(area.getAttribute("height")));
    let at = null;
    readout.textContent = HINT;

    const shown = () => lines.filter(({ line }) => isShown(line));
    const places = () => [...new Set(shown().flatMap(({ left, y }) => left.filter((_, k) => y[k] !== null)))]
      .sort((a, b) => a - b);

    function say() {
      if (at === null) return;
      const near = shown().map((line) => ({ line, k: nearest(line.left, at) }))
        .filter(({ line, k }) => Math.abs(line.left[k] - at) <= REACH && line.y[k] !== null);
      rule.setAttribute("x1", at);
      rule.setAttribute("x2", at);
      svg.append(rule);
      const there = near.find(({ line, k }) => line.left[k] === at);
      const rows = [there ? where(there.line.x[there.k]) : ""];
      for (const { line, k } of near) rows.push(`${lines.length > 1 ? `${line.label}: ` : ""}${line.words[k]}`);
      readout.replaceChildren(...rows.map((text) => {
        const row = document.createElement("div");
        row.textContent = text;
        return row;
      }));
    }

    function where(x) {
      const share = (x * Number(box.dataset.factor)).toFixed(1);
      return box.dataset.where.replace("{x}", Number.isInteger(x) ? x : x.toFixed(1)).replace("{share}", share);
    }

    const point = (event) => {
      const { left, width } = svg.getBoundingClientRect(), all = places();
      if (!all.length) return;
      at = all[nearest(all, view.x + (view.width * (event.clientX - left)) / width)];
      say();
    };
    box.addEventListener("pointermove", point);
    box.addEventListener("pointerdown", point);
    box.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }, all = places();
      if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey || !all.length) return;
      const before = at === null ? -1 : nearest(all, at);
      at = all[Math.min(all.length - 1, Math.max(0, before + steps[event.key]))];
      say();
      const { width } = svg.getBoundingClientRect();
      box.scrollLeft = (width * (at - view.x)) / view.width - box.clientWidth / 2; // where the box scrolls
      event.preventDefault();
    });
    return say;
  }

  // The table of all observations: a click on a column sorts, and the field shows names, or numbers below or above one.
  function list({ columns, main, rows, digits }, root) {
    const PAGE = 25;
    const head = root.querySelector("thead"), body = root.querySelector("tbody"), field = root.querySelector("input");
    const state = { by: Math.max(1, main - 1), down: false, page: 0 }; // hardest first
    const top = head.insertRow();
    columns.forEach((name, place) => {
      const cell = document.createElement("th"), button = document.createElement("button");
      cell.scope = "col";
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => {
        state.down = state.by === place ? !state.down : false;
        state.by = place;
        show(0);
      });
      cell.append(button);
      top.append(cell);
    });
    field.addEventListener("input", () => show(0));
    for (const button of root.querySelectorAll("[data-page]")) {
      button.addEventListener("click", () => show(state.page + Number(button.dataset.page)));
    }

    function matching() {
      const text = field.value.trim().toLowerCase().replace(/\u2212/g, "-");
      const limit = text.match(/^([<>])\s*(-?[\d.]+)$/);
      if (limit) {
        const sign = limit[1] === "<" ? -1 : 1;
        return rows.filter((row) => sign * row[main] > sign * Number(limit[2]));
      }
      return rows.filter((row) => row[0].toLowerCase().includes(text));
    }

    function show(page) {
      const order = (a, b) => (typeof a[state.by] === "number" ? a[state.by] - b[state.by]
        : a[state.by].localeCompare(b[state.by], undefined, { numeric: true }));
      const found = matching().sort((a, b) => (state.down ? -1 : 1) * order(a, b));
      const pages = Math.max(1, Math.ceil(found.length / PAGE));
      state.page = Math.min(pages - 1, Math.max(0, page));
      [...top.cells].forEach((cell, place) => {
        cell.setAttribute("aria-sort", place !== state.by ? "none" : state.down ? "descending" : "ascending");
      });
      const first = PAGE * state.page;
      body.replaceChildren(...found.slice(first, first + PAGE).map((row) => {
        const line = document.createElement("tr");
        row.forEach((value, place) => {
          const cell = document.createElement(place ? "td" : "th");
          if (!place) cell.scope = "row";
          cell.textContent = place ? number(value, digits[place - 1]) : value;
          line.append(cell);
        });
        return line;
      }));
      const last = Math.min(found.length, first + PAGE);
      root.querySelector("[role=status]").textContent = found.length
        ? `${first + 1} to ${last} of ${found.length.toLocaleString("en")}` : "none";
      root.querySelector("[data-page='-1']").disabled = state.page === 0;
      root.querySelector("[data-page='1']").disabled = state.page === pages - 1;
    }

    show(0);
  }

  function number(value, digits) {
    if (value === null) return "–";
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return value.toLocaleString("en", options).replace("-", "\u2212");
  }

  function nearest(values, wanted) {
    let best = 0;
    values.forEach((value, place) => {
      if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = place;
    });
    return best;
  }
})();
