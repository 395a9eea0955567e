"""What a person can write or read has its line in the docs: keys with their defaults, algorithms, commands, metrics."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer

from rewardlab import algos, api
from rewardlab.algos import ALGOS
from rewardlab.algos.a2c import ActorCriticAlgorithm
from rewardlab.algos.base import Algorithm, Clock
from rewardlab.algos.off_policy import OffPolicyAlgorithm
from rewardlab.cli.app import app
from rewardlab.envs.classic import CLASSIC
from rewardlab.envs.make import make, spaces
from rewardlab.experiment import metrics
from rewardlab.experiment.trial import COLUMNS
from rewardlab.llm.config import Config, DataConfig
from rewardlab.llm.losses import LOSSES as LOSSES_OF_LLM
from rewardlab.llm.tasks import TASKS
from rewardlab.maths.schedule import NAMES, Schedule
from rewardlab.memory.rollout import Transition
from rewardlab.slm import DEAD_KEYS
from rewardlab.spec import (
    ACTIVATIONS,
    INITIALISERS,
    LAYERS,
    LOSSES,
    LR_SCHEDULES,
    MEMORIES,
    NETS,
    OPTIMISERS,
    UPDATE_TYPES,
    AgentSpec,
    EnvSpec,
    LossSpec,
    LrScheduleSpec,
    MemorySpec,
    MetaSpec,
    NetSpec,
    OptimSpec,
    ResourcesSpec,
    SchedulerSpec,
    Spec,
    VarSpec,
    from_dict,
    names,
    types,
)
from rewardlab.spec.build import keys_of
from rewardlab.spec.search import KINDS
from rewardlab.spec.text import parse_value

TOP = Path(__file__).resolve().parent.parent
DOCS = TOP / "docs"
PAGES = [*sorted(TOP.glob("*.md")), *sorted(DOCS.glob("*.md"))]
GENERATED = {"BENCHMARKS.md"}  # written by `rewardlab bench table` once there are runs
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADINGS = {
    Spec: "Top level",
    AgentSpec: "`agent`",
    MemorySpec: "`agent.memory`",
    NetSpec: "`agent.net`",
    OptimSpec: "`optim_spec`",
    LrScheduleSpec: "`lr_scheduler_spec`",
    LossSpec: "`loss_spec`",
    VarSpec: "Schedules",
    EnvSpec: "`env`",
    MetaSpec: "`meta`",
    SchedulerSpec: "`search_scheduler`",
    ResourcesSpec: "`search_resources`",
}
PAGE_OF = dict.fromkeys(("bench", "plot", "plot-list"), "boards.md") | dict.fromkeys(("list", "pull", "push"), "hub.md")
PAGE_OF |= dict.fromkeys(("run-remote", "remote"), "remote.md") | {
    "cogs": "cogs-commands.md",
    "env": "environments.md",
}  # the others': lab.md
PAGE_OF |= dict.fromkeys(("llm", "speedrun"), "llm.md") | dict.fromkeys(("arena", "board"), "arena.md")
SHARED = {
    Algorithm: "Every algorithm",
    ActorCriticAlgorithm: "Actor-critic",
    OffPolicyAlgorithm: "Learning from a replay memory",
}


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"the docs have no heading {heading}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def anchor_of(title: str) -> str:
    """How a link names a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def rows(text: str) -> dict[str, list[str]]:
    """The rows of tables by each name in their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return {name: row for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


def agrees(told: str, default: Any) -> bool:
    """Whether a table's cell says the default."""
    if told == "required":
        return default is dataclasses.MISSING or default == "" or default != default
    value = parse_value(told.strip("`"))
    if isinstance(default, Schedule):
        given = dataclasses.asdict(Schedule(**value))
        return bool(given == dataclasses.asdict(default))
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return bool(value == {})
    if isinstance(default, tuple):
        return bool(value == list(default))
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def defaults_of(cls: type) -> Iterator[tuple[str, Any]]:
    for name, (field, _) in keys_of(cls).items():
        made = field.default_factory
        yield name, field.default if made is dataclasses.MISSING else made()


def check_rows(found: dict[str, list[str]], key: str, default: Any, where: str) -> None:
    assert key in found, f"{where} has no row for {key}"
    assert len(found[key]) == 4, f"{where}: the row of {key} has {len(found[key])} cells"
    assert all(found[key]), f"{where}: the row of {key} has an empty cell"
    assert agrees(found[key][2], default), f"{where} says that {key} is {found[key][2]} by default; it is {default!r}"


def test_every_part_of_a_spec_has_a_heading() -> None:
    parts = {cls for _, cls in inspect.getmembers(types, dataclasses.is_dataclass)}
    assert parts == set(HEADINGS)


@pytest.mark.parametrize("cls", HEADINGS, ids=lambda cls: cls.__name__)
def test_every_key_of_a_spec_has_a_row_with_its_default(cls: type) -> None:
    found = rows(section(page("spec.md"), HEADINGS[cls]))
    keys = dict(defaults_of(cls))
    for key, default in keys.items():
        check_rows(found, key, default, f"docs/spec.md, {HEADINGS[cls]}")
    assert set(found) - set(keys) <= {"__uniform"}, (
        f"docs/spec.md, {HEADINGS[cls]} has rows for keys that are not there"
    )


def test_schedules_have_one_set_of_keys() -> None:
    assert set(keys_of(Schedule)) == set(keys_of(VarSpec))


@pytest.mark.parametrize(
    "known",
    [ACTIVATIONS, INITIALISERS, LAYERS, LOSSES, LR_SCHEDULES, MEMORIES, NETS, OPTIMISERS, UPDATE_TYPES, NAMES],
    ids=lambda known: known[0],
)
def test_every_name_that_a_spec_may_hold_is_told(known: tuple[str, ...]) -> None:
    text = page("spec.md")
    assert [name for name in known if f"`{name}`" not in text] == []


def test_every_way_to_draw_is_told() -> None:
    found = rows(section(page("spec.md"), "`search`"))
    assert set(found) == {f"__{kind}" for kind in KINDS}


def test_every_dead_key_of_slm_lab_is_told() -> None:
    text = section(page("spec.md"), "Coming from SLM-Lab")
    dead = {key for keys in DEAD_KEYS.values() for key in keys} - {"name"}
    assert sorted(key for key in dead if f"`{key}" not in text) == []


def home(cls: type[Algorithm], key: str) -> type:
    """The class that gives a key its meaning or its default."""
    return next(c for c in cls.__mro__ if key in inspect.get_annotations(c))


def reached(text: str, heading: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The anchors that a reader of a section comes to by following its links."""
    titles = {anchor_of(title): title for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    here = {anchor_of(heading)}
    for anchor in set(re.findall(r"\]\(#([\w-]+)\)", section(text, heading))) - seen - here:
        here |= reached(text, titles[anchor], seen | here)
    return here


@pytest.mark.parametrize("name", ALGOS)
def test_every_algorithm_has_a_section_that_leads_to_its_keys_and_their_defaults(name: str) -> None:
    text = page("algorithms.md")
    headings = {cls: label for label, cls in ALGOS.items()} | SHARED
    at_hand = reached(text, name) | {anchor_of(SHARED[Algorithm])}
    for key, default in defaults_of(ALGOS[name]):
        heading = headings[home(ALGOS[name], key)]
        check_rows(rows(section(text, heading)), key, default, f"docs/algorithms.md, {heading}")
        assert anchor_of(heading) in at_hand, (
            f"docs/algorithms.md: {name} does not lead to {heading}, where {key} is told"
        )
    surplus = set(rows(section(text, name))) - set(keys_of(ALGOS[name]))
    assert not surplus, f"docs/algorithms.md, {name} has rows for keys that are not there"


def test_every_packaged_spec_is_told() -> None:
    text = page("algorithms.md")
    assert [name for _, name in names() if f"`{name}`" not in text] == []


def test_every_jax_environment_is_told() -> None:
    found = rows(page("environments.md"))
    for name, made in CLASSIC.items():
        env: Any = made()
        told = found[name]
        assert told[1] == str(env.observation.size)
        assert told[2].startswith(str(getattr(env.action, "n", None) or env.action.size))
        assert told[3] == str(env.max_episode_steps)
        assert re.findall(r"`(\w+)`", told[4]) == [field.name for field in dataclasses.fields(env)]


def commands() -> list[tuple[str, Any]]:
    """Every command of the command line with its words."""

    def below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        if inner := getattr(command, "commands", None):
            for name, one in inner.items():
                if not one.hidden:  # other words for a command that has a section
                    yield from below(one, f"{words} {name}")
        else:
            yield words, command

    return list(below(typer.main.get_command(app), "rewardlab"))


@pytest.mark.parametrize(("words", "command"), commands(), ids=[words for words, _ in commands()])
def test_every_command_has_a_section_with_its_options(words: str, command: Any) -> None:
    found = rows(section(page(PAGE_OF.get(words.split()[1], "lab.md")), f"`{words}`"))
    taken = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    options = {o for p in taken for o in (*p.opts, *p.secondary_opts)} - {"--help"}
    assert set(found) == options


@pytest.mark.parametrize(("cls", "heading"), [(Config, "Config"), (DataConfig, "`data`")])
def test_every_key_of_a_language_models_config_has_a_row_with_its_default(cls: type, heading: str) -> None:
    found = rows(section(page("llm.md"), heading))
    keys = dict(defaults_of(cls))
    for key, default in keys.items():
        if key != "system":  # too long for a table
            check_rows(found, key, default, f"docs/llm.md, {heading}")
    assert set(found) - set(keys) <= set(keys_of(DataConfig))


def test_every_loss_and_task_is_told() -> None:
    assert set(rows(section(page("llm.md"), "Losses"))) == set(LOSSES_OF_LLM)
    assert {f"builtin:{name}" for name in TASKS} <= set(rows(section(page("llm.md"), "Tasks")))


def test_every_metric_is_told() -> None:
    three = np.arange(1, 4)
    trial = metrics.trial_metrics(
        [metrics.session_metrics(dict.fromkeys(("total_reward", "frame", "opt_step"), three), 0.0)]
    )
    text = page("metrics.md")
    assert set(rows(section(text, "Of a session"))) | set(rows(section(text, "Of a trial"))) == set(trial["scalar"])
    assert set(rows(section(text, "Where they are"))) == set(trial["local"])
    assert set(COLUMNS) <= set(rows(section(text, "The tables")))
    order = [part.partition(":")[0] for part in metrics.trial_line(trial).removeprefix("trial_metrics: ").split(" | ")]
    assert re.findall(r"(\w+):…", section(text, "Of a trial")) == order


def logged(name: str, env_name: str) -> set[str]:
    """The columns of an algorithm beside those that all have."""
    memory = {"name": "Replay"} if issubclass(ALGOS[name], OffPolicyAlgorithm) else {}
    raw = {"agent": {"algorithm": {"name": name}, "memory": memory}, "env": {"name": env_name, "num_envs": 2}}
    spec = from_dict(raw, name)
    observation, action = spaces(make(spec.env, 1, 0))
    algorithm = algos.make(spec, observation, action)

    def learn(key: Any) -> Any:
        state = algorithm.init(key)
        zero = jax.numpy.zeros((), jax.numpy.int32)
        clock = Clock(zero, zero, zero)
        noise = jax.tree.map(lambda x: x[0], algorithm.noise(key, 1))
        obs = jax.numpy.zeros((2, observation.size))
        taken, extras = algorithm.act(state, obs, clock, noise)
        number, flag = jax.numpy.zeros(2), jax.numpy.zeros(2, bool)
        step = Transition(obs, taken, number, flag, flag, obs, extras)
        rollout = jax.tree.map(lambda x: jax.numpy.stack([x] * algorithm.horizon), step)
        return algorithm.learn(state, rollout, clock, key)[1]

    return set(jax.eval_shape(learn, jax.random.key(0))) - set(COLUMNS)


@pytest.mark.parametrize("name", ALGOS)
def test_every_column_of_an_algorithm_is_told(name: str) -> None:
    found = rows(section(page("metrics.md"), "The tables"))
    for column in logged(name, "CartPole-v1"):
        assert column in found, f"docs/metrics.md has no row for the column {column} of {name}"


def test_every_part_of_the_python_api_is_told() -> None:
    text = section(page("lab.md"), "Python")
    public = [name for name in vars(api.Run) if not name.startswith("_")]
    told = [f"`run.{name}" for name in (*public, "path", "folder")] + ["`rl.train(", "`rl.load("]
    assert [name for name in told if name not in text] == []


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {anchor_of(title) for title in re.findall(r"^#+ (.+)$", plain, re.MULTILINE)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        assert to.exists() or to.name in GENERATED, f"{path.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(to.read_text(encoding="utf-8")), f"{path.name}: no heading for {target}"


def test_the_index_leads_to_every_page() -> None:
    text = page("index.md")
    assert [file.name for file in DOCS.glob("*.md") if file.name != "index.md" and f"]({file.name})" not in text] == []
