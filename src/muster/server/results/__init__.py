"""The tester: its application, tokens and database; plans, uploads, verification, results and rankings."""
