// An episode: its header, one frame of differences per step, and the scenes they add up to.

export const FORMAT = "rewardlab-cogs-replay", VERSION = 1;
const KEYFRAME_EVERY = 64;

export class Episode {
  constructor(header) {
    if (header?.format !== FORMAT) throw new Error("This is not a RewardLab replay.");
    if (header.version !== VERSION) throw new Error(`This replay is of version ${header.version}; this page reads ${VERSION}.`);
    this.header = header;
    this.height = header.walls.length;
    this.width = header.walls[0].length;
    this.cogs = header.team_of.length;
    this.things = header.things.map(([kind, row, col]) => ({ kind, row, col }));
    this.owners = ["neutral", "clips", ...header.teams];
    this.index = Object.fromEntries(header.resources.map((name, i) => [name, i]));
    this.elements = header.stored.filter((name) => name !== "heart");
    this.gear = ["aligner", "scrambler", "miner", "scout"];
    this.maxSteps = header.max_steps;
    this.summary = null;
    this.offsets = this.#layout();
    this.frames = [];
    this.keyframes = [];
    this.cells = []; // per step: the cell of each cog
    this.counts = []; // per step: how many junctions each owner holds
    this.last = { numbers: new Float64Array(this.size), infos: Array.from({ length: this.cogs }, () => ({})) };
    this.cache = { step: -1, scene: null };
  }

  // The parts of a scene's numbers in order, as in scene.py.
  #layout() {
    const { cogs, things, header } = this, resources = header.resources.length;
    const parts = [
      ["cell", cogs], ["action", cogs], ["failed", cogs], ["vibe", cogs], ["reward", cogs],
      ["inventory", cogs * resources], ["owner", things.length], ["amount", things.length],
      ["store", header.teams.length * header.stored.length],
    ];
    const offsets = {};
    this.size = 0;
    for (const [name, size] of parts) {
      offsets[name] = [this.size, this.size + size];
      this.size += size;
    }
    return offsets;
  }

  get length() { return this.frames.length; }

  push(frame) {
    const scene = this.#apply(this.last, frame);
    if (this.length % KEYFRAME_EVERY === 0) this.keyframes.push(scene);
    this.frames.push(frame);
    this.last = scene;
    this.cells.push(Array.from(this.part(scene, "cell")));
    const counts = this.owners.map(() => 0), owners = this.part(scene, "owner");
    this.things.forEach((thing, i) => { if (thing.kind === "junction") counts[owners[i]] += 1; });
    this.counts.push(counts);
  }

  #apply(before, frame) {
    let { numbers, infos } = before;
    const changes = frame.d ?? [];
    if (changes.length) {
      numbers = numbers.slice();
      for (let i = 0; i < changes.length; i += 2) {
        if (!(changes[i] >= 0 && changes[i] < numbers.length)) throw new Error("A frame of this replay is damaged.");
        numbers[changes[i]] += changes[i + 1];
      }
    }
    if (frame.i) infos = infos.map((info, cog) => frame.i[cog] ?? info);
    return { numbers, infos };
  }

  // The scene of a step: from the step before it, else from the last keyframe.
  scene(step) {
    if (this.cache.step === step) return this.cache.scene;
    const key = Math.floor(step / KEYFRAME_EVERY);
    const near = this.cache.step >= 0 && this.cache.step < step && this.cache.step >= key * KEYFRAME_EVERY;
    let at = near ? this.cache.step : key * KEYFRAME_EVERY;
    let scene = near ? this.cache.scene : this.keyframes[key];
    while (at < step) scene = this.#apply(scene, this.frames[++at]);
    this.cache = { step, scene };
    return scene;
  }

  part(scene, name) {
    const [start, end] = this.offsets[name];
    return scene.numbers.subarray(start, end);
  }

  events(step) { return this.frames[step]?.e ?? []; }
  ownerOf(cog) { return 2 + this.header.team_of[cog]; }
  isNight(step) { return step % this.header.day_length >= this.header.day_length / 2; }

  held(scene, cog, name) {
    return scene.numbers[this.offsets.inventory[0] + cog * this.header.resources.length + this.index[name]];
  }

  role(scene, cog) { return this.gear.find((name) => this.held(scene, cog, name) > 0) ?? ""; }
  cargo(scene, cog) { return this.elements.reduce((sum, name) => sum + this.held(scene, cog, name), 0); }

  // How much of a resource a cog can hold now; Infinity without a limit.
  cap(scene, cog, name) {
    const limit = this.header.limits.find((each) => each.resources.includes(name));
    if (!limit) return Infinity;
    const sum = limit.modifiers.reduce((total, [other, each]) => total + each * this.held(scene, cog, other), 0);
    return Math.min(Math.max(limit.least, sum), limit.most ?? Infinity);
  }

  stored(scene, team, name) {
    const at = this.header.stored.indexOf(name);
    return scene.numbers[this.offsets.store[0] + team * this.header.stored.length + at];
  }
}

// A replay file: zlib-compressed JSON.
export async function readFile(blob) {
  let text;
  try {
    text = await new Response(blob.stream().pipeThrough(new DecompressionStream("deflate"))).text();
  } catch {
    throw new Error("This file is not a replay, or it is damaged or cut short.");
  }
  let document;
  try { document = JSON.parse(text); } catch { throw new Error("This file is not a replay."); }
  const { frames, summary, ...header } = document;
  const episode = new Episode(header);
  if (!Array.isArray(frames) || !frames.length) throw new Error("This replay has no frames.");
  for (const frame of frames) episode.push(frame);
  episode.summary = summary;
  return episode;
}
