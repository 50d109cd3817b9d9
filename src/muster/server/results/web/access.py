"""Who asks for plans and results: a bearer token for programs, a session for browsers, neither where the tester is open.

What they may do is decided by roles, in `server/core/access.py`.
"""

from typing import Annotated

from fastapi import Depends, Request

from muster.server.core.access import Caller, demand, may
from muster.server.core.authentication import Bearer, Context, address_of, caller
from muster.server.results.context import ResultsContext
from muster.tester.errors import Denied

NO_TOKEN = "this tester wants a token; ask who runs it for one and put it into MUSTER_TESTER_TOKEN"
BAD_TOKEN = "this token is not known here, or was revoked; ask who runs the tester for a new one"
ONLY_READS = "this token may read and not submit; ask who runs the tester for another, or make one with `--scope write`"


def results_context(request: Request) -> ResultsContext:
    context: ResultsContext = request.app.state.results
    return context


Section = Annotated[ResultsContext, Depends(results_context)]


def asking(request: Request, context: Context, section: Section, given: Bearer) -> Caller:
    """Returns who asks, by a token or a session; where the tester is open, also without either."""
    try:
        return caller(request, context, given)
    except Denied as error:
        if error.status != 401:
            raise
        if given is None and section.anyone is not None:
            return Caller(section.anyone.name, address_of(request), section.anyone)
        if section.tester:
            raise Denied(401, NO_TOKEN if given is None else BAD_TOKEN) from None
        raise


def reader(found: Annotated[Caller, Depends(asking)]) -> Caller:
    demand(found.principal, "results.read")
    return found


def sender(request: Request, context: Context, section: Section, given: Bearer) -> Caller:
    """Returns who changes something. A session is not accepted, so no other site can submit for a user."""
    if given is None and section.anyone is None:
        raise Denied(401, NO_TOKEN)
    if given is None and section.anyone is not None:
        return Caller(section.anyone.name, address_of(request), section.anyone)
    return asking(request, context, section, given)


def submitter(found: Annotated[Caller, Depends(sender)]) -> Caller:
    if not may(found.principal, "results.submit"):
        raise Denied(403, ONLY_READS)
    return found


Reader = Annotated[Caller, Depends(reader)]
Sender = Annotated[Caller, Depends(sender)]
Submitter = Annotated[Caller, Depends(submitter)]
