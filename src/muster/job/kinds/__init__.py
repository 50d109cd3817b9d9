"""The kinds of values that users write, in job files, engine options and config.toml: how each is read, checked and described.

Own code instead of pydantic: importing and building its model took 110 ms of the 350 ms that a whole run may take, and
it keeps neither a line number nor the text of a number as it was written.
"""

from muster.job.kinds.item import PASSWORD, Item, Wrong, each, nearest, numbered, scalar, text_of, typed, without_password, word
from muster.job.kinds.lists import Causes, Command, Names
from muster.job.kinds.mappings import EngineOptions, Fields, Pairs, Section, Table, declared, engine_options, fields_of
from muster.job.kinds.numbers import Count, Duration, Number, Share, Size
from muster.job.kinds.texts import ENV_NAME, SCALAR, Choice, Flag, Kind, Line, Name, Pattern, Text, clean_name, one_line

__all__ = [
    "ENV_NAME",
    "PASSWORD",
    "SCALAR",
    "Causes",
    "Choice",
    "Command",
    "Count",
    "Duration",
    "EngineOptions",
    "Fields",
    "Flag",
    "Item",
    "Kind",
    "Line",
    "Name",
    "Names",
    "Number",
    "Pairs",
    "Pattern",
    "Section",
    "Share",
    "Size",
    "Table",
    "Text",
    "Wrong",
    "clean_name",
    "declared",
    "each",
    "engine_options",
    "fields_of",
    "nearest",
    "numbered",
    "one_line",
    "scalar",
    "text_of",
    "typed",
    "without_password",
    "word",
]
