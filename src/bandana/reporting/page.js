// Cells tell what is behind them, and verdicts can be looked at alone. All texts are set as text, never as markup.
const details = JSON.parse(document.getElementById("details").textContent);
const card = document.getElementById("told");
const cells = [...document.querySelectorAll(".cell")];
let kept = null; // the cell whose details stay open

function fill(list, items, make) {
  list.replaceChildren(...items.flatMap(make));
  list.hidden = !items.length;
}

function element(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

function link([name, address]) {
  const item = document.createElement("li");
  const inner = element(address ? "a" : "span", name);
  if (address) inner.href = address;
  item.append(inner);
  return [item];
}

function show(cell) {
  const it = details[Number(cell.dataset.details)];
  document.getElementById("told-title").textContent = it.title;
  const verdict = document.getElementById("told-verdict");
  verdict.textContent = `${it.sign} ${it.word}`;
  verdict.className = `badge tone-${it.tone}`;
  fill(document.getElementById("told-facts"), it.facts, ([name, value]) => [element("dt", name), element("dd", value)]);
  document.getElementById("told-note").textContent = it.note;
  fill(document.getElementById("told-links"), it.links, link);
  card.hidden = false;
  place(cell);
}

function place(cell) {
  const at = cell.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - card.offsetWidth - 8));
  const below = at.bottom + 6 + card.offsetHeight <= innerHeight || at.top < card.offsetHeight + 6;
  card.style.left = `${left + scrollX}px`;
  card.style.top = `${(below ? at.bottom + 6 : at.top - card.offsetHeight - 6) + scrollY}px`;
}

function keep(cell) {
  kept?.classList.remove("kept");
  kept = cell;
  cell?.classList.add("kept");
  if (cell) {
    show(cell);
    card.focus({ preventScroll: true });
  } else card.hidden = true;
}

function letGo() {
  const cell = kept;
  keep(null);
  cell?.focus({ preventScroll: true });
  card.hidden = true; // coming back to the cell must not open it again
}

function step(cell, key) {
  const row = cell.closest("tr");
  const column = [...row.children].indexOf(cell.closest("td"));
  const [down, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
  const rows = [...row.parentElement.children];
  rows[rows.indexOf(row) + down]?.children[column + across]?.querySelector(".cell")?.focus();
}

for (const cell of cells) {
  cell.removeAttribute("title"); // the card says it better
  cell.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && !kept && show(cell));
  cell.addEventListener("pointerleave", () => kept || (card.hidden = true));
  cell.addEventListener("focus", () => kept || (cell.matches(":focus-visible") && show(cell)));
  cell.addEventListener("blur", () => kept || (card.hidden = true));
  cell.addEventListener("click", () => (kept === cell ? letGo() : keep(cell)));
  cell.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      step(cell, event.key);
    }
  });
}
document.getElementById("close").addEventListener("click", letGo);
document.addEventListener("keydown", (event) => event.key === "Escape" && letGo());
document.addEventListener("click", (event) => kept && !event.target.closest("#told, .cell") && keep(null));
addEventListener("resize", () => keep(null));

const contents = document.getElementById("contents");
const narrow = matchMedia("(max-width: 900px)"); // as in the style sheet: above, nothing is there to open it with
const unfold = () => (contents.open = !narrow.matches);
narrow.addEventListener("change", unfold);
unfold();

const filters = [...document.querySelectorAll(".filter")];
const marked = [...document.querySelectorAll("[data-mark]")];
const status = document.getElementById("shown");
const words = status?.textContent;

function only(verdict) {
  keep(null);
  for (const filter of filters) filter.setAttribute("aria-pressed", String(filter.dataset.filter === verdict));
  for (const it of marked) it.classList.toggle("aside", verdict !== null && it.dataset.mark !== verdict);
  for (const section of document.querySelectorAll(".artifact")) {
    const found = [...section.querySelectorAll("[data-mark]")].some((it) => it.dataset.mark === verdict);
    const hidden = verdict !== null && !found;
    section.hidden = hidden;
    document.querySelector(`[data-section="${CSS.escape(section.id)}"]`)?.toggleAttribute("hidden", hidden);
  }
  status.textContent = verdict === null ? words : `Only “${verdict}”. Choose it again to see all.`;
}

for (const filter of filters) {
  filter.addEventListener("click", () => {
    only(filter.getAttribute("aria-pressed") === "true" ? null : filter.dataset.filter);
  });
}
