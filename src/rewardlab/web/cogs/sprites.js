// Everything that stands on the map, drawn in a square of side 1 around (0, 0).

import { BARE, ELEMENTS, ENERGY, GROUND, HEART, QUIET, RESOURCE_COLOURS, ROLES, ownerColour } from "./theme.js";

function polygon(ctx, points) {
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
}

function regular(ctx, sides, radius, turn = 0) {
  polygon(ctx, Array.from({ length: sides }, (_, i) => {
    const angle = turn + (2 * Math.PI * i) / sides;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  }));
}

function disc(ctx, x, y, radius) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
}

function heartPath(ctx, size) {
  ctx.beginPath();
  ctx.moveTo(0, size * 0.45);
  ctx.bezierCurveTo(-size * 0.75, -size * 0.05, -size * 0.42, -size * 0.58, 0, -size * 0.2);
  ctx.bezierCurveTo(size * 0.42, -size * 0.58, size * 0.75, -size * 0.05, 0, size * 0.45);
  ctx.closePath();
}

// A wheel with eight teeth.
function gearPath(ctx, radius) {
  const teeth = 8, points = [];
  for (let i = 0; i < teeth; i += 1) {
    const middle = (2 * Math.PI * i) / teeth;
    for (const [offset, reach] of [[-0.3, 0.84], [-0.19, 1], [0.19, 1], [0.3, 0.84]]) {
      const angle = middle + (offset * 2 * Math.PI) / teeth * 1.35;
      points.push([radius * reach * Math.cos(angle), radius * reach * Math.sin(angle)]);
    }
  }
  polygon(ctx, points);
}

// The sign of a role: ring, bolt, pick, eye; a dot for no gear.
export function glyph(ctx, role, size, colour) {
  ctx.save();
  ctx.scale(size, size);
  ctx.fillStyle = ctx.strokeStyle = colour;
  ctx.lineWidth = 0.17;
  ctx.lineCap = ctx.lineJoin = "round";
  ctx.beginPath();
  if (role === "aligner") {
    polygon(ctx, [[0, -0.46], [0.46, 0], [0, 0.46], [-0.46, 0]]);
    ctx.stroke();
    disc(ctx, 0, 0, 0.13);
    ctx.fill();
  } else if (role === "scrambler") {
    polygon(ctx, [[0.14, -0.52], [-0.34, 0.1], [-0.03, 0.1], [-0.14, 0.52], [0.34, -0.12], [0.03, -0.12]]);
    ctx.fill();
  } else if (role === "miner") {
    ctx.moveTo(-0.36, 0.42);
    ctx.lineTo(0.2, -0.18);
    ctx.moveTo(-0.24, -0.4);
    ctx.quadraticCurveTo(0.4, -0.46, 0.4, 0.24);
    ctx.stroke();
  } else if (role === "scout") {
    ctx.moveTo(-0.5, 0);
    ctx.quadraticCurveTo(0, -0.56, 0.5, 0);
    ctx.quadraticCurveTo(0, 0.56, -0.5, 0);
    ctx.stroke();
    disc(ctx, 0, 0, 0.15);
    ctx.fill();
  } else {
    disc(ctx, 0, 0, 0.2);
    ctx.fill();
  }
  ctx.restore();
}

export function junction(ctx, owner) {
  const colour = ownerColour(owner);
  regular(ctx, 4, 0.49);
  ctx.fillStyle = owner === 0 ? "#262d39" : colour;
  ctx.fill();
  ctx.lineWidth = 0.09;
  ctx.strokeStyle = owner === 0 ? colour : "#0c0f15";
  ctx.lineJoin = "round";
  ctx.stroke();
  if (owner === 1) { // a cross
    ctx.lineWidth = 0.12;
    ctx.strokeStyle = GROUND;
    ctx.beginPath();
    for (const side of [-1, 1]) { ctx.moveTo(-0.15, -0.15 * side); ctx.lineTo(0.15, 0.15 * side); }
    ctx.stroke();
  } else if (owner >= 2) { // a core
    disc(ctx, 0, 0, 0.17);
    ctx.fillStyle = GROUND;
    ctx.fill();
  }
}

function plate(ctx, colour) {
  ctx.beginPath();
  ctx.roundRect(-0.45, -0.45, 0.9, 0.9, 0.17);
  ctx.fillStyle = "#10151e";
  ctx.fill();
  ctx.lineWidth = 0.08;
  ctx.strokeStyle = colour;
  ctx.stroke();
}

function hub(ctx, owner) {
  const colour = ownerColour(owner);
  regular(ctx, 6, 0.56, Math.PI / 6);
  ctx.fillStyle = colour;
  ctx.fill();
  regular(ctx, 6, 0.36, Math.PI / 6);
  ctx.fillStyle = GROUND;
  ctx.fill();
  polygon(ctx, [[-0.2, 0.02], [0, -0.2], [0.2, 0.02], [0.13, 0.02], [0.13, 0.2], [-0.13, 0.2], [-0.13, 0.02]]);
  ctx.fillStyle = colour;
  ctx.fill();
}

function chest(ctx, owner) {
  plate(ctx, ownerColour(owner));
  ctx.save();
  ctx.translate(0, 0.03);
  heartPath(ctx, 0.62);
  ctx.fillStyle = HEART;
  ctx.fill();
  ctx.restore();
}

function elementPath(ctx, element, radius) {
  if (element === "carbon") regular(ctx, 6, radius);
  else if (element === "oxygen") disc(ctx, 0, 0, radius * 0.92);
  else if (element === "germanium") polygon(ctx, [[0, -radius * 1.1], [radius * 0.8, radius * 0.7], [-radius * 0.8, radius * 0.7]]);
  else { ctx.beginPath(); ctx.rect(-radius * 0.8, -radius * 0.8, radius * 1.6, radius * 1.6); }
}

// An element's shape, filled as far up as there is something left.
function extractor(ctx, element, share) {
  const colour = ELEMENTS[element];
  ctx.save();
  ctx.globalAlpha *= share > 0 ? 1 : 0.25;
  elementPath(ctx, element, 0.42);
  ctx.fillStyle = "#141a24";
  ctx.fill();
  ctx.save();
  ctx.clip();
  ctx.fillStyle = colour;
  ctx.globalAlpha *= 0.8;
  ctx.fillRect(-0.5, 0.46 - 0.92 * share, 1, 0.92 * share);
  ctx.restore();
  ctx.lineWidth = 0.08;
  ctx.lineJoin = "round";
  ctx.strokeStyle = colour;
  elementPath(ctx, element, 0.42);
  ctx.stroke();
  ctx.restore();
}

export function thing(ctx, kind, owner, share) {
  if (kind === "junction") junction(ctx, owner);
  else if (kind === "c:hub") hub(ctx, owner);
  else if (kind === "c:chest") chest(ctx, owner);
  else if (kind.startsWith("c:")) {
    const role = kind.slice(2);
    plate(ctx, ROLES[role] ?? QUIET);
    glyph(ctx, role, 0.62, ROLES[role] ?? QUIET);
  } else if (kind.endsWith("_extractor")) extractor(ctx, kind.replace("_extractor", ""), share);
}

// A cog: the wheel says the team, the sign on its face the role.
export function cog(ctx, { team, role, down, hearts }) {
  gearPath(ctx, 0.5);
  ctx.fillStyle = team;
  ctx.fill();
  ctx.lineWidth = 0.05;
  ctx.strokeStyle = GROUND;
  ctx.stroke();
  disc(ctx, 0, 0, 0.36);
  ctx.fillStyle = down ? "#5a636f" : role ? ROLES[role] : BARE;
  ctx.fill();
  ctx.lineWidth = 0.06;
  ctx.stroke();
  glyph(ctx, role, 0.48, GROUND);
  if (hearts > 0) {
    ctx.save();
    ctx.translate(0.36, -0.36);
    heartPath(ctx, 0.42);
    ctx.lineWidth = 0.08;
    ctx.strokeStyle = GROUND;
    ctx.stroke();
    ctx.fillStyle = HEART;
    ctx.fill();
    ctx.restore();
  }
}

function sun(ctx) {
  disc(ctx, 0, 0, 0.22);
  ctx.fillStyle = ctx.strokeStyle = ENERGY;
  ctx.fill();
  ctx.lineWidth = 0.09;
  ctx.lineCap = "round";
  ctx.beginPath();
  for (let i = 0; i < 8; i += 1) {
    const x = Math.cos((i * Math.PI) / 4), y = Math.sin((i * Math.PI) / 4);
    ctx.moveTo(x * 0.33, y * 0.33);
    ctx.lineTo(x * 0.44, y * 0.44);
  }
  ctx.stroke();
}

function moon(ctx) {
  ctx.beginPath();
  ctx.arc(0, 0, 0.4, -0.55, 2.2 * Math.PI - 1.3, false);
  ctx.arc(0.16, -0.14, 0.32, 2.2 * Math.PI - 1.75, -0.25, true);
  ctx.closePath();
  ctx.fillStyle = "#b9c7e6";
  ctx.fill();
}

const SIGNS = {
  sun, moon,
  junction: (ctx, owner) => junction(ctx, owner),
  heart: (ctx) => { heartPath(ctx, 0.9); ctx.fillStyle = HEART; ctx.fill(); },
  role: (ctx, role) => glyph(ctx, role, 0.85, ROLES[role] ?? BARE),
  vibe: (ctx, name) => { disc(ctx, 0, 0, 0.3); ctx.fillStyle = RESOURCE_COLOURS[name] ?? QUIET; ctx.fill(); },
  element: (ctx, element) => { elementPath(ctx, element, 0.4); ctx.fillStyle = ELEMENTS[element] ?? QUIET; ctx.fill(); },
  bolt: (ctx) => glyph(ctx, "scrambler", 0.9, ENERGY),
  box: (ctx) => { ctx.strokeStyle = QUIET; ctx.lineWidth = 0.1; ctx.strokeRect(-0.34, -0.22, 0.68, 0.5); ctx.strokeRect(-0.34, -0.22, 0.68, 0.16); },
  ring: (ctx) => { disc(ctx, 0, 0, 0.3); ctx.strokeStyle = QUIET; ctx.lineWidth = 0.1; ctx.stroke(); },
  down: (ctx) => { ctx.strokeStyle = HEART; ctx.lineWidth = 0.14; ctx.lineCap = "round"; ctx.beginPath(); ctx.moveTo(-0.26, -0.26); ctx.lineTo(0.26, 0.26); ctx.moveTo(0.26, -0.26); ctx.lineTo(-0.26, 0.26); ctx.stroke(); },
  cog: (ctx, team) => cog(ctx, { team, role: "", hearts: 0 }),
  thing: (ctx, kind, owner) => thing(ctx, kind, owner, 0.7),
};

// A sign as an element of the page.
export function icon(name, ...details) {
  const canvas = document.createElement("canvas"), ctx = canvas.getContext("2d");
  canvas.className = "icon";
  canvas.width = canvas.height = 48;
  ctx.translate(24, 24);
  ctx.scale(44, 44);
  SIGNS[name]?.(ctx, ...details);
  return canvas;
}
