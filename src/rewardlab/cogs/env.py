"""Episodes that follow each other: the vector environment that trainers and benchmarks step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.maps.pool import make_pool
from rewardlab.cogs.missions import Mission
from rewardlab.cogs.state import State, Stats


class EnvState(NamedTuple):
    """The engine's state, and the running returns."""

    game: State
    episode_return: Float[Array, "A E"]


class Step(NamedTuple):
    """What a vector step gives. Where an episode ended, `obs` is the next one's first observation; `stats` and
    `episode_return` are those of the episode that this step belonged to."""

    obs: Any  # tokens uint8 [E, A, 200, 3], a GridView, or None
    reward: Float[Array, "E A"]
    terminated: Bool[Array, " E"]
    truncated: Bool[Array, " E"]
    success: Bool[Array, "E A"]
    episode_return: Float[Array, "E A"]
    stats: Stats


class VectorEnv:
    """E copies of a mission on maps of a pool, resetting by themselves; pure functions to be jitted by the caller."""

    def __init__(self, engine: Engine, envs: int) -> None:
        self.engine, self.envs = engine, envs

    @property
    def num_agents(self) -> int:
        """Agents of one environment."""
        return self.engine.rules.num_agents

    def reset(self, key: PRNGKeyArray, *, staggered: bool = False) -> tuple[EnvState, Any]:
        """Fresh episodes and their first observations. `staggered` starts them at random times of their length, so
        that later ones end at different steps; the first ones are then shorter."""
        map_key, time_key = jax.random.split(key)
        game = self.engine.reset(map_key, self.envs)
        if staggered:
            game = game._replace(step=jax.random.randint(time_key, (self.envs,), 0, self.engine.rules.max_steps))
        game, seen = self.engine.observe(game)
        return EnvState(game, jnp.zeros((self.num_agents, self.envs), jnp.float32)), seen

    def step(self, state: EnvState, actions: Int[Array, "E A"], key: PRNGKeyArray) -> tuple[EnvState, Step]:
        """One step of all; whatever ended starts again on a map drawn anew."""
        step_key, reset_key = jax.random.split(key)
        game, outcome = self.engine.step(state.game, actions.T, step_key)
        total = state.episode_return + outcome.reward
        after = self._restart(EnvState(game, total), outcome.terminated | outcome.truncated, reset_key)
        observed, seen = self.engine.observe(after.game)
        paid, success = outcome.reward.T, outcome.success.T
        return after._replace(game=observed), Step(
            seen, paid, outcome.terminated, outcome.truncated, success, total.T, game.stats
        )

    def _restart(self, state: EnvState, over: Bool[Array, " E"], key: PRNGKeyArray) -> EnvState:
        """The episodes that are over begin again, a few environments at a time: a step ends few or none, and to build
        all of them anew would cost more than the step."""
        maps, few = self.engine.draw_maps(key, self.envs), min(self.envs, max(8, self.envs // 64))

        def begin(carry: tuple[EnvState, Array]) -> tuple[EnvState, Array]:
            (game, total), waiting = carry
            lanes = jnp.nonzero(waiting, size=few, fill_value=self.envs)[0]  # one too many is dropped
            fresh = self.engine.start(maps.at[lanes].get(mode="clip"))

            def put(new: Array, old: Array) -> Array:
                return old.at[..., lanes].set(new, mode="drop")

            rest = jax.tree.map(put, fresh._replace(planes=()), game._replace(planes=()))
            pairs = zip(fresh.planes, game.planes, strict=True)
            planes = tuple(old.at[lanes].set(new, mode="drop") for new, old in pairs)  # environments first
            total = total.at[:, lanes].set(0.0, mode="drop")
            return EnvState(rest._replace(planes=planes), total), waiting.at[lanes].set(False, mode="drop")

        restarted: EnvState = jax.lax.while_loop(lambda carry: jnp.any(carry[1]), begin, (state, over))[0]
        return restarted


def make_env(
    mission: Mission, envs: int, *, observation: str = "tokens", maps: int = 16, map_seed: int = 0
) -> VectorEnv:
    """A vector environment on `maps` generated maps (seeds `map_seed`, `map_seed` + 1, …)."""
    pool, layout = make_pool([mission.map(map_seed + i) for i in range(maps)], mission.rules, seed=map_seed)
    return VectorEnv(Engine(mission.rules, pool, layout, observation), envs)
