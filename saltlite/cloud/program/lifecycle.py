"""Create, destroy, clean and resume: one machine from a profile to an accepted minion, and back.

`saltlite.cloud.rules.flow` decides which step is next and what undoes it; this module carries the steps out, and
writes each one to the journal first.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudException, SaltCloudExecutionFailure, SaltCloudSystemExit
from saltlite.cloud.program.drivers import ACTION, VALIDATE, Driver
from saltlite.cloud.program.master import MinionKeys
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules.catalogue import known_fields, minion_id, plain_value, six_fields
from saltlite.cloud.rules.flow import (
    DESTROYING,
    SAYS,
    UNDONE_BY,
    Announcer,
    Create,
    Step,
    Undo,
    Unfinished,
    order_of_create,
)
from saltlite.config.values import parse_duration
from saltlite.errors import ConfigError, SaltliteError
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import parse_token

log = logging.getLogger(__name__)


# -- destroy


def destroy(program: Program, driver: Driver, name: str) -> Any:
    """Destroy a machine and forget it; returns its driver's answer. Raises SaltCloudException, with what remains."""
    identity = driver.ids().get(name, "")
    minion, guessed = minion_of(program, driver, name, identity)
    run = os.urandom(8).hex()
    program.journal.begin(
        "destroy", run, name=name, provider=driver.name, minion_id=minion, guessed=guessed, id=identity
    )
    answer = destroy_machine(program, driver, name)
    _close_earlier(program, driver, name, identity, run)
    forget_machine(program, driver, name, minion, guessed=guessed)
    program.journal.write(run, "over")
    return answer


def machine_of(ids: Mapping[str, str], name: str, identity: str) -> str:
    """The name under which the machine with the id `identity` is listed in `ids`, "" for none.

    Without a known id, the machine of that name counts.
    """
    named = [one for one in (name, *ids) if identity and ids.get(one) == identity]
    if named:
        return named[0]
    return name if name in ids and not (identity and ids[name]) else ""


def destroy_machine(program: Program, driver: Driver, name: str) -> Any:
    """Destroy the machine itself, with its events. Raises SaltCloudException."""
    program.progress(name, "is destroyed")
    basics = {"name": name, "provider": driver.name, "driver": driver.provider.driver}
    with port.running(program):
        program.events.announce(name, Announcer(basics, DESTROYING), {})
        try:
            answer = driver.call("destroy", name, call=ACTION)
        except BaseException:
            program.events.abandon(name)
            raise
    if not answer:
        program.events.abandon(name)
        raise SaltCloudExecutionFailure(f"driver {driver.provider.driver} did not destroy {name}")
    program.events.finish(name, {})
    return answer


def forget_machine(program: Program, driver: Driver, name: str, minion: str, *, guessed: bool) -> None:
    """Delete the key of its minion and its cache entry. Raises SaltCloudException if the master does not.

    The key of a guessed id stays, with a message, because it may belong to another minion.
    """
    keys = MinionKeys(program.ask)
    try:
        if guessed:
            stays = keys.has_any(minion)
        elif minion:
            keys.delete_all(minion)
    except SaltliteError as error:
        raise SaltCloudException(
            f"{name}: the machine is destroyed, but the key of its minion may still be accepted: {error}; "
            f"`saltlite cloud --clean` tries again, `saltlite key delete {minion}` does it by hand"
        ) from error
    program.cache.drop(driver.name, name)
    if guessed and stays:
        program.progress(
            name,
            f"is destroyed; a key of {minion} stays, because no record says that it was made for this machine: "
            f"`saltlite key delete {minion}`, if it was",
        )
        return
    program.progress(name, "is destroyed, with its key" if minion and not guessed else "is gone")


def minion_of(program: Program, driver: Driver, name: str, identity: str) -> tuple[str, bool]:
    """The id of the minion on a machine ("" for none), and whether it is guessed from the name, without a record."""
    own = program.cache.own(driver.name, name)
    known = own.get("minion_id")
    if known is not None and (not identity or own.get("id", "") in ("", identity)):
        return str(known), False
    return minion_id({"name": name, "append_domain": program.config.append_domain}), True


def _close_earlier(program: Program, driver: Driver, name: str, identity: str, run: str) -> None:
    """Close what dead commands left of this machine: tokens, keys, journal lines. Raises SaltliteError."""
    keys = MinionKeys(program.ask)
    for one in program.journal.unfinished():
        of_it = one.identity if one.destroying else one.create.identity
        other = of_it and identity and of_it != identity
        if one.run == run or (one.name, one.provider) != (name, driver.name) or other:
            continue
        if one.token_id and Undo.REVOKE_TOKEN in one.create.to_undo():
            keys.revoke_token(one.token_id)
        if one.token_id:
            keys.delete_of_token(one.minion_id, one.token_id, one.at)
        program.journal.write(one.run, "over")


INTERRUPTED = 130
"""Exit code after Ctrl-C."""

LISTED_WITHIN_S = 30.0
"""How long to look for a machine whose create had no answer, every LOOK_AGAIN_S."""
LOOK_AGAIN_S = 1.0
CERTAIN_AFTER_S = 600.0
"""A machine that is still not listed after this time was not made."""


class CreateFailed(SaltCloudException):
    """A machine was not made; the text has the reason, and what remains of it."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Creation:
    """The making of one machine."""

    def __init__(self, program: Program, vm_: dict[str, Any], *, run: str = "", flow: Create | None = None) -> None:
        self._program = program
        self._vm = vm_
        self._name: str = vm_["name"]
        self._driver = program.driver(program.catalogue.provider(vm_["provider"]))
        self._keys = MinionKeys(program.ask)
        self._run = run or os.urandom(8).hex()
        self._flow = flow or Create(minion=bool(vm_["deploy"]))
        self._minion_id: str = vm_["minion"]["id"]
        self._token_id = ""
        self._began = time.time()
        self._since = 0.0
        self._unclear = False
        self._unwritten: SaltliteError | None = None
        self._answer: dict[str, Any] = {}
        self._wait_s = parse_duration(str(vm_.get("wait_for_minion", program.config.wait_for_minion)))

    @classmethod
    def resumed(cls, program: Program, vm_: dict[str, Any], unfinished: Unfinished) -> Creation:
        """Continue a create of another process."""
        making = cls(program, vm_, run=unfinished.run, flow=unfinished.create)
        making._minion_id, making._token_id, making._began = unfinished.minion_id, unfinished.token_id, unfinished.at
        making._unclear, making._since = unfinished.unclear, unfinished.since
        return making

    def make(self) -> dict[str, Any]:
        """Make it, and return the answer of its driver, which may have a password that cannot be asked for again.

        Raises CreateFailed after the rollback.
        """
        if self._driver.has(VALIDATE):
            with port.running(self._program):
                self._driver.call(VALIDATE, self._vm)
        if self._flow.minion:
            parse_minion_id(self._minion_id)
            self._require_master_address()
            if not self._driver.capabilities.deploys_itself:
                self._program.require_deployable(self._vm)
        self._program.journal.begin(
            "create", self._run, name=self._name, provider=self._vm["provider"], profile=self._vm["profile"],
            minion_id=self._minion_id, minion=self._flow.minion,
        )  # fmt: skip
        return self._go_on()

    def resume(self) -> dict[str, Any]:
        """Continue after the machine was made, as `make`."""
        order = order_of_create(deploys=self._flow.minion)
        self._program.events.take_up(self._name, Announcer(self._basics(), order, fired=list(order[:-1])))
        self._answer = self._driver.machines().get(self._name, {})
        return self._go_on()

    def _go_on(self) -> dict[str, Any]:
        """Do the steps that are left."""
        journal = self._program.journal
        try:
            while (step := self._flow.next()) is not None:
                self._flow.begin(step)
                if step in UNDONE_BY:
                    journal.write(self._run, "begin", step=step)
                self._do(step)
                self._flow.end(step)
                if step is not Step.FINISH:
                    journal.write(self._run, "end", step=step, token_id=self._token_id, id=self._flow.identity)
        except BaseException as error:
            if Step.FINISH in self._flow.begun:  # it is made, and its last event was fired
                self._note("over")
                raise
            # Any error, Ctrl-C included: a half-made machine must not stay.
            self._program.events.abandon(self._name)
            raise self._failed(error) from error
        self._note("over")
        if self._unwritten is not None:
            log.error("%s is made, and listed as unfinished until --resume: %s", self._name, self._unwritten)
        return self._answer

    def roll_back(self, *, keep_machine: bool = False) -> list[str]:
        """Undo the steps; sentences about those that failed."""
        left = []
        for undo in self._flow.to_undo(keep_machine=keep_machine):
            if undo is not Undo.REVOKE_TOKEN or self._token_id:
                self._program.progress(self._name, f"rolls back: {undo.name.lower().replace('_', ' ')}")
            try:
                self._undo(undo)
            except SaltliteError as error:
                left.append(f"{SAYS[undo]}: {error}")
            except KeyboardInterrupt:
                return [*left, f"{SAYS[undo]}: interrupted", "`saltlite cloud --clean` goes on"]
            else:
                self._flow.rolled_back(undo)
                self._note("undone", step=undo)
        if not left:
            self._note("over")
        return left if self._unwritten is None else [*left, f"this is not kept: {self._unwritten}"]

    def _note(self, what: str, **fields: Any) -> None:
        """Journal something that is already done; if that fails, the work goes on all the same."""
        try:
            self._program.journal.write(self._run, what, **fields)
        except SaltliteError as error:
            self._unwritten = error

    def _do(self, step: Step) -> None:
        match step:
            case Step.CHECK_NAME:
                self._check_name()
            case Step.MAKE_TOKEN:
                self._make_token()
            case Step.MAKE_MACHINE:
                self._make_machine()
            case Step.WAIT_FOR_MINION:
                say = partial(self._program.progress, self._name)
                self._keys.wait_until_up(self._minion_id, self._wait_s, say)
            case Step.FINISH:
                known = six_fields(self._answer)
                self._program.events.finish(self._name, {key: one for key, one in known.items() if one})
                self._program.progress(self._name, "is made")

    def _undo(self, undo: Undo) -> None:
        match undo:
            case Undo.REVOKE_TOKEN if self._token_id:
                self._keys.revoke_token(self._token_id)
            case Undo.DESTROY_MACHINE if there := self._there():
                destroy_machine(self._program, self._driver, there)
            case Undo.DELETE_KEY:
                self._keys.delete_of_token(self._minion_id, self._token_id, self._began)
                self._program.cache.drop(self._driver.name, self._name)
            case _:
                pass  # there is none of it

    def _there(self) -> str:
        """The name under which the provider lists our machine, "" if there certainly is none.

        Raises SaltCloudExecutionFailure while it may exist and is not listed yet.
        """
        hidden = self._unclear or (bool(self._flow.identity) and Step.MAKE_MACHINE not in self._flow.ended)
        hidden = hidden and not self._driver.capabilities.lists_at_once
        while True:
            ids = self._driver.ids()
            there = machine_of(ids, self._name, self._flow.identity)
            if there or not hidden:
                break
            if time.time() > self._since + LISTED_WITHIN_S:
                if time.time() > self._since + CERTAIN_AFTER_S:
                    break
                raise SaltCloudExecutionFailure(
                    "it was requested, may exist, and is not listed yet; `saltlite cloud --clean` looks again"
                )
            self._program.progress(self._name, "may exist, and is not listed yet")
            time.sleep(LOOK_AGAIN_S)
        if not there and self._name in ids:
            self._program.progress(self._name, f"is another machine now ({ids[self._name]}), which stays")
        return there

    def _check_name(self) -> None:
        self._driver.function("create")
        for one, alive in self._program.journal.everything():
            if one.run == self._run:
                break
            if alive and (one.name, one.provider) == (self._name, self._driver.name):
                raise SaltCloudSystemExit(f"process {one.pid} is working on a machine {self._name} there")
            if one.left() and (one.name, one.provider) == (self._name, self._driver.name):
                raise SaltCloudSystemExit(
                    f"an earlier command has left {self._name} there half done: `saltlite cloud --clean {self._name}` "
                    "rolls it back, and the name is free"
                )
        if self._name in self._driver.names():
            raise SaltCloudSystemExit(
                f"provider {self._driver.provider.alias} has a machine {self._name} already: take another name, or "
                f"`saltlite cloud -d {self._name}` if it is no longer needed"
            )

    def _require_master_address(self) -> None:
        given = {**self._program.config.minion, **self._vm["minion"]}
        if given.get("master") or self._vm.get("master") or self._driver.capabilities.finds_master:
            return
        address = str(self._program.opts["master_interface"])
        if address in ("0.0.0.0", "::", "*"):  # noqa: S104 - looked for, and not listened on
            raise ConfigError(
                f"{self._program.opts['conf_file']}: no setting has the address of the master of {self._name}: "
                "write `minion: {master: ADDRESS}` here, in the profile or in the provider"
            )
        self._vm["minion"] = {**self._vm["minion"], "master": address}

    def _make_token(self) -> None:
        self._program.progress(self._name, "gets a join token")
        text = self._keys.make_token(self._minion_id, self._program.config.join_token_expires)
        self._program.conceal_token(text)
        self._vm["join_token"], self._token_id = text, parse_token(text).token_id

    def _make_machine(self) -> None:
        order = order_of_create(deploys=self._flow.minion)
        with self._program.making(self._vm, self._note_report):
            self._program.progress(self._name, "is requested")
            self._program.events.announce(self._name, Announcer(self._basics(), order), self._vm)
            answer = self._driver.call("create", self._vm)
        if not answer:
            raise SaltCloudExecutionFailure(f"driver {self._driver.provider.driver} did not make {self._name}")
        self._answer = dict(answer) if isinstance(answer, Mapping) else {}
        if self._program.opts.get("show_deploy_args"):
            self._answer["deploy_kwargs"] = self._program.deploy_args.get(self._name, {})
        self._flow.identity = str(self._answer.get("id") or "") or self._flow.identity
        self._program.learn(self._answer)
        known = self._program.secrets.value(plain_value({**self._answer, **known_fields(self._answer)}))
        self._program.cache.put(self._driver.name, self._name, known, **self._own())

    def _own(self) -> dict[str, str]:
        """The own fields of the cache entry, by which a destroy finds the minion's key."""
        minion = self._minion_id if self._flow.minion else ""
        return {"minion_id": minion, "profile": self._vm["profile"], "id": self._flow.identity}

    def _note_report(self, what: str, identity: str) -> None:
        """Journal a report of the driver. Raises SaltliteError if that fails, which stops the create."""
        if not self._flow.note(what, identity):
            return
        self._program.journal.write(self._run, what, id=identity)

    def _basics(self) -> dict[str, Any]:
        return {key: self._vm[key] for key in ("name", "profile", "provider", "driver")}

    def _failed(self, error: BaseException) -> CreateFailed:
        interrupted = isinstance(error, KeyboardInterrupt)
        if not interrupted and not isinstance(error, SaltliteError):
            log.error("A defect in saltlite, while %s was made.", self._name, exc_info=error)
        why = "interrupted" if interrupted else str(error) or type(error).__name__
        reason = self._program.secrets.text(why)
        self._since = time.time()
        self._unclear = self._flow.unclear and (not isinstance(error, SaltliteError) or _is_unclear(error))
        self._note("failed", reason=reason, unclear=self._unclear)
        keeps = not self._vm.get("destroy_on_failure", self._program.config.destroy_on_failure)
        kept = keeps and Undo.DESTROY_MACHINE in self._flow.to_undo()
        left = [*getattr(error, "left", ()), *self.roll_back(keep_machine=keeps)]
        lines = [f"{self._name}: {reason}", *(f"{self._name}: {self._program.secrets.text(one)}" for one in left)]
        if kept:
            self._program.cache.put(self._driver.name, self._name, {}, **self._own())
            lines.append(f"{self._name}: the machine is kept, as destroy_on_failure wants")
        code = INTERRUPTED if interrupted else getattr(error, "exit_code", SaltCloudException.exit_code)
        return CreateFailed("\n".join(lines), code)


def _is_unclear(error: SaltliteError) -> bool:
    """Whether the provider may have carried out the request in spite of the error."""
    return getattr(error, "unclear", False) or isinstance(error.__cause__, OSError)


# -- what dead commands left


def shown(program: Program) -> list[dict[str, Any]]:
    """All unfinished creates and destroys, oldest first."""
    return [
        {
            "name": one.name,
            "run": one.run,
            "id": one.identity or one.create.identity,
            "provider": one.provider,
            "profile": one.profile,
            "minion": one.minion_id,
            "what": "destroy" if one.destroying else "create",
            "at": one.at,
            "running": one.pid if alive else None,
            "reason": one.reason,
            "left": [] if alive else one.left(),
        }
        for one, alive in program.journal.everything()
    ]


def by_label(runs: Sequence[Unfinished]) -> dict[str, Unfinished]:
    """The runs by machine name, with the run id if several share a name."""
    often = Counter(one.name for one in runs)
    return {one.name if often[one.name] == 1 else f"{one.name} ({one.run})": one for one in runs}


def destroys(runs: Mapping[str, Unfinished]) -> list[str]:
    """The machines that a rollback of these runs would destroy, as text."""
    return [
        f"{one.name} ({one.provider}, {one.identity or one.create.identity or 'whatever has this name'})"
        for one in runs.values()
        if one.destroying or Undo.DESTROY_MACHINE in one.create.to_undo()
    ]


def clean(program: Program, one: Unfinished) -> str:
    """Roll back a create or complete a destroy; returns a sentence. Raises SaltCloudException."""
    if one.destroying:
        driver = program.driver(program.catalogue.provider(one.provider))
        ids = driver.ids()
        there = machine_of(ids, one.name, one.identity)
        if there:
            destroy_machine(program, driver, there)
        if there != one.name and one.name in ids:
            program.journal.write(one.run, "over")
            return f"it is gone; the machine of its name is another ({ids[one.name]}), and stays with its minion"
        forget_machine(program, driver, one.name, one.minion_id, guessed=one.guessed)
        program.journal.write(one.run, "over")
        return "its destruction is complete"
    left = Creation.resumed(program, _machine(program, one), one).roll_back()
    if left:
        raise SaltCloudException("\n".join(f"{one.name}: {text}" for text in left))
    return "the half-made machine is rolled back"


def resume(program: Program, one: Unfinished) -> Mapping[str, Any]:
    """Continue a create whose machine is made. Raises SaltCloudSystemExit if it is not, and CreateFailed."""
    if one.destroying or Step.MAKE_MACHINE not in one.create.ended:
        raise SaltCloudSystemExit(
            f"{one.name}: its progress is unknown, so it cannot be resumed: `saltlite cloud --clean` rolls "
            "it back, and it can then be made again"
        )
    return Creation.resumed(program, _machine(program, one), one).resume()


def _machine(program: Program, one: Unfinished) -> dict[str, Any]:
    """The machine from its profile, if that is still configured."""
    profile = program.catalogue.profiles.get(one.profile)
    if profile is not None:
        vm_ = program.machine(one.name, profile)
    else:
        vm_ = {"name": one.name, "profile": one.profile, "driver": one.provider.rpartition(":")[2]}
    return {**vm_, "provider": one.provider, "deploy": one.create.minion, "minion": {"id": one.minion_id}}
