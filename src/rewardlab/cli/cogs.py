"""`rewardlab cogs`: CoGsGuard from the command line; the words and flags are the original's."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rewardlab.cli import cogs_arena

app = typer.Typer(help="CoGsGuard: play, script, evaluate and diagnose.", no_args_is_help=True)

ARENA, MACHINA = "cogsguard_arena.basic", "cogsguard_machina_1.basic"


class Format(StrEnum):
    """How a result is written."""

    YAML = "yaml"
    JSON = "json"


class Render(StrEnum):
    """How an episode is shown."""

    GUI = "gui"
    VIBESCOPE = "vibescope"
    UNICODE = "unicode"
    LOG = "log"
    NONE = "none"


Cogs = Annotated[int | None, typer.Option("--cogs", "-c", help="How many cogs play, 1 to 20.")]
Variants = Annotated[
    list[str] | None, typer.Option("--variant", "-v", help="A variant of the mission; may be given often.")
]
Difficulty = Annotated[str | None, typer.Option("--difficulty", help="easy (no clips), medium or hard.")]
Steps = Annotated[int | None, typer.Option("--steps", "-s", help="Steps of an episode; the mission's own if left out.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the first episode; each further one adds 1.")]
MapSeed = Annotated[
    int | None, typer.Option("--map-seed", help="One map for all episodes; else each has its own, by its seed.")
]
Device = Annotated[str, typer.Option("--device", help="What policies run on: auto, cpu, gpu.")]
Replays = Annotated[
    Path | None, typer.Option("--save-replay-dir", help="Write each episode's replay into this folder.")
]
OutputFormat = Annotated[
    Format | None, typer.Option("--format", help="yaml or json alone on stdout; a table if left out.")
]
Timeout = Annotated[
    float, typer.Option("--action-timeout-ms", help="An action that takes longer is a noop and counted.")
]
Processes = Annotated[int, typer.Option("--processes", "-j", help="Episodes played side by side; 0: one per core.")]
PolicyOption = Annotated[str, typer.Option("--policy", "-p", help="A name, class=…, a bundle, a run, metta://policy/…")]
PolicyList = Annotated[
    list[str] | None, typer.Option("--policy", "-p", help="A policy; give several to share the cogs.")
]


@app.command("missions")
@app.command("games", hidden=True)
@app.command("mission", hidden=True)
def missions(
    site: Annotated[str | None, typer.Argument(help="List the missions of a site only.")] = None,
    mission: Annotated[str | None, typer.Option("--mission", "-m", help="Show one mission.")] = None,
    cogs: Cogs = None,
    variant: Variants = None,
    difficulty: Difficulty = None,
    output: OutputFormat = None,
    save: Annotated[
        Path | None, typer.Option("--save", "-s", help="Write the mission to a .yaml or .json file.")
    ] = None,
) -> None:
    """List the missions, or show one."""
    from rewardlab.cli import cogs_show as command

    command.missions(site, mission, cogs, variant or [], difficulty, output, save)


@app.command("variants")
def variants(output: OutputFormat = None) -> None:
    """List the variants."""
    from rewardlab.cli import cogs_show as command

    command.variants(output)


@app.command("evals")
def evals(output: OutputFormat = None) -> None:
    """List the evaluation sets and their missions."""
    from rewardlab.cli import cogs_show as command

    command.evals(output)


@app.command("describe")
def describe(mission: str, cogs: Cogs = None, variant: Variants = None, difficulty: Difficulty = None) -> None:
    """Say what a mission is: its rules in figures."""
    from rewardlab.cli import cogs_show as command

    command.describe(mission, cogs, variant or [], difficulty)


@app.command("policies")
def policies(output: OutputFormat = None) -> None:
    """List the policies that have a name."""
    from rewardlab.cli import cogs_show as command

    command.policies(output)


@app.command("make-mission")
@app.command("make-game", hidden=True)
def make_mission(
    mission: Annotated[str, typer.Option("--mission", "-m", help="The mission to start from.")] = ARENA,
    cogs: Cogs = None,
    variant: Variants = None,
    difficulty: Difficulty = None,
    width: Annotated[int | None, typer.Option("--width", help="Of the map inside its border.")] = None,
    height: Annotated[int | None, typer.Option("--height", help="Of the map inside its border.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .yaml or .json file.")] = Path("mission.yaml"),
) -> None:
    """Write a mission file to change."""
    from rewardlab.cli import cogs_show as command

    command.make_mission(mission, cogs, variant or [], difficulty, (width, height), output)


@app.command("make-policy")
def make_policy(
    scripted: Annotated[
        bool, typer.Option("--scripted/--trainable", help="A policy of rules, or one with weights.")
    ] = True,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .py file.")] = Path("my_policy.py"),
) -> None:
    """Write a policy of your own to start from."""
    from rewardlab.cli import cogs_show as command

    command.make_policy(scripted, output)


@app.command("play")
def play(
    mission: Annotated[str, typer.Option("--mission", "-m", help="site.name, a site, or a mission file.")] = ARENA,
    variant: Variants = None,
    difficulty: Difficulty = None,
    cogs: Cogs = None,
    policy: PolicyOption = "noop",
    device: Device = "auto",
    steps: Steps = None,
    render: Annotated[Render, typer.Option("--render", "-r", help="Where to watch.")] = Render.GUI,
    seed: Seed = 42,
    map_seed: MapSeed = None,
    autostart: Annotated[
        bool, typer.Option("--autostart", help="Do not wait for a key before the first step.")
    ] = False,
    replays: Replays = None,
) -> None:
    """Watch an episode, and steer a cog in it."""
    from rewardlab.cli import cogs_play as command

    wanted = (mission, cogs, variant or [], difficulty, steps)
    command.play(wanted, policy, device, render.value, seed, map_seed, autostart, replays)


@app.command("replay")
def replay(
    file: Annotated[Path, typer.Argument(help="A replay file (.json.z).")],
    render: Annotated[Render, typer.Option("--render", "-r", help="Where to watch.")] = Render.GUI,
) -> None:
    """Watch a recorded episode."""
    from rewardlab.cli import cogs_play as command

    command.replay(file, render.value)


@app.command("run")
@app.command("eval", hidden=True)
@app.command("evaluate", hidden=True)
def run(
    mission: Annotated[
        list[str] | None, typer.Option("--mission", "-m", help="Missions; * and ? stand for letters.")
    ] = None,
    mission_set: Annotated[str | None, typer.Option("--mission-set", "-S", help="An evaluation set, or all.")] = None,
    cogs: Cogs = None,
    variant: Variants = None,
    difficulty: Difficulty = None,
    policy: PolicyList = None,
    device: Device = "auto",
    episodes: Annotated[int, typer.Option("--episodes", "-e", help="Episodes of each mission.")] = 10,
    steps: Steps = None,
    seed: Seed = 42,
    map_seed: MapSeed = None,
    timeout: Timeout = 250.0,
    output: OutputFormat = None,
    replays: Replays = None,
    processes: Processes = 0,
) -> None:
    """Evaluate policies that share the cogs of a mission."""
    from rewardlab.cli import cogs_run as command

    wanted = command.Wanted(mission or [], mission_set, cogs, variant or [], difficulty, steps, seed, map_seed)
    command.run(wanted, policy or [], command.How(device, episodes, timeout, output, replays, processes))


@app.command("scrimmage")
def scrimmage(
    mission: Annotated[
        list[str] | None, typer.Option("--mission", "-m", help="Missions; * and ? stand for letters.")
    ] = None,
    mission_set: Annotated[str | None, typer.Option("--mission-set", "-S", help="An evaluation set, or all.")] = None,
    cogs: Cogs = None,
    variant: Variants = None,
    difficulty: Difficulty = None,
    policy: PolicyList = None,
    device: Device = "auto",
    episodes: Annotated[int, typer.Option("--episodes", "-e", help="Episodes of each mission.")] = 10,
    steps: Steps = None,
    seed: Seed = 42,
    map_seed: MapSeed = None,
    timeout: Timeout = 250.0,
    output: OutputFormat = None,
    replays: Replays = None,
    processes: Processes = 0,
) -> None:
    """Evaluate one policy that plays all cogs."""
    from rewardlab.cli import cogs_run as command

    wanted = command.Wanted(mission or [], mission_set, cogs, variant or [], difficulty, steps, seed, map_seed)
    command.scrimmage(wanted, policy or [], command.How(device, episodes, timeout, output, replays, processes))


@app.command("pickup")
def pickup(
    mission: Annotated[str, typer.Option("--mission", "-m", help="The mission.")] = MACHINA,
    cogs: Annotated[int, typer.Option("--cogs", "-c", help="How many cogs play, 1 to 20.")] = 4,
    variant: Variants = None,
    difficulty: Difficulty = None,
    policy: Annotated[str, typer.Option("--policy", "-p", help="The candidate.")] = "",
    pool: Annotated[list[str] | None, typer.Option("--pool", help="A policy of the pool; may be given often.")] = None,
    device: Device = "auto",
    episodes: Annotated[int, typer.Option("--episodes", "-e", help="Episodes of each scenario.")] = 1,
    steps: Annotated[int, typer.Option("--steps", "-s", help="Steps of an episode.")] = 1000,
    seed: Seed = 50,
    map_seed: MapSeed = None,
    timeout: Timeout = 250.0,
    output: OutputFormat = None,
    replays: Replays = None,
    processes: Processes = 0,
) -> None:
    """Value over replacement: what a candidate adds to a pool of policies, cog by cog."""
    from rewardlab.cli import cogs_run as command

    wanted = command.Wanted([mission], None, cogs, variant or [], difficulty, steps, seed, map_seed)
    how = command.How(device, episodes, timeout, output, replays, processes)
    command.pickup(wanted, policy, pool or [], how)


Agents = Annotated[int, typer.Option("--agents", help="How many cogs play, 1 to 20.")]
OneMission = Annotated[str, typer.Option("--mission", "-m", help="The mission.")]
MaxSteps = Annotated[int, typer.Option("--max-steps", help="Never more steps than these.")]


@app.command("rollout")
def rollout(
    steps: Annotated[int, typer.Option("--steps", help="Steps of the rollout.")] = 200,
    agents: Agents = 10,
    policy: Annotated[str, typer.Option("--policy-uri", "-p", help="The policy.")] = (
        "metta://policy/role?miner=4&scout=2&aligner=2&scrambler=2"
    ),
    mission: OneMission = ARENA,
    seed: Annotated[int, typer.Option("--seed", help="Of the map and the episode.")] = 42,
    max_steps: MaxSteps = 1000,
    allow_missing_roles: Annotated[bool, typer.Option("--allow-missing-roles", help="Check beliefs only.")] = False,
    trace_prereqs: Annotated[bool, typer.Option("--trace-prereqs", help="Trace gear, hearts, influence.")] = False,
    trace_prereqs_every: Annotated[int, typer.Option("--trace-prereqs-every", min=1)] = 25,
    trace_prereqs_limit: Annotated[int, typer.Option("--trace-prereqs-limit")] = 40,
    trace_roles: Annotated[bool, typer.Option("--trace-roles", help="Trace each cog's role.")] = False,
    trace_roles_every: Annotated[int, typer.Option("--trace-roles-every", min=1)] = 25,
    trace_roles_limit: Annotated[int, typer.Option("--trace-roles-limit")] = 40,
    trace_resources: Annotated[bool, typer.Option("--trace-resources", help="Trace the team's store.")] = False,
    trace_resources_every: Annotated[int, typer.Option("--trace-resources-every", min=1)] = 25,
    trace_resources_limit: Annotated[int, typer.Option("--trace-resources-limit")] = 40,
) -> None:
    """Roll out a policy and check what its cogs find, believe and do; exit status 1 if a check fails."""
    from rewardlab.cli import cogs_diagnose as command

    asked = {
        "prereqs": (trace_prereqs, trace_prereqs_every, trace_prereqs_limit),
        "roles": (trace_roles, trace_roles_every, trace_roles_limit),
        "resources": (trace_resources, trace_resources_every, trace_resources_limit),
    }
    traces = {kind: (every, limit) for kind, (wanted, every, limit) in asked.items() if wanted}
    command.rollout(policy, mission, agents, min(steps, max_steps), seed, allow_missing_roles, traces)


@app.command("parity")
def parity(
    policy_a: Annotated[str, typer.Option("--policy-a", help="The first policy.")] = "metta://policy/role",
    policy_b: Annotated[str, typer.Option("--policy-b", help="The second policy.")] = "metta://policy/role_py",
    steps: Annotated[int, typer.Option("--steps", help="Steps of the rollout.")] = 500,
    agents: Agents = 10,
    mission: OneMission = ARENA,
    seed: Annotated[int, typer.Option("--seed", help="Of the map and the episode.")] = 42,
    max_steps: MaxSteps = 1000,
    top_actions: Annotated[int, typer.Option("--top-actions", help="Actions listed for each.")] = 5,
    top_deltas: Annotated[int, typer.Option("--top-deltas", help="Differences listed.")] = 5,
) -> None:
    """Compare the actions of two policies on the same episode."""
    from rewardlab.cli import cogs_diagnose as command

    names = (policy_a, policy_b)
    command.parity(names, mission, agents, min(steps, max_steps), seed, top_actions, top_deltas)


@app.command("audit")
def audit(
    steps: Annotated[int, typer.Option("--steps", help="Steps of the rollout.")] = 1000,
    agents: Agents = 2,
    policy: Annotated[
        str, typer.Option("--policy-uri", "-p", help="The policy.")
    ] = "metta://policy/role_py?miner=1&scout=1",
    mission: OneMission = ARENA,
    seed: Annotated[int, typer.Option("--seed", help="Of the map and the episode.")] = 42,
    max_steps: MaxSteps = 1000,
    trace_every: Annotated[int, typer.Option("--trace-every", help="Steps between two lines.")] = 200,
) -> None:
    """Trace roles, resources and known structures over a longer rollout."""
    from rewardlab.cli import cogs_diagnose as command

    command.audit(policy, mission, agents, min(steps, max_steps), seed, trace_every)


@app.command("diagnose")
def diagnose(
    policy: Annotated[str, typer.Argument(help="The policy.")],
    mission_set: Annotated[
        str, typer.Option("--mission-set", "-S", help="An evaluation set, or all.")
    ] = "cogsguard_evals",
    experiments: Annotated[
        list[str] | None, typer.Option("--experiments", help="Missions of the set; all if left out.")
    ] = None,
    cogs: Annotated[list[int] | None, typer.Option("--cogs", "-c", help="Team sizes; 1, 2 and 4 if left out.")] = None,
    steps: Annotated[int, typer.Option("--steps", "-s", help="Steps of an episode.")] = 1000,
    episodes: Annotated[int, typer.Option("--episodes", "-e", help="Episodes of each mission and size.")] = 3,
    seed: Seed = 42,
    timeout: Timeout = 250.0,
    output: OutputFormat = None,
    processes: Processes = 0,
) -> None:
    """A policy on all missions of a set, with several team sizes."""
    from rewardlab.cli import cogs_diagnose as command
    from rewardlab.cli.cogs_run import How

    how = How("auto", episodes, timeout, output, None, processes)
    command.diagnose(policy, mission_set, experiments or [], cogs or [1, 2, 4], steps, how, seed)


@app.command("conform")
def conform(folder: Annotated[Path, typer.Argument(help="A folder of recorded traces (trace_*.json.gz).")]) -> None:
    """Replay recorded traces of the original engine and report every difference."""
    from rewardlab.cli import cogs_run as command

    command.conform(folder)


class Observation(StrEnum):
    """What cogs see."""

    TOKENS = "tokens"
    GRID = "grid"
    NONE = "none"


@app.command("bench")
def bench(
    envs: Annotated[
        int | None, typer.Option("--envs", min=1, help="Environments in all; the fastest number if left out.")
    ] = None,
    cogs: Annotated[int, typer.Option("--cogs", "-c", help="Cogs per environment.")] = 8,
    observation: Annotated[
        Observation, typer.Option("--observation", help="What is written for them.")
    ] = Observation.TOKENS,
    seconds: Annotated[float, typer.Option("--seconds", help="How long each of three repeats lasts.")] = 2.0,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """Measure the engine's speed with random actions."""
    from rewardlab.cli import cogs_run as command

    command.bench(envs, cogs, observation.value, seconds, json)


def mount(front: typer.Typer) -> None:
    """The room at the front door."""
    cogs_arena.mount(app)
    front.add_typer(app, name="cogs")
