"""Users, their tokens and passwords, logins by device code, and the record of who did what."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from rewardlab.arena.errors import ArenaError, missing
from rewardlab.arena.store.database import Database
from rewardlab.arena.store.tables import Audit, DeviceCode, Token, User

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,38}")
SCOPES = ("read", "play", "admin")  # each may do what those before it may
ROLES = ("user", "admin")
TOKEN_DAYS, DEVICE_SECONDS, USED_EVERY = 365.0, 900.0, 60.0
DAY = 86400.0
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # of user codes: no vowels, no words
SHORTEST_PASSWORD = 10
_hasher = PasswordHasher()
_nobody = _hasher.hash(secrets.token_hex(8))  # checked where there is no such user: both take the same time


@dataclass(frozen=True)
class Caller:
    """Who asks, by a valid token."""

    user_id: str
    name: str
    role: str
    scope: str
    token_id: str = ""
    expires: float | None = None

    @property
    def days_left(self) -> float:
        """How long the token still lasts."""
        return math.inf if self.expires is None else (self.expires - time.time()) / DAY

    def may(self, scope: str) -> bool:
        """Whether the token reaches so far; administering needs the role as well."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope) and (scope != "admin" or self.role == "admin")


def hash_of(secret: str) -> str:
    """What is kept of a random secret: it has 256 bits, so a fast hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Accounts:
    """Everything about who somebody is."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add_user(self, name: str, role: str = "user", password: str | None = None, actor: str = "admin") -> User:
        """A new user."""
        if not NAME.fullmatch(name):
            raise ArenaError(f"The user name {name!r} must be letters, digits, '.', '_' or '-', 39 at most.")
        if role not in ROLES:
            raise missing("role", role, ROLES)
        hashed = None if password is None else _hashed(password)
        with self.database.write() as session:
            if session.scalar(select(User).where(User.name == name)):
                raise ArenaError(f"The user name {name!r} is taken.", 409)
            user = User(name=name, role=role, password_hash=hashed)
            session.add(user)
            session.flush()
            note(session, actor, "user.add", name, role)
        return user

    def user(self, name: str) -> User:
        """A user by name."""
        with self.database.read() as session:
            found = session.scalar(select(User).where(User.name == name))
            if found is None:
                raise missing("user", name, session.scalars(select(User.name)).all())
            return found

    def users(self) -> Sequence[User]:
        """All users."""
        with self.database.read() as session:
            return session.scalars(select(User).order_by(User.created)).all()

    def set_disabled(self, name: str, disabled: bool, actor: str = "admin") -> None:
        """Shut a user out, or in again; tokens of shut-out users are worth nothing."""
        user = self.user(name)
        with self.database.write() as session:
            session.execute(update(User).where(User.id == user.id).values(disabled=disabled))
            note(session, actor, "user.disable" if disabled else "user.enable", name)

    def set_password(self, name: str, password: str, actor: str = "admin") -> None:
        """A new password; every earlier token of the user ends."""
        user, hashed = self.user(name), _hashed(password)
        with self.database.write() as session:
            session.execute(update(User).where(User.id == user.id).values(password_hash=hashed))
            session.execute(update(Token).where(Token.user_id == user.id).values(revoked=time.time()))
            note(session, actor, "user.password", name)

    def by_password(self, name: str, password: str) -> User:
        """The user of a name and password."""
        with self.database.read() as session:
            user = session.scalar(select(User).where(User.name == name))
        try:
            _hasher.verify(user.password_hash if user and user.password_hash else _nobody, password)
        except (VerifyMismatchError, InvalidHashError):
            user = None
        if user is None or user.disabled:
            raise ArenaError("Name and password do not fit.", 401)
        return user

    def make_token(
        self,
        user: User,
        label: str = "",
        scope: str = "play",
        days: float | None = TOKEN_DAYS,
        actor: str | None = None,
    ) -> str:
        """A new secret for a user; it is shown once and cannot be read again."""
        if scope not in SCOPES:
            raise missing("scope", scope, SCOPES)
        if scope == "admin" and user.role != "admin":
            raise ArenaError(f"{user.name} is no admin and gets no token for administering.", 403)
        secret = f"rl_{secrets.token_urlsafe(32)}"
        expires = None if days is None else time.time() + days * DAY
        with self.database.write() as session:
            session.add(Token(user_id=user.id, hash=hash_of(secret), label=label[:64], scope=scope, expires=expires))
            note(session, actor or user.name, "token.make", user.name, f"{scope} {label}")
        return secret

    def tokens(self, user: User) -> Sequence[Token]:
        """A user's tokens, their secrets unknown."""
        with self.database.read() as session:
            return session.scalars(select(Token).where(Token.user_id == user.id).order_by(Token.created)).all()

    def revoke(self, token_id: str, owner: str | None = None, actor: str = "admin") -> None:
        """End a token; where `owner` is given, only one of that user."""
        with self.database.write() as session:
            token = session.get(Token, token_id)
            if token is None or (owner is not None and token.user_id != owner):
                raise missing("token", token_id)
            token.revoked = token.revoked or time.time()
            note(session, actor, "token.revoke", token_id, token.label)

    def caller(self, secret: str) -> Caller | None:
        """Who holds a token; None if it is unknown, revoked, expired, or its user is shut out."""
        now = time.time()
        with self.database.read() as session:
            query = select(Token, User).join(User, User.id == Token.user_id).where(Token.hash == hash_of(secret))
            found = session.execute(query).first()
        if found is None:
            return None
        token, user = found
        if token.revoked is not None or (token.expires is not None and token.expires <= now) or user.disabled:
            return None
        if token.used is None or token.used < now - USED_EVERY:
            with self.database.write() as session:
                session.execute(update(Token).where(Token.id == token.id).values(used=now))
        return Caller(user.id, user.name, user.role, token.scope, token.id, token.expires)

    def start_device(self) -> tuple[str, str, float]:
        """(device code, user code, seconds): the program keeps the one, its person types the other in the browser."""
        secret = secrets.token_urlsafe(32)
        letters = "".join(secrets.choice(LETTERS) for _ in range(8))
        code = f"{letters[:4]}-{letters[4:]}"
        with self.database.write() as session:
            for old in session.scalars(select(DeviceCode).where(DeviceCode.expires < time.time())):
                session.delete(old)
            session.add(DeviceCode(hash=hash_of(secret), user_code=code, expires=time.time() + DEVICE_SECONDS))
        return secret, code, DEVICE_SECONDS

    def confirm_device(self, user_code: str, user_id: str, actor: str) -> None:
        """The person says that the program with this code is theirs."""
        with self.database.write() as session:
            query = select(DeviceCode).where(DeviceCode.user_code == user_code.strip().upper())
            code = session.scalar(query.with_for_update())  # it is confirmed once, whoever is as fast
            if code is None or code.expires <= time.time() or code.user_id is not None:
                raise ArenaError("No login waits for this code; it may have expired.", 404)
            code.user_id = user_id
            note(session, actor, "device.confirm", user_code)

    def finish_device(self, secret: str) -> User | None:
        """The user once the person has confirmed, None before; a code works once."""
        with self.database.write() as session:
            code = session.get(DeviceCode, hash_of(secret), with_for_update=True)
            if code is None or code.expires <= time.time():
                raise ArenaError("This login has expired: start again.", 410)
            if code.user_id is None:
                return None
            session.delete(code)
            return session.get(User, code.user_id)

    def audit(self, most: int = 100) -> Sequence[Audit]:
        """The latest entries of the record, newest first."""
        with self.database.read() as session:
            return session.scalars(select(Audit).order_by(Audit.id.desc()).limit(most)).all()


def note(session: Session, actor: str, action: str, subject: str, detail: str = "") -> None:
    """Put into the record who did what."""
    session.add(Audit(actor=actor[:64], action=action, subject=subject[:255], detail=detail[:2000]))


def _hashed(password: str) -> str:
    if len(password) < SHORTEST_PASSWORD:
        raise ArenaError(f"A password needs at least {SHORTEST_PASSWORD} characters.")
    return _hasher.hash(password)
