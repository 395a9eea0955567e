"""The spec: reading, variables, overrides, typed construction, impossible settings, search ranges, writing."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rewardlab
from rewardlab import spec as sp
from rewardlab.spec import SearchRange, Spec, SpecError, VarSpec, build, load, loads, parse_search, parse_settings
from rewardlab.spec.text import parse_value

PPO = """
_net: &net
  hid_layers: [64, 64]
  optim_spec: {name: Adam, lr: 3e-4}

ppo_cartpole:
  agent:
    algorithm: {name: PPO, gamma: 0.99}
    net:
      <<: *net
      clip_grad_val: 0.5
  env: {name: CartPole-v1, num_envs: 4, max_frame: 2e5}
  meta: {max_session: 4, log_frequency: 500}
"""


def small(**sections: Any) -> dict[str, Any]:
    """A spec's mapping with some sections in place of the plain ones."""
    plain: dict[str, Any] = {"agent": {"algorithm": {"name": "PPO"}}, "env": {"name": "CartPole-v1"}}
    return plain | sections


def refused(raw: Any) -> str:
    with pytest.raises(SpecError) as caught:
        sp.from_dict(raw, "x")
    return str(caught.value)


# --- reading ---


def test_anchors_merge_keys_and_numbers_without_a_dot() -> None:
    spec = loads(PPO)
    assert spec.name == "ppo_cartpole"
    assert spec.agent.name == "PPO"
    assert spec.agent.net.hid_layers == (64, 64)
    assert spec.agent.net.clip_grad_val == 0.5
    assert spec.agent.net.optim_spec.lr == 3e-4
    assert spec.env.max_frame == 200_000
    assert isinstance(spec.env.max_frame, int)
    assert spec.agent.algorithm == {"name": "PPO", "gamma": 0.99}
    assert spec.notes == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("3E+5", 3e5),
        (".5", 0.5),
        ("5_000", 5000),
        ("-2", -2),
        ("true", True),
        ("1:30", "1:30"),
        ("no", "no"),
        ("010", "010"),
        ("2020-01-01", "2020-01-01"),
        ("null", None),
        ("", ""),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
        ("[64, 32]", [64, 32]),
        ("{name: Adam, lr: 1e-3}", {"name": "Adam", "lr": 1e-3}),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_json_and_several_specs(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"_a": 1, "one": small(), "two": small(env={"name": "Acrobot-v1"})}))
    assert load(file, "two").env.name == "Acrobot-v1"
    with pytest.raises(SpecError, match="holds several specs; name one of one, two"):
        load(file)
    with pytest.raises(SpecError, match=r"holds no spec tow; did you mean two?"):
        load(file, "tow")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.yaml", "x: [1,", "is not valid YAML"),
        ("a.json", '{"x": 1,}', "is not valid JSON"),
        ("a.yaml", "x: 1\nx: 2", "has the key x .line 2. twice"),
        ("a.json", '{"x": 1, "x": 2}', "has the key x twice"),
        ("a.yaml", "- 1", "holds no named specs"),
        ("a.yaml", "", "holds no named specs"),
        ("a.yaml", "_a: 1", "every name in it starts with an underscore"),
        ("a.yaml", "a: 1", "the spec a is 1, expected a mapping"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError, match=sentence):
        load(tmp_path / name)


def test_a_key_merged_in_and_set_again_is_no_duplicate() -> None:
    text = "_a: &a {name: CartPole-v1}\n_b: &b {<<: *a, num_envs: 2}\nx:\n  agent: {algorithm: {name: PPO}}\n"
    assert loads(text + "  env: {<<: *b, name: Acrobot-v1}").env.name == "Acrobot-v1"


# --- variables ---

VARIABLES = """
# fill ${nothing} here
a:
  agent: {algorithm: {name: PPO}}
  env: {name: "${env}", max_frame: "${max_frame:2e5}", note: "runs-${env}"}
b:
  agent: {algorithm: {name: "${other}"}}
  env: {name: x}
"""


def test_variables_and_defaults() -> None:
    spec = loads(VARIABLES, "a", variables={"env": "Hopper-v5"})
    assert (spec.env.name, spec.env.max_frame) == ("Hopper-v5", 200_000)
    assert spec.env.kwargs == {"note": "runs-Hopper-v5"}
    assert loads(VARIABLES, "a", variables={"env": "x", "max_frame": "1000"}).env.max_frame == 1000


def test_an_unfilled_variable_is_named_where_it_is_used_only() -> None:
    with pytest.raises(SpecError, match=r"a needs \$\{env\} \(at env.name\); fill it with -s env=…"):
        loads(VARIABLES, "a")
    with pytest.raises(SpecError, match="-s other=…"):
        loads(VARIABLES, "b", variables={"env": "x"})
    replaced = loads(VARIABLES, "a", overrides={"env.name": "x", "env.note": "y"})
    assert replaced.env.name == "x"


def test_a_variable_without_effect_is_reported() -> None:
    spec = loads(VARIABLES, "b", variables={"other": "PPO", "env": "x"})
    assert spec.notes == ("the variable env has no effect: b does not use ${env}",)


def test_unquoted_variables_in_json(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    env = '{"name": "${env:CartPole-v1}", "max_frame": ${max_frame}, "label": "a \\"${env:quoted}\\""}'
    rest = '{"agent": {"algorithm": {"name": "PPO"}}, "env": {"name": "x", "max_frame": ${unknown}}}'
    file.write_text('{"a": {"agent": {"algorithm": {"name": "PPO"}}, "env": ' + env + '}, "b": ' + rest + "}")
    spec = load(file, "a", {"max_frame": "3e5"})
    assert spec.env.max_frame == 300_000
    assert spec.env.kwargs["label"] == 'a "quoted"'


@given(st.text(max_size=20), st.sampled_from(["yaml", "json"]))
def test_no_text_can_break_out_of_its_variable(value: str, ending: str) -> None:
    text = '{"a": {"agent": {"algorithm": {"name": "PPO"}}, "env": {"name": "x", "label": "<${v}>"}}}'
    assert loads(text, "a", f"a.{ending}", variables={"v": value}).env.kwargs["label"] == f"<{value}>"


# --- settings and overrides ---


def test_settings_are_variables_or_dotted_keys() -> None:
    settings = ["env=CartPole-v1", "agent.algorithm.gamma=0.9", "agent.net.hid_layers=[8]", "env.g=9.8"]
    variables, overrides = parse_settings(settings, VARIABLES)
    assert variables == {"env": "CartPole-v1"}
    assert overrides == {"agent.algorithm.gamma": 0.9, "agent.net.hid_layers": [8], "env.g": 9.8}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("gamma", "not of the form key=value"),
        ("max_fram=1", "did you mean -s max_frame=…?"),
        ("seed=1", "did you mean -s meta.seed=…?"),
        ("zzzzzz=1", "it has env, max_frame, nothing, other"),
        ("agent.net.hid_layer=1", "agent.net.hid_layer is unknown; did you mean agent.net.hid_layers?"),
        ("agent.nets.lr=1", "agent.nets is unknown; did you mean agent.net?"),
        ("agent.net.lr=1", "agent.net.lr is unknown; did you mean agent.net.optim_spec.lr?"),
        ("env.num_env=1", "did you mean env.num_envs?"),
        ("meta.seed.x=1", "meta.seed is a whole number and holds no keys"),
        ("envs.name=x", "envs is unknown; did you mean env?"),
    ],
)
def test_wrong_settings(setting: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_settings([setting], VARIABLES)
    assert sentence in str(caught.value)


def test_overrides_reach_sections_that_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(PPO)
    settings = ["agent.net.lr_scheduler_spec.name=cosine", "agent.algorithm.clip_eps_spec.start_val=0.1", "meta.seed=7"]
    spec = load(file, settings=settings, overrides={"agent.net.optim_spec.lr": 1e-2, "meta.seed": 3})
    assert spec.agent.net.lr_scheduler_spec == sp.LrScheduleSpec("cosine")
    assert spec.agent.algorithm["clip_eps_spec"] == {"start_val": 0.1}
    assert spec.agent.net.optim_spec.lr == 1e-2
    assert spec.meta.seed == 7  # the command line has the last word
    with pytest.raises(SpecError, match=r"env.max_frames is unknown; did you mean env.max_frame?"):
        load(file, overrides={"env.max_frames": 1})


def test_apply_gives_a_new_checked_spec() -> None:
    spec = loads(PPO)
    changed = sp.apply(spec, {"agent.algorithm.gamma": 0.5, "env.continuous": True})
    assert changed.agent.algorithm["gamma"] == 0.5
    assert changed.env.kwargs == {"continuous": True}
    assert spec == loads(PPO)
    with pytest.raises(SpecError, match="expected 1 or more"):
        sp.apply(spec, {"env.num_envs": 0})


# --- typed construction ---


@dataclass(frozen=True)
class Inner:
    value: float = 1.0


@dataclass(frozen=True)
class Outer:
    size: int
    ratio: float = 0.5
    label: str = "a"
    flag: bool = False
    limit: float | None = None
    sizes: tuple[int, ...] = ()
    pair: tuple[float, float] | None = None
    kind: Literal["one", "two"] = "one"
    inner: Inner | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    explore_spec: VarSpec | None = None
    made: str = field(default="by us", metadata={"spec": False})


def test_build_by_type() -> None:
    given_ = {"size": 2e3, "ratio": 1, "limit": None, "sizes": [1, 2.0], "pair": [1, 2], "kind": "two", "flag": True}
    made = build(Outer, {**given_, "inner": {"value": 2}, "table": {"a": (1,)}}, "x")
    assert made == Outer(2000, 1.0, "a", True, None, (1, 2), (1.0, 2.0), "two", Inner(2.0), {"a": [1]})
    assert isinstance(made.ratio, float)
    assert build(Outer, {"size": 1, "ratio": None, "label": None}, "x") == Outer(1)
    assert build(Outer, {"size": 1, "name": "PPO"}, "x", ignore=("name",)) == Outer(1)


@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        ({}, "x.size is missing"),
        ({"size": None}, "x.size is None, expected a whole number"),
        ({"size": True}, "x.size is True, expected a whole number"),
        ({"size": 1.5}, "x.size is 1.5, expected a whole number"),
        ({"size": "3"}, "x.size is '3', expected a whole number"),
        ({"size": math.inf}, "x.size is inf, expected a whole number"),
        ({"size": 1, "ratio": "high"}, "x.ratio is 'high', expected a number"),
        ({"size": 1, "ratio": math.nan}, "x.ratio is nan, expected a number"),
        ({"size": 1, "flag": 1}, "x.flag is 1, expected true or false"),
        ({"size": 1, "limit": "a"}, "x.limit is 'a', expected a number or null"),
        ({"size": 1, "label": 3}, "x.label is 3, expected a text"),
        ({"size": 1, "sizes": 3}, "x.sizes is 3, expected a list, each entry a whole number"),
        ({"size": 1, "sizes": [1, "b"]}, "x.sizes[1] is 'b', expected a whole number"),
        ({"size": 1, "pair": [1]}, "x.pair"),
        ({"size": 1, "kind": "too"}, "x.kind is 'too', expected one of one, two"),
        ({"size": 1, "inner": {"valu": 1}}, "x.inner.valu is unknown; did you mean x.inner.value?"),
        ({"size": 1, "inner": 3}, "x.inner is 3, expected a mapping"),
        ({"size": 1, "made": "x"}, "x.made is unknown"),
        ({"size": 1, "qqq": 1}, "x.qqq is unknown; x has the keys size, ratio"),
        ({"size": 1, "explore_spec": {"name": "liner_decay", "start_val": 1}}, "did you mean linear_decay?"),
        ({"size": 1, "explore_spec": {"name": "no_decay"}}, "x.explore_spec.start_val is missing"),
        (
            {"size": 1, "explore_spec": {"name": "linear_decay", "start_val": 1, "end_val": 0}},
            "x.explore_spec.end_step is 0.0, expected a frame after start_step",
        ),
    ],
)
def test_build_says_the_place_and_what_is_expected(given_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        build(Outer, given_, "x")
    assert sentence in str(caught.value)


# --- the sections of a spec ---


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (small(agnet={}), "agnet is unknown; did you mean agent?"),
        ({"agent": {"algorithm": {"name": "PPO"}}}, "env is missing"),
        (small(env=3), "env is 3, expected a mapping"),
        (small(env={}), "env.name is missing"),
        (small(agent={}), "agent.algorithm is missing"),
        (small(agent={"algorithm": {"gamma": 0.9}}), "agent.algorithm.name is missing"),
        (small(agent={"algorithm": {"name": 3}}), "agent.algorithm.name is 3, expected a text"),
        (small(meta={"max_sesion": 1}), "meta.max_sesion is unknown; did you mean meta.max_session?"),
        (small(meta={"num_envs": 1}), "meta.num_envs is unknown; did you mean env.num_envs?"),
        (small(meta={"max_tick_unit": "frame"}), "`rewardlab spec import FILE` drops it"),
        (small(env={"name": "x", "kwargs": {}}), "stand directly under env"),
        (small(search=[1]), "search is [1], expected a mapping"),
    ],
)
def test_wrong_sections(raw: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(raw)


def test_body_is_accepted_and_reported() -> None:
    spec = sp.from_dict(small(body={"product": "outer", "num": 1}), "x")
    assert spec.notes == ("body has no effect: an agent has one body here",)
    assert spec == sp.from_dict(small(), "x")


GENUINE = """continuous g goal_velocity sutton_barto_reward render_mode max_episode_steps frame_skip map_name
is_slippery gravity enable_wind wind_power hardcore reset_noise_scale ctrl_cost_weight healthy_z_range
obs_type mode difficulty
exclude_current_positions_from_observation repeat_action_probability full_action_space frameskip noop_max screen_size
scale_obs grayscale_obs life_loss_info frame_op frame_op_len reward_scale terminal_on_life_loss frame_stack desc"""


@pytest.mark.parametrize("key", GENUINE.split())
def test_the_environments_own_keys_pass(key: str) -> None:
    assert sp.from_dict(small(env={"name": "x", key: 1}), "x").env.kwargs == {key: 1}


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("max_frames", "max_frame"),
        ("num_env", "num_envs"),
        ("n_envs", "num_envs"),
        ("maxt", "max_t"),
        ("normalise_obs", "normalize_obs"),
        ("normalize_rewards", "normalize_reward"),
        ("clip_rewards", "clip_reward"),
        ("Num_Envs", "num_envs"),
        ("backends", "backend"),
    ],
)
def test_a_mistyped_key_of_ours_does_not_go_to_the_environment(key: str, nearest: str) -> None:
    assert refused(small(env={"name": "x", key: 1})) == f"env.{key} is unknown; did you mean env.{nearest}?"


def net(**keys: Any) -> dict[str, Any]:
    return small(agent={"algorithm": {"name": "PPO"}, "net": keys})


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (small(env={"name": "x", "num_envs": 0}), "env.num_envs is 0, expected 1 or more"),
        (small(env={"name": "x", "num_envs": 8, "max_frame": 4}), "at least one frame for each of 8"),
        (small(meta={"max_session": 0}), "meta.max_session is 0"),
        (small(meta={"log_frequency": 0}), "meta.log_frequency is 0"),
        (small(env={"name": "x", "num_envs": 1000}), "meta.log_frequency is 500, expected at least env.num_envs, 1000"),
        (net(optim_spec={"lr": -1}), "agent.net.optim_spec.lr is -1.0, expected 0 or more"),
        (net(optim_spec={"betas": [0.9, 1]}), "betas is (0.9, 1.0), expected 0 or more and less than 1"),
        (net(optim_spec={"name": "Adan"}), "names an unknown optimiser, 'Adan'; did you mean Adam?"),
        (net(optim_spec={"name": "Zzzz"}), "there are Adam, AdamW, RMSprop, SGD"),
        (net(lr_scheduler_spec={"name": "LinerToZero"}), "did you mean LinearToZero?"),
        (net(loss_spec={"name": "SmothL1Loss"}), "did you mean SmoothL1Loss?"),
        (net(hid_layers_activation="tahn"), "did you mean tanh?"),
        (net(init_fn="orthogonl_"), "did you mean orthogonal_?"),
        (net(type="MLPnet"), "did you mean MLPNet?"),
        (net(type="TorchArcNet"), "needs an arc or layers"),
        (net(hid_layers=[64, 0]), "widths of 1 or more"),
        (net(clip_grad_val=0), "expected above 0"),
        (net(polyak_coef=2), "expected a number from 0 to 1"),
        (net(update_type="polyk"), "did you mean polyak?"),
        (net(batch_renorm={"warmup": 1}), "did you mean warmup_steps?"),
        (net(layers=[{"linear": 64, "activation": "relu"}]), "expected one key"),
        (net(layers=[{"liner": 64}]), "agent.net.layers[0] names an unknown layer, 'liner'; did you mean linear?"),
        (net(layers=[{"activation": "rleu"}]), "did you mean relu?"),
        (small(agent={"algorithm": {"name": "D"}, "memory": {"name": "Reply"}}), "did you mean Replay?"),
        (
            small(agent={"algorithm": {"name": "D"}, "memory": {"name": "Replay", "batch_size": 9, "max_size": 8}}),
            "no more than max_size, 8",
        ),
    ],
)
def test_impossible_settings(raw: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(raw)


def test_initialisers_go_by_both_spellings_and_null() -> None:
    for name in ("orthogonal", "orthogonal_", None):
        assert sp.from_dict(net(init_fn=name), "x").agent.net.init_fn == name


# --- TorchArcNet ---


def arc_of(*layers: Any) -> dict[str, Any]:
    graph = {"input": "x", "modules": {"body": ["x"]}, "output": "body"}
    return {"modules": {"body": {"Sequential": list(layers)}}, "graph": graph}


LINEAR = {"LazyLinear": {"out_features": 8}}


def test_an_arc_in_a_spec_of_ours() -> None:
    made = sp.from_dict(net(type="TorchArcNet", arc=arc_of(LINEAR, {"Tanh": None}, LINEAR, "Tanh")), "x").agent.net
    assert (made.type, made.hid_layers, made.hid_layers_activation, made.arc) == ("MLPNet", (8, 8), "tanh", None)
    norm = {"LazyBatchRenorm1d": {"momentum": 0.01, "eps": 0.001, "warmup_steps": 5000}}
    made = sp.from_dict(net(arc=arc_of(LINEAR, norm, "ReLU")), "x").agent.net
    assert made.hid_layers == (8,)
    assert made.batch_renorm == {"momentum": 0.01, "eps": 0.001, "warmup_steps": 5000}
    made = sp.from_dict(net(arc=arc_of(LINEAR, {"LayerNorm": {"normalized_shape": [8]}}, "ReLU")), "x").agent.net
    assert made.layer_norm
    assert made.layers is None


def test_an_arc_that_needs_layers() -> None:
    conv = {"LazyConv2d": {"out_channels": 4, "kernel_size": 3, "stride": 2}}
    made = sp.from_dict(
        net(arc=arc_of(conv, "ReLU", {"Flatten": None}, LINEAR, {"LazyBatchNorm1d": {}})), "x"
    ).agent.net
    assert made.layers is not None
    assert [next(iter(layer)) for layer in made.layers] == ["conv", "activation", "flatten", "linear", "batch_renorm"]
    assert made.layers[0]["conv"] == {"channels": 4, "kernel": 3, "stride": 2, "padding": 0}
    mixed = sp.from_dict(net(arc=arc_of(LINEAR, "Tanh", LINEAR, "ReLU")), "x").agent.net
    assert mixed.layers == ({"linear": 8}, {"activation": "tanh"}, {"linear": 8}, {"activation": "relu"})


def test_modules_in_a_line_are_followed_in_order() -> None:
    modules = {
        "b": {"Sequential": [{"LazyLinear": {"out_features": 2}}, "Tanh"]},
        "a": {"Sequential": [LINEAR, "Tanh"]},
    }
    graph = {"input": "x", "modules": {"b": ["a"], "a": ["x"]}, "output": "b"}
    assert sp.from_dict(net(arc={"modules": modules, "graph": graph}), "x").agent.net.hid_layers == (8, 2)


@pytest.mark.parametrize(
    ("arc", "sentence"),
    [
        ({}, "needs `modules` and a `graph`"),
        (arc_of({"LSTM": {}}), "uses the layer LSTM, which is not understood"),
        (arc_of({"LazyLinear": {}}), "out_features is None, expected a whole number"),
        (arc_of({"LazyLinear": {"out_features": 8, "bias": False}}), "bias is not understood"),
        ({"modules": {}, "graph": {"input": "x", "modules": {"a": ["x"]}, "output": "a"}}, "is not among"),
        (
            {"modules": {}, "graph": {"input": "x", "modules": {"a": ["x"], "b": ["x"]}, "output": "b"}},
            "not one line from an input to an output",
        ),
        ({"modules": {}, "graph": {"input": "x", "modules": {"a": ["x", "y"]}, "output": "a"}}, "not one line"),
        ({"modules": {}, "graph": {"input": "x", "modules": {"a": ["b"], "b": ["a"]}, "output": "a"}}, "not one line"),
    ],
)
def test_arcs_that_are_not_understood(arc: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(net(arc=arc))


def test_an_arc_and_hid_layers_contradict() -> None:
    assert "has both arc and hid_layers" in refused(net(arc=arc_of(LINEAR, "Tanh"), hid_layers=[4]))


# --- search ---


def test_search_ranges() -> None:
    ranges = parse_search(
        {
            "agent.algorithm.gamma__uniform": [0.95, 0.999],
            "agent.net.hid_layers__choice": [[64], [64, 64]],
            "agent": {"net": {"update_frequency__qrandint": [50, 150, 25]}},
        }
    )
    assert ranges == [
        SearchRange("agent.algorithm.gamma", "uniform", (0.95, 0.999)),
        SearchRange("agent.net.hid_layers", "choice", ([64], [64, 64])),
        SearchRange("agent.net.update_frequency", "qrandint", (50, 150, 25)),
    ]


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("agent.algorithm.gamma", [0, 1], "says not how to draw"),
        ("agent.algorithm.gamma__unifrom", [0, 1], "did you mean agent.algorithm.gamma__uniform?"),
        ("agent.algorithm.gamma__uniform", [1, 0], "expected the low end first"),
        ("agent.algorithm.gamma__uniform", [0], "has 1 entries, expected 2: low, high"),
        ("agent.algorithm.gamma__uniform", 0.5, "is 0.5, expected a list"),
        ("agent.algorithm.gamma__uniform", [0, "b"], "is 'b', expected a number"),
        ("agent.algorithm.gamma__loguniform", [0, 1], "more than 0 for a logarithm"),
        ("agent.algorithm.gamma__normal", [0, 0], "deviation"),
        ("agent.algorithm.gamma__choice", [], "expected one choice or more"),
        ("agent.algorithm.steps__randint", [0, 1.5], "expected a whole number"),
        ("agent.algorithm.steps__quniform", [0, 1, 2], "the step 2"),
        ("agent.net.optim_spec.rl__uniform", [0, 1], "did you mean agent.net.optim_spec.lr?"),
        ("agent.net.update_frequency__uniform", [1, 9], "draw it with agent.net.update_frequency__randint"),
        ("agent.net.hid_layers_activation__choice", ["relu", 3], "is 3, expected a text"),
    ],
)
def test_wrong_search_ranges(key: str, value: Any, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_search({key: value})
    assert sentence in str(caught.value)


# --- writing ---

CHARACTERS = st.characters(exclude_categories=["Cs", "Co"])
SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    st.text(CHARACTERS, max_size=8),
)
TEXT = st.text(CHARACTERS, min_size=1, max_size=12)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    algorithm = draw(st.dictionaries(TEXT, VALUES, max_size=3)) | {"name": draw(TEXT)}
    lr = draw(st.floats(0, 10))
    nets: dict[str, Any] = {"hid_layers": draw(st.lists(st.integers(1, 512), max_size=3)), "optim_spec": {"lr": lr}}
    nets["lr_scheduler_spec"] = draw(st.none() | st.just({"frame": draw(st.floats(1, 1e9))}))
    env = {"name": draw(TEXT), "num_envs": draw(st.integers(1, 500)), "level": draw(VALUES)}
    meta: dict[str, Any] = {
        "seed": draw(st.integers(0, 2**31)),
        "search_scheduler": draw(st.none() | st.just({"grace_period": 1e5})),
    }
    raw = {"agent": {"algorithm": algorithm, "net": nets}, "env": env, "meta": meta}
    return sp.from_dict(raw, draw(st.from_regex(r"[A-Za-z0-9][\w.\-]{0,9}", fullmatch=True)))


@given(specs())
def test_what_is_written_reads_back_the_same(spec: Spec) -> None:
    assert sp.from_dict(sp.dump(spec), spec.name) == spec
    assert loads(sp.to_yaml(spec, {"_run": {"git_sha": "0" * 40}}), spec.name) == spec
    assert loads(json.dumps({spec.name: sp.dump(spec)}), spec.name, "a.json") == spec


def test_a_literal_dollar_survives_the_round_trip() -> None:
    spec = sp.from_dict(small(env={"name": "x", "label": "${v} costs $5"}), "x")
    assert loads(sp.to_yaml(spec)).env.kwargs["label"] == "${v} costs $5"


def test_what_stands_beside_a_spec_cannot_read_as_one() -> None:
    with pytest.raises(ValueError, match="starts with an underscore"):
        sp.to_yaml(loads(PPO), {"run": {}})


# --- the folder of specs ---


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ppo").mkdir()
    (tmp_path / "ppo" / "ppo_classic.yaml").write_text(PPO + "\nppo_acrobot: 1\n")
    (tmp_path / "old.json").write_text(json.dumps({"_x": 1, "sac_old": small()}))
    monkeypatch.setattr("rewardlab.spec.files.folder", lambda: tmp_path)
    return tmp_path


def test_names_and_find(packaged: Path) -> None:
    file = packaged / "ppo" / "ppo_classic.yaml"
    assert sp.names() == [(packaged / "old.json", "sac_old"), (file, "ppo_cartpole"), (file, "ppo_acrobot")]
    assert sp.find("ppo_acrobot") == file
    assert load("ppo_cartpole").name == "ppo_cartpole"
    with pytest.raises(SpecError, match=r"there is no spec ppo_cartpol; did you mean ppo_cartpole?"):
        load("ppo_cartpol")


def test_files_that_are_not_there(packaged: Path, tmp_path: Path) -> None:
    spec = load("elsewhere/ppo_classic.yaml", "ppo_cartpole")
    assert spec.notes == ("there is no elsewhere/ppo_classic.yaml; using our specs/ppo/ppo_classic.yaml",)
    with pytest.raises(SpecError, match=r"there is no file ppo_clasic.yaml; did you mean specs/ppo/ppo_classic.yaml?"):
        load("ppo_clasic.yaml", "ppo_cartpole")
    with pytest.raises(SpecError, match="is a folder"):
        load(tmp_path)


def test_reading_a_spec_imports_no_jax() -> None:
    code = "import sys; from rewardlab import spec, slm; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    source = str(Path(next(iter(rewardlab.__path__))).parent)
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": source}, check=False).returncode == 0
