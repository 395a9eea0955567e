"""SLM-Lab v5 specs in our keys: dead keys are dropped and named, names mapped, what counts differently recounted.

What SLM-Lab v5 does, as read in its source:

- `training_frequency` of a replay memory counts frames (the memory's head moves once per environment), but is looked at
  once per vector step: anything up to `num_envs` trains at every vector step. Ours counts vector steps. That of an
  on-policy memory counts vector steps, as ours does. `training_start_step`, `update_frequency` and the steps of
  schedules count frames, as ours do.
- `polyak_coef` is the share of the new weights. A schedule whose `end_val` is 0 never moves (0 reads as none given),
  and `no_decay` holds `end_val`, not `start_val`.
- `DQN` chooses the next action with the online network: it is Double DQN. `clip_val_loss` is read by nobody (the live
  key is `clip_vloss`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardlab.spec import arc
from rewardlab.spec.build import plain
from rewardlab.spec.files import folder, read
from rewardlab.spec.load import choose, from_dict
from rewardlab.spec.text import dump_yaml, parse
from rewardlab.spec.types import ACTIVATIONS, LOSSES, SpecError

DEAD_KEYS: dict[str, dict[str, str]] = {
    "": {
        "spec_params": "name the environment with -s env=…",
        "git_sha": "the run folder records it",
        "name": "a spec is named by its key in the file",
    },
    "agent.algorithm": {
        "action_pdtype": "the distribution follows from the action space",
        "clip_val_loss": "SLM-Lab reads it nowhere; clip_vloss clips the value loss",
    },
    "agent.net": {
        "gpu": "JAX runs on the accelerator it finds",
        "batch_norm": "bodies have no batch norm unless `layers` says so",
        "out_layer_activation": "outputs are linear",
        "normalize": "images are scaled by the environment (scale_obs)",
    },
    "meta": {
        "distributed": "the sessions of a trial are one program",
        "max_tick_unit": "runs are measured in frames",
        "eval_model_prepath": "enjoy@DIR names it",
        "model_prepath": "the run folder decides it",
    },
}
OURS_TOO = ("distributed",)  # means another thing here, so it does not tell whose a spec is
# keys that mean something in SLM-Lab for some values or some algorithms, and nothing here for these
OFF = {"action_policy": ("default",), "policy_loss_coef": (1,), "spectral_norm": (False, None), "symlog": (False, None)}
ALGORITHMS = {
    "Random": "Random",
    "Reinforce": "REINFORCE",
    "SARSA": "SARSA",
    "VanillaDQN": "DQN",
    "DQN": "DQN",
    "DoubleDQN": "DoubleDQN",
    "DuelingDQN": "DQN",
    "ActorCritic": "A2C",
    "A2C": "A2C",
    "PPO": "PPO",
    "SoftActorCritic": "SAC",
    "SAC": "SAC",
    "CrossQ": "CrossQ",
}
ACTION_VALUE = ("SARSA", "DQN", "DoubleDQN")  # the ones that explore by a schedule of their own
Notes = list[str]


def is_slm(raw: Any) -> bool:
    """Whether a spec is written for SLM-Lab: it has a key or a name that only SLM-Lab knows."""
    if not isinstance(raw, Mapping):
        return False
    agent = _one(raw.get("agent"))
    if agent is not raw.get("agent") or _one(raw.get("env")) is not raw.get("env"):
        return True
    for where, keys in DEAD_KEYS.items():
        section = _section(raw, where)
        if where and isinstance(section, Mapping) and any(key in section for key in keys if key not in OURS_TOO):
            return True
    algorithm, net = _section(raw, "agent.algorithm"), _section(raw, "agent.net")
    name = algorithm.get("name") if isinstance(algorithm, Mapping) else None
    kind = net.get("type") if isinstance(net, Mapping) else None
    only_there = name in ALGORITHMS and name not in ALGORITHMS.values()
    same_optim = isinstance(net, Mapping) and "use_same_optim" in net
    return (
        only_there
        or same_optim
        or str(kind).startswith("Dueling")
        or (kind in ("ConvNet", "RecurrentNet") and "layers" not in net)
    )


def _section(raw: Mapping[str, Any], where: str) -> Any:
    section: Any = raw
    for part in where.split(".") if where else ():
        section = section.get(part) if isinstance(section, Mapping) else None
    return section


def _one(value: Any) -> Any:
    """The only entry of a list, as specs of older versions wrap agent and env."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def convert(raw: Mapping[str, Any]) -> tuple[dict[str, Any], Notes]:
    """An SLM-Lab spec in our keys, and a note for everything that was dropped or reads otherwise here."""
    made: dict[str, Any] = plain(raw)
    notes: Notes = []
    for key in ("agent", "env"):
        made[key] = _one(made.get(key))
        if not isinstance(made[key], dict):
            raise SpecError(f"{key} is {made[key]!r}, expected a mapping (or a list of one)")
    agent, env = made["agent"], made["env"]
    algorithm = agent.get("algorithm")
    if not isinstance(algorithm, dict) or algorithm.get("name") not in ALGORITHMS:
        name = algorithm.get("name") if isinstance(algorithm, dict) else None
        raise SpecError(f"SLM-Lab's algorithm {name} is not here; there are {', '.join(ALGORITHMS)}")
    _drop(made, "", notes)
    if made.get("meta"):
        _drop(made["meta"], "meta", notes)
    nets = {key: agent[key] for key in ("net", "critic_net") if isinstance(agent.get(key), dict)}
    for key, net in nets.items():
        agent[key] = _net(net, f"agent.{key}", notes)
    _algorithm(algorithm, agent, notes)
    _training_frequency(algorithm, agent, env, notes)
    if isinstance(made.get("search"), dict):
        made["search"] = _search(made["search"], "search", notes)
    return made, notes


def _drop(section: dict[str, Any], where: str, notes: Notes) -> None:
    """The dead keys of a section, one note each."""
    for key, reason in DEAD_KEYS[where.replace("critic_net", "net")].items():
        if key in section:
            if key == "batch_norm" and section[key]:
                raise SpecError(f"{where}.batch_norm is true, which is not understood; write the norm into `layers`")
            if key == "out_layer_activation" and section[key] is not None:
                raise SpecError(f"{where}.out_layer_activation is {section[key]!r}; outputs are linear here")
            del section[key]
            notes.append(f"{where + '.' if where else ''}{key} dropped: {reason}")


def _algorithm(algorithm: dict[str, Any], agent: dict[str, Any], notes: Notes) -> None:
    """The name, the dead keys and the schedules of an algorithm."""
    theirs, where = algorithm["name"], "agent.algorithm"
    ours = algorithm["name"] = ALGORITHMS[theirs]
    if theirs == "DQN":
        notes.append(
            f"{where}.name: SLM-Lab's DQN is Double DQN in fact; here DQN is plain, DoubleDQN is the same as theirs"
        )
    elif theirs == "VanillaDQN":
        agent.setdefault("net", {}).update(update_type="replace", update_frequency=1)
        notes.append(f"{where}.name: VanillaDQN reads as DQN whose target is replaced at every step")
    elif theirs == "DuelingDQN":
        agent.setdefault("net", {})["dueling"] = True
    if ours != theirs:
        notes.append(f"{where}.name: {theirs} is {ours} here")
    _drop(algorithm, where, notes)
    for key, values in OFF.items():
        if key in algorithm and algorithm[key] in values:
            notes.append(f"{where}.{key} dropped: {algorithm.pop(key)!r} is what happens anyway")
    if "explore_var_spec" in algorithm and ours not in ACTION_VALUE:
        del algorithm["explore_var_spec"]
        notes.append(f"{where}.explore_var_spec dropped: {ours} explores by its own distribution")
    if ours == "PPO" and algorithm.pop("training_frequency", None) is not None:
        notes.append(f"{where}.training_frequency dropped: PPO learns every time_horizon steps, in SLM-Lab too")
    if ours == "A2C" and "lam" in algorithm:
        _advantage(algorithm, where, notes)
    for key, value in algorithm.items():
        if isinstance(value, dict) and "start_val" in value:
            _schedule(value, f"{where}.{key}", notes)


def _advantage(algorithm: dict[str, Any], where: str, notes: Notes) -> None:
    """A2C's choice: lam for GAE, else num_step_returns (which is then the rollout's length too), else plain returns."""
    steps = algorithm.get("num_step_returns")
    if algorithm["lam"] is None and steps is not None:
        del algorithm["lam"]
        if algorithm.get("training_frequency") != steps:
            algorithm["training_frequency"] = steps
            notes.append(f"{where}.training_frequency is {steps}, as SLM-Lab sets it by num_step_returns")
    elif algorithm["lam"] is None:
        algorithm["lam"] = 1.0
        notes.append(f"{where}.lam is 1: with neither lam nor num_step_returns SLM-Lab takes plain returns")
    elif algorithm.pop("num_step_returns", None) is not None:
        notes.append(f"{where}.num_step_returns dropped: SLM-Lab takes lam where both are given")


def _schedule(spec: dict[str, Any], where: str, notes: Notes) -> None:
    """A schedule whose ends SLM-Lab reads in its own way."""
    start, end = spec["start_val"], spec.get("end_val")
    if spec.get("name", "no_decay") == "no_decay":
        if end and end != start:
            spec["start_val"] = end
            notes.append(f"{where}.start_val is {end!r}, not {start!r}: SLM-Lab's no_decay holds end_val")
    elif end == 0 and start != 0:
        notes.append(f"{where} falls to 0 as written; SLM-Lab holds {start!r}, for it reads an end_val of 0 as none")


def _training_frequency(algorithm: dict[str, Any], agent: dict[str, Any], env: dict[str, Any], notes: Notes) -> None:
    """Frames become vector steps, where a replay memory counts."""
    frames, envs = algorithm.get("training_frequency"), env.get("num_envs") or 1
    memory = agent.get("memory") or {}
    if not isinstance(frames, int) or not isinstance(envs, int) or "OnPolicy" in str(memory.get("name", "OnPolicy")):
        return
    steps = max(1, round(frames / envs))
    if steps != frames:
        algorithm["training_frequency"] = steps
        notes.append(
            f"agent.algorithm.training_frequency is {steps}: every {steps} vector steps of {envs} environments,"
            f" as often as SLM-Lab's {frames}, which counts frames"
        )


def _net(net: dict[str, Any], where: str, notes: Notes) -> dict[str, Any]:
    """A network in our keys."""
    _drop(net, where, notes)
    if "use_same_optim" in net:
        if net.pop("use_same_optim") and "actor_optim_spec" in net:
            net["critic_optim_spec"] = net["actor_optim_spec"]
            notes.append(f"{where}.use_same_optim dropped: critic_optim_spec is actor_optim_spec")
        else:
            notes.append(
                f"{where}.use_same_optim dropped: actor_optim_spec and critic_optim_spec say it, or optim_spec"
            )
    for key in [key for key in net if key.endswith("optim_spec") and isinstance(net[key], dict)]:
        name = str(net[key].get("name", ""))
        if name.startswith("Global"):
            net[key]["name"] = name.removeprefix("Global")
            notes.append(f"{where}.{key}.name: {name} is {net[key]['name']} here")
    kind = str(net.get("type", ""))
    if kind.startswith("Dueling"):
        net.update(type=kind.removeprefix("Dueling"), dueling=True)
    if net.get("type") == "ConvNet":
        net = _conv(net, where)
    elif net.get("type") == "RecurrentNet":
        net = _recurrent(net, where)
    _names_in_our_case(net)
    made: dict[str, Any] = arc.resolve(net, where)
    return made


def _names_in_our_case(net: dict[str, Any]) -> None:
    """PyTorch's names, which SLM-Lab takes in any case."""
    if isinstance(net.get("hid_layers_activation"), str):
        ours = {name.replace("_", ""): name for name in ACTIVATIONS}
        given = net["hid_layers_activation"]
        net["hid_layers_activation"] = ours.get(given.lower().replace("_", ""), given)
    loss = net.get("loss_spec")
    if isinstance(loss, dict) and isinstance(loss.get("name"), str):
        loss["name"] = {name.lower(): name for name in LOSSES}.get(loss["name"].lower(), loss["name"])


def _conv(net: dict[str, Any], where: str) -> dict[str, Any]:
    """A ConvNet as layers: convolutions of (channels, kernel, stride, padding, dilation), then linear ones."""
    activation = {"activation": net.get("hid_layers_activation", "relu")}
    layers: list[Any] = []
    for sizes in net.pop("conv_hid_layers", []):
        channels, kernel, stride, padding, dilation = list(sizes) + [1, 0, 1][len(sizes) - 2 :]
        if dilation != 1:
            raise SpecError(f"{where}.conv_hid_layers has the dilation {dilation!r}, expected 1")
        conv = {"channels": channels, "kernel": kernel, "stride": stride, "padding": padding}
        layers += [{"conv": conv}, activation]
    layers.append({"flatten": True})
    for width in net.pop("fc_hid_layers", []):
        layers += [{"linear": width}, activation]
    return {**net, "type": "TorchArcNet", "layers": layers}


def _recurrent(net: dict[str, Any], where: str) -> dict[str, Any]:
    """A RecurrentNet as layers: linear ones, then cells. Ours learns from whole rollouts, whatever `seq_len` says."""
    activation = {"activation": net.get("hid_layers_activation", "relu")}
    layers: list[Any] = []
    for width in net.pop("fc_hid_layers", []):
        layers += [{"linear": width}, activation]
    cell = str(net.pop("cell_type", "GRU")).lower()
    if cell not in ("gru", "lstm"):
        raise SpecError(f"{where}.cell_type is {cell!r}, expected GRU or LSTM")
    layers += [{cell: net.pop("rnn_hidden_size", 64)}] * net.pop("rnn_num_layers", 1)
    net.pop("seq_len", None)
    return {**net, "layers": layers}


def _search(search: Mapping[str, Any], where: str, notes: Notes) -> dict[str, Any]:
    """Ranges with our suffixes; lists of one agent or environment are opened."""
    made: dict[str, Any] = {}
    for key, value in search.items():
        inner = _one(value) if isinstance(_one(value), dict) else value
        if str(key).endswith("__grid_search"):
            notes.append(f"{where}.{key} is {key[:-13]}__choice here")
            key = f"{key[:-13]}__choice"
        made[key] = _search(inner, f"{where}.{key}", notes) if isinstance(inner, dict) else inner
    return made


def convert_file(path: str | Path) -> tuple[str, Notes]:
    """Every spec of an SLM-Lab file as YAML in our keys, its ${variables} kept; what cannot be converted is noted."""
    path = Path(path)
    document, marked = parse(read(path), path)
    made: dict[str, Any] = {}
    notes: Notes = []
    for name in [str(key) for key in document if not str(key).startswith("_")]:
        try:
            converted, told = convert(choose(document, name, path)[1])
            if not [use for use in marked.used_in(converted) if use[2] is None]:
                from_dict(marked.fill(converted, {}), name)
        except SpecError as error:
            notes.append(f"{name} left out: {error}")
            continue
        made[name] = marked.restore(converted)
        notes += [f"{name}: {note}" for note in told]
    if not made:
        raise SpecError(f"{path} holds nothing that can be converted: {'; '.join(notes) or 'it has no specs'}")
    return dump_yaml(made), notes


FAMILIES = ("reinforce", "sarsa", "dqn", "ddqn", "a2c", "ppo", "sac", "crossq")
GROUPS = {
    "classic": "classic cartpole acrobot pendulum mountaincar",
    "box2d": "box2d lunar bipedalwalker",
    "atari": "atari pong qbert breakout videopinball",
    "playground": "playground",
    "mujoco": "mujoco ant halfcheetah hopper humanoid swimmer walker walker2d pusher reacher inverted",
}
VARIANTS = {"arc", "boltzmann", "epsilon", "greedy", "gae", "nstep", "concat", "shared", "vanilla"}


def map_path(path: str | Path) -> Path | None:
    """Our file of specs for one of SLM-Lab's, by its path; None for a path that is not SLM-Lab's."""
    parts = Path(path).parts
    if not any(part in ("benchmark", "benchmark_arc") for part in parts[:-1]):
        return None
    words = Path(path).stem.split("_")
    family = next((word for word in words if word in FAMILIES), None)
    if family is None:
        return None
    family = "dqn" if family == "ddqn" else family
    group = next((group for group, members in GROUPS.items() if set(words) & set(members.split())), "classic")
    return folder() / family / f"{family}_{group}.yaml"


def map_name(name: str) -> str:
    """Our name, {algorithm}_{environment}, for one of SLM-Lab's; a name of ours stays."""
    return "_".join(word for word in name.split("_") if word not in VARIANTS)
