"""A hub that is a dataset repository on Hugging Face: read without a token, one commit per push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewardlab.hub.card import dataset_card
from rewardlab.hub.manifest import Entry, HubError
from rewardlab.hub.store import Access, Source


class HuggingFaceStore:
    """Files of a dataset repository."""

    def __init__(self, repo: str, access: Access) -> None:
        try:
            import huggingface_hub
            import huggingface_hub.errors
            import huggingface_hub.hf_api
            import huggingface_hub.utils
        except ImportError as error:
            raise HubError('hf:// needs: pip install "rewardlab[hub]"') from error
        if repo.count("/") != 1:
            raise HubError(f"hf://{repo} is no repository: the form is hf://USER/REPO")
        self.repo, self.access = repo, access
        self.url = f"hf://{repo}"
        self.library: Any = huggingface_hub
        huggingface_hub.utils.disable_progress_bars()
        token: str | bool = access.token or False  # False: no token of another project from this machine's cache
        self.api: Any = huggingface_hub.HfApi(endpoint=access.endpoint, token=token, library_name="rewardlab")

    def folders(self) -> list[str]:
        """The names of all run folders: one request per thousand."""
        return sorted(path.removeprefix("data/") for path, entry in self._tree("data", False) if entry is None)

    def files(self, prefix: str) -> dict[str, Entry]:
        """The files below a prefix."""
        start = prefix.rstrip("/") + "/"
        return {path.removeprefix(start): entry for path, entry in self._tree(prefix, True) if entry is not None}

    def read(self, key: str) -> bytes | None:
        """A small file."""
        with self._told(f"read {key}"):
            response = self.library.get_session().get(
                self._address(key), headers=self._headers(), follow_redirects=True
            )
            if response.status_code == 404:
                return None
            self.library.utils.hf_raise_for_status(response)
            return bytes(response.content)

    def fetch(self, key: str, path: Path, offset: int) -> None:
        """Append the rest of a file."""
        headers = self._headers() | ({"Range": f"bytes={offset}-"} if offset else {})
        with self._told(f"read {key}"):
            session = self.library.get_session()
            with session.stream("GET", self._address(key), headers=headers, follow_redirects=True) as response:
                self.library.utils.hf_raise_for_status(response)
                with path.open("ab" if response.status_code == 206 else "wb") as write:
                    for block in response.iter_bytes(1 << 20):
                        write.write(block)

    def put(self, files: Mapping[str, Source], message: str) -> None:
        """All in one commit; the repository and its card are made with the first."""
        if not self.access.token:
            raise HubError(f"{self.url} takes files from its owner alone: set HF_TOKEN (.env will do)")
        with self._told("write"):
            if not self.api.repo_exists(self.repo, repo_type="dataset"):
                self.api.create_repo(self.repo, repo_type="dataset", exist_ok=True)
            if "README.md" not in files and self.read("README.md") is None:
                files = {**files, "README.md": dataset_card(repo=self.repo).encode()}
            adds = [self.library.CommitOperationAdd(k, s if isinstance(s, bytes) else str(s)) for k, s in files.items()]
            self.api.create_commit(self.repo, adds, commit_message=message, repo_type="dataset")

    def link(self, folder: str) -> str:
        """Its page."""
        endpoint = (self.access.endpoint or "https://huggingface.co").rstrip("/")
        return f"{endpoint}/datasets/{self.repo}/tree/main/data/{folder}"

    def _tree(self, prefix: str, recursive: bool) -> Iterator[tuple[str, Entry | None]]:
        """Paths with their entries; None for a folder."""
        with self._told("list"):
            try:
                rows = list(self.api.list_repo_tree(self.repo, prefix, recursive=recursive, repo_type="dataset"))
            except self.library.errors.EntryNotFoundError:
                rows = []
            for row in rows:
                if isinstance(row, self.library.hf_api.RepoFolder):
                    yield row.path, None
                else:
                    yield row.path, Entry(row.size, row.lfs.sha256 if row.lfs else None)

    def _address(self, key: str) -> str:
        address: str = self.library.hf_hub_url(self.repo, key, repo_type="dataset", endpoint=self.access.endpoint)
        return address

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = self.library.utils.build_hf_headers(token=self.access.token or False)
        return headers

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """The library's errors as one sentence of ours."""
        errors = self.library.errors
        try:
            yield
        except errors.RepositoryNotFoundError as error:
            raise HubError(f"{self.url} is not there, or is private and HF_TOKEN may not see it") from error
        except errors.HfHubHTTPError as error:
            code = getattr(error.response, "status_code", "?")
            hint: dict[Any, str] = {
                401: ": set HF_TOKEN",
                403: ": HF_TOKEN may not write there",
                429: ": too many requests, wait",
            }
            raise HubError(f"{self.url} refuses to {doing} (HTTP {code}){hint.get(code, '')}") from error
        except HubError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            raise HubError(f"{self.url} cannot {doing}: {error}") from error
        except Exception as error:
            if type(error).__module__.startswith(("httpx", "httpcore")):
                raise HubError(f"{self.url} does not answer: {error}") from error
            raise
