"""Made the folders beside it: `python make.py` with PyTorch 2.13. Runs as SLM-Lab publishes them, small: nets built as
it builds its own, with weights of ours; and what the nets give for three observations."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

HERE = Path(__file__).parent
HEAD = "epi,t,wall_t,opt_step,frame,fps,total_reward,total_reward_ma,loss,lr,explore_var,entropy_coef,entropy,grad_norm"
ADAM = {"name": "Adam", "lr": 0.001}


def body(*sizes: int) -> nn.Sequential:
    layers = [layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.Tanh())]
    return nn.Sequential(*layers)


class Net(nn.Module):
    """A body and its tails: one, or a list of them."""

    def __init__(self, body: nn.Module, tails: nn.Module, **more: nn.Module) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(2))
        self.body = nn.ModuleDict({"body": body})
        self.tails = tails
        for name, module in more.items():
            setattr(self, name, module)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body["body"](x)
        return torch.cat([t(x) for t in self.tails], -1) if isinstance(self.tails, nn.ModuleList) else self.tails(x)


class Dueling(nn.Module):
    """Value and advantages."""

    def __init__(self) -> None:
        super().__init__()
        self.model = body(4, 5)
        self.v, self.adv = nn.Linear(5, 1), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.model(x)
        advantage = self.adv(x)
        return self.v(x) + advantage - advantage.mean(-1, keepdim=True)


class Conv(nn.Module):
    """Frames through convolutions, then linear layers; logits and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_model = nn.Sequential(nn.Conv2d(2, 3, 4, 2), nn.ReLU(), nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU())
        self.fc_model = nn.Sequential(nn.Linear(4 * 4 * 5, 6), nn.ReLU())
        self.tails = nn.ModuleList([nn.Sequential(nn.Linear(6, 3)), nn.Sequential(nn.Linear(6, 1))])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc_model(self.conv_model(x / 255).flatten(1))
        return torch.cat([t(x) for t in self.tails], -1)


def publish(name: str, nets: list[nn.Module], spec: dict[str, Any], inputs: torch.Tensor) -> None:
    """A folder with a session per net."""
    folder = HERE / f"{name}_2026_02_11_144029"
    for part in ("model", "info"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    meta = {"distributed": False, "max_session": len(nets), "max_trial": 1, "experiment_ts": "2026_02_11_144029"}
    meta |= {"cuda_offset": 0, "model_prepath": f"data/{name}/model/{name}_t0_s0", "trial": 0, "session": 0}
    (folder / f"{name}_t0_spec.json").write_text(json.dumps({**spec, "meta": meta, "name": name}, indent=1) + "\n")
    for s, net in enumerate(nets):
        torch.save(net.state_dict(), folder / "model" / f"{name}_t0_s{s}_ckpt-best_net_model.pt")
        rows = [f"{i},{i},{i},{i},{500 * i}.0,99.5,{i + s}.0,{i + s}.0,0.1,0.001,,,," for i in range(1, 4)]
        table = folder / "info" / f"{name}_t0_s{s}_session_df_train.csv"
        table.write_text("\n".join([HEAD, *rows]) + "\n")
    with torch.no_grad():
        told = {"obs": inputs.tolist(), "out": nets[-1](inputs).tolist()}
    (folder / "out.json").write_text(json.dumps(told) + "\n")


def spec(algorithm: str, net: dict[str, Any], env: dict[str, Any]) -> dict[str, Any]:
    memory = {"name": "Replay" if algorithm in ("DQN", "SoftActorCritic") else "OnPolicyBatchReplay"}
    agent = {"name": algorithm, "algorithm": {"name": algorithm, "action_pdtype": "default"}, "memory": memory}
    return {"agent": [{**agent, "net": {"gpu": "auto", "optim_spec": ADAM, **net}}], "env": [env]}


torch.manual_seed(0)
mlp = {"type": "MLPNet", "hid_layers": [8, 6], "hid_layers_activation": "tanh"}
cartpole = {"name": "CartPole-v1", "num_envs": 4, "max_t": None, "max_frame": 200000}
obs = torch.randn(3, 4)

# a controller that holds the pole: both logits see the same mix of position, speeds and angle, with opposite signs
holds = Net(body(4, 8, 6), nn.Sequential(nn.Linear(6, 2)))
with torch.no_grad():
    for linear in (holds.body["body"][0], holds.body["body"][2], holds.tails[0]):
        linear.weight.zero_()
        linear.bias.zero_()
    holds.body["body"][0].weight[0] = torch.tensor([0.02, 0.06, 0.4, 0.4])
    holds.body["body"][2].weight[0, 0] = 1.0
    holds.tails[0].weight[:, 0] = torch.tensor([-5.0, 5.0])
separate = spec("PPO", {**mlp, "shared": False}, cartpole)
publish("ppo_cartpole_arc", [Net(body(4, 8, 6), nn.Sequential(nn.Linear(6, 2))), holds], separate, obs)

two = nn.ModuleList([nn.Sequential(nn.Linear(6, 2)), nn.Sequential(nn.Linear(6, 1))])
shared = spec("ActorCritic", {**mlp, "shared": True}, {**cartpole, "normalize_obs": True})
publish("a2c_cartpole", [Net(body(4, 8, 6), two)], shared, obs)

pendulum = {"name": "Pendulum-v1", "num_envs": 4, "max_frame": 20000}
squashed = Net(body(3, 8, 6), nn.Sequential(nn.Linear(6, 2)))
publish("sac_pendulum", [squashed], spec("SoftActorCritic", mlp, pendulum), torch.randn(3, 3))

dueling = {"type": "DuelingMLPNet", "hid_layers": [5], "hid_layers_activation": "tanh"}
publish("dueling_cartpole", [Dueling()], spec("DQN", dueling, cartpole), obs)

torch.save(Conv().state_dict(), HERE / "conv.pt")
net = Conv()
net.load_state_dict(torch.load(HERE / "conv.pt", weights_only=True))
frames = torch.randint(0, 256, (3, 2, 10, 12))
with torch.no_grad():
    told = {"obs": frames.tolist(), "out": net(frames.float()).tolist()}
(HERE / "conv.json").write_text(json.dumps(told) + "\n")
