"""Reads a Python file of settings without running it: literals, EasyDict and dict, earlier names, and sums of texts."""

import ast
import warnings
from collections.abc import Iterable
from typing import Any

from muster.aisbench.config.values import UNREAD, ConfigValue, Findings, read_bytes

HINT = "write the value itself there"


class _NotPlain(Exception):
    """An expression or statement whose value is not known without running it."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.line = getattr(node, "lineno", None)


def read(path: str, findings: Findings) -> dict[str, ConfigValue] | None:
    """Returns the names that the file assigns, with their values; everything else in it is a problem.

    Returns None where the file is not Python.
    """
    data = read_bytes(path, findings)
    if data is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as `\d` in a text
            tree = ast.parse(data, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply or holds a NUL byte"
        findings.problem(
            ConfigValue(None, path, line), "", f"is not Python: {reason}", "check the quotes, commas and brackets there"
        )
        return None
    return _Reader(path, findings).read(tree)


class _Reader:
    def __init__(self, path: str, findings: Findings) -> None:
        self.path = path
        self.findings = findings
        self.names: dict[str, ConfigValue] = {}
        self.makers = {"dict"}  # names of callables that make a mapping

    def read(self, tree: ast.Module) -> dict[str, ConfigValue]:
        for statement in tree.body:
            try:
                self._statement(statement)
            except _NotPlain as error:
                self._add_problem(statement, error)
            except RecursionError:
                self._add_problem(statement, _NotPlain(statement, "is nested too deeply"))
        return self.names

    def _add_problem(self, statement: ast.stmt, error: _NotPlain) -> None:
        self.findings.problem(ConfigValue(None, self.path, error.line), "", str(error), HINT)
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            if isinstance(target, ast.Name):
                self.names[target.id] = ConfigValue(UNREAD, self.path, statement.lineno)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Assign():
                value = self._value(node.value)
                for target in node.targets:
                    self._assign(target, value)
            case ast.AnnAssign(value=ast.expr() as given):
                self._assign(node.target, self._value(given))
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise _NotPlain(node, "holds a statement that is not an assignment, and nothing is executed here")

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name in node.names:
            if isinstance(node, ast.ImportFrom) and name.name == "EasyDict":
                self.makers.add(name.asname or name.name)
            elif name.name == "easydict":
                self.makers.add(f"{name.asname or name.name}.EasyDict")

    def _assign(self, target: ast.expr, value: ConfigValue) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            return
        if isinstance(target, ast.Attribute | ast.Subscript):
            outer, key = self._value(target.value), self._key(target)
            if isinstance(outer.value, dict):
                outer.value[key] = value
                return
        raise _NotPlain(target, "assigns to something that is no name")

    def _key(self, node: ast.Attribute | ast.Subscript) -> str:
        if isinstance(node, ast.Attribute):
            return node.attr
        key = self._plain(node.slice)
        if not isinstance(key, str):
            raise _NotPlain(node, "uses a key that is not a text")
        return key

    def _value(self, node: ast.expr) -> ConfigValue:
        return ConfigValue(self._plain(node), self.path, node.lineno)

    def _plain(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=(str() | int() | float() | None) as value):
                return value
            case ast.List() | ast.Tuple():
                return [self._value(entry) for entry in node.elts]
            case ast.Dict():
                return self._mapping(zip(node.keys, node.values, strict=True))
            case ast.Call():
                return self._call(node)
            case ast.Name():
                return self._named(node, self.names.get(node.id))
            case ast.Attribute() | ast.Subscript():
                return self._named(node, self._value(node.value).get(self._key(node)))
            case ast.BinOp(op=ast.Add()):
                left, right = self._plain(node.left), self._plain(node.right)
                if type(left) is type(right) and isinstance(left, str | list | int) and not isinstance(left, bool):
                    return left + right
                raise _NotPlain(node, "adds values that do not go together")
            case ast.UnaryOp(op=ast.USub()):
                value = self._plain(node.operand)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    return -value
                raise _NotPlain(node, "negates something that is no number")
        raise _NotPlain(node, f"holds {_description(node)}, whose value is not known without running it")

    def _named(self, node: ast.expr, found: ConfigValue | None) -> Any:
        if found is None or found.value is UNREAD:  # the message does not show it: it may be a key without its quotes
            raise _NotPlain(node, "uses a name that was not given a plain value before, or is a text without quotes")
        return found.value

    def _call(self, node: ast.Call) -> dict[str, ConfigValue]:
        if ast.unparse(node.func) not in self.makers or len(node.args) > 1 or any(word.arg is None for word in node.keywords):
            raise _NotPlain(node, f"holds {_description(node)}, whose value is not known without running it")
        given = self._plain(node.args[0]) if node.args else {}
        if not isinstance(given, dict):
            raise _NotPlain(node, "makes a mapping of something that is none")
        words = [(ast.copy_location(ast.Constant(word.arg), word.value), word.value) for word in node.keywords]
        return {**given, **self._mapping(words)}

    def _mapping(self, pairs: Iterable[tuple[ast.expr | None, ast.expr]]) -> dict[str, ConfigValue]:
        found: dict[str, ConfigValue] = {}
        for key_node, value_node in pairs:
            key = self._plain(key_node) if key_node is not None else None
            if not isinstance(key, str):
                raise _NotPlain(key_node or value_node, "has a key that is not a text")
            value = self._value(value_node)
            if key in found:
                message = f"stands twice, on line {found[key].line} too"
                self.findings.problem(value, key, message, "keep one of them: Python takes the last without a word")
            found[key] = value
        return found


def _description(node: ast.expr) -> str:
    """Describes an expression without the texts in it, which may be secrets."""
    if isinstance(node, ast.Call):
        texts = any(isinstance(inner, ast.Constant) for inner in ast.walk(node.func))
        return "a call" if texts else f"a call of `{ast.unparse(node.func)[:40]}`"
    return "an expression"
