// Markdown as components: Marked reads it into tokens, and no text of it is ever taken for HTML.

import { html, link } from "./parts.js";

/** The name of a section; the search of the API has the same rule. */
export function slug(heading) {
  return heading.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-");
}

/** The components of a text in Markdown. */
export async function documentOf(text) {
  // Only the documents need it.
  const { lexer } = await import("./vendor/marked-18.2.1.mjs");
  return lexer(text).map(shown);
}

const INLINE = { strong: "strong", em: "em", del: "del" };

function shown(token) {
  const inner = () => (token.tokens ? token.tokens.map(shown) : token.text);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return heading(token, inner());
    case "paragraph":
      return html`<p>${inner()}</p>`;
    case "code":
      return html`<pre tabindex="0">${token.text}</pre>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "blockquote":
      return html`<blockquote>${inner()}</blockquote>`;
    case "list":
      return token.ordered ? html`<ol start=${token.start}>${token.items.map(item)}</ol>` : html`<ul>${token.items.map(item)}</ul>`;
    case "table":
      return table(token);
    case "link":
      return reference(token.href, inner());
    case "hr":
      return html`<hr />`;
    case "br":
      return html`<br />`;
    case "strong":
    case "em":
    case "del":
      return html`<${INLINE[token.type]}>${inner()}</${INLINE[token.type]}>`;
    default: // text, an escape, and what is HTML elsewhere
      return token.tokens ? inner() : token.text;
  }
}

function heading({ depth, text }, inner) {
  // The name of the page is the heading above.
  const name = slug(text);
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  return html`<${`h${Math.min(6, depth + 1)}`} id=${`at-${name}`}>${inner} <a class="mark" href=${link(path, { at: name })}
    aria-label=${`Link to ${text}`}>#</a></${`h${Math.min(6, depth + 1)}`}>`;
}

function item({ tokens }) {
  return html`<li>${tokens.map(shown)}</li>`;
}

function table({ header, rows }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>
    <thead><tr>${header.map((cell) => html`<th scope="col">${cell.tokens.map(shown)}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell, place) => html`<td data-title=${header[place].text}>${cell.tokens.map(shown)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** A link to another document, or to elsewhere; one to a file of the repository is only text here. */
function reference(href, inner) {
  const [, name, at] = /^([\w-]+)\.md(?:#(.*))?$/.exec(href) || [];
  if (name) return html`<a href=${link(`docs/${name}`, { at })}>${inner}</a>`;
  if (href.startsWith("#")) return html`<a href=${link(location.hash.replace(/^#\/?/, "").split("?")[0], { at: href.slice(1) })}>${inner}</a>`;
  if (/^https:\/\//.test(href)) return html`<a href=${href} rel="noreferrer noopener" target="_blank">${inner}</a>`;
  return html`<span>${inner}</span>`;
}
