// The map: panned and zoomed, drawn afresh whenever something moves.

import { cog as drawCog, glyph, thing as drawThing } from "./sprites.js";
import { ENERGY, FLOOR, GROUND, HEART, INK, RESOURCE_COLOURS, WALL, WALL_EDGE, WALL_FACE, ownerColour } from "./theme.js";

const CLOSEST = 96, TRAIL = 40, ECHO = 7; // pixels per cell; steps

export class MapView {
  constructor(canvas, episode) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.follow = -1;
    this.steering = false;
    this.attach(episode);
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  attach(episode) {
    this.episode = episode;
    this.walls = wallPaths(episode.header.walls);
    this.areas = { key: "", paths: [] };
    this.fitted = true;
    this.follow = -1;
    this.resize();
  }

  resize() {
    const { canvas } = this, ratio = window.devicePixelRatio || 1;
    this.ratio = ratio;
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (this.fitted) this.fit();
    this.changed = true;
  }

  // The part of the map that is not solid rock, as large as it goes.
  fit() {
    const { canvas, walls } = this, [left, top, right, bottom] = walls.inside;
    const width = right - left + 2, height = bottom - top + 2;
    this.scale = Math.max(1, Math.min(canvas.width / width, canvas.height / height));
    this.x = (left + right) / 2;
    this.y = (top + bottom) / 2;
    this.fitted = this.changed = true;
  }

  zoom(factor, px = this.canvas.width / 2, py = this.canvas.height / 2) {
    const [wx, wy] = this.toWorld(px, py), least = Math.min(this.canvas.width, this.canvas.height) / 300;
    this.scale = Math.min(Math.max(this.scale * factor, least), CLOSEST * this.ratio);
    this.x = wx - (px - this.canvas.width / 2) / this.scale;
    this.y = wy - (py - this.canvas.height / 2) / this.scale;
    this.fitted = false;
    this.#bound();
  }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.fitted = false;
    this.#bound();
  }

  #bound() {
    this.x = Math.min(Math.max(this.x, 0), this.episode.width);
    this.y = Math.min(Math.max(this.y, 0), this.episode.height);
    this.changed = true;
  }

  toWorld(px, py) {
    return [this.x + (px - this.canvas.width / 2) / this.scale, this.y + (py - this.canvas.height / 2) / this.scale];
  }

  // Where a cog is at a moment between two steps.
  placeOf(cog, position) {
    const { cells, width } = this.episode, step = Math.floor(position), share = position - step;
    const here = cells[step][cog], there = cells[Math.min(step + 1, cells.length - 1)][cog];
    const ease = share * share * (3 - 2 * share);
    const mix = (a, b) => a + (b - a) * ease + 0.5;
    return [mix(here % width, there % width), mix(Math.floor(here / width), Math.floor(there / width))];
  }

  cogAt(px, py, position) {
    const [x, y] = this.toWorld(px, py), reach = Math.max(0.6, (9 * this.ratio) / this.scale);
    let best = -1, nearest = reach;
    for (let cog = 0; cog < this.episode.cogs; cog += 1) {
      const [cx, cy] = this.placeOf(cog, position), distance = Math.hypot(cx - x, cy - y);
      if (distance < nearest) { nearest = distance; best = cog; }
    }
    return best;
  }

  draw(position) {
    const { ctx, canvas, episode, scale } = this, step = Math.floor(position), scene = episode.scene(step);
    if (this.follow >= 0 && !this.fitted) [this.x, this.y] = this.placeOf(this.follow, position);
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = GROUND;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    const left = Math.round(canvas.width / 2 - this.x * scale), top = Math.round(canvas.height / 2 - this.y * scale);
    ctx.setTransform(scale, 0, 0, scale, left, top);
    ctx.fillStyle = FLOOR;
    ctx.fillRect(0, 0, episode.width, episode.height);
    this.#grid();
    this.#areas(scene);
    this.#walls();
    this.#night(position);
    this.#things(scene);
    this.#echoes(position);
    this.#trail(position);
    for (let cog = 0; cog < episode.cogs; cog += 1) this.#cog(scene, cog, position);
    this.changed = false;
  }

  #grid() {
    const { ctx, episode, scale, ratio } = this;
    if (scale < 18 * ratio) return;
    ctx.fillStyle = "#ffffff0d";
    const size = (1.5 * ratio) / scale;
    for (let row = 1; row < episode.height; row += 1)
      for (let col = 1; col < episode.width; col += 1) ctx.fillRect(col - size / 2, row - size / 2, size, size);
  }

  #areas(scene) {
    const { ctx, scale, ratio } = this, owners = this.episode.part(scene, "owner"), key = owners.join();
    if (key !== this.areas.key) this.areas = { key, paths: areaPaths(this.episode, owners) };
    for (const { owner, fill, edge } of this.areas.paths) {
      const colour = ownerColour(owner);
      ctx.fillStyle = `${colour}${owner === 1 ? "38" : "20"}`;
      ctx.fill(fill);
      ctx.strokeStyle = `${colour}bb`;
      ctx.lineWidth = (1.3 * ratio) / scale;
      ctx.setLineDash(owner === 1 ? [0.55, 0.4] : []); // the clips' edges are dashed
      ctx.stroke(edge);
      ctx.setLineDash([]);
    }
  }

  #walls() {
    const { ctx, walls } = this;
    ctx.fillStyle = WALL;
    ctx.fill(walls.body);
    if (this.scale < 5 * this.ratio) return;
    ctx.fillStyle = WALL_FACE;
    ctx.fill(walls.face);
    ctx.fillStyle = WALL_EDGE;
    ctx.fill(walls.edge);
  }

  #night(position) {
    const { ctx, episode } = this, length = episode.header.day_length, time = position % length;
    const fade = 6, dusk = length / 2;
    const dark = position < fade ? 0 : Math.min(Math.max((time - dusk) / fade, 0), 1) + Math.max(1 - time / fade, 0);
    if (dark <= 0) return;
    ctx.fillStyle = `rgba(6, 9, 30, ${0.3 * Math.min(dark, 1)})`;
    ctx.fillRect(0, 0, episode.width, episode.height);
  }

  #at(x, y, size, draw) {
    this.ctx.save();
    this.ctx.translate(x, y);
    this.ctx.scale(size, size);
    draw();
    this.ctx.restore();
  }

  #things(scene) {
    const { ctx, episode } = this, owners = episode.part(scene, "owner"), amounts = episode.part(scene, "amount");
    const full = Math.max(episode.header.extractor_amount, 1);
    const big = Math.min(Math.max((14 * this.ratio) / this.scale, 1.04), 2);
    episode.things.forEach((thing, i) => {
      const gone = thing.kind.endsWith("_extractor") && amounts[i] === 0;
      const size = gone ? 0.45 : thing.kind.endsWith("_extractor") ? 0.86 : big;
      this.#at(thing.col + 0.5, thing.row + 0.5, size, () => drawThing(ctx, thing.kind, owners[i], amounts[i] / full));
    });
  }

  // Rings that spread from where something has just happened.
  #echoes(position) {
    const { ctx, episode } = this, now = Math.floor(position);
    for (let step = Math.max(0, now - ECHO + 1); step <= now; step += 1) {
      for (const [kind, cog, thing] of episode.events(step)) {
        if (!["align", "scramble", "clips_take", "clips_scramble"].includes(kind)) continue;
        const { row, col } = episode.things[thing], age = (position - step) / ECHO;
        const colour = ownerColour(kind === "align" ? (cog >= 0 ? episode.ownerOf(cog) : 2) : kind === "clips_take" ? 1 : 0);
        ctx.globalAlpha = 1 - age;
        ctx.strokeStyle = colour;
        ctx.lineWidth = 0.35 * (1 - age) + 0.06;
        ctx.beginPath();
        ctx.arc(col + 0.5, row + 0.5, 0.7 + 4.5 * Math.sqrt(age), 0, 2 * Math.PI);
        ctx.stroke();
        ctx.globalAlpha = 1;
      }
    }
  }

  #trail(position) {
    if (this.follow < 0) return;
    const { ctx, follow } = this, now = Math.floor(position);
    ctx.lineWidth = 0.14;
    ctx.lineCap = "round";
    ctx.strokeStyle = INK;
    for (let step = Math.max(0, now - TRAIL); step < now; step += 1) {
      const [ax, ay] = this.placeOf(follow, step), [bx, by] = this.placeOf(follow, step + 1);
      ctx.globalAlpha = 0.45 * (1 - (now - step) / TRAIL);
      ctx.beginPath();
      ctx.moveTo(ax, ay);
      ctx.lineTo(bx, by);
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }

  #cog(scene, cog, position) {
    const { ctx, episode, scale, ratio } = this, [x, y] = this.placeOf(cog, position);
    const held = (name) => episode.held(scene, cog, name), followed = cog === this.follow;
    const size = Math.min(Math.max((22 * ratio) / scale, 1.14), 3);
    if (followed) this.#focus(x, y, size);
    const look = { team: ownerColour(episode.ownerOf(cog)), role: episode.role(scene, cog), down: held("hp") === 0, hearts: held("heart") };
    this.#at(x, y, size, () => drawCog(ctx, look));
    if (scale >= 20 * ratio) this.#bars(scene, cog, x, y);
    if (scale >= 15 * ratio || followed) this.#label(String(cog), x, y - size * (followed ? 0.68 : 0.52), followed);
    const vibe = episode.header.vibes[episode.part(scene, "vibe")[cog]];
    if (scale >= 26 * ratio && vibe !== "default") {
      this.#at(x - 0.42, y - 0.42, 0.4, () => {
        ctx.beginPath();
        ctx.arc(0, 0, 0.5, 0, 2 * Math.PI);
        ctx.fillStyle = "#0c0f15dd";
        ctx.fill();
        if (["heart", "gear"].includes(vibe)) {
          ctx.beginPath();
          ctx.arc(0, 0, 0.26, 0, 2 * Math.PI);
          ctx.fillStyle = RESOURCE_COLOURS[vibe] ?? INK;
          ctx.fill();
        } else glyph(ctx, vibe, 0.7, RESOURCE_COLOURS[vibe] ?? INK);
      });
    }
  }

  // What the followed cog sees, and a ring around it.
  #focus(x, y, size) {
    const { ctx, scale, ratio, episode } = this, window = episode.header.window;
    ctx.lineWidth = (1.4 * ratio) / scale;
    ctx.strokeStyle = this.steering ? "#ffffff" : "#ffffff70";
    ctx.setLineDash([0.5, 0.35]);
    ctx.strokeRect(x - window / 2, y - window / 2, window, window);
    ctx.setLineDash([]);
    ctx.lineWidth = 0.1;
    ctx.strokeStyle = "#ffffff";
    ctx.fillStyle = this.steering ? "#ffffff3a" : "#ffffff14";
    ctx.beginPath();
    ctx.arc(x, y, size * 0.66, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }

  #bars(scene, cog, x, y) {
    const { ctx, episode } = this;
    [["hp", HEART], ["energy", ENERGY]].forEach(([name, colour], i) => {
      const cap = Math.max(episode.cap(scene, cog, name), 1), share = Math.min(episode.held(scene, cog, name) / cap, 1);
      const top = y + 0.57 + i * 0.13;
      ctx.fillStyle = "#0c0f15cc";
      ctx.fillRect(x - 0.42, top, 0.84, 0.1);
      ctx.fillStyle = colour;
      ctx.fillRect(x - 0.42, top, 0.84 * share, 0.1);
    });
  }

  #label(text, x, y, followed) {
    const { ctx, scale, ratio } = this, size = 11 * ratio;
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(1 / scale, 1 / scale);
    ctx.font = `600 ${size}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "bottom";
    ctx.lineJoin = "round";
    ctx.lineWidth = 3.5 * ratio;
    ctx.strokeStyle = "#0c0f15e0";
    ctx.strokeText(text, 0, -1);
    ctx.fillStyle = followed ? "#ffffff" : INK;
    ctx.fillText(text, 0, -1);
    ctx.restore();
  }
}

// Walls as three paths: their tops, the faces that look south, and a light edge above those.
function wallPaths(rows) {
  const body = new Path2D(), face = new Path2D(), edge = new Path2D();
  const inside = [Infinity, Infinity, 0, 0];
  const solid = (row, col) => rows[row]?.[col] !== ".";
  rows.forEach((line, row) => {
    for (let col = 0; col < line.length; col += 1) {
      if (line[col] !== "#") {
        inside[0] = Math.min(inside[0], col);
        inside[1] = Math.min(inside[1], row);
        inside[2] = Math.max(inside[2], col + 1);
        inside[3] = Math.max(inside[3], row + 1);
        continue;
      }
      let end = col;
      while (line[end + 1] === "#") end += 1;
      body.rect(col, row, end - col + 1, 1);
      for (let at = col; at <= end; at += 1) {
        if (!solid(row + 1, at)) { face.rect(at, row + 0.7, 1, 0.3); edge.rect(at, row + 0.64, 1, 0.06); }
      }
      col = end;
    }
  });
  return { body, face, edge, inside };
}

// For each owner the cells within reach of what it holds, as one area with an outline.
function areaPaths(episode, owners) {
  const { width, height } = episode, reach = episode.header.radius, paths = [];
  for (let owner = 1; owner < episode.owners.length; owner += 1) {
    const mask = new Uint8Array(width * height);
    episode.things.forEach((thing, i) => {
      if (owners[i] !== owner || !["junction", "c:hub"].includes(thing.kind)) return;
      for (let row = Math.max(thing.row - reach, 0); row <= Math.min(thing.row + reach, height - 1); row += 1)
        mask.fill(1, row * width + Math.max(thing.col - reach, 0), row * width + Math.min(thing.col + reach, width - 1) + 1);
    });
    if (!mask.includes(1)) continue;
    const at = (row, col) => row >= 0 && row < height && col >= 0 && col < width && mask[row * width + col] === 1;
    const fill = new Path2D(), edge = new Path2D();
    const line = (ax, ay, bx, by) => { edge.moveTo(ax, ay); edge.lineTo(bx, by); };
    for (let row = 0; row <= height; row += 1) runs(width, (col) => at(row, col) !== at(row - 1, col), (a, b) => line(a, row, b, row));
    for (let col = 0; col <= width; col += 1) runs(height, (row) => at(row, col) !== at(row, col - 1), (a, b) => line(col, a, col, b));
    for (let row = 0; row < height; row += 1) runs(width, (col) => at(row, col), (a, b) => fill.rect(a, row, b - a, 1));
    paths.push({ owner, fill, edge });
  }
  return paths;
}

// Calls back with every run of places where something holds.
function runs(length, holds, call) {
  for (let i = 0; i < length; i += 1) {
    if (!holds(i)) continue;
    const start = i;
    while (i < length && holds(i)) i += 1;
    call(start, i);
  }
}
