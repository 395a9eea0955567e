"""Jobs on a Ray cluster, through its jobs API."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from rewardlab.remote.job import Handle, Job, RemoteError, State

STATUS: Mapping[str, Any] = {
    "PENDING": "waiting",
    "RUNNING": "running",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "STOPPED": "stopped",
}


class RayRunner:
    """A cluster by the address of its dashboard, such as http://127.0.0.1:8265."""

    def __init__(self, address: str) -> None:
        try:
            from ray.job_submission import JobSubmissionClient
        except ImportError as error:
            raise RemoteError('the runner ray needs: pip install "rewardlab[remote]"') from error
        self.address = address
        try:
            self.client: Any = JobSubmissionClient(address)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RemoteError(f"no Ray cluster answers at {address}") from error

    def expected(self, job: Job) -> Handle:
        """Its name; a number after it where the cluster knows an earlier job of that name."""
        known = {info.submission_id for info in self.client.list_jobs()}
        names = (job.name if i == 1 else f"{job.name}-{i}" for i in range(1, len(known) + 2))
        return {"id": next(name for name in names if name not in known)}

    def submit(self, job: Job) -> Handle:
        """Start it on any node that has room."""
        place = f"rewardlab-jobs/{shlex.quote(job.name)}"
        script = f"cd && mkdir -p {place} && cd {place}\n{job.script()}"
        given: dict[str, Any] = {"runtime_env": {"env_vars": dict(job.env)}} if job.env else {}
        if job.gpu:
            given["entrypoint_num_gpus"] = 1
        try:
            handle = self.expected(job)
            self.client.submit_job(entrypoint=f"sh -c {shlex.quote(script)}", submission_id=handle["id"], **given)
            return handle
        except RuntimeError as error:
            raise RemoteError(f"{self.address} takes no job: {error}") from error

    def state(self, handle: Handle) -> State:
        """As the cluster tells it."""
        try:
            info = self.client.get_job_info(handle["id"])
        except RuntimeError as error:
            return State("lost", detail=str(error).splitlines()[0])
        status = STATUS[str(info.status.value if hasattr(info.status, "value") else info.status)]
        code = getattr(info, "driver_exit_code", None)
        return State(status, 0 if status == "done" else code, "" if status != "failed" else (info.message or "")[:200])

    def logs(self, handle: Handle) -> str:
        """Its output."""
        try:
            return str(self.client.get_job_logs(handle["id"]))
        except RuntimeError as error:
            raise RemoteError(f"{self.address} has no log of it: {error}") from error

    def stop(self, handle: Handle) -> None:
        """SIGTERM first."""
        try:
            self.client.stop_job(handle["id"])
        except RuntimeError as error:
            raise RemoteError(f"{self.address} does not stop it: {error}") from error

    def metrics(self, handle: Handle) -> Mapping[str, float]:
        """Ray's dashboard has them."""
        raise RemoteError(f"the runner ray measures nothing itself: see {self.address}")
