"""A handler receives what was enqueued, equal and of the same type, or the enqueue is refused."""

import dataclasses
import enum
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.model.errors import (
    InvalidKind,
    PayloadError,
    PayloadInvalid,
    PayloadMismatch,
    PayloadNotJson,
    PayloadTooLarge,
)
from relevo.model.payload import PayloadSchema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    at: datetime


def schema(hint: object = Any) -> PayloadSchema:
    def handler(ctx: object, value: Any) -> None:
        """Nothing."""

    handler.__annotations__["value"] = hint
    return PayloadSchema("test", handler)


def there_and_back(value: object, hint: object = Any) -> object:
    shape = schema(hint)
    return shape.decode(shape.encode((), {"value": value}))["value"]


def with_lists(value: object) -> object:
    """The same value with its tuples as lists: JSON has no tuples, as is documented."""
    if isinstance(value, list | tuple):
        return [with_lists(inner) for inner in value]
    if isinstance(value, dict):
        return {key: with_lists(inner) for key, inner in value.items()}
    return value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), inner
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_plain_json_comes_back_equal(value: object) -> None:
    assert there_and_back(value) == value


@pytest.mark.parametrize("number", [1e16, -1e300, [{"n": 2e20}]], ids=str)
def test_a_float_that_jsonb_would_answer_as_a_whole_number_needs_an_annotation(
    number: object,
) -> None:
    with pytest.raises(PayloadNotJson, match="float"):
        there_and_back(number)


def test_an_annotated_float_may_be_as_large_as_it_likes() -> None:
    assert there_and_back(1e300, float) == 1e300


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters())
        | st.binary(max_size=4)
        | st.uuids()
        | st.datetimes()
        | st.decimals()
        | st.sampled_from(Colour),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner)
            | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=3)
            | st.frozensets(st.integers(), max_size=3)
        ),
        max_leaves=8,
    )
)
def test_anything_else_comes_back_equal_or_is_refused_by_a_payload_error(value: object) -> None:
    try:
        back = there_and_back(value)
    except PayloadError:
        return
    assert back == with_lists(value)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (UUID(int=2**127 + 1), UUID),
        (datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), datetime),
        (date(2030, 1, 2), date),
        (time(3, 4, 5), time),
        (timedelta(seconds=1.5), timedelta),
        (Decimal("1.10"), Decimal),
        (Colour.BLUE, Colour),
        (Point(1, datetime(2030, 1, 1, tzinfo=UTC)), Point),
        ([UUID(int=1), UUID(int=2)], list[UUID]),
        ({"a": Decimal("0.1")}, dict[str, Decimal]),
        ((1, 2), tuple[int, int]),
        (frozenset({1, 2}), frozenset[int]),
        (None, UUID | None),
        ("red", Literal["red"]),
        (b"\x00\xff", bytes),
        (1, float),
        (2**63, int),
        ("naïve ☃ 𝄞", str),
    ],
    ids=str,
)
def test_an_annotated_value_comes_back_equal_and_of_its_type(value: object, hint: object) -> None:
    back = there_and_back(value, hint)

    assert back == value
    assert isinstance(back, type(value)) or (value, back) == (1, 1.0)


@pytest.mark.parametrize(
    ("value", "path", "name"),
    [
        ({"at": datetime(2030, 1, 1, tzinfo=UTC)}, r"\$\.value\.at", "datetime"),
        ({"id": UUID(int=1)}, r"\$\.value\.id", "UUID"),
        ({"d": Decimal("1.10")}, r"\$\.value\.d", "Decimal"),
        ({"deep": [{"b": b"x"}]}, r"\$\.value\.deep\[0\]\.b", "bytes"),
        ([NotImplemented], r"\$\.value\[0\]", "NotImplementedType"),
        ({1: "a"}, r"\$\.value", "int"),
    ],
    ids=str,
)
def test_a_value_whose_type_json_lacks_is_refused_with_path_and_type(
    value: object, path: str, name: str
) -> None:
    with pytest.raises(PayloadNotJson, match=f"{path}.*{name}") as refused:
        there_and_back(value)

    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("hint", [Any, float, list[float]])
def test_a_number_that_json_lacks_is_refused_with_its_path(number: float, hint: object) -> None:
    value = [1.0, number] if hint == list[float] else number

    with pytest.raises(ValueError, match=r"\$\.value"):
        there_and_back(value, hint)


@pytest.mark.parametrize(
    "value",
    ["a\0b", {"a": "x\0"}, {"a\0": 1}, ["\0"], {"deep": {"er": ["ok", "\0"]}}],
    ids=repr,
)
def test_a_nul_is_refused_with_its_path(value: object) -> None:
    with pytest.raises(PayloadInvalid, match=r"\$\.value.*NUL") as refused:
        there_and_back(value)

    assert isinstance(refused.value, ValueError)


def test_the_text_backslash_u0000_is_no_nul() -> None:
    assert there_and_back("\\u0000") == "\\u0000"


@pytest.mark.parametrize("value", ["\ud800", {"a": "\udfff"}, {"\ud800": 1}], ids=repr)
def test_half_a_surrogate_pair_is_refused(value: object) -> None:
    with pytest.raises(PayloadError):
        there_and_back(value)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [70, 900, 100_000])
def test_a_value_nested_too_deeply_is_refused_readably(depth: int) -> None:
    with pytest.raises(PayloadInvalid, match="deep"):
        there_and_back(nested(depth))


def test_a_reference_to_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)

    with pytest.raises(PayloadError):
        there_and_back(value)


def test_a_payload_over_the_limit_is_refused_with_both_sizes() -> None:
    with pytest.raises(PayloadTooLarge, match="limit is 100") as refused:
        schema(str).encode((), {"value": "x" * 200}, limit=100)

    assert refused.value.limit == 100


def test_the_limit_counts_bytes_not_characters() -> None:
    with pytest.raises(PayloadTooLarge):
        schema(str).encode((), {"value": "é" * 60}, limit=100)


def test_arguments_may_be_given_by_place_and_by_name() -> None:
    def handler(ctx: object, a: int, b: str = "default") -> None:
        """Nothing."""

    shape = PayloadSchema("test", handler)

    assert shape.decode(shape.encode((1,), {})) == {"a": 1, "b": "default"}
    assert shape.decode(shape.encode((1, "x"), {})) == {"a": 1, "b": "x"}
    assert shape.decode('{"a": 1}') == {"a": 1, "b": "default"}


@pytest.mark.parametrize(
    "text",
    ["[1]", '"s"', "0", "null", "{}", '{"value": 1, "more": 2}', '{"value": "x"}', "[" * 5000],
)
def test_a_row_that_holds_something_else_is_a_mismatch(text: str) -> None:
    with pytest.raises(PayloadMismatch):
        schema(int).decode(text)


def no_context() -> None:
    """Nothing."""


def starred(ctx: object, *args: int) -> None:
    """Nothing."""


def double_starred(ctx: object, **kwargs: int) -> None:
    """Nothing."""


def keyword_context(*, ctx: object) -> None:
    """Nothing."""


def only_by_place(ctx: object, value: int, /) -> None:
    """Nothing."""


def unknown_annotation(ctx: object, value: "Nowhere") -> None:  # noqa: F821 -- the test
    """Nothing."""


def a_generator(ctx: object) -> Any:
    """Never runs when it is called."""
    yield 1


async def an_async_generator(ctx: object) -> Any:
    """Never runs when it is called."""
    yield 1


@pytest.mark.parametrize(
    "handler",
    [
        no_context,
        starred,
        double_starred,
        keyword_context,
        only_by_place,
        unknown_annotation,
        a_generator,
        an_async_generator,
    ],
)
def test_a_handler_whose_arguments_cannot_be_a_payload_is_refused_when_declared(
    handler: Callable[..., object],
) -> None:
    with pytest.raises(InvalidKind):
        PayloadSchema("test", handler)
