"""Whatever an enqueue accepts comes out of jsonb equal to what went in."""

from typing import Any

import psycopg
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from relevo.model.errors import PayloadError
from relevo.model.payload import PayloadSchema


def handler(ctx: object, value: Any) -> None:
    """Nothing."""


SCHEMA = PayloadSchema("test.work", handler)

# Everything that Python can write as JSON, also what PostgreSQL refuses.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(value=VALUES)
@example(value={"": {"\\u0000": "\\"}})
@example(value=1e16)
@example(value=[1.7976931348623157e308])
@example(value=[9.9e15, 5e-324, 1e-7, -0.0])
@example(value=[2**63, 2**64 - 1, -(2**63)])
@example(value=["\U0010ffff", "\ufffe", "\x7f", "\x01"])
def test_an_accepted_payload_comes_back_equal_from_the_database(
    connection: psycopg.Connection, value: object
) -> None:
    try:
        text = SCHEMA.encode((), {"value": value})
    except PayloadError:
        return

    stored = connection.execute("SELECT %s::text::jsonb::text", [text]).fetchone()[0]

    back = SCHEMA.decode(stored)["value"]
    assert back == value
    assert repr(back) == repr(value) or "-0.0" in repr(value) or isinstance(value, dict | list)


def test_a_large_number_comes_back_as_the_float_that_the_handler_takes(
    connection: psycopg.Connection,
) -> None:
    def takes_float(ctx: object, value: float) -> None:
        """Nothing."""

    shape = PayloadSchema("test.work", takes_float)
    text = shape.encode((), {"value": 1.7976931348623157e308})

    stored = connection.execute("SELECT %s::text::jsonb::text", [text]).fetchone()[0]

    assert shape.decode(stored) == {"value": 1.7976931348623157e308}
