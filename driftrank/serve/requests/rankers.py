"""Changes of rankers: created, changed, reset, deleted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, structs

from driftrank.serve.core import ServiceCore, no_query, unique_id
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.records import RankerDeleted, RankerSet, Reset
from driftrank.serve.problems import Refused
from driftrank.serve.requests.compiler import RankerCompiler
from driftrank.serve.settings.ranker import check_ranker, notes, policy_of
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import RankerInfo, RankerSettings

_log = logging.getLogger("driftrank.serve")


class RankerChanges:
    """Creates, changes, resets and deletes rankers."""

    def __init__(self, core: ServiceCore, compiler: RankerCompiler) -> None:
        self._core, self._compiler = core, compiler

    async def put_ranker(
        self, name: str, settings: RankerSettings, *, discard: bool = False, by: str = "", undoes: int = 0
    ) -> RankerInfo:
        """Create a ranker or change it. A change that would cost what it has learnt needs ``discard``."""
        core = self._core
        core.check_ready()
        try:
            check_ranker(name, settings)
            if settings.keys and not core.settings.admin_keys:
                raise ValueError("keys: the server needs an admin key first; without one they could never be changed")
            await self._compiler.compile(settings)
        except ValueError as error:
            raise Refused(422, "Bad settings", str(error)) from None
        ranker = core.state.rankers.get(name)
        if ranker is not None and not undoes and ranker.is_set(explicit(settings, ranker), settings.policy is not None):
            await core.settle()
            return core.info(name)
        if not discard and (lost := self.would_discard(name, settings)):
            raise Refused(409, "Would discard what was learnt", f"{lost}; ?discard=true does it all the same")
        await core.append([self.setting_record(name, settings, by, undoes)], urgent=True)
        if name not in core.state.rankers:
            raise Refused(409, "Changed meanwhile", f"ranker {name!r}: was set, and deleted at the same time")
        self.log_operation(name, "set", by)
        configured = core.settings.rankers.get(name, RankerSettings())
        if configured != RankerSettings() and self.would_discard(name, configured):
            _log.warning("ranker %s: the server's settings differ, and the next start will refuse them", name)
        return core.info(name)

    async def patch_ranker(
        self, name: str, changes: Mapping[str, Any], *, discard: bool = False, by: str = ""
    ) -> RankerInfo:
        """Change some settings of a ranker."""
        return await self.put_ranker(name, self.patched(name, changes), discard=discard, by=by)

    def patched(self, name: str, changes: Mapping[str, Any]) -> RankerSettings:
        """The settings that a ranker would have after some changes."""
        ranker = self._core.ranker(name)
        before = ranker.settings if ranker.chosen else structs.replace(ranker.settings, policy=None)
        return structs.replace(before, **changes)

    def would_discard(self, name: str, settings: RankerSettings) -> str | None:
        """The loss of a ranker if it had other settings, as text; None if there is none."""
        ranker = self._core.state.rankers.get(name)
        discarded = ranker.discarded_by(explicit(settings, ranker)) if ranker else []
        if not discarded:
            return None
        steps = sum(arm.steps for arm, _ in discarded)
        return f"{'; '.join(why for _, why in discarded)} would discard what was learnt from {steps} rankings"

    def setting_record(self, name: str, settings: RankerSettings, by: str, undoes: int = 0) -> NewRecord:
        """The record of a change of settings, with what it discards."""
        core = self._core
        ranker, chosen = core.state.rankers.get(name), settings.policy is not None
        settings = explicit(settings, ranker)
        steps = sum(arm.steps for arm, _ in ranker.discarded_by(settings)) if ranker else 0
        record = RankerSet(name, core.now(), settings, chosen, keep=True, by=by, steps=steps, undoes=undoes or UNSET)
        return NewRecord(unique_id("ranker"), record)

    async def delete_ranker(self, name: str, *, by: str = "") -> None:
        core = self._core
        record = RankerDeleted(name, core.now(), by, sum(arm.steps for arm in core.ranker(name).every_arm()))
        await core.append([NewRecord(unique_id("ranker"), record)])
        self.log_operation(name, "deleted", by)

    async def reset(
        self, name: str, query: str | None = None, *, gone: bool = False, by: str = "", undoes: int = 0
    ) -> None:
        """Forget what was learnt, for one query or for all. ``gone``: delete the query."""
        core = self._core
        arms = list(core.ranker(name).every_arm())
        steps = sum(arm.steps for arm in arms)
        if query is not None:
            await core.hold_until_await(name, query)
            arms = list(core.ranker(name).every_arm())
            found = [its for its in (core.state.query(arm, query) for arm in arms) if its is not None]
            if not found:
                raise no_query(name, query)
            steps = sum(its.steps for its in found)
        record = Reset(name, core.now(), query, gone, by, steps, undoes)
        await core.append([NewRecord(unique_id("reset"), record)])
        what = "reset" if query is None else f"query {query!r} {'deleted' if gone else 'reset'}"
        self.log_operation(name, what, by)

    def log_operation(self, name: str, what: str, by: str) -> None:
        core = self._core
        last = core.state.operations[-1] if core.state.operations else None
        extra = {"ranker": name, "operation": last.number if last else None, "by": by}
        _log.info("ranker %s: %s by %s", name, what, by or "unknown", extra=extra)
        if what == "set":
            for note in notes(core.state.rankers[name].settings):
                _log.warning("ranker %s: %s", name, note)


def explicit(settings: RankerSettings, before: Ranker | None) -> RankerSettings:
    """The settings with the policy named: a later version may have another default, and the log must not change.

    A ranker with the default policy of an earlier version keeps it: what it has learnt is worth more than a better
    policy that begins with nothing.
    """
    if settings.policy is None and before is not None and not before.chosen:
        kept = structs.replace(settings, policy=before.settings.policy)
        if (settings.mode == "safe") == (before.settings.mode == "safe"):  # safe mode has a policy of its own
            return kept
    return structs.replace(settings, policy=policy_of(settings).spec)
