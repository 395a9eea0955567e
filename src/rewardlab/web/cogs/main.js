// The page: what is shown when, and what the person does.

import { Chart } from "./chart.js";
import { Episode, readFile } from "./episode.js";
import { Link } from "./link.js";
import { MapView } from "./map.js";
import { $, Panel } from "./panel.js";
import { SPEEDS } from "./theme.js";

const AHEAD = 0.4; // seconds that the engine plays ahead of the picture
const MOVES = {
  ArrowUp: "move_north", ArrowDown: "move_south", ArrowLeft: "move_west", ArrowRight: "move_east",
  k: "move_north", j: "move_south", h: "move_west", l: "move_east",
};

class App {
  constructor(episode, { live = false, autostart = false, speed = 10 } = {}) {
    this.position = 0; // in steps; between two of them cogs glide
    this.target = null; // where single steps lead
    this.playing = autostart;
    this.speed = SPEEDS.includes(speed) ? speed : 10;
    this.follow = -1;
    this.steering = false;
    this.order = 0; // what the steered cog does next
    this.shown = -1;
    this.episode = episode;
    this.live = live; // whether the episode is still being played
    this.link = this.#connect();
    this.map = new MapView($("map"), episode);
    this.chart = new Chart($("chart"), (step) => this.seek(step));
    this.panel = new Panel(episode, {
      follow: (cog) => this.followCog(cog), steer: () => this.steer(), look: (thing) => this.look(thing),
    });
    this.#wire();
    let before = performance.now();
    const tick = (now) => {
      this.frame(Math.min((now - before) / 1000, 0.25));
      before = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  get newest() { return this.episode.length - 1; }
  get over() { return this.episode.summary !== null; }
  get canSteer() { return this.live && this.link !== null && !this.over; }

  #connect() {
    return new Link(this.episode, {
      onFrames: () => { this.dirty = true; },
      onEnd: () => { this.steering = false; this.dirty = true; this.hint(); },
      onLost: () => toast("The program behind this page has ended. What was played can still be watched."),
    });
  }

  // Another episode, from a file.
  load(episode) {
    if (this.link) { if (this.canSteer) this.link.quit(); this.link.closed = true; this.link = null; }
    Object.assign(this, { episode, position: 0, target: null, playing: true, follow: -1, steering: false, shown: -1 });
    this.map.attach(episode);
    this.panel.attach(episode);
    this.hint();
  }

  frame(seconds) {
    if (this.newest < 0) return;
    const before = this.position;
    if (this.target !== null) this.#glide(seconds);
    else if (this.playing) this.#run(seconds);
    const step = Math.floor(this.position);
    if (step !== this.shown || this.dirty) this.#showStep(step);
    const echoing = this.playing || this.target !== null;
    if (this.position !== before || this.map.changed || echoing) this.map.draw(this.position);
  }

  #run(seconds) {
    const goal = this.position + seconds * this.speed;
    this.position = Math.min(goal, this.newest);
    if (this.steering) {
      if (this.position >= this.newest) this.#order();
    } else if (this.canSteer) this.link.want(Math.ceil(goal + Math.max(1, this.speed * AHEAD)));
    if (this.over && this.position >= this.newest) { this.playing = false; this.dirty = true; }
  }

  #glide(seconds) {
    const to = Math.min(this.target, this.newest), rate = Math.max(6, 3 * Math.abs(to - this.position)) * seconds;
    this.position = Math.abs(to - this.position) <= rate ? to : this.position + Math.sign(to - this.position) * rate;
    if (this.position === this.target) this.target = null;
  }

  // One step in which the steered cog does what the last key said; without a key it waits.
  #order() {
    if (!this.canSteer || this.asked === this.episode.length) return;
    this.asked = this.episode.length;
    this.link.want(this.asked, { [this.follow]: this.order });
    this.order = 0;
  }

  #showStep(step) {
    const scene = this.episode.scene(step);
    this.shown = step;
    this.dirty = false;
    this.panel.show(scene, step, this.follow, this.steering, this.canSteer);
    this.chart.draw(this.episode, step);
    $("seek").max = this.newest;
    $("seek").value = step;
    $("step").textContent = `${step} / ${this.over ? this.newest : this.episode.maxSteps}`;
    $("speed").textContent = `${this.speed} steps/s`;
    $("play").textContent = this.playing ? "❚❚" : "▶";
    $("play").title = this.playing ? "Pause (Space)" : "Play (Space)";
    $("quit").hidden = !this.canSteer;
    $("live").hidden = !this.canSteer || this.newest - this.position < 2 * this.speed + 2;
    this.map.changed = true;
  }

  play() {
    if (this.over && this.position >= this.newest) this.position = 0;
    this.target = null;
    this.playing = !this.playing;
    this.dirty = true;
    this.hint();
  }

  step(by) {
    const from = this.target ?? (by > 0 ? Math.floor(this.position) : Math.ceil(this.position));
    this.playing = false;
    this.dirty = true;
    const to = Math.max(0, from + by);
    if (to > this.newest && !this.canSteer) return;
    if (to > this.newest && this.steering) this.#order();
    else if (to > this.newest) this.link.want(to);
    this.target = to;
    this.hint();
  }

  seek(step) {
    this.target = null;
    this.position = Math.min(Math.max(step, 0), this.newest);
    this.dirty = true;
  }

  pace(by) {
    const at = SPEEDS.indexOf(this.speed) + by;
    this.speed = SPEEDS[Math.min(Math.max(at, 0), SPEEDS.length - 1)];
    this.dirty = true;
  }

  followCog(cog) {
    if (cog !== this.follow) this.steering = false;
    this.follow = this.map.follow = cog;
    this.map.steering = this.steering;
    this.dirty = true;
    this.hint();
  }

  steer() {
    if (this.follow < 0 || !this.canSteer) return;
    this.steering = this.map.steering = !this.steering;
    if (this.steering) this.seek(this.newest);
    this.order = 0;
    this.asked = -1;
    this.dirty = true;
    this.hint();
  }

  command(action) {
    this.order = this.episode.header.actions.indexOf(action);
    if (!this.playing) this.step(1);
  }

  look(thing) {
    const { row, col } = this.episode.things[thing];
    if (this.follow >= 0) this.followCog(-1);
    Object.assign(this.map, { x: col + 0.5, y: row + 0.5, fitted: false, changed: true });
    this.map.scale = Math.max(this.map.scale, 22 * this.map.ratio);
  }

  hint() {
    const text = this.steering ? `Steering cog ${this.follow}: arrows move it, S gives it back`
      : this.over && this.live ? `Episode complete: ${this.episode.summary.steps} steps` : "";
    $("hint").textContent = text;
    $("hint").hidden = !text;
  }

  #wire() {
    const press = { back: () => this.step(-1), next: () => this.step(1), play: () => this.play(), slower: () => this.pace(-1),
      faster: () => this.pace(1), fit: () => { this.followCog(-1); this.map.fit(); }, "zoom-in": () => this.map.zoom(1.4), "zoom-out": () => this.map.zoom(1 / 1.4),
      live: () => this.seek(this.newest), quit: () => this.link?.quit(), "legend-button": () => sheet("legend"), "help-button": () => sheet("help") };
    for (const [id, act] of Object.entries(press)) $(id).addEventListener("click", () => { act(); $(id).blur(); });
    $("seek").addEventListener("input", () => this.seek(Number($("seek").value)));
    document.addEventListener("keydown", (event) => this.#key(event));
    this.#pointer($("map"));
    addEventListener("resize", () => { this.dirty = true; });
    addEventListener("dragover", (event) => { event.preventDefault(); $("drop").hidden = false; });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").hidden = true; });
    addEventListener("drop", async (event) => {
      event.preventDefault();
      $("drop").hidden = true;
      if (event.dataTransfer.files[0]) await this.open(event.dataTransfer.files[0]);
    });
  }

  async open(file) {
    try { this.load(await readFile(file)); } catch (error) { toast(error.message); }
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (this.steering && this.#steerKey(key)) { event.preventDefault(); return; }
    const keys = { " ": () => this.play(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ".": () => this.step(1), b: () => this.step(-1),
      Home: () => this.seek(0), End: () => this.seek(this.newest), "+": () => this.pace(1), "=": () => this.pace(1), "-": () => this.pace(-1),
      PageUp: () => this.map.zoom(1.4), PageDown: () => this.map.zoom(1 / 1.4), 0: () => { this.followCog(-1); this.map.fit(); },
      Tab: () => this.followCog((this.follow + (event.shiftKey ? this.episode.cogs : 1)) % this.episode.cogs),
      Escape: () => this.#escape(), s: () => this.steer(), l: () => sheet("legend"), "?": () => sheet("help") };
    if (!keys[key]) return;
    event.preventDefault();
    keys[key]();
  }

  #steerKey(key) {
    const vibe = this.episode.header.vibes[Number(key) - 1];
    if (MOVES[key]) this.command(MOVES[key]);
    else if (vibe) this.command(`change_vibe_${vibe}`);
    else return false;
    return true;
  }

  #escape() {
    const open = ["legend", "help"].find((id) => !$(id).hidden);
    if (open) sheet(open);
    else if (this.steering) this.steer();
    else this.followCog(-1);
  }

  #pointer(canvas) {
    const spot = (event) => [event.offsetX * this.map.ratio, event.offsetY * this.map.ratio];
    let from = null, moved = 0;
    canvas.addEventListener("pointerdown", (event) => { from = spot(event); moved = 0; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = spot(event);
      canvas.classList.toggle("over", this.newest >= 0 && this.map.cogAt(x, y, this.position) >= 0);
      if (!from) return;
      moved += Math.hypot(x - from[0], y - from[1]);
      if (moved > 4) {
        canvas.classList.add("dragging");
        if (this.follow >= 0 && !this.map.fitted) this.followCog(-1);
        this.map.pan(x - from[0], y - from[1]);
      }
      from = [x, y];
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from && moved <= 4) this.followCog(this.map.cogAt(...spot(event), this.position));
      from = null;
      canvas.classList.remove("dragging");
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.map.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...spot(event));
    }, { passive: false });
  }
}

function sheet(id) {
  for (const name of ["legend", "help"]) {
    $(name).hidden = name !== id || !$(name).hidden;
    $(`${name}-button`).setAttribute("aria-expanded", String(!$(name).hidden));
  }
}

let toastTimer = 0;
function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").hidden = true; }, 8000);
}

try {
  const answer = await fetch("episode", { cache: "no-store" });
  if (!answer.ok) throw new Error(String(answer.status));
  const { header, ...options } = await answer.json();
  globalThis.app = new App(new Episode(header), options);
} catch (error) {
  toast(`The episode could not be opened: ${error.message}.`);
}
