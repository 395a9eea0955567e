"""`make` finds the environment that a spec names and says in one sentence why it cannot."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from rewardlab.envs import make as module
from rewardlab.envs.base import Box, Discrete
from rewardlab.envs.classic import CLASSIC, CartPole, Pendulum
from rewardlab.envs.host import HostEnv
from rewardlab.envs.make import make, spaces
from rewardlab.envs.wrappers import VectorEnv
from rewardlab.spec import EnvSpec, SpecError

pytestmark = pytest.mark.usefixtures("counting")


@pytest.fixture
def host() -> Iterator[HostEnv]:
    made = make(EnvSpec("CartPole-v1", num_envs=2, max_t=7, backend="gymnasium"), 3, 0)
    assert isinstance(made, HostEnv)
    yield made
    made.close()


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("backend", [None, "jax"])
def test_classic_environments_live_in_jax(name: str, backend: str | None) -> None:
    made = make(EnvSpec(name, num_envs=3, backend=backend), 4, 0)
    assert isinstance(made, VectorEnv)
    assert (made.num_envs, made.max_t) == (3, CLASSIC[name]().max_episode_steps)


def test_keys_go_to_the_environment_and_max_t_limits_it() -> None:
    made = make(EnvSpec("Pendulum-v1", max_t=50, kwargs={"g": 9}), 1, 0)
    assert isinstance(made, VectorEnv)
    assert made.env == Pendulum(g=9.0)
    assert made.max_t == 50


def test_the_host_has_the_copies_of_all_sessions(host: HostEnv) -> None:
    assert (host.num_envs, host.max_episode_steps) == (6, 7)


def test_algorithms_see_rows_and_pixels() -> None:
    made = make(EnvSpec("counting:Countdown-v0"), 1, 0)
    made_spaces = spaces(made)
    assert made_spaces == (Box((1,), 0.0, float("inf")), Discrete(2))
    made.close()

    class Shown:
        def __init__(self, *shape: int) -> None:
            self.observation, self.action = Box(shape, 0.0, 255.0, "uint8"), Discrete(5)

    table: Any = Shown(2, 3)
    assert spaces(table) == (Box((6,), 0.0, 255.0, "float32"), Discrete(5))
    picture: Any = Shown(2, 3, 4)  # pixels stay as they are
    assert spaces(picture) == (Box((2, 3, 4), 0.0, 255.0, "uint8"), Discrete(5))


def test_ones_own_class_is_named_by_its_module() -> None:
    made = make(EnvSpec("counting:Countdown", num_envs=2, kwargs={"length": 4}), 1, 0)
    assert isinstance(made, VectorEnv)
    assert (made.env.length, made.max_t) == (4, 8)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["counting:Countdown-v0", "counting:CountdownEnv"])
def test_what_is_no_jax_environment_is_gymnasiums(name: str) -> None:
    if name.endswith("-v0"):
        made = make(EnvSpec(name), 2, 0)
        assert isinstance(made, HostEnv)
        made.close()
    else:  # a class of Gymnasium's kind is named by its registered id
        with pytest.raises(SpecError, match="There is no environment 'CountdownEnv'"):
            make(EnvSpec(name), 2, 0)


class Unsound(CartPole):
    max_episode_steps: ClassVar[int] = 0


def _offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = importlib.metadata.EntryPoint("Offered-v0", value, module.OFFERS)
    monkeypatch.setattr(module, "entry_points", lambda group: [point] if group == module.OFFERS else [])


def test_installed_packages_offer_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    _offer(monkeypatch, "counting:Countdown")
    made = make(EnvSpec("Offered-v0"), 1, 0)
    assert type(made.env).__name__ == "Countdown"  # type: ignore[union-attr]


def test_what_breaks_the_contract_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_jax", lambda _: Unsound)
    with pytest.raises(SpecError, match="Unsound has max_episode_steps 0; it must be a positive integer"):
        make(EnvSpec("mine:Unsound"), 1, 0)


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (
            EnvSpec("CartPole-v1", kwargs={"sutton_reward": True}),
            "'sutton_reward'; the nearest key is 'sutton_barto_re",
        ),
        (EnvSpec("Acrobot-v1", kwargs={"speed": 1}), "does not take the key 'speed'; it takes none"),
        (EnvSpec("Pendulum-v1", kwargs={"g": "heavy"}), "env.g is 'heavy', expected a number"),
        (EnvSpec("Countdown-v0", backend="jax"), "Countdown-v0 does not live in JAX; leave env.backend out"),
        (EnvSpec("CartPole-v1", backend="gymnasum"), "env.backend 'gymnasum' is unknown; did you mean gymnasium?"),
        (
            EnvSpec("CartPole-v1", backend="torch"),
            "env.backend 'torch' is unknown; there are jax, gymnasium, envpool, ale",
        ),
        (EnvSpec("no_such_module:Maze", backend="jax"), "cannot be imported: .*no_such_module"),
        (EnvSpec("CartPole-v9"), "There is no environment 'CartPole-v9'; did you mean 'CartPole-v"),
    ],
)
def test_what_cannot_be_made_is_one_sentence(env: EnvSpec, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        make(env, 1, 0)
