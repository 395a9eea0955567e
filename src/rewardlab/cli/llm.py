"""`rewardlab llm`: train, sft, eval, chat; parsing only, because what it calls brings JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Language models by policy gradient on tasks that can be checked.", no_args_is_help=True)

ConfigFile = Annotated[
    Path, typer.Option("--config", help="A YAML file, or a packaged one such as configs/llm/grpo.yaml.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Override any key of the config.")
]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu or cuda; over the config's.")]
Cache = Annotated[Path | None, typer.Option("--cache", help="Where builtin:tiny is kept once it is made.")]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")]


@app.command("train")
def train(
    config: Annotated[
        Path | None, typer.Option("--config", help="A YAML file, or a packaged one such as configs/llm/grpo.yaml.")
    ] = None,
    settings: Settings = None,
    resume: Annotated[Path | None, typer.Option("--resume", help="A run folder that goes on.")] = None,
    compat: Annotated[
        str | None, typer.Option("--compat", help="rlhf-book: its losses as its code has them, not the papers'.")
    ] = None,
    device: Device = None,
    speedrun: Annotated[bool, typer.Option("--speedrun", help="Write a speedrun metrics file at every step.")] = False,
    target: Annotated[
        float | None,
        typer.Option("--speedrun-target-reward", help="The goal: a mean reward of the last 100 steps."),
    ] = None,
    metrics_file: Annotated[
        Path | None,
        typer.Option("--speedrun-metrics-file", help="Default: logs/speedrun/speedrun_metrics.json, or by W&B's id."),
    ] = None,
    stop_at_goal: Annotated[
        bool, typer.Option("--stop-at-goal", help="End the run where it reaches the goal.")
    ] = False,
    data: Annotated[Path, typer.Option("--data", help="Where run folders are made.")] = Path("data"),
    cache: Cache = None,
) -> None:
    """Train: `rewardlab llm train --config configs/llm/grpo.yaml`."""
    from rewardlab.cli import llm_run

    asked = llm_run.Asked(settings or [], compat, device, target, stop_at_goal, cache)
    llm_run.train(config, resume, data, speedrun, metrics_file, asked)


@app.command("sft")
def sft(
    config: ConfigFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the trained model.")],
    settings: Settings = None,
    cache: Cache = None,
) -> None:
    """Learn demonstrations, and write a model folder."""
    from rewardlab.cli import llm_run

    llm_run.sft(config, output, settings or [], cache)


@app.command("eval")
def evaluate(
    config: ConfigFile,
    model: Annotated[str | None, typer.Option("--model", help="Instead of the config's.")] = None,
    size: Annotated[int, typer.Option("--size", help="How many held-out questions.")] = 256,
    rollouts: Annotated[int, typer.Option("--rollouts", help="Completions of each; 1 is greedy.")] = 1,
    settings: Settings = None,
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Score a model on questions that training with this config never asks."""
    from rewardlab.cli import llm_run

    llm_run.evaluate(config, model, size, rollouts, settings or [], cache, json)


@app.command("chat")
def chat(
    model: Annotated[
        str, typer.Option("--model", help="builtin:tiny, a folder, or an id of the hub.")
    ] = "builtin:tiny",
    temperature: Annotated[float, typer.Option("--temperature", help="0: always the likeliest token.")] = 0.6,
    top_p: Annotated[float, typer.Option("--top-p")] = 0.95,
    top_k: Annotated[int, typer.Option("--top-k")] = 20,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens")] = 256,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    cache: Cache = None,
) -> None:
    """Talk to a model, line by line; an empty line or Ctrl-D ends it."""
    from rewardlab.cli import llm_run

    llm_run.chat(model, temperature, top_p, top_k, max_new_tokens, seed, cache)


@app.command("configs")
def configs(json: Json = False) -> None:
    """The packaged configs."""
    from json import dumps

    from rewardlab.llm.config import folder

    found = [f"configs/llm/{p.relative_to(folder())}" for p in sorted(folder().rglob("*.yaml"))]
    print(dumps(found) if json else "\n".join(found))


def mount(front: typer.Typer) -> None:
    """The room's commands at the front door."""
    front.add_typer(app, name="llm")
