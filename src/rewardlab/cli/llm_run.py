"""What `rewardlab llm` does; imported only when it is called, because it brings JAX."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from rewardlab.cli.lab import say
from rewardlab.cli.llm_show import Show
from rewardlab.cli.run import Interrupted, cache_folder, stoppable
from rewardlab.cli.tables import emit, table
from rewardlab.experiment import device as devices
from rewardlab.experiment.record import RunFolder, provenance
from rewardlab.llm import config as configs
from rewardlab.llm import sft as supervised
from rewardlab.llm.config import Config
from rewardlab.llm.errors import LlmError
from rewardlab.llm.policy import Policy, load_policy, save_policy
from rewardlab.llm.record import Recorder
from rewardlab.llm.sample import Sampling, generate
from rewardlab.llm.speedrun import DEFAULT, Speedrun
from rewardlab.llm.trainer import NotFinite, Trainer
from rewardlab.maths.truncation import Truncation
from rewardlab.spec import SpecError


class Asked(NamedTuple):
    """What the command line says beside the config."""

    settings: Sequence[str]
    compat: str | None = None
    device: str | None = None
    target: float | None = None
    stop_at_goal: bool = False
    cache: Path | None = None


def settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE words as a mapping."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise SpecError(f"-s {pair}: the form is KEY=VALUE")
        found[key] = value
    return found


def prepare(device: str) -> None:
    """Before anything touches JAX."""
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_compilation_cache_dir", str((cache_folder() or devices.DEFAULT_CACHE).expanduser()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    if device == "cuda" and jax.default_backend() != "gpu":
        raise LlmError(f"device is cuda, but JAX finds only {jax.default_backend()} here")


def load(path: Path, asked: Asked) -> Config:
    """A config with what the command line says over it."""
    config, notes = configs.load(path, settings_of(asked.settings))
    for note in notes:
        say(f"note: {note}")
    named = {"compat": asked.compat, "device": asked.device}
    changes: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if asked.stop_at_goal:
        changes["stop_at_goal"] = True
    env = {"wandb_entity": "WANDB_ENTITY", "wandb_project": "WANDB_PROJECT", "wandb_run_name": "WANDB_RUN_NAME"}
    changes |= {key: os.environ[name] for key, name in env.items() if os.environ.get(name)}
    return configs.from_dict(configs.dump(config) | changes, str(path)) if changes else config


def train(
    path: Path | None, resume: Path | None, data: Path, speedrun: bool, metrics_file: Path | None, asked: Asked
) -> None:
    """Train to the end, to the goal, or to the first Ctrl-C."""
    if (path is None) == (resume is None):
        raise SpecError("name either --config FILE or --resume RUN_FOLDER")
    if (asked.target is not None or metrics_file) and not speedrun:
        raise SpecError("--speedrun-target-reward and --speedrun-metrics-file need --speedrun")
    if resume is not None:
        if asked.settings or asked.compat:
            raise SpecError("a resumed run keeps its config: leave out -s and --compat, or start a new run")
        folder = RunFolder.open(resume)
        config = configs.from_dict(folder.read_spec(), str(folder.spec_path))
    else:
        assert path is not None
        config = load(path, asked)
    prepare(config.device)
    begun = time.process_time()
    trainer = Trainer.create(config, load_policy(config.model_name, asked.cache, say))
    say(f"{config.model_name} ready after {time.process_time() - begun:.1f} CPU-seconds")
    if resume is None:
        assert path is not None
        folder = RunFolder.create(f"llm_{path.stem}", data)
        folder.write_specs(configs.dump(config), provenance(config.seed))
    with folder.lock():
        if resume is not None and folder.checkpoint_path.exists():
            trainer.restore(folder.checkpoint_path)
        _march(trainer, folder, _speedrun(trainer, speedrun, asked.target, metrics_file))


def _speedrun(
    trainer: Trainer, wanted: bool, target: float | None, file: Path | None
) -> tuple[Speedrun, Path] | tuple[None, None]:
    """The metrics file of this run, new or to go on with."""
    if not wanted:
        return None, None
    path = file or DEFAULT
    if trainer.step and path.is_file():
        made = Speedrun.resume(path, trainer)
        return replace(made, target_reward=made.target_reward if target is None else target), path
    return Speedrun.create(trainer, target), path


def _march(trainer: Trainer, folder: RunFolder, run: tuple[Speedrun, Path] | tuple[None, None]) -> None:
    config = trainer.config
    wandb = _wandb(config, trainer)
    metrics, file = run
    if metrics is not None and wandb is not None:
        metrics.wandb_run_id, metrics.wandb_entity, metrics.wandb_project = wandb.id, wandb.entity, wandb.project
        file = file if file != DEFAULT else DEFAULT.with_name(f"{wandb.id}.json")
    recorder = Recorder(trainer, folder, metrics, file)
    say(f"{config.loss} on {config.tasks}, {config.total_steps} steps, in {folder.path}/")
    with stoppable() as asked, Show(trainer, recorder) as show:
        try:
            for step in trainer.march():
                recorder.take(step)
                show.step(step)
                if wandb is not None:
                    wandb.log({**step.metrics, "reward_100step": recorder.mean}, step=step.number)
                if asked or recorder.reached:
                    break
        except NotFinite as error:
            recorder.take(error.step)
            raise
    if asked:
        recorder.save()
        say(f"stopped at step {trainer.step}, checkpoint saved; to go on:")
        more = f" --speedrun --speedrun-metrics-file {file}" if metrics is not None else ""
        say(f"rewardlab llm train --resume {folder.path}{more}")
        raise Interrupted(128 + asked[0])
    weights = recorder.finish()
    if wandb is not None:
        wandb.finish()
    print(f"steps:{trainer.step} | reward:{recorder.history[-1]:.4f} | reward_100step:{recorder.mean:.4f}", end="")
    print(f" | seconds:{trainer.seconds:.1f} | policy:{weights}")
    if metrics is not None:
        reached = metrics.goal_reached_at_step
        target = "" if metrics.target_reward is None else f"({metrics.target_reward:g})"
        print(
            f"goal{target} not reached"
            if reached is None
            else f"goal{target}@step{reached} after {metrics.goal_walltime_sec:.1f} s"
        )
        print(f"{metrics.cpu_seconds:.1f} CPU-seconds, model loading and warm-up included | {file}")


def _wandb(config: Config, trainer: Trainer) -> Any:
    """W&B's run, where a project is named, the package is there, and it is not switched off."""
    if config.wandb_project is None or os.environ.get("WANDB_MODE") == "disabled":
        return None
    try:
        import wandb
    except ImportError:
        say("note: wandb_project is set, but wandb is not installed: nothing is logged there")
        return None
    if not (os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_MODE") or wandb.api.api_key):
        say("note: wandb_project is set, but nobody is logged in to W&B: nothing is logged there")
        return None
    told = configs.dump(config) | {"start_weights_hash": trainer.start_hash}
    where = {"entity": config.wandb_entity, "project": config.wandb_project, "name": config.wandb_run_name}
    start: Any = wandb.init
    return start(config=told, **where)


def sft(path: Path, output: Path, settings: Sequence[str], cache: Path | None) -> None:
    """Supervised fine-tuning."""
    config, notes = supervised.load(path, settings_of(settings))
    for note in notes:
        say(f"note: {note}")
    prepare("auto")
    policy = supervised.train(config, load_policy(config.model_name, cache, say), say)
    save_policy(output, policy)
    print(output)


def evaluate(
    path: Path, model: str | None, size: int, rollouts: int, settings: Sequence[str], cache: Path | None, json: bool
) -> None:
    """Held-out questions."""
    config = load(path, Asked(settings))
    if model is not None:
        config = replace(config, model_name=model)
    prepare(config.device)
    trainer = Trainer.create(replace(config, beta=0.0), load_policy(config.model_name, cache, say))
    scored = trainer.complete(trainer.data.held_out(size), rollouts, jax.random.key(config.seed), greedy=rollouts == 1)
    exact = scored.grid("binary")
    result = {
        "model": config.model_name,
        "questions": size,
        "rollouts": rollouts,
        "reward": float(scored.grid("total").mean()),
        "accuracy": float(scored.grid("accuracy").mean()),
        "format": float(scored.grid("format").mean()),
        "exact": float(exact.mean()),
        f"pass@{rollouts}": float(exact.max(1).mean()),
    }
    if not emit(result, "json" if json else None):
        table(f"{config.tasks}, held out", list(result), [list(result.values())])


def chat(
    name: str, temperature: float, top_p: float, top_k: int, max_new_tokens: int, seed: int, cache: Path | None
) -> None:
    """One question after another, each answered on its own line."""
    prepare("auto")
    policy: Policy = load_policy(name, cache, say)
    t = policy.tokenizer
    how = Truncation(temperature, top_k, top_p)
    sampling = Sampling(how, max_new_tokens, t.stops, t.pad, t.forbidden)
    say("one question per line; an empty line ends")
    messages: list[dict[str, str]] = []
    for turn, line in enumerate(iter(_ask, "")):
        alone = name.startswith("builtin:")  # so small a model has no memory of what was said
        messages = [*([] if alone else messages), {"role": "user", "content": line}]
        made = generate(policy.model, sampling, [t.chat(messages)], 1, jax.random.key(seed + turn))
        text = t.decode(made.tokens[0, : made.length[0]].tolist())
        messages.append({"role": "assistant", "content": text})
        print(text, flush=True)


def _ask() -> str:
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return ""


def rerun(run: dict[str, Any], cache: Path | None) -> None:
    """Repeat a speedrun and compare every reward."""
    if "config" not in run:
        raise LlmError("the metrics file holds no config, so the run cannot be repeated")
    config = configs.from_dict(run["config"], "the metrics file's config")
    prepare(config.device)
    trainer = Trainer.create(config, load_policy(config.model_name, cache, say))
    now = Speedrun.create(trainer, run.get("target_reward"))
    for name in ("config_hash", "data_hash", "start_weights_hash", "code_hash"):
        if getattr(now, name) != run.get(name):
            say(f"note: {name} was {str(run.get(name))[:12]}…, is {getattr(now, name)[:12]}… here")
    history = run["reward_history"]
    with stoppable() as asked:
        for step in trainer.march():
            now.take(step, 0.0)
            told = history[step.number - 1]
            if step.metrics["reward"] != told:
                print(f"different: step {step.number} earned {step.metrics['reward']!r}, the file says {told!r}")
                raise SystemExit(1)
            if step.number % 50 == 0:
                say(f"step {step.number}/{len(history)}: the same so far")
            if asked:
                raise Interrupted(128 + asked[0])
            if step.number == len(history):
                break
    there = run.get("goal_walltime_sec")
    print(f"identical: {len(now.reward_history)} rewards; goal after {now.goal_walltime_sec} s here, {there} s there")
