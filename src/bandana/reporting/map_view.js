// The map under the hand: what is shown, what is pointed at, what is kept. Every change asks for one drawing, and all
// changes between two frames share it. Ids are the user's text and only ever become text nodes.

const GROUPS = ["#2f7ed8", "#d2611a", "#22924a", "#9a63d8", "#dc434e", "#15909a", "#cf4d9d", "#85851c", "#a06c3c", "#6f7fa6"];
const LOW = "#2f7ed8";
const HIGH = "#d2611a";
const NONE = "#7f858d";

const get = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const id = (place) => make("bdi", {}, data.ids[place]);
const rounded = (value) => (Number.isInteger(value) ? value : Number(value.toPrecision(4))).toLocaleString("en");

const data = readData(get("map-data"));
const grid = new Grid(data);
const order = grid.members;
const painter = new Painter();
const canvas = get("canvas");
const context = canvas.getContext("2d", { willReadFrequently: true });
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const view = { x: 0, y: 0, scale: 1 };
const state = {
  colouring: 0,
  colours: new Uint32Array(data.count),
  slots: null, // place in the legend of each point
  group: null, // place in the legend that is picked out
  layers: [], // points to paint, those underneath first
  pointed: -1,
  kept: -1,
  ratio: 1, // device pixels per CSS pixel
  stale: true, // whether the points must be painted again
  flight: null, // the movement under way
  waiting: false,
};

// Colours and their legend

const commonest = (colouring) => {
  const sizes = new Uint32Array(colouring.names.length);
  for (const value of colouring.values) if (value >= 0) sizes[value]++;
  const ranked = [...sizes.keys()].filter((group) => sizes[group]).sort((a, b) => sizes[b] - sizes[a]);
  return { sizes, ranked };
};

const paintGroups = (colouring) => {
  const { sizes, ranked } = commonest(colouring);
  const named = ranked.length > GROUPS.length ? ranked.slice(0, GROUPS.length) : ranked;
  const slot = new Map(named.map((group, place) => [group, place]));
  state.slots = Int8Array.from(colouring.values, (value) => slot.get(value) ?? -1);
  state.colours = Uint32Array.from(state.slots, (place) => pixel(place < 0 ? NONE : GROUPS[place]));
  const rest = data.count - named.reduce((sum, group) => sum + sizes[group], 0);
  const entries = named.map((group, place) => [place, GROUPS[place], colouring.names[group], sizes[group]]);
  const more = ranked.length - named.length;
  if (rest) entries.push([-1, NONE, more ? `${more} smaller, or none` : "none", rest]);
  get("legend").replaceChildren(make("ul", {}, ...entries.map((entry) => make("li", {}, legendButton(...entry)))));
};

const legendButton = (place, colour, name, size) => {
  const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const disc = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  for (const [key, value] of Object.entries({ cx: 5, cy: 5, r: 5, fill: colour })) disc.setAttribute(key, value);
  swatch.setAttribute("viewBox", "0 0 10 10");
  swatch.setAttribute("class", "swatch");
  swatch.setAttribute("aria-hidden", "true");
  swatch.append(disc);
  const count = make("span", {}, size.toLocaleString("en"));
  const button = make("button", { type: "button", class: "plain", "aria-pressed": "false" }, swatch, make("bdi", {}, name), count);
  button.addEventListener("click", () => {
    pickOut(state.group === place ? null : place);
    for (const other of get("legend").querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", String(state.group !== null));
  });
  return button;
};

const pickOut = (group) => {
  const opacity = data.count > 5000 ? 0.8 : 0.92;
  const chosen = (i) => state.slots[i] === group;
  state.group = group;
  state.layers =
    group === null
      ? [{ order, opacity }]
      : [
          { order: order.filter((i) => !chosen(i)), opacity: 0.1 },
          { order: order.filter(chosen), opacity },
        ];
  redraw();
};

const paintShades = (colouring) => {
  const stretched = colouring.kind === "logarithmic" ? colouring.values.map(Math.log1p) : colouring.values;
  const known = stretched.filter(Number.isFinite);
  const low = known.reduce((a, b) => Math.min(a, b), Infinity);
  const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  const [from, to, none] = [LOW, HIGH, NONE].map(pixel);
  state.colours = Uint32Array.from(stretched, (value) => (Number.isFinite(value) ? mixed(from, to, share(value)) : none));
  state.slots = null;
  const ramp = make("canvas", { class: "ramp", width: 256, height: 1, role: "img", "aria-label": "from blue, low, to orange, high" });
  const brush = ramp.getContext("2d");
  const image = brush.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(Array.from({ length: 256 }, (_, place) => mixed(from, to, place / 255)));
  brush.putImageData(image, 0, 0);
  const ends = (colouring.kind === "logarithmic" ? [low, high].map(Math.expm1) : [low, high]).map((end) => Number(end.toPrecision(6)));
  const words = known.length ? ends.map((end) => make("span", {}, rounded(end))) : [make("span", {}, "no values")];
  get("legend").replaceChildren(ramp, make("div", { class: "ends" }, ...words));
};

const recolour = () => {
  const colouring = data.colourings[state.colouring];
  if (!colouring) state.colours.fill(pixel(GROUPS[0]));
  else if (colouring.kind === "groups") paintGroups(colouring);
  else paintShades(colouring);
  pickOut(null);
};

// Drawing

const toScreen = (i) => [painter.width / 2 + (data.x[i] - view.x) * view.scale, painter.height / 2 - (data.y[i] - view.y) * view.scale];
const toData = (across, down) => [
  view.x + (across * state.ratio - painter.width / 2) / view.scale,
  view.y - (down * state.ratio - painter.height / 2) / view.scale,
];
const wholeScale = () => Math.min(painter.width, painter.height) * 0.47;
const zoom = () => view.scale / wholeScale();
const radius = () => state.ratio * Math.min(6, Math.max(1.1, 110 / Math.sqrt(data.count + 200)) * Math.sqrt(Math.sqrt(zoom())) + 0.4);
const joined = (i) => (data.neighbours.length && i < data.count ? neighboursOf(data.neighbours[0], i).filter((j) => j < data.count) : []);
const neighboursOf = (relation, i) => [...relation.positions.subarray(i * relation.most, (i + 1) * relation.most)].filter((j) => j >= 0);

const redraw = (stale = true) => {
  state.stale ||= stale;
  if (state.waiting) return;
  state.waiting = true;
  requestAnimationFrame(() => {
    state.waiting = false;
    draw();
  });
};

const draw = () => {
  const began = performance.now();
  const style = getComputedStyle(document.documentElement);
  const [ground, text, edge] = ["--ground", "--text", "--edge"].map((name) => style.getPropertyValue(name).trim());
  if (state.stale) {
    painter.clear(pixel(ground));
    for (const layer of state.layers) painter.discs(data, layer.order, state.colours, view, radius(), layer.opacity);
    state.stale = false;
  }
  context.putImageData(painter.image, 0, 0);
  for (const i of new Set([state.kept, state.pointed])) if (i >= 0) drawTies(i, text, edge, ground);
  if (document.activeElement === canvas && canvas.matches(":focus-visible")) drawCross(text);
  get("zoom").value = `Zoom ×${zoom().toFixed(1)}.`;
  canvas.dataset.milliseconds = (performance.now() - began).toFixed(2);
};

const drawTies = (i, text, edge, ground) => {
  const [x, y] = toScreen(i);
  const others = joined(i);
  context.strokeStyle = edge;
  context.lineWidth = state.ratio;
  context.beginPath();
  for (const j of others) {
    context.moveTo(x, y);
    context.lineTo(...toScreen(j));
  }
  context.stroke();
  context.strokeStyle = text;
  for (const j of [...others, i]) {
    context.lineWidth = state.ratio * (j === i ? 2.5 : 1.2);
    context.beginPath();
    context.arc(...toScreen(j), radius() + state.ratio * (j === i ? 3 : 1.5), 0, 2 * Math.PI);
    context.stroke();
  }
  if (i === state.kept) writeId(i, text, ground);
};

const writeId = (i, text, ground) => {
  const [x, y] = toScreen(i);
  const name = data.ids[i].length > 28 ? `${data.ids[i].slice(0, 27)}…` : data.ids[i];
  context.font = `600 ${13 * state.ratio}px system-ui, sans-serif`;
  context.textAlign = x > painter.width * 0.7 ? "right" : "left";
  const across = x + (context.textAlign === "left" ? 1 : -1) * (radius() + 7 * state.ratio);
  context.lineWidth = 4 * state.ratio;
  context.strokeStyle = ground;
  context.fillStyle = text;
  context.strokeText(name, across, y - 5 * state.ratio);
  context.fillText(name, across, y - 5 * state.ratio);
};

const drawCross = (text) => {
  const [x, y, arm] = [painter.width / 2, painter.height / 2, 7 * state.ratio];
  context.strokeStyle = text;
  context.lineWidth = state.ratio;
  context.beginPath();
  context.moveTo(x - arm, y);
  context.lineTo(x + arm, y);
  context.moveTo(x, y - arm);
  context.lineTo(x, y + arm);
  context.stroke();
};

// What a node is, in words

const worth = (colouring, i) => {
  const value = colouring.values[i];
  if (colouring.kind === "groups") return value < 0 ? "none" : colouring.names[value];
  return Number.isFinite(value) ? rounded(value) : "none";
};

const showTip = (across, down) => {
  const tip = get("tip");
  tip.hidden = state.pointed < 0;
  if (tip.hidden) return;
  const lines = data.colourings.map((colouring) => make("div", {}, `${colouring.name}: `, make("bdi", {}, worth(colouring, state.pointed))));
  for (const relation of data.neighbours) {
    const names = neighboursOf(relation, state.pointed).slice(0, 5);
    if (names.length) lines.push(make("div", {}, `${relation.name}: `, ...names.flatMap((j, place) => (place ? [", ", id(j)] : [id(j)]))));
  }
  tip.replaceChildren(make("strong", {}, id(state.pointed)), ...lines);
  const room = canvas.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(across + 14, room.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${down + 16 + tip.offsetHeight > room.height ? Math.max(4, down - tip.offsetHeight - 12) : down + 16}px`;
};

const keep = (i) => {
  state.kept = i;
  const card = get("card");
  if (i < 0) card.replaceChildren(make("p", { class: "note" }, "No node is chosen."));
  else {
    const facts = data.colourings.map((colouring) =>
      make("div", {}, make("dt", {}, colouring.name), make("dd", {}, make("bdi", {}, worth(colouring, i)))),
    );
    const lists = data.neighbours.flatMap((relation) => {
      const names = neighboursOf(relation, i).map((j) => make("li", {}, j < data.count ? goButton(j) : id(j)));
      return [make("h4", {}, relation.name), names.length ? make("ul", {}, ...names) : make("p", { class: "note" }, "none")];
    });
    card.replaceChildren(make("strong", {}, id(i)), make("dl", {}, ...facts), ...lists);
  }
  redraw(false);
};

const goButton = (i) => {
  const button = make("button", { type: "button", class: "plain" }, id(i));
  button.addEventListener("click", () => goTo(i));
  return button;
};
