"""Traffic: lists of many queries, whose candidates come in the caller's order."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ClickModel
from driftrank.environments.base import Environment, Segments
from driftrank.environments.traffic.readers import Readers
from driftrank.environments.traffic.run import TrafficKernels, TrafficRun
from driftrank.environments.traffic.stream import QueryStream
from driftrank.environments.traffic.world import CALLERS, SHAPES
from driftrank.queries import Queries
from driftrank.validation import check_choice, check_integer, check_number

#: the one name under which units and results know the stream of all queries
STREAM = "traffic"
#: how often a query came before (its *age*) or comes in all (its *frequency*): the least numbers of every group
AGES = (0, 10, 100, 1000)
#: measures of every group of lists, by age and by frequency
GROUPED = ("lists", "regret", "reward", "baseline")


class Traffic(Environment):
    r"""The lists of a whole ranker: queries of a Zipf stream or of a log, items that stand under many of them, and a
    caller who already has an order.

    A step is a *list*: the query of list i is drawn with probability in proportion to :math:`q^{-\mathrm{zipf}}`, or it
    is that of list i of the stream, which begins again after its end. A run is all lists of all queries, in one world
    of its own. A policy has a state for every query, whose step is the number of its lists, and one shared model if it
    has one. If it plans for a horizon, that is the number of all lists.

    The attraction of an item under a query is

    - ``shape="logistic"``: the logistic function of ``level`` + ``query_sd`` :math:`z_q` + ``scale`` times a sum of
      effects of variance 1: of the item (``item_share`` of the variance), of its d features (``feature_share``), of the
      query's topic with the item (``token_share``), and of the pair alone (the rest);
    - ``shape="exponential"``: :math:`\ell_q (\mathrm{top}\, e^{-i/\tau} + \mathrm{floor})` for the i-th best
      candidate, from 0, with the level :math:`\ell_q = \min(2, e^{\mathrm{query\_sd}\, z_q})`.

    It is constant within a *day*, a number of lists.

    Parameters
    ----------
    stream
        Queries, their order and their candidates: a :class:`~driftrank.environments.traffic.stream.QueryStream`, which
        :func:`driftrank.logs.query_stream` makes. On the command line, ``stream=FILE`` is a click log or a models file.
        Attraction in the file is that of the first day; what it does not have is generated. A models file has no order
        in time: its queries are a Zipf stream, the first one the most frequent. With the stream of a log,
        ``models=FILE`` is a models file with attraction for it.
    n_queries, zipf
        Number of queries, and exponent of their frequencies. Of a stream, at most so many, the most frequent.
    candidates, K
        Items of a query, and positions. Of a stream, at most so many, which the caller has first; a query with fewer
        than K has shorter lists.
    catalogue
        Number of items; the c-th is drawn about in proportion to :math:`c^{-1/2}`. 0: every query has its own. A stream
        has its own items.
    shape
        ``"logistic"`` or ``"exponential"``, see above.
    level, query_sd, scale
        The logit of an average attraction, its standard deviation over queries, and that over the items of a query;
        with ``"exponential"`` only ``query_sd``.
    item_share, feature_share, token_share
        Parts of the variance of logits that an item has under all queries, that its features explain, and that it has
        under all queries of a topic.
    top, tau, floor
        The largest attraction, above ``floor``, and the ranks in which it falls by a factor of e, with
        ``"exponential"``.
    misleading
        In so many of the most frequent queries all shared effects have the opposite sign.
    d
        Features of an item, normal numbers, which policies may use.
    topics, topic_items
        Every query has one of so many topics, a token that policies may use. With ``topic_items``, a topic has so many
        items, and its queries have no others.
    caller
        The order of the candidates: ``"noisy"``, by their true rank on the first day plus ``noise`` times a normal
        number; ``"perfect"``; ``"reversed"``; ``"random"``; ``"logged"``, that of the stream; ``"none"``: policies are
        not given an order.
    noise, jitter
        In ranks; ``jitter`` is drawn again for every list: the caller's order changes from call to call.
    going_on, after_click, examination_power
        Users examine position k with probability k to the power of minus ``examination_power``. They go on with
        probability ``going_on`` after an item that they do not click, ``after_click`` after a click. (1, 0, 0) is the
        cascade model, ``after_click=1`` a position-based model. ``click_model`` replaces all of it.
    day
        Lists of a day.
    new
        The part of the catalogue that is replaced by new items every day. Policies are notified.
    shift, shift_days
        Every ``shift_days`` days this part of the items gets a new effect, under all queries.
    query_shift
        Every day this part of the queries draws 30% of its own effects again.
    shock, shock_size
        From the fourth day on, three items of this part of the queries get an own effect of ``shock_size``.
    shuffle
        After this list, every query's candidates exchange their attractions at random; 0: never.
    rise, riser, risen
        After list ``rise``, the candidate at place ``riser`` of the caller's order has attraction ``risen``; 0: never.
    delay
        A policy learns from a list so many lists later. It is dropped if one of its items has gone meanwhile.

    warm
        The first so many lists show the caller's order, whatever the policy, which learns from them: a warm start, as
        from a log, or a time in shadow mode.

    Notes
    -----
    Measures beside those of all environments are the value of the caller's order (``baseline``), and lists, regret,
    reward and baseline by the query's *age* (lists before this one) and *frequency* (lists of the whole run), in groups
    from 0, 10, 100 and 1,000 on: ``reward_age_10``, ``regret_frequency_1000``. Methods take the number of a query;
    times are lists of the stream. StaticOracle cannot run in it, and GPUs cannot run it.

    >>> env = Traffic(n_queries=50, candidates=6, K=2, catalogue=30, caller="perfect")
    >>> env.attraction(1, query=7).round(3).tolist() == sorted(env.attraction(1, query=7).round(3).tolist())[::-1]
    True
    """

    traffic: ClassVar[bool] = True
    choices = {"shape": SHAPES, "caller": CALLERS}
    measures: ClassVar[tuple[str, ...]] = (
        "baseline",
        *(f"{measure}_{group}_{least}" for group in ("age", "frequency") for least in AGES for measure in GROUPED),
    )

    n_queries: int = 2500
    candidates: int = 20
    K: int = 5
    zipf: float = 1.0
    catalogue: int = 500
    shape: str = "logistic"
    level: float = -3.0
    query_sd: float = 0.5
    scale: float = 1.2
    item_share: float = 0.5
    feature_share: float = 0.0
    token_share: float = 0.0
    misleading: int = 0
    d: int = 8
    topics: int = 25
    topic_items: int = 0
    top: float = 0.305
    tau: float = 4.0
    floor: float = 0.005
    caller: str = "noisy"
    noise: float = 4.0
    jitter: float = 0.0
    going_on: float = 1.0
    after_click: float = 0.0
    examination_power: float = 0.0
    day: int = 10_000
    new: float = 0.0
    shift: float = 0.0
    shift_days: int = 3
    query_shift: float = 0.0
    shock: float = 0.0
    shock_size: float = 2.7
    shuffle: int = 0
    rise: int = 0
    riser: int = 15
    risen: float = 0.45
    delay: int = 0
    warm: int = 0
    stream: QueryStream | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_queries", "candidates", "day", "shift_days"):
            check_integer(name, getattr(self, name), 1)
        for name in ("catalogue", "misleading", "d", "topics", "topic_items", "shuffle", "rise", "delay", "warm"):
            check_integer(name, getattr(self, name), 0)
        if self.stream is None:
            check_integer("K", self.K, 1, self.candidates)
        for name in ("zipf", "query_sd", "scale", "noise", "jitter", "shock_size", "examination_power"):
            check_number(name, getattr(self, name), 0)
        check_number("level", self.level, -700, 700)
        check_number("tau", self.tau, 0, open_low=True)
        for name in self._probabilities:
            check_number(name, getattr(self, name), 0, 1)
        for name, allowed in self.choices.items():
            check_choice(name, getattr(self, name), allowed)
        if self.stream is not None:
            self._take_sizes(self.stream.limited(self.n_queries, self.candidates))
        self._check_together()
        # attraction differs in every run; only the number of items matters
        origin = "" if self.stream is None else self.stream.digest
        queries = Queries({STREAM: np.zeros(self.candidates)}, origin=origin)
        object.__setattr__(self, "queries", queries)
        object.__setattr__(self, "k", self.K)
        if self.new or self.shift or self.query_shift or self.shock or self.shuffle or self.rise:
            object.__setattr__(self, "kind", "abrupt")
        self.users().row(self.candidates, self.K)

    _probabilities: ClassVar[tuple[str, ...]] = (
        "item_share", "feature_share", "token_share", "top", "floor", "going_on", "after_click", "new", "shift",
        "query_shift", "shock", "risen",
    )  # fmt: skip

    def _take_sizes(self, stream: QueryStream) -> None:
        """Take the number of queries, candidates and items from the stream."""
        sizes = {"n_queries": len(stream), "candidates": int(stream.sizes.max()), "catalogue": len(stream.items)}
        for name, value in {"stream": stream, **sizes}.items():
            object.__setattr__(self, name, value)
        check_integer("K", self.K, 1, self.candidates)
        if self.topic_items:
            raise ValueError(f"topic_items={self.topic_items!r}: must be 0 with a stream, which has its candidates")

    def _check_together(self) -> None:
        """Check parameters that depend on each other."""
        if self.caller == "logged" and self.stream is None:
            raise ValueError("caller='logged': must be another one without a stream")
        shares = self.item_share + self.feature_share + self.token_share
        if shares > 1.0 + 1e-9:
            raise ValueError(f"token_share={self.token_share!r}: must leave the sum of all shares at most 1")
        for name, needed, why in (
            ("feature_share", self.d, "d"),
            ("token_share", self.topics, "topics"),
            ("topic_items", self.topics, "topics"),
            ("topic_items", self.catalogue, "catalogue"),
        ):
            if getattr(self, name) and not needed:
                raise ValueError(f"{name}={getattr(self, name)!r}: must be 0 if {why}=0")
        if self.catalogue:
            check_integer("catalogue", self.catalogue, max(self.candidates, self.topic_items))
        if self.topic_items:
            check_integer("topic_items", self.topic_items, self.candidates)
        if self.rise:
            check_integer("riser", self.riser, 1, self.candidates)
        if self.shape == "exponential":
            for name in ("shift", "query_shift", "shock"):
                if getattr(self, name):
                    raise ValueError(f"{name}={getattr(self, name)!r}: must be 0 if shape='exponential'")

    def parameters(self) -> dict[str, float]:
        numbers = super().parameters()
        for f in dataclasses.fields(self):
            if f.type == "float":  # zipf=1 and zipf=1.0 are the same kernel
                numbers[f.name] = float(numbers[f.name])
        return numbers | {"items": self.catalogue or self.n_queries * self.candidates}

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of candidates, by query."""
        return np.full(self.n_queries, self.candidates) if self.stream is None else self.stream.sizes

    @cached_property
    def program(self) -> TrafficKernels:  # type: ignore[override]
        return TrafficKernels(self)

    @cached_property
    def _readers(self) -> Readers:
        examination = tuple(float((k + 1) ** -self.examination_power) for k in range(self.K))
        return Readers(going_on=self.going_on, after_click=self.after_click, examination=examination)

    def users(self, query: str | int = 0) -> ClickModel:
        return self.click_model or self._readers

    def feature_count(self, query: str | int = 0) -> int:
        return self.d

    def run(self, run: int = 0, seed: int = 0) -> TrafficRun:
        """The world of a run, to be examined list by list."""
        return TrafficRun(self, run, seed)

    def query_name(self, q: int) -> str:
        """The name of a query, given by number."""
        return f"q{q}" if self.stream is None else self.stream.names[q]

    def item_id(self, token: int) -> str | int:
        """The id of an item of a run, given by its number there."""
        if self.stream is None:
            return token
        later, place = divmod(token, self.catalogue)
        return f"{self.stream.items[place]}~{later}" if later else self.stream.items[place]

    def breakpoints(self, horizon: int, query: str | int = STREAM, run: int = 0, seed: int = 0) -> list[int]:
        """The lists before ``horizon`` after which the attraction of a query changes; without one, of any query."""
        if query != STREAM:
            return super().breakpoints(horizon, query, run, seed)
        check_integer("horizon", horizon, 1)
        daily = self.new or self.query_shift or self.shock
        days = 1 if daily else self.shift_days if self.shift else 0
        found = set(range(days * self.day, horizon, days * self.day)) if days else set()
        return sorted(found | {at for at in (self.shuffle, self.rise) if 0 < at < horizon})

    def unroll(self, first: int, last: int, query: str | int, run: int, seed: int) -> Segments:
        q = self._number(query)
        world = self.run(run, seed)
        edges = {*range((first - 1) // self.day * self.day, last, self.day), self.shuffle, self.rise}
        begin = max(edge for edge in edges if edge < first)
        starts = [edge + 1 for edge in sorted(edges) if begin <= edge < last]
        alphas, best, optimal = [], [], []
        for start in starts:
            world.go_to(start, q)
            alphas.append(world.attraction.copy())
            best.append(world.best)
            optimal.append(world.optimal)
        live = np.zeros((len(starts), 0), np.int8)
        return Segments(np.array(starts), np.array(alphas), np.array(optimal), np.array(best, np.int32), live)

    def lookup(self, query: str | int) -> tuple[str, NDArray[np.float64]]:
        size = self.candidates if query == STREAM else self.sizes[self._number(query)]
        return STREAM, self.queries[STREAM][:size]

    def _number(self, query: str | int) -> int:
        """The number of a query, given by number, or by name if it is of a stream; that of the stream's name is 0."""
        if self.stream is not None and query in self.stream.names:
            return self.stream.names.index(str(query))
        if query == STREAM:
            return 0
        check_integer("query", query, 0, self.n_queries - 1)
        return int(query)
