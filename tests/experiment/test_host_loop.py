"""The host loop gives what the scan loop gives, however it is called, and goes on from a checkpoint to the bit."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab import algos
from rewardlab.algos.base import Algorithm, setting
from rewardlab.envs.make import make, spaces
from rewardlab.experiment.checkpoint import load_tree, save_tree
from rewardlab.experiment.host import HostLoop
from rewardlab.experiment.session import ScanLoop
from rewardlab.memory.rollout import Transition
from rewardlab.spec import AgentSpec, EnvSpec, MetaSpec, NetSpec, Spec, from_dict

SESSIONS, N = 2, 2
JITTED = ("_start", "_begin", "_step", "_blank", "_learn", "_close")


@pytest.fixture(autouse=True)
def _counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "envs")
    importlib.import_module("counting")


class Scribe(Algorithm):
    """Acts by its observation and by chance; learning is to keep the rollout it was given."""

    on_policy = True
    steps: int = setting(3)

    @property
    def horizon(self) -> int:
        return self.steps

    def init(self, key: Any) -> Any:
        obs, flag = jnp.zeros((self.steps, self.num_envs, 1)), jnp.zeros((self.steps, self.num_envs), bool)
        number = jnp.zeros((self.steps, self.num_envs))
        rollout = Transition(obs, number.astype(jnp.int32), number, flag, flag, obs, {"double": number})
        return {"rollout": rollout, "drawn": jnp.zeros(()), "times": jnp.zeros((), jnp.int32)}

    def noise(self, key: Any, steps: int) -> Any:
        return jax.random.uniform(key, (steps, self.num_envs))

    def act(self, state: Any, obs: Any, clock: Any, noise: Any) -> Any:
        stop = (obs[:, 0] >= 2 + jnp.arange(self.num_envs)) | (noise < 0.1)
        return stop.astype(jnp.int32), {"double": 2 * obs[:, 0] + clock.frame}

    def learn(self, state: Any, rollout: Any, clock: Any, key: Any) -> Any:
        drawn, times = jax.random.uniform(key), state["times"] + 1
        metrics = {"opt_step": times, "seen": rollout.obs.sum(), "frame": clock.frame * 1.0 + clock.memory_start}
        return {"rollout": rollout, "drawn": drawn, "times": times}, metrics

    def policy(self, state: Any) -> Any:
        return state["times"]


def counting_spec(name: str, **env: Any) -> Spec:
    settings: dict[str, Any] = {"num_envs": N, "max_frame": 10_000, **env}
    meta = MetaSpec(max_session=SESSIONS, log_frequency=12)
    return Spec("count", AgentSpec("Scribe", {}), EnvSpec(name, **settings), meta)


def cartpole_spec(**agent: Any) -> Spec:
    """A DQN that learns from the first frames on, in Gymnasium's own CartPole."""
    algorithm: dict[str, Any] = {"name": "DQN", "training_start_step": 8, "training_frequency": 2, **agent}
    raw = {
        "agent": {
            "name": "DQN",
            "algorithm": algorithm,
            "memory": {"name": "Replay", "batch_size": 4, "max_size": 64},
            "net": {"type": "MLPNet", "hid_layers": [8]},
        },
        "env": {"name": "CartPole-v1", "num_envs": N, "max_frame": 1000, "backend": "gymnasium", "normalize_obs": True},
        "meta": {"max_session": SESSIONS, "log_frequency": 20},
    }
    return from_dict(raw, "dqn")


def keys() -> Any:
    return jax.random.split(jax.random.key(5), SESSIONS)


def loop_of(spec: Spec, algorithm: Algorithm | None = None) -> Any:
    env = make(spec.env, SESSIONS, spec.meta.seed)
    if algorithm is None:
        algorithm = algos.make(spec, *spaces(env))
    loop = HostLoop if not hasattr(env, "max_t") else ScanLoop
    return loop(spec, algorithm, env)  # type: ignore[arg-type]


def scribe(spec: Spec, steps: int = 3) -> Any:
    env = make(spec.env, 1, 0)
    observation, action = spaces(env)
    return Scribe(name="Scribe", observation=observation, action=action, num_envs=N, steps=steps)


def arrays(tree: Any) -> list[Any]:
    """The leaves in NumPy, safe from being used up."""
    plain = (
        jax.random.key_data(x) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for x in jax.tree.leaves(tree)
    )
    return [np.array(x) for x in plain]


def assert_same(one: Any, other: Any) -> None:
    """To the bit."""
    assert str(jax.tree.structure(one)) == str(jax.tree.structure(other))
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def assert_close(one: Any, other: Any) -> None:
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("steps", "lens"),
    [(1, {}), (3, {"normalize_obs": True, "normalize_reward": True}), (3, {"clip_obs": 2.0, "clip_reward": 0.5})],
)
def test_both_loops_live_through_the_same(steps: int, lens: dict[str, Any]) -> None:
    results = []
    for name in ("counting:Countdown", "counting:Countdown-v0"):
        spec = counting_spec(name, max_t=4, **lens)
        loop = loop_of(spec, scribe(spec, steps))
        assert loop.plan.iterations == 6 // steps
        loop.memory_start = 7
        runner, seen = loop.advance(loop.start(keys()), 0, 4)
        results.append((runner._replace(env=None), seen))
    (scanned, seen), (hosted, seen_on_host) = results
    assert_close(scanned, hosted)
    assert_close(seen, seen_on_host)
    assert seen_on_host.total_reward.shape == (SESSIONS, 4, 6) == seen_on_host.episodes.shape
    assert seen_on_host.metrics["opt_step"].tolist() == [[6 // steps * (i + 1) for i in range(4)]] * SESSIONS
    assert isinstance(seen_on_host.total_reward, np.ndarray)


def recurrent_agent() -> AgentSpec:
    """PPO with a memory, on rollouts of 6 steps."""
    algorithm = {"name": "PPO", "time_horizon": 6, "minibatch_size": 6, "training_epoch": 2}
    return AgentSpec("PPO", algorithm, net=NetSpec(layers=({"gru": 5},), shared=True))


@pytest.mark.parametrize("remembers", [False, True])
def test_a_real_algorithm_learns_the_same_in_both(remembers: bool) -> None:
    results = []
    for name in ("counting:Countdown", "counting:Countdown-v0"):
        agent = recurrent_agent() if remembers else cartpole_spec().agent
        loop = loop_of(dataclasses.replace(counting_spec(name), agent=agent))
        runner, seen = loop.advance(loop.start(keys()), 0, 3)
        results.append((runner._replace(env=None), seen))
    assert_close(*results)
    assert (results[0][1].metrics["opt_step"] > 0).all()


@pytest.fixture(scope="module")
def cartpole() -> Iterator[Any]:
    """One loop for all that follows: its programs are compiled once, as the last test asserts."""
    loop = loop_of(cartpole_spec())
    yield loop
    loop.close()


def renew(loop: Any, seed: int = 0) -> Any:
    """Other environments, as in a new process; a fresh start in them."""
    loop.env.close()
    loop.env = make(cartpole_spec().env, SESSIONS, seed)
    return loop.start(keys())


def test_grouping_changes_no_bit(cartpole: Any) -> None:
    results = []
    for counts in ([5], [3, 2], [1, 1, 1, 1, 1]):
        runner, first, parts = renew(cartpole), 0, []
        for count in counts:
            runner, seen = cartpole.advance(runner, first, count)
            first += count
            parts.append(seen)
        results.append((runner, jax.tree.map(lambda *xs: np.concatenate(xs, axis=1), *parts)))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])
    assert results[0][1].episodes[:, -1, -1].min() > 0


def test_a_frozen_run_goes_on_to_the_bit(cartpole: Any, tmp_path: Path) -> None:
    path = tmp_path / "ckpt"
    runner, _ = cartpole.advance(renew(cartpole), 0, 2)
    save_tree(path, cartpole.freeze(runner))
    expected = cartpole.advance(runner, 2, 3)
    loaded, _ = load_tree(path, cartpole.template(renew(cartpole, seed=99), path))
    runner, exact = cartpole.thaw(loaded)
    assert exact
    assert_same(cartpole.advance(runner, 2, 3), expected)


def test_a_frozen_runner_can_be_advanced_as_it_is(cartpole: Any) -> None:
    runner, _ = cartpole.advance(cartpole.freeze(renew(cartpole)), 0, 1)
    assert runner.env is None


def test_episodes_that_begin_anew_are_not_the_first_ones_again(cartpole: Any) -> None:
    runner = renew(cartpole)
    starts = [cartpole.freeze(runner).env["obs"]]
    for segment in range(2):
        runner, _ = cartpole.advance(runner, segment, 1)
        runner, exact = cartpole.thaw(runner)  # a frozen runner without a snapshot looks like this
        assert not exact
        starts.append(cartpole.freeze(runner).env["obs"])
    assert np.abs(np.stack(starts)).max() <= 0.05
    assert len({obs.tobytes() for obs in starts}) == 3


def test_nothing_was_compiled_twice(cartpole: Any) -> None:
    cartpole.advance(renew(cartpole), 0, 2)
    assert {name: getattr(cartpole, name)._cache_size() for name in JITTED} == dict.fromkeys(JITTED, 1)


def test_where_the_simulator_cannot_be_saved_the_episodes_begin_anew(tmp_path: Path) -> None:
    spec = counting_spec("counting:Countdown-v0", kwargs={"hidden": True}, normalize_reward=True, normalize_obs=True)
    loop = loop_of(spec, scribe(spec, 2))
    runner, _ = loop.advance(loop.start(keys()), 0, 3)
    before = arrays(runner.tracker)
    assert before[0].any()  # episodes stand in the middle
    save_tree(tmp_path / "ckpt", loop.freeze(runner))
    loaded, _ = load_tree(tmp_path / "ckpt", loop.template(runner, tmp_path / "ckpt"))
    runner, exact = loop.thaw(loaded)
    assert not exact
    assert not np.asarray(runner.tracker.running).any()
    assert not np.asarray(runner.lens.discounted).any()
    for was, now in zip(before[1:], arrays(runner.tracker)[1:], strict=True):
        np.testing.assert_array_equal(was, now)
    looked = jax.vmap(loop.session.lens.look)(runner.lens, jnp.zeros((SESSIONS, N, 1)))
    # another program than the loop's own, so that a quotient may be rounded the other way in its last bit
    np.testing.assert_array_max_ulp(np.asarray(runner.obs), np.asarray(looked), maxulp=2)
    _, seen = loop.advance(runner, 3, 1)
    assert (seen.episodes[:, 0, -1] >= before[2].sum(-1)).all()


def test_the_environment_is_told_actions_in_its_own_units() -> None:
    class Push(Scribe):
        def act(self, state: Any, obs: Any, clock: Any, noise: Any) -> Any:
            return jnp.full((self.num_envs, 1), 0.5), {"double": obs[:, 0]}

        def init(self, key: Any) -> Any:
            return jnp.zeros(())

        def learn(self, state: Any, rollout: Any, clock: Any, key: Any) -> Any:
            return state, {"opt_step": clock.iteration, "action": rollout.action.mean()}

        def policy(self, state: Any) -> Any:
            return state

    spec = counting_spec("Pendulum-v1", backend="gymnasium")
    env: Any = make(spec.env, SESSIONS, 0)
    observation, action = spaces(env)
    told: list[Any] = []
    step = env.step

    def listen(actions: Any) -> Any:
        told.append(actions)
        return step(actions)

    env.step = listen
    algorithm = Push(observation=observation, action=action, num_envs=N, steps=3)
    loop = HostLoop(spec, algorithm, env)
    _, seen = loop.advance(loop.start(keys()), 0, 1)
    assert np.stack(told).shape == (6, SESSIONS * N, 1)
    assert np.all(np.stack(told) == 1.0)  # half of Pendulum's ±2
    assert seen.metrics["action"].tolist() == [[0.5]] * SESSIONS  # what it chose is what it learns from
