"""An arena's parts together: its database, its shelf, and who works on them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rewardlab.arena.season import BETA, read_season
from rewardlab.arena.shelf import Shelf, shelf_at
from rewardlab.arena.store.accounts import Accounts
from rewardlab.arena.store.database import Database
from rewardlab.arena.store.jobs import Jobs
from rewardlab.arena.store.policies import Policies, Quotas
from rewardlab.arena.store.seasons import Seasons
from rewardlab.hub.store import Access

FOLDER, DAY = Path("data/arena"), 86400.0


@dataclass(frozen=True)
class Place:
    """Where an arena is: a folder of its own, unless the database or the files are elsewhere."""

    root: Path = FOLDER
    database_url: str | None = None
    shelf_url: str | None = None
    access: Access | None = None  # to a shelf elsewhere
    quotas: Quotas = field(default_factory=Quotas)

    @cached_property
    def database(self) -> Database:
        """The database."""
        return Database(self.database_url or f"sqlite:///{(self.root / 'arena.db').absolute()}")

    @cached_property
    def shelf(self) -> Shelf:
        """Bundles and replays."""
        return shelf_at(self.shelf_url or str(self.root / "files"), self.root / "cache", self.access)

    @cached_property
    def accounts(self) -> Accounts:
        """Users and tokens."""
        return Accounts(self.database)

    @cached_property
    def policies(self) -> Policies:
        """Uploads and versions."""
        return Policies(self.database, self.quotas)

    @cached_property
    def seasons(self) -> Seasons:
        """Seasons and matches."""
        return Seasons(self.database)

    @cached_property
    def jobs(self) -> Jobs:
        """What is to be done."""
        return Jobs(self.database)

    def exists(self) -> bool:
        """Whether somebody has set it up already, as far as a folder can tell."""
        return self.database_url is not None or (self.root / "arena.db").is_file()

    def set_up(self) -> str | None:
        """Tables, the first season, the first admin; their token if they are new. It is not shown again."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)  # secrets and strangers' bundles: for this user alone
        for cut_off in self.root.glob("incoming/*"):  # by an end of the server; a day is longer than any upload
            if cut_off.stat().st_mtime < time.time() - DAY:
                cut_off.unlink(missing_ok=True)
        self.database.migrate()
        if not self.seasons.all(hidden=True):
            self.seasons.add(read_season(BETA), default=True)
        if self.accounts.users():
            return None
        admin = self.accounts.add_user("admin", "admin")
        return self.accounts.make_token(admin, "first start", "admin")
