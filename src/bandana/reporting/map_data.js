// What the map is made of: the page's data as typed arrays, a grid to find the nearest point, and a painter that writes
// pixels itself, since tens of thousands of canvas calls per frame would not be fluid.

const decode = (text, Kind) => new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

const readData = (element) => {
  const data = JSON.parse(element.textContent);
  const points = decode(data.points, Float32Array);
  return {
    count: points.length / 2,
    x: points.filter((_, place) => place % 2 === 0),
    y: points.filter((_, place) => place % 2 === 1),
    ids: data.ids,
    colourings: data.colourings.map((colouring) => ({
      ...colouring,
      values: decode(colouring.values, colouring.kind === "groups" ? Int32Array : Float32Array),
    })),
    neighbours: data.neighbours.map((relation) => ({ ...relation, positions: decode(relation.positions, Int32Array) })),
  };
};

const shuffled = (count) => {
  const order = Uint32Array.from({ length: count }, (_, place) => place);
  let state = 12345;
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
};

// The points of each cell lie together, as rows of a sparse matrix do, and within a cell in a random order: painted so,
// neighbours on the screen are neighbours in memory, and yet no group always lies on top.
class Grid {
  constructor({ count, x, y }) {
    this.side = Math.max(1, Math.ceil(Math.sqrt(count / 2)));
    this.x = x;
    this.y = y;
    this.start = new Uint32Array(this.side * this.side + 1);
    const cell = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      cell[i] = this.place(y[i]) * this.side + this.place(x[i]);
      this.start[cell[i] + 1]++;
    }
    for (let c = 0; c < this.side * this.side; c++) this.start[c + 1] += this.start[c];
    const next = this.start.slice();
    this.members = new Uint32Array(count);
    for (const i of shuffled(count)) this.members[next[cell[i]]++] = i;
  }

  place(value) {
    return Math.min(this.side - 1, Math.max(0, Math.floor(((value + 1) / 2) * this.side)));
  }

  nearest(x, y, reach) {
    let best = -1;
    let least = reach * reach;
    const right = this.place(x + reach);
    for (let row = this.place(y - reach); row <= this.place(y + reach); row++) {
      const from = this.start[row * this.side + this.place(x - reach)];
      const to = this.start[row * this.side + right + 1];
      for (let m = from; m < to; m++) {
        const i = this.members[m];
        const distance = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
        if (distance <= least) {
          least = distance;
          best = i;
        }
      }
    }
    return best;
  }
}

// A colour is one number, alpha-blue-green-red from the top: how a little-endian machine reads a pixel.
const pixel = (hex) => {
  const rgb = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
};

const mixed = (from, to, share) => {
  const part = Math.round(256 * share);
  const outer = ((Math.imul(from & 0xff00ff, 256 - part) + Math.imul(to & 0xff00ff, part)) >>> 8) & 0xff00ff;
  const green = ((Math.imul(from & 0xff00, 256 - part) + Math.imul(to & 0xff00, part)) >>> 8) & 0xff00;
  return (0xff000000 | outer | green) >>> 0;
};

class Painter {
  resize(width, height) {
    this.width = width;
    this.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  // Which pixels a disc covers, and by how much, as offsets from its middle.
  stamp(radius, opacity) {
    const reach = Math.ceil(radius + 0.5);
    const offsets = [];
    const cover = [];
    for (let dy = -reach; dy <= reach; dy++) {
      for (let dx = -reach; dx <= reach; dx++) {
        const share = Math.min(1, radius + 0.5 - Math.hypot(dx, dy)) * opacity;
        if (share > 0.02) {
          offsets.push(dy * this.width + dx);
          cover.push(Math.round(256 * share));
        }
      }
    }
    return { reach, offsets: Int32Array.from(offsets), cover: Int32Array.from(cover) };
  }

  clear(ground) {
    this.pixels.fill(ground);
  }

  discs({ x, y }, order, colours, view, radius, opacity) {
    const { reach, offsets, cover } = this.stamp(radius, opacity);
    const { pixels, width, height } = this;
    const left = width / 2 - view.x * view.scale;
    const top = height / 2 + view.y * view.scale;
    for (let k = 0; k < order.length; k++) {
      const i = order[k];
      const across = Math.round(left + x[i] * view.scale);
      const down = Math.round(top - y[i] * view.scale);
      if (across < reach || down < reach || across >= width - reach || down >= height - reach) continue;
      const middle = down * width + across;
      const outer = colours[i] & 0xff00ff;
      const green = colours[i] & 0xff00;
      for (let s = 0; s < offsets.length; s++) {
        const at = middle + offsets[s];
        const here = pixels[at];
        const part = cover[s];
        const rest = 256 - part;
        pixels[at] =
          0xff000000 |
          (((Math.imul(here & 0xff00ff, rest) + Math.imul(outer, part)) >>> 8) & 0xff00ff) |
          (((Math.imul(here & 0xff00, rest) + Math.imul(green, part)) >>> 8) & 0xff00);
      }
    }
  }
}
