"""Create, destroy and list cloud machines, as ``saltlite cloud`` does.

The driver's answer about a new machine is returned unchanged. It may hold a password that cannot be retrieved again.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __cloud__, __context__

__risk__ = {"destroy": "destroy"}


def list_sizes(provider: str = "all") -> dict[str, Any]:
    """Return the available machine sizes.

    CLI Example: ``saltlite-run cloud.list_sizes my-provider``
    """
    return _answer(__cloud__.offers("sizes", provider))


def list_images(provider: str = "all") -> dict[str, Any]:
    """Return the available images.

    CLI Example: ``saltlite-run cloud.list_images my-provider``
    """
    return _answer(__cloud__.offers("images", provider))


def list_locations(provider: str = "all") -> dict[str, Any]:
    """Return the available locations.

    CLI Example: ``saltlite-run cloud.list_locations my-provider``
    """
    return _answer(__cloud__.offers("locations", provider))


def list_providers() -> dict[str, Any]:
    """Return the configured providers, and where each is written.

    CLI Example: ``saltlite-run cloud.list_providers``
    """
    return _answer(__cloud__.list_providers())


def list_profiles(provider: str = "all") -> dict[str, Any]:
    """Return the profiles of one or all providers, without secrets.

    CLI Example: ``saltlite-run cloud.list_profiles my-provider``
    """
    return _answer(__cloud__.list_profiles(provider))


def query(query_type: str = "list_nodes", provider: str = "all") -> dict[str, Any]:
    """Return the machines of one or all providers: id, image, size, state, addresses.

    CLI Example::

        saltlite-run cloud.query
        saltlite-run cloud.query list_nodes_full
    """
    return _answer(__cloud__.query(query_type, provider))


def full_query(provider: str = "all") -> dict[str, Any]:
    """Return the machines with all their details.

    CLI Example: ``saltlite-run cloud.full_query``
    """
    return _answer(__cloud__.query("list_nodes_full", provider))


def select_query(provider: str = "all") -> dict[str, Any]:
    """Return the machines with the fields of ``query.selection``.

    CLI Example: ``saltlite-run cloud.select_query``
    """
    return _answer(__cloud__.query("list_nodes_select", provider))


def profile(prof: str, instances: str | list[str], parallel: bool = False, **settings: Any) -> dict[str, Any]:
    """Create machines from a profile. Further settings override the profile, but none may name files of the master.

    CLI Example::

        saltlite-run cloud.profile small web1,web2
        saltlite-run cloud.profile small web1 deploy=False
    """
    return _answer(__cloud__.profile(prof, _names(instances), parallel=parallel, **_given(settings)))


def map_run(name: str, parallel: bool = False, **settings: Any) -> dict[str, Any]:
    """Create the missing machines of a map; ``name`` is a file in ``cloud.maps.d``.

    CLI Example: ``saltlite-run cloud.map_run web.map``
    """
    return _answer(__cloud__.map_run(name, parallel=parallel, **_given(settings)))


def destroy(instances: str | list[str], provider: str = "all", parallel: bool = False) -> dict[str, Any]:
    """Destroy machines, and delete the keys of their minions.

    CLI Example: ``saltlite-run cloud.destroy web1,web2``
    """
    return _answer(__cloud__.destroy(_names(instances), provider=provider, parallel=parallel))


def action(fun: str, instances: str | list[str], provider: str = "all", **kwargs: Any) -> dict[str, Any]:
    """Call an action of a driver on machines; for ``destroy`` use its own runner.

    CLI Example::

        saltlite-run cloud.action show_instance web1
        saltlite-run cloud.action stop web1
    """
    return _answer(__cloud__.action(fun, _names(instances), provider=provider, **_given(kwargs)))


def function(fun: str, provider: str, **kwargs: Any) -> dict[str, Any]:
    """Call a function of a driver for a provider.

    CLI Example: ``saltlite-run cloud.function show_image my-provider image=ami-1``
    """
    return _answer(__cloud__.function(fun, provider, **_given(kwargs)))


def _answer(answer: dict[str, Any]) -> dict[str, Any]:
    if __cloud__.failed:
        __context__["retcode"] = 1
    return answer


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the caller's arguments, without the ``__pub_...`` that the loader adds."""
    return {key: value for key, value in settings.items() if not key.startswith("__")}


def _names(instances: str | list[str]) -> list[str]:
    names = instances.split(",") if isinstance(instances, str) else instances
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise SaltInvocationError("say which machines: names with commas between them, or a list")
    return found
