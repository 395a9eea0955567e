"""Jobs on dstack, through the HTTP API of its server: plan, submit, follow, stop."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rewardlab.remote.job import Handle, Job, RemoteError, State, Status

CONFIG = Path("~/.dstack/config.yml")  # what `dstack project add` writes
FILES = Path(".dstack")  # what a job asks for: gpu.yml, cpu.yml
PATIENCE = 60.0
ENDED: Mapping[str, Status] = {"done": "done", "failed": "failed", "terminated": "stopped"}
# where no .dstack/*.yml says otherwise
DEFAULTS: Mapping[bool, Mapping[str, Any]] = {
    True: {"python": "3.11", "resources": {"gpu": "16GB..", "memory": "16GB.."}, "max_duration": "6h"},
    False: {"python": "3.11", "resources": {"cpu": "4..", "memory": "8GB.."}, "max_duration": "6h"},
}


class DstackRunner:
    """A project on a dstack server."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        known = _project(options.get("project"))
        self.url = str(options.get("url") or known.get("url") or "").rstrip("/")
        self.token = str(options.get("token") or known.get("token") or "")
        self.project = str(options.get("project") or known.get("name") or "main")
        if not self.url or not self.token:
            raise RemoteError(
                f"no dstack project is set up: dstack project add --name NAME --url URL --token TOKEN writes {CONFIG}"
            )

    def expected(self, job: Job) -> Handle:
        """A run is known by its name."""
        return {"run": job.name, "project": self.project}

    def submit(self, job: Job) -> Handle:
        """Plan, then apply the plan. A plan without offers is an error, and nothing is submitted, unless the job's
        configuration says `retry`: then it waits for some."""
        plan = self.plan(job)
        offers = sum(len(part.get("offers") or []) for part in plan.get("job_plans", []))
        if offers == 0 and not self.configuration(job).get("retry"):
            raise RemoteError(
                f"dstack has no offers for {job.name}: no backend or fleet of the project {self.project} has "
                f"{json.dumps(self.configuration(job).get('resources'))}"
            )
        run = self._post(f"project/{self.project}/runs/apply", {"plan": {"run_spec": plan["run_spec"]}, "force": False})
        return {"run": run["run_spec"]["run_name"], "project": self.project}

    def plan(self, job: Job) -> dict[str, Any]:
        """What dstack would do, with its offers."""
        spec = {"run_name": job.name, "configuration": self.configuration(job)}
        body = {"run_spec": spec, "max_offers": 10}
        return dict(self._post(f"project/{self.project}/runs/get_plan", body))

    def configuration(self, job: Job) -> dict[str, Any]:
        """A task: what .dstack/gpu.yml or cpu.yml asks for, and the job's script."""
        path = FILES / ("gpu.yml" if job.gpu else "cpu.yml")
        asked = dict(yaml.safe_load(path.read_text(encoding="utf-8"))) if path.exists() else dict(DEFAULTS[job.gpu])
        before = list(asked.pop("commands", []))
        env = {**_pairs(asked.pop("env", {})), **job.env}
        return {**asked, "type": "task", "name": job.name, "commands": [*before, job.script()], "env": env}

    def state(self, handle: Handle) -> State:
        """As the server tells it."""
        run = self._run(handle)
        if run is None:
            return State("lost")
        last = _submission(run)
        detail = str(run.get("error") or last.get("termination_reason_message") or last.get("termination_reason") or "")
        status: Status = ENDED.get(run["status"]) or ("running" if run["status"] == "running" else "waiting")
        code = last.get("exit_status")
        return State(status, 0 if status == "done" and code is None else code, detail)

    def logs(self, handle: Handle) -> str:
        """All pages of its output."""
        run = self._run(handle)
        last = {} if run is None else _submission(run)
        if "id" not in last:
            return ""
        body: dict[str, Any] = {"run_name": handle["run"], "job_submission_id": last["id"], "limit": 1000}
        text, token = [], None
        while True:
            page = self._post(f"project/{self.project}/logs/poll", {**body, "next_token": token})
            text += [base64.b64decode(row["message"]).decode(errors="replace") for row in page["logs"]]
            token = page.get("next_token")
            if not token or not page["logs"]:
                return "".join(text)

    def stop(self, handle: Handle) -> None:
        """With time to save."""
        self._post(f"project/{self.project}/runs/stop", {"runs_names": [handle["run"]], "abort": False})

    def metrics(self, handle: Handle) -> Mapping[str, float]:
        """The latest sample of the server."""
        page = self._ask("GET", f"project/{self.project}/metrics/job/{handle['run']}", None)
        found: dict[str, float] = {}
        used = []
        for metric in page.get("metrics", []):
            value = float(metric["values"][0]) if metric.get("values") else 0.0
            if metric["name"] == "cpu_usage_percent":
                found["cpu_percent"] = value
            elif metric["name"].startswith("gpu_util_percent"):
                used.append(value)
        return found | ({"gpu_percent": sum(used) / len(used)} if used else {})

    def _run(self, handle: Handle) -> dict[str, Any] | None:
        try:
            return dict(self._post(f"project/{self.project}/runs/get", {"run_name": handle["run"]}))
        except RemoteError as error:
            if "resource_not_exists" in str(error):
                return None
            raise

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return dict(json.loads(answer.read() or b"{}") or {})
        except urllib.error.HTTPError as error:
            raise RemoteError(f"dstack at {self.url} refuses: {_reason(error)}") from error
        except (OSError, ValueError) as error:
            raise RemoteError(f"dstack at {self.url} does not answer ({getattr(error, 'reason', error)})") from error


def _project(name: Any) -> dict[str, Any]:
    """The project of a name, or the default one, as dstack's own command line knows it."""
    path = CONFIG.expanduser()
    rows = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("projects", []) if path.exists() else []
    fitting = [row for row in rows if (row.get("name") == name if name else row.get("default"))]
    return dict(fitting[0]) if fitting else {}


def _pairs(env: Any) -> dict[str, str]:
    """An environment as a mapping; dstack takes a list as well."""
    if isinstance(env, Mapping):
        return {str(k): str(v) for k, v in env.items()}
    return dict(str(row).partition("=")[::2] for row in env if "=" in str(row))


def _submission(run: Mapping[str, Any]) -> dict[str, Any]:
    """The last try of a run's one job."""
    jobs = run.get("jobs") or [{}]
    tries = jobs[0].get("job_submissions") or [{}]
    return dict(tries[-1])


def _reason(error: urllib.error.HTTPError) -> str:
    """What the server says, in a line."""
    text = error.read().decode(errors="replace")
    try:
        detail = json.loads(text).get("detail", text)
    except ValueError:
        detail = text
    if isinstance(detail, list):
        detail = "; ".join(f"{d.get('code', '')} {d.get('msg', '')}".strip() for d in detail if isinstance(d, dict))
    return f"HTTP {error.code} {str(detail)[:300]}"
