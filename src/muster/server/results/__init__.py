"""The tester's section: plans, uploads, verification, results and rankings."""
