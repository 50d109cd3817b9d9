"""`dataclass(frozen=...)` as in the standard library, with methods that are shared instead of compiled for every class.

The standard decorator compiles six methods per class, in half a millisecond, and its module imports `inspect`: together a
quarter of the time that `muster run` takes to start a run. An instance takes some microseconds more, so classes of which there
are thousands use the standard one. The functions here and those of the standard library work with both.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["Field", "asdict", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import Field, asdict, dataclass, field, fields, replace
else:

    def dataclass(*, frozen: bool, repr: bool = True) -> Callable[[type], type]:
        """Makes a class with annotated fields a dataclass; instances of a frozen one do not change."""
        return lambda cls: _completed(cls, frozen, repr)

    class Field:
        def __init__(self, **options: Any) -> None:
            self.options = options
            self.default, self.default_factory = (options.get(name, _MISSING) for name in ("default", "default_factory"))
            self.repr, self.compare = options.get("repr", True), options.get("compare", True)
            self.metadata = options.get("metadata", {})

    field = Field

    def fields(kind: Any) -> tuple[Any, ...]:
        """The fields of a dataclass or of an instance of one."""
        if not hasattr(kind, "_fields_by_name"):
            from dataclasses import fields as standard_fields

            return standard_fields(kind)
        return tuple(kind._fields_by_name.values())

    def replace(instance: Any, **changes: Any) -> Any:
        """A copy with other values of some fields."""
        return type(instance)(**{**{found.name: getattr(instance, found.name) for found in fields(instance)}, **changes})

    def asdict(instance: Any, *, dict_factory: Callable[[Any], Any] = dict) -> Any:
        """The fields of an instance by name, and so for instances in its values."""
        return _plain(instance, dict_factory)


_MISSING = object()


class _StandardFields:
    """Stands in for the fields as the standard library knows them until its functions ask for them: it takes long to import."""

    def __init__(self, cls: Any, own: dict[str, Any]) -> None:
        self.cls, self.own = cls, own

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        for name, found in self.own.items():
            setattr(self.cls, name, dataclasses.field(**found.options))
        dataclasses.dataclass(init=False, repr=False, eq=False)(self.cls)
        return self.cls.__dataclass_fields__


def _completed(cls: Any, frozen: bool, shown: bool) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library would make it of the signature, which takes long
    found = {name: _field(cls, name) for name in cls.__dict__.get("__annotations__", {})}  # noqa: RUF063 - not by inspect
    cls.__dataclass_fields__ = _StandardFields(cls, found)
    cls._fields_by_name = {**getattr(cls, "_fields_by_name", {}), **found}
    compared = [each.name for each in fields(cls) if each.compare]
    key = attrgetter(*compared) if compared else lambda instance: ()

    def equal(self: Any, other: object) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    methods: dict[str, Callable[..., Any]] = {"__init__": _constructor(cls), "__eq__": equal}
    if frozen:
        methods.update(__setattr__=_refuse, __delattr__=_refuse)
    if shown:
        methods["__repr__"] = _text
    if cls.__dict__.get("__hash__") is None:
        cls.__hash__ = (lambda self: hash(key(self))) if frozen else None
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return cls


def _field(cls: Any, name: str) -> Any:
    """A field of a class, whose attribute becomes its default."""
    given = cls.__dict__.get(name, _MISSING)
    if type(given).__module__ == "dataclasses":  # made by the standard library
        import dataclasses

        options = {name: getattr(given, name) for name in ("default", "default_factory", "repr", "compare", "metadata")}
        given = Field(**{name: value for name, value in options.items() if value is not dataclasses.MISSING})
    found = given if isinstance(given, Field) else Field(**({} if given is _MISSING else {"default": given}))
    found.name = name
    if found.default is not _MISSING:
        setattr(cls, name, found.default)
    elif given is not _MISSING:
        delattr(cls, name)
    return found


def _constructor(cls: Any) -> Callable[..., None]:
    names = [found.name for found in fields(cls)]
    defaults = {found.name: found.default for found in fields(cls) if found.default is not _MISSING}
    factories: dict[str, Any] = {found.name: found.default_factory for found in fields(cls)}
    finish = getattr(cls, "__post_init__", None)

    def construct(self: Any, /, *values: Any, **named: Any) -> None:
        state = self.__dict__
        state.update(zip(names, values))  # noqa: B905 - `strict` is newer than the Python of some nodes
        for name in names[len(values) :]:
            if name in named:
                state[name] = named.pop(name)
            elif name in defaults:
                state[name] = defaults[name]
            elif factories[name] is not _MISSING:
                state[name] = factories[name]()
            else:
                raise TypeError(f"{cls.__name__} needs a value for {name}")
        if named or len(values) > len(names):
            raise TypeError(f"{cls.__name__} does not take {', '.join(named) or f'{len(values)} values'}")
        if finish:
            finish(self)

    return construct


def _refuse(self: object, name: str, *_: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change {name!r} of a {type(self).__name__}")


def _text(self: Any) -> str:
    shown = (f"{found.name}={getattr(self, found.name)!r}" for found in fields(self) if found.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _plain(value: Any, made: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if hasattr(kind, "_fields_by_name") or hasattr(kind, "__dataclass_fields__"):
        return made([(found.name, _plain(getattr(value, found.name), made)) for found in fields(value)])
    if isinstance(value, dict):
        return {name: _plain(inner, made) for name, inner in value.items()}
    return kind(_plain(inner, made) for inner in value) if kind in (list, tuple) else value
