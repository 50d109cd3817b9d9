"""The server: `core` has accounts, database and requests, `results` what a tester collects, `pages` what people see."""
