(() => {
  // counts with narrow spaces stand beside numbers with decimal commas
  const comma = /\d\u202f\d{3}/.test(document.body.textContent);
  const number = (text) => {
    const plain = text.replace(/\u2212/g, "-").replace(/(?<=\d)\u202f/g, "");
    const found = (comma ? plain.replace(/,/g, ".") : plain.replace(/,(?=\d{3})/g, "")).match(/^-?\d+(\.\d+)?/);
    return found ? Number(found[0]) : NaN;
  };
  const order = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b);
    return x - y;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], rows = [...body.rows];
    const cell = (row, k) => row.cells[k].textContent.trim();
    const more = table.querySelectorAll("tr.more").length, opener = document.createElement("button");
    const unfold = () => { table.classList.remove("folded"); opener.remove(); };
    if (more > 3) {
      table.classList.add("folded");
      opener.className = "opener";
      opener.textContent = `Show ${more} more rows`;
      opener.addEventListener("click", unfold);
      table.parentElement.after(opener);
    }
    [...table.tHead.rows[0].cells].forEach((head, k) => {
      if (!head.textContent.trim()) return;
      const button = document.createElement("button");
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        unfold();
        rows.sort((a, b) => (down ? -1 : 1) * order(cell(a, k), cell(b, k)));
        body.append(...rows);
      });
    });
    if (rows.length < 8) continue;
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "Show only rows with ...";
    box.setAttribute("aria-label", box.placeholder);
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase();
      unfold();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(words);
    });
    table.parentElement.before(box);
  }
})();
