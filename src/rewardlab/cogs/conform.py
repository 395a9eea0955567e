"""Recorded episodes of the original engine, replayed through ours: every difference is reported.

A trace starts from a recorded map; the clips' recorded changes of owner stand in for our draws. Per step everything is
compared: success, positions, vibes, inventories, reward, the team's store, owners, extractors, the end; and every
recorded observation, token by token (the amounts of one cell as a set: their order there is an accident). The original
pays the difference of a running 32-bit sum, so its rewards carry that sum's last digit; ours are exact quotients.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.maps.grid import Cell, GameMap
from rewardlab.cogs.maps.pool import make_pool
from rewardlab.cogs.rules import (
    ACTIONS,
    CLIPS,
    CODE,
    DEFAULT_DIFFICULTY,
    EXTRACTORS,
    FEATURES,
    FIRST_TEAM,
    NEUTRAL,
    RESOURCES,
    STORED,
    Rules,
    Team,
)
from rewardlab.cogs.state import Changes, State

Trace = dict[str, Any]
SLOTS = 4  # events of one step at most
PROGRAMS = 2  # compiled at once
DECIMALS = 1e-7  # rewards are recorded to seven decimals


@dataclass(frozen=True)
class Difference:
    """One place where we differ."""

    trace: str
    step: int
    what: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.trace}, step {self.step}: {self.what}: recorded {self.expected}, here {self.got}"


@dataclass
class Conformance:
    """What a comparison covered, and what it found."""

    traces: int = 0
    steps: int = 0
    observations: int = 0
    tokens: int = 0
    differences: list[Difference] = field(default_factory=list)


def conform(folder: Path) -> Conformance:
    """Replay every trace (`trace_*.json.gz`) of a folder."""
    files = sorted(folder.glob("trace_*.json.gz"))
    if not files:
        raise CogsError(f"No recorded traces (trace_*.json.gz) in {folder}.")
    groups = defaultdict(list)
    for file in files:
        trace = read_trace(file)
        key = trace["num_agents"], trace["grid"]["height"], trace["max_steps"], trace["difficulty"] == "easy"
        groups[key].append((file.name.removesuffix(".json.gz"), trace))
    with ThreadPoolExecutor(PROGRAMS) as threads:  # compilation is most of the time, and runs outside Python's lock
        parts = list(threads.map(_compare_group, groups.values()))
    result = Conformance()
    for part in parts:
        for name in ("traces", "steps", "observations", "tokens"):
            setattr(result, name, getattr(result, name) + getattr(part, name))
        result.differences += part.differences
    return result


def read_trace(file: Path) -> Trace:
    """A recorded episode or map."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            found: Trace = json.load(stream)
    except (OSError, EOFError, ValueError) as error:
        raise CogsError(f"{file} is not a recorded trace: {error}.") from error
    if found.get("format") != 1:
        raise CogsError(f"{file} is of format {found.get('format')}; this engine reads format 1.")
    return found


def recorded_map(trace: Trace) -> tuple[GameMap, list[Cell]]:
    """The map of a recording, and where its agents start."""
    walls = np.array([[symbol == "#" for symbol in row] for row in trace["wall_rows"]])
    codes = np.where(walls, CODE["wall"], 0).astype(np.uint8)
    for kind, row, col, _, _ in trace["objects"]:
        codes[row, col] = CODE[kind]
    starts = [(agent["row"], agent["col"]) for agent in trace["agents"]]
    return GameMap(codes, tuple(starts)), starts


def rules_of(trace: Trace) -> Rules:
    """The rules that a recording was played under."""
    rules = Rules(teams=(Team(size=trace["num_agents"]),), max_steps=trace["max_steps"])
    difficulty = trace["difficulty"]
    return rules.with_difficulty(DEFAULT_DIFFICULTY if difficulty == "default" else difficulty)


def _compare_group(group: list[tuple[str, Trace]]) -> Conformance:
    """Traces with as many agents on grids of one size: one program, one lane each."""
    traces = [trace for _, trace in group]
    maps = [recorded_map(trace) for trace in traces]
    rules = rules_of(traces[0])
    pool, layout = make_pool([game_map for game_map, _ in maps], rules, spawns=[start for _, start in maps])
    engine = Engine(rules, pool, layout)
    inputs = _inputs(traces, np.asarray(pool.object_at), layout.width)

    def one(state: State, given: tuple[Any, Changes]) -> tuple[State, Any]:
        state, outcome = engine.step(state, given[0], jax.random.key(0), given[1])
        small = state.cell, state.vibe, state.inventory, state.store, state.owner, state.amount
        return state, (*small, outcome.success, outcome.reward, outcome.terminated, engine.observe(state)[1])

    @jax.jit
    def play(inputs: tuple[Any, Changes]) -> tuple[Any, Any]:
        state = engine.start(jnp.arange(len(traces)))
        return engine.observe(state)[1], jax.lax.scan(one, state, inputs)[1]

    first, seen = jax.tree.map(np.asarray, play(inputs))
    tables = np.asarray(pool.kind), np.asarray(pool.cell)
    result = Conformance(traces=len(group))
    for lane, (name, trace) in enumerate(group):
        here = tuple(x[:, lane] if x.ndim > 3 and i == 9 else x[..., lane] for i, x in enumerate(seen))
        result.differences += _compare(name, trace, here, first[lane], tables[0][lane], tables[1][lane], result)
    return result


def _inputs(traces: list[Trace], object_at: Any, width: int) -> tuple[Any, Changes]:
    """Actions [T, A, E] and the recorded events [T, slots, E]; a shorter trace does nothing at its end."""
    length = max(trace["steps_recorded"] for trace in traces)
    actions = np.zeros((length, traces[0]["num_agents"], len(traces)), np.int32)
    thing = np.full((length, SLOTS, len(traces)), -1, np.int32)
    owner = np.zeros_like(thing)
    for lane, trace in enumerate(traces):
        for i, step in enumerate(trace["steps"]):
            actions[i, step["a"], lane] = ACTIONS.index(step["act"])
            events = [change for change in step.get("own", []) if change[4] == "event"]
            for slot, (row, col, _, after, _) in enumerate(events):
                thing[i, slot, lane] = object_at[lane, row * width + col]
                owner[i, slot, lane] = _owner(after)
    return jnp.asarray(actions), Changes(jnp.asarray(thing), jnp.asarray(owner))


def _owner(name: str | None) -> int:
    return {None: NEUTRAL, "clips": CLIPS, "cogs": FIRST_TEAM}[name]


def _compare(
    name: str, trace: Trace, seen: tuple[Any, ...], first: Any, kind: Any, cell: Any, result: Conformance
) -> Iterator[Difference]:
    cells, vibes, inventory, store, owner, amount, success, reward, terminated, tokens = seen
    width = trace["grid"]["width"]
    at = {int(place): i for i, place in enumerate(cell) if kind[i]}
    expected_owner = {i: _owner(None) for i in at.values() if kind[i] == CODE["junction"]}
    expected_amount = {i: 100 for i in at.values() if kind[i] >= CODE[EXTRACTORS[0]]}
    paid = 0.0
    for i, step in enumerate(trace["steps"]):
        result.steps += 1
        t = step["t"]
        paid += step["rew"]
        allowed = float(np.spacing(np.float32(paid))) + DECIMALS
        for row, col, _, after, _ in step.get("own", []):
            expected_owner[at[row * width + col]] = _owner(after)
        for row, col, left, *_ in step.get("ext", []):
            expected_amount[at[row * width + col]] = left
        got = [
            [int(c) // width, int(c) % width, int(v), _named(RESOURCES, held)]
            for c, v, held in zip(cells[i], vibes[i], inventory[i].T, strict=True)
        ]
        pairs = [
            ("success", step["ok"], bool(success[i, step["a"]])),
            *((f"agent {a}", want, have) for a, (want, have) in enumerate(zip(step["ag"], got, strict=True))),
            ("team", {k: v for k, v in step["team"].items() if v}, _named(STORED, store[i, 0])),
            ("owners", expected_owner, {j: int(owner[i, j]) for j in expected_owner}),
            ("extractors", expected_amount, {j: int(amount[i, j]) for j in expected_amount}),
            *(("reward", step["rew"], float(r)) for r in reward[i] if abs(r - step["rew"]) > allowed),
            ("done", bool(step.get("done", False)), bool(terminated[i])),
        ]
        yield from (Difference(name, t, what, want, have) for what, want, have in pairs if want != have)
    for observation in trace["obs"]:
        t, agent = observation["t"], observation["agent"]
        result.observations += 1
        result.tokens += len(observation["tokens"])
        have = _comparable(_named_tokens(first[agent] if t == 0 else tokens[t - 1, agent]))
        want = _comparable([(loc, feature, value) for loc, feature, value in observation["tokens"]])
        if want != have:
            place = next(
                (j for j, (w, h) in enumerate(zip(want, have, strict=False)) if w != h), min(len(want), len(have))
            )
            yield Difference(name, t, f"agent {agent}, token {place}", want[place : place + 4], have[place : place + 4])


def _named(names: tuple[str, ...], held: Any) -> dict[str, int]:
    return {name: int(amount) for name, amount in zip(names, held, strict=True) if amount}


def _named_tokens(tokens: Any) -> list[tuple[int, str, int]]:
    return [(int(loc), FEATURES.names[feature], int(value)) for loc, feature, value in tokens if loc != 255]


def _comparable(tokens: list[tuple[int, str, int]]) -> list[tuple[int, str, int]]:
    """The tokens in their order, each run of one cell's amounts sorted."""
    ordered: list[tuple[int, str, int]] = []
    run: list[tuple[int, str, int]] = []
    for token in tokens:
        inside = token[1].startswith("inv:") and not token[1].startswith("inv:collective")
        if run and not (inside and token[0] == run[0][0]):
            ordered += sorted(run)
            run = []
        if inside:
            run.append(token)
        else:
            ordered.append(token)
    return ordered + sorted(run)
