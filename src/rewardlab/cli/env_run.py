"""What `rewardlab env check` and `bench` do; imported only when they are called, because it brings JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rewardlab.cli.lab import say
from rewardlab.cli.run import prepare
from rewardlab.cli.tables import emit, table
from rewardlab.envs.look import checked, steps_per_second, told
from rewardlab.envs.make import BACKENDS, backend_of
from rewardlab.spec import EnvSpec, SpecError, load


def env_spec(name: str, settings: Sequence[str]) -> EnvSpec:
    """The environment part of a spec, its keys read as those of any spec."""
    prepare()
    return load("ppo_cartpole", settings=[f"env.name={name}", *(f"env.{setting}" for setting in settings)]).env


def check(name: str, settings: Sequence[str]) -> None:
    """What it is like, then what was found."""
    env = env_spec(name, settings)
    for key, value in told(env).items():
        print(f"{key:12} {value}")
    for line in checked(env):
        print(line)
    print(f"{name}: sound")


def bench(name: str, settings: Sequence[str], envs: int, seconds: float, as_json: bool) -> None:
    """Everything that can step it, one after the other."""
    env = dataclasses.replace(env_spec(name, settings), num_envs=envs)
    measured = []
    for backend in BACKENDS if env.backend is None else (env.backend,):
        one = dataclasses.replace(env, backend=backend)
        try:
            speed = steps_per_second(one, seconds)
        except SpecError as error:
            if backend == backend_of(env):
                raise
            say(f"not by {backend}: {error}")
            continue
        measured.append({"backend": backend, "envs": envs, "steps_per_second": round(speed)})
    if not emit({"name": name, "measured": measured}, "json" if as_json else None):
        rows = [(m["backend"], m["envs"], m["steps_per_second"]) for m in measured]
        table(name, ("backend", "copies", "steps/s"), rows)
