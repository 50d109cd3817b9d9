"""The server: `core` has accounts, database and requests, `results` the tester with its database, `pages` what people see."""
