"""Alembic's entry: it runs on the connection that `Database.migrate` hands it."""

from __future__ import annotations

from alembic import context

from rewardlab.arena.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
