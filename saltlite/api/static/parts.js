// What the pages are made of: the base of pages, tables, times, values.

import { Component, h } from "./vendor/preact-11.2.0.mjs";
import htm from "./vendor/htm-3.1.1.mjs";
import { now, on } from "./api.js";

export const html = htm.bind(h);

/** `#/path?name=value` without those values that are empty. */
export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** A page: `load` answers its data for `props.query`; `watches` names the tags of events after which it loads again. */
export class Page extends Component {
  watches = [];
  pollMs = 0;

  constructor(props) {
    super(props);
    this.state = { data: null, error: null };
  }

  componentDidMount() {
    this.unwatch = on("event", (event) => {
      if (this.watches.some((prefix) => event.tag.startsWith(prefix))) this.soon();
    });
    this.unreach = on("back", () => this.refresh());
    this.refresh();
  }

  componentDidUpdate(before) {
    if (before.visit !== this.props.visit) this.refresh();
  }

  componentWillUnmount() {
    this.gone = true;
    this.unwatch();
    this.unreach();
    clearTimeout(this.timer);
    clearTimeout(this.coming);
  }

  /** Load again within two seconds; many events cause one request, and many consoles do not ask all at once. */
  soon() {
    this.coming ??= setTimeout(() => { this.coming = null; this.refresh(); }, 1000 + Math.random() * 1000);
  }

  async refresh() {
    clearTimeout(this.timer);
    const { visit } = this.props;
    let found;
    try {
      found = { data: await this.load(this.props), error: null };
    } catch (error) {
      found = { error };
    }
    // An answer to an earlier question must not replace that to a later one.
    if (this.gone || visit !== this.props.visit) return;
    this.setState(found);
    const pause = found.error ? 3000 : this.pollMs;
    if (pause) this.timer = setTimeout(() => this.refresh(), pause);
  }

  /** Put values into the address, which the page is made from. */
  narrow(values) {
    const query = { ...this.props.query, offset: "", before: "", after: "", ...values };
    location.hash = link(this.props.path, query);
  }

  render() {
    const { data, error } = this.state;
    return html`
      ${error && !data && html`<h1>${this.props.title}</h1>`}
      ${error && html`<${Problem} text=${error.message} />`}
      ${data ? this.show(data) : !error && html`<p class="dim" role="status">Loading</p>`}
    `;
  }
}

/**
 * A table: `columns` are [title, cell of a row, sort name, kind]. The kind is how wide the column is and where its text
 * stands: "fit", "wide" or "number".
 */
export function Table({ columns, rows, caption, kind, sort, onSort, empty = "There are none." }) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table class=${kind}>
    <caption class="unseen">${caption}</caption>
    <thead><tr>${columns.map((column) => headOf(column, sort, onSort))}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${columns.map(([title, cell, , kind]) => html`<td class=${kind} data-title=${title}>${cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** The head of a column, with a button if the list can be sorted by it. */
export function headOf([title, , name, kind], sort, onSort) {
  if (!name || !onSort) return html`<th scope="col" class=${kind}>${title || html`<span class="unseen">Actions</span>`}</th>`;
  const way = sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
  const next = sort === name ? `-${name}` : name;
  return html`<th scope="col" class=${kind} aria-sort=${way}>
    <button class="plain" onClick=${() => onSort(next)}>${title}${way === "ascending" ? " ↑" : way === "descending" ? " ↓" : ""}</button>
  </th>`;
}

/** "1 machine", "2 machines". */
export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** What went wrong, in a sentence, which may repeat what was typed. */
export function Problem({ text }) {
  return html`<p class="error" role="alert">${visible(text)}</p>`;
}

/** A state as a word with a colour, "good", "mid" or "bad", and how many have it. */
export function State({ of, count, kind: given }) {
  const kind = given || { up: "good", ok: "good", accepted: "good", done: "good", returned: "good", allowed: "good",
    away: "bad", failed: "bad", bad: "bad", missing: "bad", lost: "bad", rejected: "bad", revoked: "bad", refused: "bad" }[of] || "mid";
  return html`<span class=${`state ${kind}`}>${count === undefined ? "" : `${count.toLocaleString("en")} `}${of}</span>`;
}

/** A moment (seconds since 1970): how long ago it was, or with `exact` the time of the day here. */
export function Time({ at, exact }) {
  if (at === null || at === undefined) return html`<span class="dim">never</span>`;
  const date = new Date(at * 1000);
  const title = `${date.toLocaleString()} (${date.toISOString()})`;
  return html`<time datetime=${date.toISOString()} title=${title}>${exact ? date.toLocaleTimeString([], { hour12: false }) : ago(now() - at)}</time>`;
}

function ago(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [unit, length] of units) if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  return seconds >= 1 ? `${Math.floor(seconds)} s ago` : "now";
}

/** Bytes for people. */
export function size(bytes) {
  if (!bytes) return "0";
  const step = Math.min(3, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** step).toFixed(step ? 1 : 0)} ${["bytes", "KiB", "MiB", "GiB"][step]}`;
}

// Control characters, and those that turn text around, would let an output show something else than it is.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text in which what cannot be seen is written out. */
export function visible(text) {
  return text.replace(UNSEEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A text with a button that copies it. */
export class Copyable extends Component {
  async copy() {
    await navigator.clipboard.writeText(this.props.text);
    this.setState({ copied: true });
    setTimeout(() => this.setState({ copied: false }), 1500);
  }

  render({ text, label }, { copied }) {
    return html`<div class="copyable"><pre tabindex="0">${visible(text)}</pre>
      <button type="button" class="small" aria-label=${`Copy ${label}`} onClick=${() => this.copy()}>${copied ? "Copied" : "Copy"}</button></div>`;
  }
}

/** A return value as text. */
export function textOf(value) {
  return visible(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
}

/** The lines of `text` that are not in `other` (`+`), and those of `other` that are not in `text` (`-`). */
export function difference(text, other) {
  const [mine, theirs] = [text.split("\n"), other.split("\n")];
  if (mine.length * theirs.length > 1e6) return [["!", "These outputs are too long to be compared here."]];
  const common = Array.from({ length: mine.length + 1 }, () => new Uint32Array(theirs.length + 1));
  for (let i = mine.length - 1; i >= 0; i--) {
    for (let j = theirs.length - 1; j >= 0; j--) {
      common[i][j] = mine[i] === theirs[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const rows = [];
  let [i, j] = [0, 0];
  while (i < mine.length || j < theirs.length) {
    if (i < mine.length && j < theirs.length && mine[i] === theirs[j]) {
      rows.push([" ", mine[i]]);
      i++;
      j++;
    } else if (j < theirs.length && (i === mine.length || common[i][j + 1] >= common[i + 1][j])) rows.push(["-", theirs[j++]]);
    else rows.push(["+", mine[i++]]);
  }
  return rows;
}

/** A text field with a label, whose value goes to `onChange` when it was not changed for 300 ms. */
export class Field extends Component {
  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  componentWillReceiveProps({ value }) {
    // What is being typed is newer than what the page knows.
    if (value !== this.props.value && document.activeElement !== this.input) this.setState({ text: value });
  }

  render({ label, value, onChange, list, id, hint, now }, { text: shown = value }) {
    const type = (event) => {
      const text = event.target.value;
      this.setState({ text });
      clearTimeout(this.timer);
      this.timer = setTimeout(() => { this.timer = null; onChange(text); }, now ? 0 : 300);
    };
    // Enter and a click elsewhere mean what was typed last.
    const leave = (event) => {
      if (this.timer) onChange(event.target.value);
      clearTimeout(this.timer);
      this.timer = null;
    };
    return html`<label>${label}<input type="text" id=${id} value=${shown} ref=${(input) => { this.input = input; }} list=${list} placeholder=${hint}
      autocomplete="off" autocapitalize="off" spellcheck=${false} onInput=${type} onChange=${leave} /></label>`;
  }
}

/** A choice with a label. */
export function Choice({ label, value, options, onChange }) {
  return html`<label>${label}<select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}
  </select></label>`;
}

export const TARGET_TYPES = ["glob", "compound", "grain", "list", "pcre", "nodegroup", "pillar", "ipcidr"].map((one) => [one, one]);

/** The question before a job with a risk: the number of its targets has to be typed. */
export function Consent({ question, onAgree, onLeave }) {
  const risks = Object.entries(question.functions).flatMap(([fun, row]) => row.risks.map((one) => [fun, one.risk]));
  let typed = "";
  const agree = (event) => {
    event.preventDefault();
    if (typed === String(question.count)) onAgree([...new Set(risks.map(([, risk]) => risk))]);
  };
  return html`<form class="question" role="alertdialog" aria-label="Confirm" onSubmit=${agree}>
    ${risks.map(([fun, risk]) => html`<p>${fun} carries the risk <strong>${risk}</strong>.</p>`)}
    <label>Type ${question.count}, the number of targets, to run it
      <input type="text" inputmode="numeric" ref=${(field) => field?.focus()} onInput=${(event) => { typed = event.target.value; }} /></label>
    <p class="actions"><button class="danger">Run it</button> <button type="button" onClick=${onLeave}>Leave it</button></p>
  </form>`;
}

/** A question over the page, with what it is about inside; closing it is a no. */
export function Dialog({ title, yes, danger, ready = true, onYes, onLeave, children }) {
  return html`<dialog aria-label=${title} ref=${(dialog) => dialog && !dialog.open && dialog.showModal()} onClose=${onLeave}>
    <h1>${title}</h1>${children}
    <p class="actions"><button class=${danger ? "danger" : "primary"} disabled=${!ready} onClick=${onYes}>${yes}</button><button onClick=${onLeave}>Cancel</button></p></dialog>`;
}
