"""External pillars: plug-ins that add to the pillar of a minion, as the option `ext_pillar` lists them.

    ext_pillar:
      - cmd_yaml: 'cat /srv/facts/%s.yaml'      ext_pillar(minion_id, pillar, 'cat ...')
      - inventory: [staging, 3]                 ext_pillar(minion_id, pillar, 'staging', 3)
      - inventory: {site: b}                    ext_pillar(minion_id, pillar, site='b')

A plug-in has Salt's interface: `ext_pillar` returns a map, which is merged over the pillar so far. It sees that pillar,
`__opts__` of the master with the minion's id and grains, `__grains__`, and in `__salt__` the execution modules. It runs
in the evaluator process, under its limits. One that fails costs its own data only.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from saltlite.config.external_pillars import ExternalPillar, read_external
from saltlite.errors import SaltliteError
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import merged

if TYPE_CHECKING:
    from saltlite.loader.loader import Loader

log = logging.getLogger(__name__)

KIND: Final = "pillar"
"""The type of the plug-ins: they are in `_pillar` and in the folders of `pillar_dirs`."""


def _copied(value: Any, within: tuple[int, ...] = ()) -> Any:
    """The maps and lists of a value, copied, because a plug-in may return `__opts__`, which changes with the next one
    and then contains the pillar. A notice takes the place of what contains itself: nothing could send it."""
    if id(value) in within:
        return "[a value that contains itself]"
    inside = (*within, id(value))
    if isinstance(value, Mapping):
        return {key: _copied(one, inside) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(one, inside) for one in value]
    return value


class ExternalPillars:
    """The external pillars of a master. `opts` are its options. `begins` is called with the name of each before it."""

    def __init__(self, opts: Mapping[str, Any], *, begins: Callable[[str], None] = lambda _name: None) -> None:
        self._opts = opts
        self._listed = read_external(opts["ext_pillar"])
        self.begins = begins
        self._plugins: Loader | None = None
        self._execution: Loader | None = None
        self._files: object = None
        self._seen: tuple[dict[str, Any], Mapping[str, Any], Mapping[Any, Any]] = {}, {}, {}
        """Options, grains and pillar, as plug-ins see them now."""
        self.come_first: bool = opts["ext_pillar_first"]
        """Whether they run before pillar files, which then see their data and win over it."""

    def add_to(
        self, pillar: dict[Any, Any], minion: MinionId, grains: Mapping[str, Any], more: Sequence[ExternalPillar] = ()
    ) -> tuple[dict[Any, Any], list[str]]:
        """The pillar with the data of all, and a sentence for each that failed. `more` are run after those listed."""
        mistakes: list[str] = []
        for one in (*self._listed, *more):
            self.begins(one.name)
            try:
                found = self._called(one, pillar, minion, grains)
            except SaltliteError as error:
                mistakes.append(f"Failed to load ext_pillar {one.name}: {error}")
                continue
            except MemoryError:
                raise  # The limit is that of the whole pillar: the minion keeps the one that it has.
            except Exception as error:  # supervision point: a plug-in may raise anything, and the others run
                # Its text may have a password of a database; the log is the operator's.
                log.error("ext_pillar %s failed for %s: %s", one.name, minion, error, exc_info=True)  # noqa: G201 - one entry
                mistakes.append(
                    f"Failed to load ext_pillar {one.name}: it raised {type(error).__name__}; see the master's log"
                )
                continue
            pillar = merged(pillar, found)
        return pillar, mistakes

    def _called(
        self, one: ExternalPillar, pillar: dict[Any, Any], minion: MinionId, grains: Mapping[str, Any]
    ) -> Mapping[Any, Any]:
        plugins = self._loaded()
        self._seen = {**self._opts, "id": minion, "minion_id": minion, "grains": grains}, grains, pillar
        for loader in (plugins, self._execution):
            if loader is not None:
                loader.opts.refresh(self._seen[0])
                loader.refresh(grains, pillar)
        name = f"{one.name}.ext_pillar"
        if name not in plugins:
            reason = plugins.not_loaded().get(one.name, "there is no such file among the folders of external pillars")
            raise SaltliteError(f"Specified ext_pillar interface {one.name} is unavailable: {reason}")
        # Salt's interface gives the pillar itself, and plug-ins may change what they are given.
        args: list[Any] = [minion, copy.deepcopy(pillar)]
        if isinstance(one.arguments, Mapping):
            found = plugins[name](*args, **one.arguments)
        elif isinstance(one.arguments, list):
            found = plugins[name](*args, *one.arguments)
        else:
            found = plugins[name](*args, one.arguments)
        if not found:
            return {}
        if not isinstance(found, Mapping):
            raise SaltliteError(f"it returned a {type(found).__name__} instead of a map")
        copied: Mapping[Any, Any] = _copied(found)
        return copied

    def _loaded(self) -> Loader:
        """The plug-ins, found anew when their files have changed."""
        from saltlite.loader.dunders import LazyFunctions  # noqa: PLC0415 - as above
        from saltlite.loader.index import build_index  # noqa: PLC0415 - only evaluator processes load plug-ins
        from saltlite.loader.loader import Loader  # noqa: PLC0415 - as above
        from saltlite.loader.search_path import module_files, search_layers  # noqa: PLC0415 - as above

        layers = search_layers(self._opts, KIND)
        files = [module_files(layer) for layer in layers]
        if self._plugins is None or files != self._files:
            self._files, self._execution = files, None
            more = {"__salt__": LazyFunctions(self._execution_modules)}
            self._plugins = Loader(build_index(layers), self._opts, {}, {}, more=more)
        return self._plugins

    def _execution_modules(self) -> Loader:
        from saltlite.loader.index import build_index  # noqa: PLC0415 - as above
        from saltlite.loader.loader import Loader  # noqa: PLC0415 - as above
        from saltlite.loader.search_path import search_layers  # noqa: PLC0415 - as above

        if self._execution is None:
            self._execution = Loader(build_index(search_layers(self._opts)), *self._seen)
        return self._execution
