"""Source lists of apt, read and written: what nobody changed is as it was, and what was changed reads as said."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from saltlite.plugins.modules.aptpkg.source_lists import Document, Source, of_text

WORDS = st.text("abcXYZ019.-_", min_size=1, max_size=8)
URIS = st.sampled_from(["http://a.org/x", "file:/srv/x", "cdrom:[Debian_12]/", "mirror+https://m.org/list"])
OPTIONS = st.dictionaries(st.sampled_from(["arch", "signed-by", "trusted", "by-hash"]), WORDS, max_size=3)
SOURCES = st.builds(
    Source,
    types=st.sampled_from([["deb"], ["deb-src"], ["deb", "deb-src"]]),
    uris=st.lists(URIS, min_size=1, max_size=2, unique=True),
    suites=st.lists(WORDS, min_size=1, max_size=2, unique=True),
    comps=st.lists(WORDS, max_size=3),
    options=OPTIONS,
    disabled=st.booleans(),
)
LINES = st.sampled_from(
    ["deb http://a.org sid main", "# prose", "", " ", "Types: deb", "URIs: http://a.org", "Suites: sid", "Enabled: no"]
)
TEXTS = st.lists(LINES | st.text(max_size=12), max_size=12).map("\n".join)


@given(TEXTS, st.sampled_from(["/a.list", "/a.sources"]))
@example("deb http://a.org sid main\r\n\r\n# x\u2028deb http://b.org sid main", "/a.list")
def test_a_file_that_nobody_changed_is_as_it_was(text: str, path: str) -> None:
    assert Document(path, text).render() == text


@given(SOURCES, TEXTS)
def test_a_source_that_was_added_reads_as_it_was_said_and_the_rest_stays(source: Source, text: str) -> None:
    for path in ("/a.list", "/a.sources"):
        document = Document(path, text)
        before = [list(one.lines()) for one in document.sources]
        document.add(source.copy())
        read = Document(path, document.render())
        assert [line for one in read.sources for line in one.lines()] == [
            line for one in [*before, list(source.lines())] for line in one
        ]


@given(SOURCES)
def test_a_line_of_a_source_reads_as_that_source(source: Source) -> None:
    source.disabled = False
    for kind, uri, suite, line in source.lines():
        read = of_text(line)
        assert (read.types, read.uris, read.suites, read.comps) == ([kind], [uri], [suite], source.comps)
        assert read.options == source.options


@given(SOURCES)
def test_leaving_one_out_leaves_exactly_the_others(source: Source) -> None:
    every = {line[:3] for line in source.lines()}
    kind, uri, suite, _ = next(source.lines())
    left = [line[:3] for part in source.without(kind, uri, suite, []) for line in part.lines()]
    assert sorted(left) == sorted(every - {(kind, uri, suite)})
