// The hands: pointer, wheel, keys, search and buttons move the view, point at a node or keep one.

const CLOSEST = 400;
const FOUND_AT_MOST = 8;

const zoomBy = (factor, across = canvas.clientWidth / 2, down = canvas.clientHeight / 2) => {
  const [x, y] = toData(across, down);
  const least = wholeScale() * 0.5;
  const next = Math.min(Math.max(view.scale * factor, least), wholeScale() * CLOSEST);
  view.x = x - ((x - view.x) * view.scale) / next;
  view.y = y - ((y - view.y) * view.scale) / next;
  view.scale = next;
  redraw();
};

const moveBy = (across, down) => {
  view.x = Math.min(1, Math.max(-1, view.x - (across * state.ratio) / view.scale));
  view.y = Math.min(1, Math.max(-1, view.y + (down * state.ratio) / view.scale));
  redraw();
};

const flyTo = (goal) => {
  const start = { ...view };
  const began = performance.now();
  const step = (now) => {
    if (state.flight !== step) return;
    const share = calm.matches ? 1 : Math.min(1, Math.max(0, now - began) / 300);
    const eased = share * share * (3 - 2 * share);
    for (const name of ["x", "y"]) view[name] = start[name] + (goal[name] - start[name]) * eased;
    view.scale = start.scale * (goal.scale / start.scale) ** eased;
    state.stale = true;
    draw();
    if (share < 1) requestAnimationFrame(step);
  };
  state.flight = step;
  requestAnimationFrame(step);
};

const showWhole = () => flyTo({ x: 0, y: 0, scale: wholeScale() });
const goTo = (i) => {
  keep(i);
  flyTo({ x: data.x[i], y: data.y[i], scale: Math.max(view.scale, wholeScale() * 4) });
};

const point = (i, across, down) => {
  if (i !== state.pointed) {
    state.pointed = i;
    canvas.classList.toggle("near", i >= 0);
    redraw(false);
  }
  showTip(across, down);
};

const under = (across, down) => grid.nearest(...toData(across, down), (radius() + 6 * state.ratio) / view.scale);

// Pointer: one drags, two pinch. A press that did not move is a click.

const pointers = new Map();
let travelled = 0;
const place = (event) => {
  const room = canvas.getBoundingClientRect();
  return [event.clientX - room.left, event.clientY - room.top];
};
const spread = () => {
  const [[ax, ay], [bx, by]] = [...pointers.values()];
  return { apart: Math.hypot(ax - bx, ay - by), middle: [(ax + bx) / 2, (ay + by) / 2] };
};

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.add("held");
  state.flight = null;
  if (!pointers.size) travelled = 0;
  pointers.set(event.pointerId, place(event));
});

canvas.addEventListener("pointermove", (event) => {
  const [x, y] = place(event);
  const before = pointers.get(event.pointerId);
  if (!before) {
    if (event.pointerType !== "touch") point(under(x, y), x, y);
    return;
  }
  const pinch = pointers.size === 2 ? spread() : null;
  pointers.set(event.pointerId, [x, y]);
  travelled += Math.hypot(x - before[0], y - before[1]);
  if (travelled > 4) point(-1);
  if (pinch) {
    const { apart, middle } = spread();
    moveBy(middle[0] - pinch.middle[0], middle[1] - pinch.middle[1]);
    zoomBy(apart / (pinch.apart || 1), ...middle);
  } else moveBy(x - before[0], y - before[1]);
});

const release = (event) => {
  if (!pointers.delete(event.pointerId)) return;
  canvas.classList.remove("held");
  if (event.type === "pointerup" && !pointers.size && travelled <= 4) keep(under(...place(event)));
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => point(-1));

// The page must still scroll under a wheel that only happens to pass over the map.
canvas.addEventListener(
  "wheel",
  (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    state.flight = null;
    zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015) * (event.deltaMode ? 20 : 1)), ...place(event));
  },
  { passive: false },
);

// Keys and buttons

const KEYS = {
  ArrowLeft: () => moveBy(60, 0),
  ArrowRight: () => moveBy(-60, 0),
  ArrowUp: () => moveBy(0, 60),
  ArrowDown: () => moveBy(0, -60),
  "+": () => zoomBy(1.3),
  "=": () => zoomBy(1.3),
  "-": () => zoomBy(1 / 1.3),
  0: showWhole,
  Enter: () => keep(grid.nearest(view.x, view.y, 3)),
  Escape: () => {
    point(-1);
    keep(-1);
  },
};
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  state.flight = null;
  KEYS[event.key]();
});
for (const change of ["focus", "blur"]) canvas.addEventListener(change, () => redraw(false));
get("closer").addEventListener("click", () => zoomBy(1.5));
get("farther").addEventListener("click", () => zoomBy(1 / 1.5));
get("whole").addEventListener("click", showWhole);
get("colour").addEventListener("change", (event) => {
  state.colouring = Number(event.target.value);
  recolour();
});

// Search: the id itself first, then ids that begin so, then ids that contain it.

const lowered = data.ids.slice(0, data.count).map((name) => name.toLowerCase());
const search = (text) => {
  const wanted = text.trim().toLowerCase();
  const kinds = [[], [], []];
  if (wanted) {
    lowered.forEach((name, i) => {
      if (name.includes(wanted)) kinds[name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2].push(i);
    });
  }
  return kinds.flat();
};

const offer = (text) => {
  const found = search(text);
  get("found-box").classList.toggle("unseen", !text.trim()); // not hidden: what is hidden is not read out when it changes
  get("found-status").textContent = !text.trim()
    ? ""
    : found.length > FOUND_AT_MOST
      ? `The first ${FOUND_AT_MOST} of ${rounded(found.length)} ids.`
      : `${found.length || "No"} id${found.length === 1 ? "" : "s"} found.`;
  get("found").replaceChildren(...found.slice(0, FOUND_AT_MOST).map((i) => make("li", {}, goButton(i))));
};

get("find").addEventListener("input", (event) => offer(event.target.value));
get("find").addEventListener("keydown", (event) => {
  const [first] = event.key === "Enter" ? search(event.target.value) : [];
  if (first === undefined) return;
  offer("");
  goTo(first);
});
get("found").addEventListener("click", () => {
  get("find").focus(); // before the button that had it goes away
  offer("");
});
get("finder").addEventListener("focusout", (event) => {
  if (!get("finder").contains(event.relatedTarget)) offer("");
});

// Size, theme and print

new ResizeObserver(() => {
  const before = painter.width ? zoom() : 1;
  state.ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * state.ratio));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * state.ratio));
  painter.resize(canvas.width, canvas.height);
  view.scale = wholeScale() * before;
  state.stale = true;
  draw();
}).observe(canvas);
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", () => {
    state.stale = true;
    draw(); // at once: a printer does not wait for the next frame
  });
}
painter.resize(1, 1);
view.scale = wholeScale();
recolour();
