"""The blocking client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, overload

from ..wire import Feedback, FeedbackResult, Item, ItemId
from .asynchronous import AsyncClient
from .calls import Click
from .core import Core
from .shown import Shown
from .threads import Threads, run

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Client, P], T]:
    """Make a method of ``AsyncClient`` one of ``Client``."""

    @wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self, *args, **kwargs))

    return call


class Client(Core):
    """A connection to a ranking service. Threads may share it.

    The parameters are those of :class:`~.core.Core`.

    Examples
    --------
    With a service that listens there::

        with Client("http://127.0.0.1:8080") as client:
            ranking = client.rank("shoes", ["red", "blue", "green"])
            client.feedback(ranking.event_id, clicks=["blue"])
    """

    _runtime_class = Threads

    rank = _blocking(AsyncClient.rank)
    rank_many = _blocking(AsyncClient.rank_many)
    feedback_many = _blocking(AsyncClient.feedback_many)
    activate = _blocking(AsyncClient.activate)
    flush = _blocking(AsyncClient.flush)
    close = _blocking(AsyncClient.close)
    event = _blocking(AsyncClient.event)
    query = _blocking(AsyncClient.query)
    queries = _blocking(AsyncClient.queries)
    delete_query = _blocking(AsyncClient.delete_query)
    rankers = _blocking(AsyncClient.rankers)
    ranker = _blocking(AsyncClient.ranker)
    put_ranker = _blocking(AsyncClient.put_ranker)
    patch_ranker = _blocking(AsyncClient.patch_ranker)
    top_queries = _blocking(AsyncClient.top_queries)
    changes = _blocking(AsyncClient.changes)
    operations = _blocking(AsyncClient.operations)
    all_operations = _blocking(AsyncClient.all_operations)
    undo = _blocking(AsyncClient.undo)
    experiment = _blocking(AsyncClient.experiment)
    shadow = _blocking(AsyncClient.shadow)
    overview = _blocking(AsyncClient.overview)
    series = _blocking(AsyncClient.series)
    query_lists = _blocking(AsyncClient.query_lists)
    delete_ranker = _blocking(AsyncClient.delete_ranker)
    reset = _blocking(AsyncClient.reset)
    warmstart = _blocking(AsyncClient.warmstart)
    export = _blocking(AsyncClient.export)
    import_ = _blocking(AsyncClient.import_)

    # written out, since a wrapper has no overloads
    @overload
    def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, value: float | None = ..., kind: str | None = ...,
        wait: Literal[False] = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = ..., shown: int | None = ...,
        time: float | str | None = ..., *, value: float | None = ..., kind: str | None = ...,
        wait: Literal[True],
    ) -> FeedbackResult: ...  # fmt: skip
    @wraps(AsyncClient.feedback)
    def feedback(
        self, event_id: str, clicks: Iterable[Click] | None = None, shown: int | None = None,
        time: float | str | None = None, *, value: float | None = None, kind: str | None = None, wait: bool = False,
    ) -> FeedbackResult | None:  # fmt: skip
        return run(self._feedback(Feedback(event_id, clicks, shown, time, value, kind), wait))  # type: ignore[arg-type]

    @contextmanager
    def showing(self, query: str, items: Iterable[ItemId | Item], **how: Any) -> Iterator[Shown]:
        """Rank, show, and send feedback at the end of the block; the arguments are those of ``rank``.

        ::

            with client.showing("shoes", ["red", "blue"], fallback=True) as page:
                show(page.items)
                page.click("blue")
        """
        page = Shown(self.rank(query, items, **how))
        try:
            yield page
        except BaseException:
            run(self._feedback(page.feedback(failed=True), False))
            raise
        run(self._feedback(page.feedback(failed=False), False))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at_exit(self) -> None:
        self.close()
