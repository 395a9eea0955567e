"""SLM-Lab v5 specs load as they stand; what is dropped or reads otherwise is said; their names lead to ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rewardlab import slm
from rewardlab import spec as sp
from rewardlab.spec import SpecError, load, loads

THEIRS = """
_meta: &meta {distributed: false, log_frequency: 500, eval_frequency: 500, max_session: 4, max_trial: 1}
_net: &net
  type: TorchArcNet
  shared: false
  arc:
    modules:
      body:
        Sequential:
          - LazyLinear: {out_features: 32}
          - Tanh:
          - LazyLinear: {out_features: 16}
          - Tanh:
    graph: {input: x, modules: {body: [x]}, output: body}
  hid_layers_activation: relu
  clip_grad_val: null
  use_same_optim: false
  gpu: auto

ppo_toy_arc:
  agent:
    name: PPO
    algorithm:
      name: PPO
      action_pdtype: default
      action_policy: default
      explore_var_spec: null
      gamma: 0.9
      clip_eps_spec: {name: no_decay, start_val: 0.2, end_val: 0.2, start_step: 0, end_step: 0}
      entropy_coef_spec: {name: linear_decay, start_val: 0.01, end_val: 0.0, start_step: 0, end_step: 1000}
      clip_val_loss: false
      time_horizon: 16
    memory: {name: OnPolicyBatchReplay}
    net: {<<: *net, actor_optim_spec: {name: Adam, lr: 0.001}, critic_optim_spec: {name: Adam, lr: 0.002}}
  env: {name: CartPole-v1, max_t: null, max_frame: "${max_frame:1.0e+4}", num_envs: 4}
  meta: {<<: *meta, eval_frequency: 250}
  search:
    agent.algorithm.gamma__uniform: [0.8, 0.99]

dqn_toy_arc:
  agent:
    name: DQN
    algorithm: {name: DQN, action_pdtype: Argmax, action_policy: epsilon_greedy, training_frequency: 8}
    memory: {name: Replay, batch_size: 32, max_size: 1.0e+3}
    net: *net
  env: {name: CartPole-v1, num_envs: 4, max_frame: "${frames}"}
  meta: *meta
"""


def theirs(name: str, net: dict[str, Any] | None = None, **algorithm: Any) -> dict[str, Any]:
    """A small spec of theirs."""
    memory = {"name": "Replay" if "DQN" in name or "Soft" in name else "OnPolicyBatchReplay"}
    agent = {"name": name, "algorithm": {"name": name, **algorithm}, "memory": memory, "net": net or {"gpu": "auto"}}
    return {"agent": agent, "env": {"name": "CartPole-v1", "num_envs": 4}, "meta": {"distributed": False}}


def test_a_spec_of_theirs_loads_as_it_stands() -> None:
    spec = loads(THEIRS, "ppo_toy_arc")
    assert (spec.agent.net.type, spec.agent.net.hid_layers) == ("MLPNet", (32, 16))
    assert spec.agent.net.hid_layers_activation == "tanh"  # what the graph says, not the key beside it
    assert spec.agent.net.critic_optim_spec == sp.OptimSpec("Adam", 0.002)
    assert spec.env.max_frame == 10_000
    assert spec.meta.eval_frequency == 250
    gone = {"action_pdtype", "action_policy", "explore_var_spec", "clip_val_loss"}
    assert not gone & set(spec.agent.algorithm)
    for key in (
        "meta.distributed",
        "agent.net.gpu",
        "agent.net.use_same_optim",
        *(f"agent.algorithm.{k}" for k in gone),
    ):
        assert len([note for note in spec.notes if note.startswith(f"{key} dropped: ")]) == 1


def test_the_other_spec_of_the_file_needs_its_own_variable_only() -> None:
    with pytest.raises(SpecError, match="dqn_toy_arc needs"):
        loads(THEIRS, "dqn_toy_arc")
    spec = loads(THEIRS, "dqn_toy_arc", variables={"frames": 2e3})
    assert spec.env.max_frame == 2000
    assert spec.agent.memory.max_size == 1000


def test_typos_stay_errors() -> None:
    with pytest.raises(SpecError, match=r"agent.net.hid_layer is unknown; did you mean agent.net.hid_layers\?"):
        loads(json.dumps({"a": theirs("PPO", {"gpu": "auto", "hid_layer": [64]})}))


def test_a_spec_of_ours_is_left_alone() -> None:
    ours = {"agent": {"algorithm": {"name": "DQN", "training_frequency": 4}}, "env": {"name": "x", "num_envs": 4}}
    assert not slm.is_slm(ours)
    assert loads(json.dumps({"a": ours})).agent.algorithm["training_frequency"] == 4
    assert not slm.is_slm(sp.dump(loads(THEIRS, "ppo_toy_arc")))


@pytest.mark.parametrize(
    ("name", "ours", "note"),
    [
        ("ActorCritic", "A2C", "ActorCritic is A2C here"),
        ("SoftActorCritic", "SAC", "SoftActorCritic is SAC here"),
        ("Reinforce", "REINFORCE", "Reinforce is REINFORCE here"),
        ("VanillaDQN", "DQN", "target is replaced at every step"),
        ("DuelingDQN", "DQN", "DuelingDQN is DQN here"),
        ("DQN", "DQN", "Double DQN in fact"),
        ("DoubleDQN", "DoubleDQN", "agent.net.gpu dropped"),
        ("SARSA", "SARSA", "agent.net.gpu dropped"),
        ("PPO", "PPO", "agent.net.gpu dropped"),
        ("CrossQ", "CrossQ", "agent.net.gpu dropped"),
    ],
)
def test_algorithms_by_their_names(name: str, ours: str, note: str) -> None:
    raw = theirs(name)
    assert slm.is_slm(raw)
    converted, notes = slm.convert(raw)
    assert converted["agent"]["algorithm"]["name"] == ours
    assert any(note in line for line in notes)
    assert sp.from_dict(converted, "x").agent.net.dueling == (name == "DuelingDQN")
    assert raw == theirs(name)  # what was given is not touched


def test_an_algorithm_that_is_not_here() -> None:
    with pytest.raises(SpecError, match="SLM-Lab's algorithm SIL is not here"):
        slm.convert(theirs("SIL"))


@pytest.mark.parametrize(
    ("name", "frames", "envs", "steps"),
    [
        ("DQN", 4, 4, 1),  # looked at once per vector step, which holds a frame that 4 divides
        ("DQN", 1, 4, 1),
        ("DQN", 4, 1, 4),
        ("SoftActorCritic", 64, 16, 4),
        ("ActorCritic", 32, 4, 32),  # an on-policy memory counts vector steps, as we do
    ],
)
def test_training_frequency_counts_frames_in_a_replay_memory(name: str, frames: int, envs: int, steps: int) -> None:
    raw = theirs(name, training_frequency=frames)
    raw["env"]["num_envs"] = envs
    converted, notes = slm.convert(raw)
    assert converted["agent"]["algorithm"]["training_frequency"] == steps
    assert any("training_frequency" in note for note in notes) == (steps != frames)


@pytest.mark.parametrize(
    ("given", "ours", "note"),
    [
        ({"lam": 0.9, "num_step_returns": None}, {"lam": 0.9}, None),
        ({"lam": 0.9, "num_step_returns": 5}, {"lam": 0.9}, "num_step_returns dropped"),
        (
            {"lam": None, "num_step_returns": 5, "training_frequency": 9},
            {"num_step_returns": 5, "training_frequency": 5},
            "training_frequency is 5",
        ),
        ({"lam": None, "num_step_returns": None}, {"lam": 1.0}, "plain returns"),
    ],
)
def test_which_advantage_a2c_takes(given: dict[str, Any], ours: dict[str, Any], note: str | None) -> None:
    converted, notes = slm.convert(theirs("ActorCritic", **given))
    made = {key: value for key, value in converted["agent"]["algorithm"].items() if value is not None}
    assert made == {"name": "A2C", **ours}
    assert any(note in line for line in notes) if note else not any("lam" in line for line in notes)


def test_schedules_that_read_otherwise_there() -> None:
    held = {"name": "no_decay", "start_val": 0.2, "end_val": 0.05}
    falling = {"name": "linear_decay", "start_val": 0.01, "end_val": 0.0, "end_step": 100}
    converted, notes = slm.convert(theirs("PPO", clip_eps_spec=held, entropy_coef_spec=falling))
    assert converted["agent"]["algorithm"]["clip_eps_spec"]["start_val"] == 0.05
    assert converted["agent"]["algorithm"]["entropy_coef_spec"] == falling
    assert any("no_decay holds end_val" in note for note in notes)
    assert any("reads an end_val of 0 as none" in note for note in notes)


def test_networks_of_theirs() -> None:
    net = {
        **{"type": "DuelingMLPNet", "hid_layers": [8], "hid_layers_activation": "LeakyReLU", "use_same_optim": True},
        **{"actor_optim_spec": {"name": "GlobalAdam", "lr": 0.1}, "critic_optim_spec": {"name": "Adam", "lr": 0.2}},
        **{"loss_spec": {"name": "smoothl1loss"}, "out_layer_activation": None, "batch_norm": False},
    }
    made = sp.from_dict(slm.convert(theirs("PPO", net))[0], "x").agent.net
    assert (made.type, made.dueling, made.hid_layers_activation) == ("MLPNet", True, "leaky_relu")
    assert made.loss_spec.name == "SmoothL1Loss"
    assert made.critic_optim_spec == made.actor_optim_spec == sp.OptimSpec("Adam", 0.1)


def test_a_conv_net_becomes_layers() -> None:
    net = {"type": "ConvNet", "conv_hid_layers": [[32, 8, 4, 0, 1], [64, 4, 2]], "fc_hid_layers": [512]}
    layers = sp.from_dict(slm.convert(theirs("PPO", net))[0], "x").agent.net.layers
    assert layers is not None
    assert [next(iter(layer)) for layer in layers] == ["conv", "activation", "conv", "activation", *DENSE]
    assert layers[2]["conv"] == {"channels": 64, "kernel": 4, "stride": 2, "padding": 0}


DENSE = ("flatten", "linear", "activation")


def test_a_recurrent_net_becomes_layers() -> None:
    net = {"type": "RecurrentNet", "fc_hid_layers": [32], "cell_type": "LSTM", "rnn_hidden_size": 48, "seq_len": 4}
    layers = sp.from_dict(slm.convert(theirs("PPO", net | {"rnn_num_layers": 2}))[0], "x").agent.net.layers
    assert layers == ({"linear": 32}, {"activation": "relu"}, {"lstm": 48}, {"lstm": 48})


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        ({"batch_norm": True}, "agent.net.batch_norm is true"),
        ({"out_layer_activation": "tanh"}, "agent.net.out_layer_activation is 'tanh'"),
        ({"type": "ConvNet", "conv_hid_layers": [[32, 8, 4, 0, 2]]}, "has the dilation 2"),
        ({"type": "RecurrentNet", "cell_type": "RNN"}, "expected GRU or LSTM"),
    ],
)
def test_networks_that_cannot_be_converted(net: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        slm.convert(theirs("PPO", net))


def test_a_critic_with_batch_renorm_and_its_own_dead_keys() -> None:
    renorm = {"LazyBatchRenorm1d": {"momentum": 0.01, "eps": 0.001, "warmup_steps": 5000}}
    body = [{"LazyLinear": {"out_features": 16}}, renorm, {"ReLU": None}]
    graph = {"input": "x", "modules": {"body": ["x"]}, "output": "body"}
    raw = theirs("CrossQ", action_pdtype="Categorical", policy_delay=3, symlog=False)
    arc = {"modules": {"body": {"Sequential": body * 2}}, "graph": graph}
    raw["agent"]["critic_net"] = {"type": "TorchArcNet", "arc": arc, "gpu": "auto"}
    converted, notes = slm.convert(raw)
    critic = sp.from_dict(converted, "x").agent.critic_net
    assert critic is not None
    assert critic.hid_layers == (16, 16)
    assert critic.batch_renorm == {"momentum": 0.01, "eps": 0.001, "warmup_steps": 5000}
    assert any(note.startswith("agent.critic_net.gpu dropped") for note in notes)
    assert converted["agent"]["algorithm"] == {"name": "CrossQ", "policy_delay": 3}


def test_older_specs_wrap_agent_and_env_and_nest_their_search() -> None:
    plain = theirs("PPO")
    search = {"agent": [{"algorithm": {"lam__grid_search": [0.7, 0.9]}}]}
    raw = {
        **plain,
        "agent": [plain["agent"]],
        "env": [plain["env"]],
        "body": {"num": 1},
        "spec_params": {},
        "search": search,
    }
    spec = loads(json.dumps({"a": raw}), source="a.json")
    assert [r.kind for r in sp.parse_search(spec.search)] == ["choice"]
    assert any(note.startswith("body has no effect") for note in spec.notes)
    assert any(note.startswith("spec_params dropped") for note in spec.notes)


def test_convert_file_keeps_variables_and_notes_what_it_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(THEIRS + "\nsil_toy: {agent: {algorithm: {name: SIL}}, env: {name: x}}\n")
    text, notes = slm.convert_file(file)
    assert "${max_frame:1.0e+4}" in text
    assert "${frames}" in text
    assert "_net" not in text
    assert any(note.startswith("sil_toy left out: SLM-Lab's algorithm SIL") for note in notes)
    for name, given in (("ppo_toy_arc", {}), ("dqn_toy_arc", {"frames": "1e4"})):
        imported = loads(text, name, variables=given)
        assert imported == loads(THEIRS, name, variables=given)
        assert imported.notes == ()
    file.write_text("sil_toy: {agent: {algorithm: {name: SIL}}, env: {name: x}}\n")
    with pytest.raises(SpecError, match="holds nothing that can be converted"):
        slm.convert_file(file)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ppo_cartpole_arc", "ppo_cartpole"),
        ("ppo_cartpole", "ppo_cartpole"),
        ("ppo_shared_cartpole", "ppo_cartpole"),
        ("dqn_boltzmann_cartpole_arc", "dqn_cartpole"),
        ("dqn_epsilon_greedy_acrobot_arc", "dqn_acrobot"),
        ("ddqn_per_boltzmann_cartpole_arc", "ddqn_per_cartpole"),
        ("ddqn_per_concat_lunar_arc", "ddqn_per_lunar"),
        ("a2c_gae_acrobot", "a2c_acrobot"),
        ("a2c_gae_pendulum_arc", "a2c_pendulum"),
        ("reinforce_cartpole_arc", "reinforce_cartpole"),
        ("sarsa_boltzmann_cartpole_arc", "sarsa_cartpole"),
        ("sac_pendulum_arc", "sac_pendulum"),
        ("crossq_acrobot", "crossq_acrobot"),
        ("a2c_gae_lunar_continuous_arc", "a2c_lunar_continuous"),
    ],
)
def test_names(name: str, ours: str) -> None:
    assert slm.map_name(name) == ours


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("slm_lab/spec/benchmark_arc/ppo/ppo_classic_arc.yaml", "ppo/ppo_classic.yaml"),
        ("slm_lab/spec/benchmark/ppo/ppo_cartpole.json", "ppo/ppo_classic.yaml"),
        ("slm_lab/spec/benchmark_arc/reinforce/reinforce_arc.yaml", "reinforce/reinforce_classic.yaml"),
        ("slm_lab/spec/benchmark_arc/sarsa/sarsa_arc.yaml", "sarsa/sarsa_classic.yaml"),
        ("slm_lab/spec/benchmark/dqn/ddqn_per_acrobot.json", "dqn/dqn_classic.yaml"),
        ("slm_lab/spec/benchmark/a2c/a2c_gae_lunar.json", "a2c/a2c_box2d.yaml"),
        ("slm_lab/spec/benchmark_arc/sac/sac_mujoco_v2_arc.yaml", "sac/sac_mujoco.yaml"),
        ("slm_lab/spec/benchmark/crossq/crossq_classic.yaml", "crossq/crossq_classic.yaml"),
        ("slm_lab/spec/benchmark_arc/playground/ppo_playground_arc.yaml", "ppo/ppo_playground.yaml"),
        ("/home/me/SLM-Lab/slm_lab/spec/benchmark_arc/ppo/ppo_atari_arc.yaml", "ppo/ppo_atari.yaml"),
        ("slm_lab/spec/benchmark/a3c/a3c_pong.json", None),
        ("my/specs/ppo_classic_arc.yaml", None),
    ],
)
def test_paths(path: str, ours: str | None) -> None:
    assert slm.map_path(path) == (None if ours is None else sp.folder() / ours)


def test_their_command_lines_find_our_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours" / "ppo").mkdir(parents=True)
    spec = "ppo_cartpole: {agent: {algorithm: {name: PPO}}, env: {name: CartPole-v1}}\n"
    (tmp_path / "ours" / "ppo" / "ppo_classic.yaml").write_text(spec)
    monkeypatch.setattr("rewardlab.spec.files.folder", lambda: tmp_path / "ours")
    monkeypatch.setattr("rewardlab.slm.folder", lambda: tmp_path / "ours")
    monkeypatch.chdir(tmp_path)
    given = "slm_lab/spec/benchmark_arc/ppo/ppo_classic_arc.yaml"
    found = load(given, "ppo_cartpole_arc")
    assert found.name == "ppo_cartpole"
    assert found.notes == (
        f"{given} ppo_cartpole_arc is SLM-Lab's; running our ppo_cartpole from specs/ppo/ppo_classic.yaml",
    )
    assert load("ppo_cartpole_arc").name == "ppo_cartpole"
    with pytest.raises(SpecError, match=r"nor specs/sac/sac_classic.yaml, which would stand for it"):
        load("slm_lab/spec/benchmark_arc/sac/sac_classic_arc.yaml", "sac_cartpole_arc")
    (tmp_path / given).parent.mkdir(parents=True)
    (tmp_path / given).write_text(THEIRS)
    assert load(given, "ppo_toy_arc").name == "ppo_toy_arc"  # a file that is there wins
