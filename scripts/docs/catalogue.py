"""The catalogue: a page for every policy, environment and click model, from the registries and the leaderboard."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from driftrank.cli._catalogue import brief, parameters
from driftrank.clickmodels.registry import click_models
from driftrank.environments import Environment, Replay, Traffic
from driftrank.environments.learning_to_rank import BEHAVIOURS
from driftrank.environments.registry import environments, takes_queries
from driftrank.experiments.leaderboards.suite import ENTRIES, SuiteEntry
from driftrank.experiments.simulation.settings import EnvironmentSettings
from driftrank.policies.registry import default_policy, policy_groups
from driftrank.queries import Queries, yandex_like
from scripts.docs import charts
from scripts.docs.board import ORACLE, Verdict, parts
from scripts.docs.markup import Docstring, Page
from scripts.docs.reference import definitions, fields_of

POLICIES, ENVIRONMENTS, CLICK_MODELS = "policies", "environments", "click-models"
#: steps of the figure of an environment, and points of a line in it
HORIZON, POINTS = 40_000, 400


def entries() -> dict[str, str]:
    """The page of every policy, environment and click model, by name."""
    found = {name: f"{POLICIES}/{name}.md" for group in policy_groups().values() for name in group}
    found |= {name: f"{ENVIRONMENTS}/{name}.md" for name in environments()}
    return found | {name: f"{CLICK_MODELS}/{name}.md" for name in click_models()}


def pages(known: Mapping[str, str]) -> list[Page]:
    """All pages of the catalogue."""
    groups = policy_groups()
    found = [
        _index(f"{POLICIES}/index.md", "Policies", "What to show, and what to learn from clicks.", groups, known),
        _index(f"{ENVIRONMENTS}/index.md", "Environments", "How users change.", {"": environments()}, known),
        _index(
            f"{CLICK_MODELS}/index.md", "Click models", "How users read a list and click.", {"": click_models()}, known
        ),
    ]
    for title, group in groups.items():
        found += [policy_page(name, cls, title, known) for name, cls in group.items()]
    found += [environment_page(name, cls, known) for name, cls in environments().items()]
    return found + [click_model_page(name, cls, known) for name, cls in click_models().items()]


def _index(
    path: str, title: str, lead: str, groups: Mapping[str, Mapping[str, type]], known: Mapping[str, str]
) -> Page:
    page = Page(path, known)
    page.add(f"# {title}", lead)
    for heading, group in groups.items():
        if heading:
            page.add(f"## {heading}")
        rows = [f"| [{name}]({name}.md) | {page.inline(brief(cls))} |" for name, cls in group.items()]
        page.add("| name | description |\n|---|---|\n" + "\n".join(rows))
    return page


def _head(page: Page, name: str, cls: type, module: str) -> Docstring:
    """Title, text and parameters of a class."""
    docstring = Docstring.of(cls)
    page.add(f"# {name}", page.prose(docstring.text, module))
    return docstring


def _parameters(page: Page, cls: type, docstring: Docstring, hidden: tuple[str, ...] = ()) -> None:
    """The parameters: their meaning, then their defaults."""
    rows = [
        f"| `{key}` | `{_shown(default)}` | {hint.replace('|', 'or')} |"
        for key, default, hint in parameters(cls, hidden)
    ]
    if not rows:
        page.add("It has no parameters.")
        return
    texts = described(cls, docstring)
    if texts:
        page.add(definitions(page, texts, cls.__module__))
    page.add("| parameter | default | type |\n|---|---|---|\n" + "\n".join(rows))


def described(cls: type, docstring: Docstring) -> dict[str, str]:
    """The meaning of every parameter, from its docstring, and then from docstrings and comments of its bases."""
    found = docstring.entries("Parameters")
    fields = {name for name, *_ in parameters(cls)}
    for base in inspect.getmro(cls)[:-1]:
        texts = Docstring.of(base).entries("Parameters") | {name: text for name, _, text in fields_of(base)}
        for names, text in texts.items():
            known = {name.strip() for listed in found for name in listed.split(",")}
            missing = [name.strip() for name in names.split(",") if name.strip() in fields - known]
            if missing:
                found[", ".join(missing)] = text
    return found


def _shown(value: Any) -> str:
    if value.__class__.__name__ == "_MISSING_TYPE":
        return "required"
    return str(getattr(value, "spec", value))


def policy_page(name: str, cls: type, group: str, known: Mapping[str, str]) -> Page:
    """Formula, parameters, guarantee, the leaderboard's verdicts, a figure, an example."""
    page = Page(f"{POLICIES}/{name}.md", known)
    docstring = _head(page, name, cls, cls.__module__)
    claims = ", ".join(getattr(cls, "claims", ())) or "none"
    page.add(f"{group} · claims: {claims} · `driftrank.{name}` · `driftrank simulate --policy {name}`")
    page.add("## Parameters")
    _parameters(page, cls, docstring)
    page.add(
        "## Guarantee and state",
        page.prose(docstring.sections.get("Notes", ""), cls.__module__) or _inherited(page, cls),
    )
    page.add("## On the leaderboard")
    _verdicts(page, name)
    if "Examples" in docstring.sections:
        page.add("## Example", page.prose(docstring.sections["Examples"]))
    return page


def _inherited(page: Page, cls: type) -> str:
    """A reference to the class that a preset or a combination is made of."""
    bases = [
        base.__name__
        for base in inspect.getmro(cls)[1:]
        if base.__name__ in page.targets and base.__name__ in entries()
    ]
    if bases:
        return f"As {page.reference(bases[0])}."
    return "No guarantee is claimed."


def _verdicts(page: Page, name: str) -> None:
    link = page.link("explanation/leaderboard.md")
    found = [(part, verdicts) for part in parts() if (verdicts := part.of(name))]
    variants = {label for part in parts() for label in part.verdicts if label.startswith(f"{name}:")}
    default = type(default_policy()).__name__
    if name == "DynamicOracle":
        page.add(
            f"It is not on the [leaderboard]({link}), where its regret is zero: all regret is measured against it.",
            _oracle_figure(),
        )
        return
    if not found:
        page.add(
            f"It is not on the [leaderboard]({link}); `driftrank simulate --policy {name}` compares it with others."
        )
        return
    if any(f"{name}{ORACLE}" in part.verdicts for part in parts()):
        page.add("It knows what no learner can know; the comparison says how much there is to gain.")
    for part, verdicts in found:
        rival = "the best other policy" if name == default else default
        page.add(f"### {part.title}", _in_words(verdicts, rival))
        page.add(charts.ratios(verdicts, rival, f"Dot chart. {_in_words(verdicts, rival)}"))
    if variants:
        listed = ", ".join(f"`{label}`" for label in sorted(variants))
        page.add(f"The [leaderboard]({link}) also has it with other parameters: {listed}.")
    page.add(
        f"Published numbers: [leaderboard]({link}), with standard errors, sizes and the command that repeats them."
    )


def _in_words(verdicts: Sequence[Verdict], rival: str) -> str:
    def named(mark: str) -> str:
        chosen = sorted((v for v in verdicts if v.mark == mark), key=lambda v: v.ratio)
        return ", ".join(f"{v.environment} ({charts.times(v.ratio)}×)" for v in chosen) or "nowhere"

    same = sum(v.mark == "same" for v in verdicts)
    unclear = f" In {same} of {len(verdicts)} the difference is not significant." if same else ""
    return f"Less regret than {rival}: {named('better')}. More: {named('worse')}.{unclear}"


def environment_page(name: str, cls: type, known: Mapping[str, str]) -> Page:
    """The kind of change, parameters, a figure of one run, and the policies that do best there."""
    page = Page(f"{ENVIRONMENTS}/{name}.md", known)
    docstring = _head(page, name, cls, cls.__module__)
    page.add(f"`driftrank.environments.{name}` · `driftrank simulate --env {name}`")
    page.add("## Parameters")
    _parameters(page, cls, docstring, ("queries", "k"))
    page.add("## One run", _run_figure(name))
    _winners(page, name, lambda entry: entry.environment == name)
    _add_rest(page, docstring, cls.__module__)
    return page


#: environments and click models that the leaderboard leaves out, and why
LEFT_OUT = {
    "LowerBound": "it is the instance of theorem 3, on which `driftrank bounds` puts regret beside the bound.",
    "Replay": "it repeats the changes of a log of your own, on which the answer depends: `driftrank fit LOG --model CM"
    " --drift --out changing.json`, then `driftrank simulate --queries changing.json --env Replay`.",
    "SDBN": "it is DBN with users who do not tire.",
}


def _winners(page: Page, name: str, chosen: Callable[[SuiteEntry], bool]) -> None:
    """The policies with the least regret in some environments of the leaderboard, or why there are none."""
    page.add("## Who does well here")
    suite = {name: entry for name, (_, entry) in ENTRIES.items() if chosen(entry)}
    board = f"[leaderboard]({page.link('explanation/leaderboard.md')})"
    rows = [
        f"| {part.title}: {environment} | "
        + " | ".join(f"{label} ({charts.times(ratio)}×)" for label, ratio in part.best(environment, 3)) + " |"
        for part in parts() for environment in part.environments if environment in suite
    ]  # fmt: skip
    if rows:
        page.add("| environment | least regret | second | third |\n|---|---|---|---|\n" + "\n".join(rows))
        page.add(f"Regret relative to that of the default policy. All numbers: {board}.")
    elif suite:
        page.add(f"Not yet in the published {board}: `driftrank leaderboard --env {next(iter(suite))}` runs it.")
    else:
        page.add(f"Not on the {board}: {LEFT_OUT[name]}")


def _add_rest(page: Page, docstring: Docstring, module: str) -> None:
    """Notes and examples."""
    for section in ("Notes", "Examples"):
        if section in docstring.sections:
            page.add(f"## {section}", page.prose(docstring.sections[section], module))


def _run_figure(name: str) -> str:
    """The attraction of the items of one query over time."""
    if name == "Traffic":
        return _traffic_figure()
    if name == "LearningToRank":
        return _grades_figure()
    env: Environment
    if name == "Replay":  # of a log in which every item of a query becomes as attractive as the next one was
        (alpha,) = yandex_like(1, seed=0).attraction.values()
        changes = tuple((HORIZON * n // 4, tuple(np.roll(alpha, n).tolist())) for n in (1, 2, 3))
        env = Replay(Queries({"q": alpha}, changes={"q": changes}), k=3)
    else:
        queries = "yandex-like:1" if takes_queries(name) else ""
        env = EnvironmentSettings(env=name, queries=queries).environment()
    steps = sorted({1 + round(n * (HORIZON - 1) / POINTS) for n in range(POINTS + 1)})
    rows = [env.attraction(t) for t in steps]
    spread = [max(row[i] for row in rows) for i in range(len(rows[0]))]
    shown = sorted(range(len(spread)), key=lambda i: -spread[i])[:6]
    series = {f"item {i + 1}": [(t, float(row[i])) for t, row in zip(steps, rows, strict=True)] for i in sorted(shown)}
    first, last = (max(range(len(row)), key=lambda i: row[i]) + 1 for row in (rows[0], rows[-1]))
    most = f"item {first} at first, item {last} at the end"
    seen = f"Line chart of attraction over {HORIZON:,} steps. Most attractive: {most}."
    return charts.lines(
        series, "step", "attraction", seen, "Attraction of the six items that ever attract most: one query, one run."
    )


def _oracle_figure() -> str:
    """The clicks that the best list gets, and those of the list that was best at first."""
    env = EnvironmentSettings(env="Abrupt", queries="yandex-like:1").environment()
    first = np.argsort(-env.attraction(1))[: env.k]
    series: dict[str, list[tuple[float, float]]] = {"best at first": [], "best now": []}
    for t in range(1, HORIZON + 1, HORIZON // POINTS):
        alpha = env.attraction(t)
        for name, shown in zip(series, (first, np.argsort(-alpha)[: env.k]), strict=True):
            series[name].append((t, float(1 - np.prod(1 - alpha[shown]))))
    lost = np.mean([best - old for (_, old), (_, best) in zip(*series.values(), strict=True)])
    return charts.lines(
        series, "step", "clicks per list",
        f"Two lines of expected clicks per list over {HORIZON:,} steps: the list that is best at every step gets "
        f"{lost:.2f} more on average than the one that was best at first.",
        "Expected clicks of what DynamicOracle shows, and of the list that was best at first: Abrupt, one query.",
    )  # fmt: skip


def _traffic_figure() -> str:
    """The frequency of queries."""
    zipf, n_queries = Traffic.zipf, Traffic.n_queries
    total = sum(q**-zipf for q in range(1, n_queries + 1))
    shares = [(float(q), q**-zipf / total) for q in range(1, 101)]
    return charts.lines(
        {"share": shares}, "query, by frequency", "share of lists",
        f"Falling line: the most frequent query has {shares[0][1]:.1%} of lists, the hundredth {shares[-1][1]:.2%}.",
        f"How often the hundred most frequent of {n_queries:,} queries come, with the defaults.",
    )  # fmt: skip


def _grades_figure() -> str:
    """The probability of a click by grade."""
    series = {name: list(enumerate(map(float, by_grades[5][0]))) for name, by_grades in BEHAVIOURS.items()}
    return charts.lines(
        series, "grade", "probability of a click",
        "Three rising lines of click probability by grade, from "
        + ", ".join(f"{points[0][1]:g} to {points[-1][1]:g} ({name})" for name, points in series.items()) + ".",
        "The probability that a document which is read is clicked, by its grade, for the three kinds of users.",
    )  # fmt: skip


def click_model_page(name: str, cls: type, known: Mapping[str, str]) -> Page:
    """Formula, parameters, and how far down users read."""
    page = Page(f"{CLICK_MODELS}/{name}.md", known)
    docstring = _head(page, name, cls, cls.__module__)
    page.add(f"`driftrank.clickmodels.{name}` · `driftrank simulate --click-model {name}`")
    page.add("## Parameters")
    _parameters(page, cls, docstring)
    page.add("## How far users read", _reading_figure(name, cls))
    others = ("LearningToRank", "Traffic")  # users of their own
    usual = {"CM": lambda entry: not entry.users and entry.environment not in others}
    _winners(page, name, usual.get(name, lambda entry: entry.users.partition(":")[0] == name))
    _add_rest(page, docstring, cls.__module__)
    return page


def _reading_figure(name: str, cls: Any) -> str:
    """The probability of a click by rank, in lists of equal items."""
    series = {}
    for attraction in (0.1, 0.3, 0.6):
        chances = cls().click_probabilities(np.full(10, attraction), list(range(10)))
        series[f"{attraction:g}"] = [(float(k + 1), float(p)) for k, p in enumerate(chances)]
    middle = series["0.3"]
    seen = (
        "Three lines. With attraction 0.3 the probability of a click is "
        f"{middle[0][1]:.2f} at rank 1 and {middle[-1][1]:.2f} at rank 10."
    )
    return charts.lines(
        series,
        "rank",
        "probability of a click",
        seen,
        f"{name} with its default parameters, in lists of ten equal items with attraction 0.1, 0.3 and 0.6.",
    )
