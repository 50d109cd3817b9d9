"""`python -m muster` is the command line."""

from muster.cli.entry import main

main()
