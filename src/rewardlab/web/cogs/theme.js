// Colours and words. Teams differ in lightness and in shape too, so that nobody needs to tell the hues apart.

export const GROUND = "#0c0f15", FLOOR = "#1a202b", WALL = "#39445a", WALL_FACE = "#262e3e", WALL_EDGE = "#4b5870";
export const INK = "#e9edf3", QUIET = "#98a3b3";
const NEUTRAL = "#a7b0bd", CLIPS = "#f0874a";
const TEAMS = ["#5ab4f0", "#3fd0a6", "#f2e05c", "#dd8fc4", "#9aa0ff", "#d4d9e0"];

// By owner's number: neutral, the clips, the teams.
export function ownerColour(owner) {
  return owner === 0 ? NEUTRAL : owner === 1 ? CLIPS : TEAMS[(owner - 2) % TEAMS.length];
}

export const ROLES = { aligner: "#ffd45e", scrambler: "#ff8fb1", miner: "#7fdc9c", scout: "#bda4ff" };
export const BARE = "#c3cbd6";
export const ELEMENTS = { carbon: "#9fb0c8", oxygen: "#74dbe6", germanium: "#d29bf0", silicon: "#ecc56a" };
export const HEART = "#ff7d8f", ENERGY = "#ffd45e", INFLUENCE = "#c8a2ff";

export const RESOURCE_COLOURS = {
  ...ROLES, ...ELEMENTS, heart: HEART, hp: HEART, energy: ENERGY, influence: INFLUENCE, solar: ENERGY,
};

export const SPEEDS = [0.5, 1, 2, 5, 10, 20, 50, 100, 250, 1000];

export const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back, one step on"],
  ["Home End", "to the start, to the newest step"],
  ["+ −", "faster, slower"],
  ["drag, wheel", "move and zoom the map"],
  ["0", "show the whole map"],
  ["click, Tab", "follow a cog, the next cog"],
  ["Esc", "let go of the cog"],
  ["S", "steer the followed cog, or give it back"],
  ["arrows, HJKL", "move the steered cog (paused: one step each)"],
  ["1 … 7", "change the steered cog's vibe"],
  ["L", "legend"],
  ["?", "these keys"],
];

// An event [kind, cog, thing, what, amount] as a sentence, and the icon beside it.
export function tell(episode, [kind, cog, thing, what, amount]) {
  const who = `Cog ${cog}`, at = thing >= 0 ? episode.things[thing] : null;
  const place = at ? `(${at.row}, ${at.col})` : "";
  const sentences = {
    align: `${who} aligned junction ${place}`,
    scramble: `${who} scrambled ${what}’ junction ${place}`,
    clips_take: `Clips took junction ${place}`,
    clips_scramble: `Clips scrambled ${what}’ junction ${place}`,
    heart_taken: `${who} took a heart`,
    heart_made: `${who} made a heart`,
    gear: `${who} became ${what}`,
    gear_lost: `${who} lost ${what} gear`,
    deposit: `${who} deposited ${amount}`,
    exhausted: `${at ? at.kind.replace("_", " ") : ""} ${place} is exhausted`,
    down: `${who} has no hp left`,
    dawn: "Day breaks",
    dusk: "Night falls",
  };
  const owner = kind === "align" && cog >= 0 ? episode.ownerOf(cog) : kind === "clips_take" ? 1 : 0;
  const icons = {
    align: ["junction", owner], scramble: ["junction", 0], clips_take: ["junction", 1], clips_scramble: ["junction", 0],
    heart_taken: ["heart"], heart_made: ["heart"], gear: ["role", what], gear_lost: ["role", what],
    deposit: ["box"], exhausted: ["ring"], down: ["down"], dawn: ["sun"], dusk: ["moon"],
  };
  return { text: sentences[kind] ?? kind, icon: icons[kind] ?? ["ring"] };
}
