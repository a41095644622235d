// Docs: the documents and the reference of the version that runs, and the search in both.

import { get } from "./api.js";
import { Field, html, link, Page, visible } from "./parts.js";
import { documentOf } from "./markdown.js";

const FOUND_MAX = 50; // results of a search

export class Docs extends Page {
  async load({ path, query }) {
    const [contents, shown] = await Promise.all([
      this.contents || get("/docs"),
      query.words ? get("/docs/search", { words: query.words }) : path === "docs" ? {} : get(`/${path}`),
    ]);
    this.contents = contents;
    const document = shown.text === undefined ? null : await documentOf(shown.text);
    return { contents, shown, document, address: this.props.address };
  }

  componentDidUpdate(before) {
    super.componentDidUpdate(before);
    const { data } = this.state;
    // The part that the address names is shown once it is there, and not again when something else changes.
    if (!data || data === this.shown) return;
    this.shown = data;
    const at = data.address.includes("at=") && this.props.query.at;
    if (at) document.getElementById(`at-${at}`)?.scrollIntoView();
    else scrollTo(0, 0);
  }

  show({ contents, shown, document }) {
    const { path, query } = this.props;
    const [, , section, entry] = path.split("/");
    return html`
      <h1>Documentation <span class="dim">of version ${contents.version}</span></h1>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Search the documents and the reference" hint="pkg.install, or certificate" value=${query.words || ""}
          onChange=${(text) => { location.hash = link(path, { words: text }); }} />
      </form>
      <div class="docs">
        <nav aria-label="Documentation">
          <details open=${matchMedia("(min-width: 60rem)").matches || (path === "docs" && !query.words)}><summary>Contents</summary>
            ${sections(contents).map(([title, pages]) => html`<p>${title}</p><ul>${pages.map((page) => html`<li><a href=${link(`docs/${page.name}`)}
              aria-current=${path === `docs/${page.name}` ? "page" : undefined}>${page.title}</a></li>`)}</ul>`)}
            ${contents.reference.map((one) => html`<details open=${one.name === section}><summary>${one.title}</summary>
              <ul>${one.entries.map((row) => html`<li><a href=${link(`docs/reference/${one.name}/${row.name}`)}
                aria-current=${one.name === section && row.name === entry ? "page" : undefined}><code>${row.name}</code></a></li>`)}</ul></details>`)}
          </details>
        </nav>
        <article>${query.words ? html`<${Found} words=${query.words} found=${shown.found || []} />`
          : document ? document : shown.items ? html`<${Entry} of=${shown} path=${path} at=${query.at} />` : html`<${Start} contents=${contents} />`}</article>
      </div>`;
  }
}

/** The pages by their sections, as pairs; pages of one section follow each other. */
function sections({ pages }) {
  return [...new Set(pages.map((page) => page.section))].map((title) => [title, pages.filter((page) => page.section === title)]);
}

function Start({ contents }) {
  return html`${sections(contents).map(([title, pages]) => html`<h2>${title}</h2>
    <ul class="tiles">${pages.map((page) => html`<li><a href=${link(`docs/${page.name}`)}>${page.title}</a></li>`)}</ul>`)}
    <h2>Reference of this version</h2>
    <p class="dim">What ships with saltlite. What your own modules do, sys.doc says on their machines.</p>
    <dl>${contents.reference.map((one) => html`<dt>${one.title}</dt>
      <dd>${one.entries.map((row) => html`<a href=${link(`docs/reference/${one.name}/${row.name}`)} title=${row.summary}><code>${row.name}</code></a> `)}</dd>`)}</dl>`;
}

function Found({ words, found }) {
  return html`<h2>Found</h2>
    <p role="status">${found.length || "No"} ${found.length === 1 ? "place has" : "places have"} “${visible(words)}”${found.length === FOUND_MAX ? ", or more" : ""}</p>
    ${found.length === 0 && html`<p class="dim">Fewer or shorter words find more.</p>`}
    <ul class="found">${found.map((row) => html`<li><a href=${link(`docs/${row.path}`, { at: row.at })}>${row.title}</a>
      <span class="dim"> ${row.kind}</span><p>${visible(row.excerpt).replaceAll("`", "")}</p></li>`)}</ul>`;
}

/** An entry of the reference, such as a module with its functions. */
function Entry({ of, path, at }) {
  return html`<p class="dim">${of.title}</p><h2><code>${of.name}</code></h2>
    <${Docstring} text=${of.doc} />
    ${of.items.length > 8 && html`<details><summary>${of.items.length} in all</summary>
      <p>${of.items.map((item) => html`<a href=${link(path, { at: item.name })}><code>${item.name}</code></a> `)}</p></details>`}
    ${of.items.map((item) => html`<section class=${`item ${at === item.name ? "named" : ""}`} id=${`at-${item.name}`}>
      <h3><a href=${link(path, { at: item.name })}>${item.name}</a></h3>
      ${item.signatures.map((text) => html`<pre>${text}</pre>`)}
      <${Docstring} text=${item.doc} />
      ${item.notes.length > 0 && html`<p class="dim">${item.notes.join(" ")}</p>`}
    </section>`)}`;
}

/** A docstring: paragraphs, fields such as :maturity:, and examples, which are indented. */
function Docstring({ text }) {
  return text.split(/\n{2,}/).filter(Boolean).map((block) => {
    if (/^ {4}/.test(block)) return html`<pre tabindex="0">${block.replace(/^ {4}/gm, "")}</pre>`;
    if (/^:\w+:/.test(block)) return html`<p class="dim">${block.replace(/^:(\w+): +/gm, "$1: ").split("\n").join(" · ")}</p>`;
    return html`<p>${block.split(/(``[^`]+``|`[^`]+`)/).map((part) => (part[0] === "`" ? html`<code>${part.replaceAll("`", "")}</code>` : part.replace(/::$/, ":")))}</p>`;
  });
}

