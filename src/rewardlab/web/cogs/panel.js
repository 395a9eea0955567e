// The column beside the map: score, stores, cogs, the followed cog, events. All text goes in as text, never as markup.

import { icon } from "./sprites.js";
import { ELEMENTS, KEYS, QUIET, ROLES, ownerColour, tell } from "./theme.js";

const FEED = 60; // events shown
const FEED_BACK = 400; // steps looked back for them

export const $ = (id) => document.getElementById(id);

export function make(tag, props = {}, ...children) {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children);
  return element;
}

function bar(name, value, cap) {
  const fill = make("i");
  fill.style.width = `${100 * Math.min(value / Math.max(cap, 1), 1)}%`;
  return make("div", { className: `bar ${name}`, title: `${name} ${value} of ${cap}` }, fill);
}

const sign = (name) => (name === "heart" ? icon("heart") : name === "energy" || name === "solar" ? icon("bolt")
  : ELEMENTS[name] ? icon("element", name) : ROLES[name] ? icon("role", name) : icon("vibe", name));

export class Panel {
  constructor(episode, actions) {
    this.actions = actions; // follow(cog), steer(), look(thing)
    this.attach(episode);
    this.#sheets();
  }

  attach(episode) {
    this.episode = episode;
    const { header } = episode, policies = [...new Set(header.policies.filter(Boolean))];
    $("mission").textContent = header.mission || "CoGsGuard";
    document.title = `${header.mission || "CoGsGuard"} · RewardLab`;
    const count = `${episode.cogs} cog${episode.cogs > 1 ? "s" : ""}`;
    $("about").textContent = [policies.join(", "), count, `seed ${header.seed}`, `map ${header.map_seed}`].filter(Boolean).join(" · ");
    this.feedKey = "";
    this.signs = "";
  }

  show(scene, step, follow, steering, canSteer) {
    this.#clock(step);
    this.#score(step);
    this.#stores(scene);
    this.#cogs(scene, follow);
    this.#card(scene, follow, steering, canSteer);
    this.#feed(step);
  }

  #clock(step) {
    const night = this.episode.isNight(step);
    $("clock").replaceChildren(icon(night ? "moon" : "sun"), `${night ? "Night" : "Day"} ${Math.floor(step / this.episode.header.day_length) + 1}`);
  }

  #score(step) {
    const { episode } = this, counts = episode.counts[step], order = [...episode.owners.keys()].slice(2);
    const shown = [...order, ...(episode.header.clips ? [1] : []), 0];
    $("score").replaceChildren(...shown.map((owner) => {
      const box = make("div", { title: `Junctions held by ${episode.owners[owner]}` },
        make("b", { textContent: counts[owner] }), make("span", { textContent: episode.owners[owner] }));
      box.style.setProperty("--team", ownerColour(owner));
      return box;
    }));
  }

  #stores(scene) {
    const { episode } = this, { teams, stored } = episode.header;
    $("stores").replaceChildren(...teams.map((team, i) => make("div", { className: "store" },
      make("span", { className: "name", textContent: teams.length > 1 ? team : "Store" }),
      ...stored.map((name) => make("span", { className: "amount", title: `${name} in the store of ${team}` },
        sign(name), String(episode.stored(scene, i, name)))))));
  }

  #cogs(scene, follow) {
    const { episode } = this;
    $("cogs").replaceChildren(...Array.from({ length: episode.cogs }, (_, cog) => {
      const held = (name) => episode.held(scene, cog, name), role = episode.role(scene, cog), info = scene.infos[cog] ?? {};
      const said = [role || "no gear", info.about ?? info.goal ?? info.mode].filter(Boolean).join(" · ");
      const who = make("span", { className: "who", textContent: cog });
      if (episode.header.teams.length > 1) who.style.color = ownerColour(episode.ownerOf(cog));
      const row = make("div", { className: `cog${cog === follow ? " followed" : ""}`, title: episode.header.policies[cog] }, who,
        icon("role", role), make("span", { className: "said", textContent: said }),
        make("div", { className: "bars" }, bar("hp", held("hp"), episode.cap(scene, cog, "hp")), bar("energy", held("energy"), episode.cap(scene, cog, "energy"))),
        make("span", { className: "held", title: "cargo" }, icon("box"), String(episode.cargo(scene, cog))),
        make("span", { className: "held", title: "hearts" }, icon("heart"), String(held("heart"))));
      row.addEventListener("pointerdown", () => this.actions.follow(cog === follow ? -1 : cog));
      return row;
    }));
  }

  #card(scene, cog, steering, canSteer) {
    const { episode } = this, card = $("card");
    card.hidden = cog < 0;
    if (cog < 0) return;
    const held = (name) => episode.held(scene, cog, name), header = episode.header;
    const row = (name, ...values) => make("tr", {}, make("td", { textContent: name }), make("td", {}, ...values));
    const meter = (name) => row(name, bar(name, held(name), episode.cap(scene, cog, name)), `${held(name)} / ${episode.cap(scene, cog, name)}`);
    const goods = header.resources.filter((name) => held(name) && !["hp", "energy", "influence", "solar"].includes(name));
    const [action, failed, vibe, reward] = ["action", "failed", "vibe", "reward"].map((name) => episode.part(scene, name)[cog]);
    const button = make("button", { textContent: steering ? "Release" : "Steer", className: steering ? "on" : "", hidden: !canSteer, title: "Steer this cog with the keys (S)" });
    button.addEventListener("pointerdown", () => this.actions.steer());
    const close = make("button", { textContent: "×", title: "Let go (Esc)", ariaLabel: "Let go" });
    close.addEventListener("pointerdown", () => this.actions.follow(-1));
    const infos = Object.entries(scene.infos[cog] ?? {}).map(([name, value]) => row(name, String(value)));
    card.replaceChildren(
      make("div", { className: "row" }, icon("cog", ownerColour(episode.ownerOf(cog))), make("h2", { textContent: `Cog ${cog}` }), button, close),
      make("table", {}, make("tbody", {}, meter("hp"), meter("energy"), meter("influence"),
        row("vibe", header.vibes[vibe]), row("last action", header.actions[action] + (failed ? " (failed)" : "")), row("reward", (reward / 1e6).toFixed(3)), ...infos)),
      make("div", { className: "goods" }, ...(goods.length ? goods.map((name) => make("span", { className: "amount", title: name }, sign(name), `${name} ${held(name)}`))
        : [make("span", { textContent: "carries nothing", style: `color: ${QUIET}` })])),
    );
  }

  #feed(step) {
    const { episode } = this, lines = [];
    for (let at = step; at >= Math.max(0, step - FEED_BACK) && lines.length < FEED; at -= 1)
      for (const event of [...episode.events(at)].reverse()) lines.push([at, event]);
    const key = lines.map(([at]) => at).join();
    if (key === this.feedKey) return;
    this.feedKey = key;
    const rows = lines.slice(0, FEED).map(([at, event]) => {
      const { text, icon: picture } = tell(episode, event);
      const line = make("p", { className: event[2] >= 0 ? "place" : "" }, make("time", { textContent: at }), icon(...picture), make("span", { textContent: text }));
      if (event[2] >= 0) line.addEventListener("pointerdown", () => this.actions.look(event[2]));
      return line;
    });
    $("feed").replaceChildren(make("h2", { textContent: "Events" }), ...rows);
  }

  #sheets() {
    const entry = (picture, text) => [make("dt", {}, picture), make("dd", { textContent: text })];
    const part = (title, ...entries) => make("section", {}, make("h2", { textContent: title }), make("dl", {}, ...entries.flat()));
    $("legend").replaceChildren(
      part("Junctions", entry(icon("junction", 0), "neutral"), entry(icon("junction", 2), "held by cogs"), entry(icon("junction", 1), "held by clips")),
      part("Base", entry(icon("thing", "c:hub", 2), "hub: deposit, refill"), entry(icon("thing", "c:chest", 2), "chest: hearts"),
        ...Object.keys(ROLES).map((role) => entry(icon("thing", `c:${role}`, 2), `${role} station`))),
      part("Extractors", ...Object.keys(ELEMENTS).map((name) => entry(icon("thing", `${name}_extractor`, 0), name))),
      part("Cogs", entry(icon("cog", ownerColour(2)), "wheel: team"), ...Object.keys(ROLES).map((role) => entry(icon("role", role), role)), entry(icon("heart"), "carries a heart")),
      part("Bars", entry(bar("hp", 7, 10), "hp"), entry(bar("energy", 7, 10), "energy")),
    );
    for (const dt of $("legend").querySelectorAll("dt > .bar")) dt.style.width = "26px";
    $("help").replaceChildren(make("h2", { textContent: "Keys" }), make("dl", {}, ...KEYS.flatMap(([keys, text]) => entry(make("kbd", { textContent: keys }), text))));
    $("help").querySelectorAll("dd").forEach((dd) => { dd.style.color = "inherit"; });
  }
}

