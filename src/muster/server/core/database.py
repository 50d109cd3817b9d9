"""The server's database: SQLite or PostgreSQL behind one class, with migrations. What differs between the two is here alone."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Select,
    SelectBase,
    TableClause,
    UpdateBase,
    cast,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from muster.tester.errors import Misused

MIGRATIONS = Path(__file__).with_name("migrations")
LOCK_TIMEOUT = 30  # seconds to wait for another writer of SQLite
CONNECT_TIMEOUT = 5  # seconds for PostgreSQL to answer
# A server finds out within seconds that the other end of a connection is gone.
KEEPALIVE = {"keepalives_idle": 2, "keepalives_interval": 2, "keepalives_count": 2, "tcp_user_timeout": 6000}
STATEMENT_TIMEOUT = 30_000  # milliseconds for one statement on PostgreSQL
POOL = 20  # connections to PostgreSQL at once
TABLES, ANY = "tables", "*"  # where a connection keeps what its transaction changed; a change of an unknown table
_BEGIN_READING, _BEGIN = text("BEGIN"), text("BEGIN IMMEDIATE")  # of SQLite
READING = {"reading": True}  # an execution option: the transaction takes no write lock


class Database:
    """Opens connections for transactions, so that any thread may use it."""

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self.engine = _engine(self.url)
        self.fence: Callable[[Connection], None] | None = None  # raises where this server no longer owns the database
        self._written: Counter[str] = Counter()  # how many write transactions changed each table
        self._counting = threading.Lock()
        event.listen(self.engine, "before_execute", _note_table)

    def close(self) -> None:
        self.engine.dispose()

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @property
    def name(self) -> str:
        """The database in words, without its password."""
        return str(self.url.database) if self.is_sqlite else self.url.render_as_string(hide_password=True)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One write transaction; an exception rolls it back. A server that lost the database cannot begin one."""
        tables: set[str] = set()
        try:
            with self.engine.begin() as connection:
                info = connection.info  # of the connection below, which further transactions use
                info[TABLES] = tables
                try:
                    if self.fence:
                        self.fence(connection)
                    yield connection
                finally:
                    info.pop(TABLES, None)
        finally:
            with self._counting:
                self._written.update(tables)

    def need_ownership(self) -> None:
        """Raises what a write transaction would, where the database does not answer or this server no longer owns it."""
        with self.begin():
            pass

    def generation(self, tables: Collection[str]) -> int:
        """A number that has grown when a write transaction on one of these tables ends; take it before you read what you keep.

        It counts what `begin` wrote, which is everything while this server owns the database.
        """
        with self._counting:
            return sum(self._written[table] for table in (*tables, ANY))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that only reads, and does not wait for writers."""
        with self.engine.connect().execution_options(**READING) as connection, connection.begin():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """One transaction in which all tables are read as of one moment."""
        options: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self.engine.connect().execution_options(**READING, **options) as connection, connection.begin():
            yield connection

    def migrate(self) -> None:
        """Brings an earlier or empty database to this version's tables; raises Misused for a later one."""
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        try:
            with self.engine.begin() as connection:
                current = MigrationContext.configure(connection).get_current_revision()
                if current is not None and current not in known:
                    raise Misused(f"{self.name} was written by a newer Muster; upgrade Muster on this machine")
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except SQLAlchemyError as error:
            raise self.unusable(error) from None

    def unusable(self, error: SQLAlchemyError) -> Misused:
        return Misused(f"{self.name} cannot be used as the server's database ({reason_of(error)}); check --database and --data")


def checked_url(url: str) -> URL:
    """Parses the URL of a database; `postgresql://` means psycopg."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = URL.create("unknown")
    kind = parsed.get_backend_name() if parsed.drivername in ("postgresql", "postgresql+psycopg", "sqlite") else "unknown"
    if kind == "unknown" or (kind == "sqlite" and not parsed.database):
        raise Misused("this is not the URL of a database; write postgresql://HOST/NAME or sqlite:////DIR/FILE")
    return parsed.set(drivername="postgresql+psycopg") if kind == "postgresql" else parsed


def reason_of(error: BaseException) -> str:
    """What a driver says of an error, in one line and without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(cause).split())[:300]


def is_full(error: SQLAlchemyError) -> bool:
    """True if a disk is full or broken, whichever database says so."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    return (
        any(words in str(cause) for words in ("disk is full", "disk I/O error")) or getattr(cause, "sqlstate", None) == "53100"
    )


def locking(connection: Connection, statement: Select[Any]) -> Select[Any]:
    """Locks the selected rows until a write transaction ends; SQLite has one writer anyhow, and readers lock nothing."""
    return statement if connection.get_execution_options().get("reading") else statement.with_for_update()


def upsert(connection: Connection, table: Any, row: dict[str, Any], changes: Callable[[Any], dict[str, Any]]) -> None:
    """Inserts a row, or changes the one that has its primary key; `changes` is called with the columns of the new row."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(table).values(row)
    keys = list(table.primary_key.columns)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes(statement.excluded)))


def one_at_a_time(connection: Connection, what: int) -> None:
    """Has transactions that name the same number follow each other; SQLite has one writer anyhow."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(what)))


def whole(connection: Connection, number: ColumnElement[Any]) -> ColumnElement[int]:
    """A number that is not negative, without what follows the point: PostgreSQL's cast would round it."""
    return cast(number, Integer) if connection.dialect.name == "sqlite" else cast(func.floor(number), Integer)


def continue_numbers(connection: Connection, column: Column[int]) -> None:
    """Lets PostgreSQL number rows on behind the last one, after rows came with their numbers; SQLite does it by itself."""
    if connection.dialect.name == "postgresql":
        last = func.max(column)
        connection.execute(select(func.setval(_sequence(column), func.coalesce(last, 1), last.is_not(None))))


def skip_numbers(connection: Connection, column: Column[int], gap: int) -> None:
    """Lets the database number rows on so far behind the last number that is there or was ever given here."""
    if connection.dialect.name == "postgresql":
        last = func.greatest(func.coalesce(func.max(column), 0), func.nextval(_sequence(column)))
        connection.execute(select(func.setval(_sequence(column), last + gap)))
        return
    known = "SELECT 1 FROM sqlite_sequence WHERE name = :table"
    given = {"table": column.table.name, "gap": gap}
    connection.execute(text(f"INSERT INTO sqlite_sequence (name, seq) SELECT :table, 0 WHERE NOT EXISTS ({known})"), given)
    connection.execute(text("UPDATE sqlite_sequence SET seq = seq + :gap WHERE name = :table"), given)


def _sequence(column: Column[int]) -> ColumnElement[Any]:
    return func.pg_get_serial_sequence(column.table.name, column.name)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    try:
        return create_engine(
            url,
            hide_parameters=True,  # else errors show them, secrets included
            pool_size=POOL,
            max_overflow=0,
            pool_timeout=CONNECT_TIMEOUT,
            pool_pre_ping=True,  # a connection that broke while nobody used it is replaced
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT,
                "options": f"-c statement_timeout={STATEMENT_TIMEOUT}",
                **KEEPALIVE,
            },
        )
    except ImportError as error:
        raise Misused(f"PostgreSQL needs {error.name}; run `pip install 'psycopg[binary]'`") from None


def _note_table(connection: Connection, statement: Any, *_: object) -> None:
    """Notes which table a statement of a write transaction changes; one that could be anything counts for all."""
    tables = connection.info.get(TABLES)
    if tables is not None and not isinstance(statement, SelectBase):
        table = statement.table if isinstance(statement, UpdateBase) else None
        tables.add(table.name if isinstance(table, TableClause) else ANY)


def _sqlite(url: URL) -> Engine:
    path = Path(str(url.database)).absolute()
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Misused(f"{path} cannot be the server's database: {str(error.strerror).lower()}; name another place") from None
    engine = create_engine(url.set(database=str(path)), hide_parameters=True, connect_args={"timeout": LOCK_TIMEOUT})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # Python begins no transactions by itself
    for pragma in (
        "journal_mode = WAL",
        "foreign_keys = ON",
        "synchronous = FULL",
    ):  # the last: a commit survives a power failure
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get("reading")
    connection.execute(_BEGIN_READING if reading else _BEGIN)
