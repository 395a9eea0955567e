// Junctions over time: a line for the clips and for each team, nights shaded.

import { QUIET, ownerColour } from "./theme.js";

const LEFT = 22, BOTTOM = 16, TOP = 6, RIGHT = 6;

export class Chart {
  constructor(canvas, onPick) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    const pick = (event) => {
      const share = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT);
      onPick(Math.round(Math.min(Math.max(share, 0), 1) * this.span));
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pick(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) pick(event); });
  }

  draw(episode, step) {
    const { canvas, ctx } = this, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.span = Math.max(episode.summary ? episode.length - 1 : episode.maxSteps, 1);
    const shown = episode.owners.map((_, owner) => owner).slice(episode.header.clips ? 1 : 2);
    const most = Math.max(4, ...episode.counts.flatMap((counts) => shown.map((owner) => counts[owner])));
    const x = (at) => LEFT + ((width - LEFT - RIGHT) * at) / this.span;
    const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - value / most);
    this.#frame(episode, x, y, most, width, height);
    shown.forEach((owner) => this.#line(episode, owner, x, y, width));
    ctx.strokeStyle = "#ffffffb0";
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(Math.round(x(step)) + 0.5, TOP);
    ctx.lineTo(Math.round(x(step)) + 0.5, height - BOTTOM);
    ctx.stroke();
  }

  #frame(episode, x, y, most, width, height) {
    const { ctx } = this, day = episode.header.day_length;
    ctx.fillStyle = "#0000003a";
    for (let dusk = day / 2; dusk < this.span; dusk += day)
      ctx.fillRect(x(dusk), TOP, x(Math.min(dusk + day / 2, this.span)) - x(dusk), height - TOP - BOTTOM);
    ctx.font = '10.5px system-ui, "DejaVu Sans", sans-serif';
    ctx.fillStyle = QUIET;
    ctx.strokeStyle = "#ffffff14";
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const value of [0, Math.floor(most / 2), most]) {
      ctx.fillText(String(value), LEFT - 5, y(value));
      ctx.beginPath();
      ctx.moveTo(LEFT, Math.round(y(value)) + 0.5);
      ctx.lineTo(width - RIGHT, Math.round(y(value)) + 0.5);
      ctx.stroke();
    }
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillText("0", LEFT, height);
    ctx.textAlign = "right";
    ctx.fillText(`step ${this.span}`, width - RIGHT, height);
  }

  #line(episode, owner, x, y, width) {
    const { ctx } = this, every = Math.max(1, Math.floor(episode.length / (2 * width)));
    ctx.strokeStyle = ownerColour(owner);
    ctx.lineWidth = 1.8;
    ctx.lineJoin = "round";
    ctx.setLineDash(owner === 1 ? [4, 2] : []);
    ctx.beginPath();
    let before = null;
    for (let step = 0; step < episode.length; step += every) {
      const value = episode.counts[step][owner];
      if (before === null) ctx.moveTo(x(step), y(value));
      else { ctx.lineTo(x(step), y(before)); ctx.lineTo(x(step), y(value)); }
      before = value;
    }
    ctx.lineTo(x(episode.length - 1), y(before));
    ctx.stroke();
    ctx.setLineDash([]);
  }
}
