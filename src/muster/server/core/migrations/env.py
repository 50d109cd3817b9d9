"""Alembic's environment: `Database.migrate` gives the connection, whose transaction holds all revisions."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
