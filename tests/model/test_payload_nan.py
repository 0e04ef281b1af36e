"""Decimals that are no numbers are refused in words, also those that refuse to be compared."""

from dataclasses import dataclass
from decimal import Decimal

import pytest

from relevo import RelevoError
from relevo.model.payload import PayloadSchema


@dataclass
class Price:
    amount: Decimal


def handler(ctx: object, amount: Decimal, price: Price) -> None: ...


FINE = Decimal("1.5")


@pytest.mark.parametrize("number", ["NaN", "sNaN", "-sNaN12"])
def test_a_decimal_that_is_no_number_is_refused(number: str) -> None:
    schema = PayloadSchema("test.work", handler)
    bad = Decimal(number)

    with pytest.raises(RelevoError, match=r"\$\.amount"):
        schema.encode((), {"amount": bad, "price": Price(FINE)})
    with pytest.raises(RelevoError, match=r"\$\.price"):
        schema.encode((), {"amount": FINE, "price": Price(bad)})
