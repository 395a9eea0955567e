"""One database by URL: SQLite (write-ahead log) or PostgreSQL, brought up to date by its migrations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.orm import Session

from rewardlab.arena.errors import ArenaError

MIGRATIONS = Path(__file__).parent / "migrations"
PATIENCE = 30  # seconds that a writer waits for another
WRITES = {"write": True}


class Database:
    """Sessions for reading and for writing."""

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise ArenaError(f"{url!r} is no database address such as sqlite:///arena.db or postgresql://…") from None
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ArenaError(f"The database {parsed.get_backend_name()!r} is unknown: there are sqlite and postgresql.")
        self.url, self.is_sqlite = parsed, parsed.get_backend_name() == "sqlite"
        # SQLite's writers wait for each other by trying again and again; those of one process queue here instead
        self._turn: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()
        if self.is_sqlite:
            if parsed.database:
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
            self.engine = create_engine(parsed, connect_args={"timeout": PATIENCE}, pool_size=20, max_overflow=20)
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        else:
            self.engine = create_engine(parsed, pool_size=20, max_overflow=20, pool_pre_ping=True)

    def migrate(self) -> None:
        """Create or update all tables; several processes may try at once."""
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        try:
            with self.engine.connect().execution_options(**WRITES) as connection, connection.begin():
                if not self.is_sqlite:
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(20260101)")
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except CommandError as error:
            raise ArenaError(
                f"The database {self.url} was made by a newer RewardLab: install that one.", 503
            ) from error
        except DatabaseError as error:
            raise ArenaError(f"The database {self.url} cannot be opened: {_first_line(error)}.", 503) from error

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session whose changes are all kept, or none of them."""
        with (
            self._turn,
            Session(self.engine.execution_options(**WRITES), expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={PATIENCE * 1000}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Any) -> None:
    """A writer takes its turn at the beginning: one that began as a reader could find itself behind."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN")


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", error)).strip().splitlines()[0]
