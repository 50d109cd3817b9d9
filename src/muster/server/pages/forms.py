"""Forms that pages send."""

from urllib.parse import parse_qs

from fastapi import Request

from muster.tester.errors import Denied

MAX_FIELDS = 10


async def body(request: Request) -> bytes:
    return await request.body()


def fields(body: bytes) -> dict[str, str]:
    """Parses the fields of a form, of which there are few."""
    try:
        found = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Denied(400, "this is no form of this server; open its own page") from None
    return {name: values[0] for name, values in found.items()}
