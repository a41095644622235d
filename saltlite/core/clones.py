"""Two machines with one key: a copied image, most often, and each ends the session of the other for ever.

A daemon that starts anew has a boot id that was never seen. A boot id that comes back after another one of the same
key means that both are alive. Nothing but a few boot ids of keys that lately changed theirs is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from saltlite.model.keys import Fingerprint

ALTERNATIONS = 3
"""So often a boot id may come back within WINDOW_S; a network that breaks while a daemon restarts explains one."""
WINDOW_S = 600.0
KEYS_MAX = 10_000
"""Keys watched at once; the one whose boot id changed longest ago is forgotten first."""
BOOTS_MAX = 8
"""Boot ids remembered a key."""


@dataclass(slots=True)
class _Watched:
    """Boot ids of one key, the latest last, and when one of them came back."""

    boots: list[str] = field(default_factory=list)
    came_back: list[float] = field(default_factory=list)
    told_at: float = float("-inf")


class Clones:
    """Watches the boot ids of accepted keys. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._watched: OrderedDict[Fingerprint, _Watched] = OrderedDict()

    def arrived(self, key: Fingerprint, boot: str, now: float) -> bool:
        """A session of that key begins; whether it is one too many of a second machine."""
        watched = self._watched.setdefault(key, _Watched())
        if watched.boots and watched.boots[-1] == boot:
            return False
        watched.came_back = [at for at in watched.came_back if now - at < WINDOW_S]
        if boot in watched.boots:
            if len(watched.came_back) >= ALTERNATIONS:
                return True
            watched.boots.remove(boot)
            watched.came_back.append(now)
        watched.boots = [*watched.boots[1 - BOOTS_MAX :], boot]
        self._watched.move_to_end(key)
        if len(self._watched) > KEYS_MAX:
            self._watched.popitem(last=False)
        return False

    def is_news(self, key: Fingerprint, now: float) -> bool:
        """Whether nobody was told of this key's second machine within WINDOW_S; from now on somebody was."""
        watched = self._watched.setdefault(key, _Watched())
        if now - watched.told_at < WINDOW_S:
            return False
        watched.told_at = now
        return True
