"""Turn a handler's arguments into JSON and back, or refuse them before any SQL.

The rule is one: what a handler receives equals what was enqueued. The parameters'
annotations say how a value is written (UUID, datetime, Decimal, Enum, dataclass as
JSON text), and whatever would come back different is refused with its path.
"""

import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, get_type_hints

import msgspec

from relevo.model.errors import (
    InvalidKind,
    PayloadInvalid,
    PayloadMismatch,
    PayloadTooLarge,
    ResultNotStored,
)
from relevo.model.json_values import (
    TOO_DEEP,
    clean,
    refuse_not_finite,
    refuse_nul,
    refuse_unequal,
    refuse_unwritable,
)
from relevo.model.text import lower_first

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
"""The largest payload that is accepted, unless the application says otherwise."""

MAX_RESULT_BYTES: Final = 256 * 1024
"""The largest result that is kept on a row."""

_NUL: Final = b"\\u0000"


class PayloadSchema:
    """How the arguments of one kind are written to a row and read back.

    Args:
        kind: The kind's name, for errors.
        handler: The function whose first parameter is the context and whose others
            are the payload.

    Raises:
        InvalidKind: The handler has no context parameter, takes ``*args`` or
            ``**kwargs``, or an annotation that cannot be written as JSON.
    """

    def __init__(self, kind: str, handler: Callable[..., object]) -> None:
        self.kind = kind
        parameters = list(inspect.signature(handler).parameters.values())
        if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise InvalidKind(kind=kind, what="its handler does not take the context first")
        if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
            raise InvalidKind(kind=kind, what="its handler is a generator, so a call runs nothing")
        try:
            hints = get_type_hints(handler)
        except NameError as error:
            raise InvalidKind(kind=kind, what=f"an annotation is unknown: {error}") from error
        fields: list[tuple[Any, ...]] = []
        for parameter in parameters[1:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise InvalidKind(kind=kind, what=f"*{parameter.name} has no name on the row")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise InvalidKind(kind=kind, what=f"{parameter.name} cannot be passed by its name")
            hint = hints.get(parameter.name, Any)
            if parameter.default is parameter.empty:
                fields.append((parameter.name, hint))
            else:
                default = parameter.default
                fields.append(
                    (parameter.name, hint, msgspec.field(default_factory=_always(default)))
                )
        self.names: Final = tuple(field[0] for field in fields)
        try:
            self._struct = msgspec.defstruct(
                "Payload", fields, forbid_unknown_fields=True, kw_only=True
            )
            self._decoder = msgspec.json.Decoder(self._struct)
            self._checker = msgspec.json.Decoder(self._struct, float_hook=_as_jsonb_answers)
        except (TypeError, ValueError) as error:
            raise InvalidKind(kind=kind, what=str(error)) from error
        self._encoder = msgspec.json.Encoder()

    def encode(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        limit: int = MAX_PAYLOAD_BYTES,
    ) -> str:
        """Write the arguments as the JSON text of one payload.

        Args:
            args: Positional arguments after the context.
            kwargs: Arguments by name.
            limit: The most bytes of UTF-8.

        Raises:
            PayloadMismatch: The arguments do not fit the handler's parameters.
            PayloadNotJson: A value would come back as something else.
            PayloadInvalid: A value that JSON or PostgreSQL cannot hold (NaN, NUL, …).
            PayloadTooLarge: More than `limit` bytes.
        """
        if args:
            kwargs = self._name(args, kwargs)
        try:
            payload = self._struct(**kwargs)
        except TypeError as error:
            raise PayloadMismatch(kind=self.kind, why=lower_first(error)) from error
        written = {name: getattr(payload, name) for name in self.names}
        text = self._write(written)
        if len(text) > limit:
            raise PayloadTooLarge(size=len(text), limit=limit)
        if _NUL in text:
            refuse_nul(written, "$")
        try:
            read = self._checker.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            refuse_unequal(written, _read_plainly(text), "$")
            raise PayloadMismatch(kind=self.kind, why=lower_first(error)) from error
        for name, value in written.items():
            refuse_unequal(value, getattr(read, name), f"$.{name}")
        return text.decode()

    def decode(self, text: str) -> dict[str, Any]:
        """Read a payload back into the handler's arguments by name.

        Raises:
            PayloadMismatch: The row holds something that the handler does not take.
        """
        try:
            payload = self._decoder.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise PayloadMismatch(kind=self.kind, why=lower_first(error)) from error
        return {name: getattr(payload, name) for name in self.names}

    def _name(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Mapping[str, object]:
        if len(args) > len(self.names):
            raise PayloadMismatch(kind=self.kind, why=f"it takes {len(self.names)} arguments")
        named = dict(zip(self.names, args, strict=False))
        if twice := named.keys() & kwargs.keys():
            raise PayloadMismatch(kind=self.kind, why=f"{min(twice)} was given twice")
        return {**named, **kwargs}

    def _write(self, written: Mapping[str, object]) -> bytes:
        try:
            return self._encoder.encode(written)
        except RecursionError as error:
            raise PayloadInvalid(path="$", why=TOO_DEEP) from error
        except (TypeError, ValueError, OverflowError) as error:
            refuse_unwritable(written, "$")
            raise PayloadMismatch(kind=self.kind, why=lower_first(error)) from error


def write_result(value: object, limit: int = MAX_RESULT_BYTES) -> str:
    """Write a handler's result as JSON text for the row; NUL becomes U+FFFD.

    Raises:
        ResultNotStored: The value cannot be kept; the text says why.
    """
    try:
        text = msgspec.json.encode(value)
        if _NUL in text:
            text = msgspec.json.encode(clean(msgspec.to_builtins(value)))
        if b"null" in text:
            refuse_not_finite(msgspec.to_builtins(value), "$")
    except RecursionError as error:
        raise ResultNotStored(why=TOO_DEEP) from error
    except PayloadInvalid as error:
        raise ResultNotStored(why=f"{error.path} {error.why}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise ResultNotStored(why=lower_first(error)) from error
    if len(text) > limit:
        raise ResultNotStored(why=f"it has {len(text)} bytes and the limit is {limit}")
    return text.decode()


def _as_jsonb_answers(text: str) -> int | float:
    """Read an untyped number as it will be read from the row, where it has no exponent."""
    number = float(text)
    return int(Decimal(text)) if "e" in text and number.is_integer() else number


def _always(value: object) -> Callable[[], object]:
    return lambda: value


def _read_plainly(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
