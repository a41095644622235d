// Lists of any length: only the rows in view are in the page, and they are fetched as they come into view.
//
// The style sheet gives all rows of a list one height, so the place of a row is a product. The window scrolls, not a part of
// the page, so wheel, finger and the keys that scroll work as everywhere. A row with the focus stays in the page.

import { Component } from "./vendor/preact-11.2.0.mjs";
import { headOf, html, link, Page } from "./parts.js";

const BLOCK = 100; // rows of a request
const SPARE = 12; // rows above and below those in view
const STEP = 4; // rows; the page is made anew only after so many
const SETTLE_MS = 60;
const ADDRESS_MS = 400; // after which the address names the row at the top
const ROW_PX = 40; // until a row can be measured

/**
 * A page with one long list. `rows(props, offset, last)` answers `rows` with `total`, or with `more` if the next ones are
 * asked for by the last row; `place(first, above)` the query of the address with the row `first` at the top, behind `above`.
 */
export class ListPage extends Page {
  view = [0, SPARE];

  componentDidUpdate(before) {
    super.componentDidUpdate(before);
    this.complete();
  }

  componentWillUnmount() {
    super.componentWillUnmount();
    clearTimeout(this.settling);
    clearTimeout(this.placing);
  }

  /** The rows in view, and of a list without offsets those above them: behind them nothing is known any more. */
  load(props) {
    let blocks = [];
    if (this.visit !== props.visit) {
      this.visit = props.visit;
      const row = Number(props.query.offset) || 0;
      this.start = { row };
      this.view = [row, row + SPARE];
    } else {
      blocks = (this.state.data?.blocks ?? []).slice(0, Math.floor(this.view[0] / BLOCK));
    }
    return this.filled({ blocks }, props);
  }

  async filled({ blocks: known, answer }, props) {
    const blocks = known.slice(); // which may have holes
    for (const number of this.numbers()) {
      if (blocks[number]) continue;
      if (answer && (answer.total === undefined ? !answer.more : number * BLOCK >= answer.total)) break;
      answer = await this.rows(props, number * BLOCK, blocks[number - 1]?.at(-1), BLOCK);
      blocks[number] = answer.rows;
    }
    return { blocks, answer };
  }

  /** The numbers of the blocks in view. */
  numbers() {
    const [from, to] = this.view.map((row) => Math.floor(row / BLOCK));
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  }

  /** Fetch what is in view and not known, one request after another; a failure is tried again by the next refresh. */
  complete() {
    const { data, error } = this.state;
    if (this.settling || !data || error) return;
    const { blocks, answer } = data;
    const end = answer.total ?? (answer.more ? Infinity : 0);
    if (!this.numbers().some((number) => !blocks[number] && number * BLOCK < end)) return;
    this.settling = setTimeout(async () => {
      let found;
      try {
        found = { data: await this.filled(data, this.props) };
      } catch (error) {
        found = { error };
      }
      this.settling = null;
      // Rows that came meanwhile are newer.
      if (!this.gone && this.state.data === data) this.setState(found);
      else this.complete();
    }, SETTLE_MS);
  }

  /** Called with the row at the top and the range of rows that are in the page. */
  look(first, from, to) {
    this.view = [from, Math.max(from, to - 1)];
    this.complete();
    clearTimeout(this.placing);
    this.placing = setTimeout(() => {
      if (this.gone || this.visit !== this.props.visit) return;
      const place = this.place(first, this.row(first - 1));
      // The address leads back here, and to here when it is sent to a colleague.
      if (place) history.replaceState(null, "", link(this.props.path, { ...this.props.query, ...place }));
    }, ADDRESS_MS);
  }

  place(first) {
    return { offset: first || "" };
  }

  row(index) {
    return this.state.data.blocks[Math.floor(index / BLOCK)]?.[index % BLOCK];
  }

  /** The table of the rows; `props` are those of `Table` without `rows`. */
  table(props) {
    const { blocks, answer } = this.state.data;
    const known = blocks.reduce((sum, block) => sum + block.length, 0);
    return html`<${LongTable} ...${props} start=${this.start} isWhole=${answer.total !== undefined || !answer.more}
      count=${answer.total ?? known + (answer.more ? SPARE : 0)} row=${(index) => this.row(index)} onLook=${(...range) => this.look(...range)} />`;
  }
}

class LongTable extends Component {
  state = { from: 0, to: SPARE, focus: -1 };

  componentDidMount() {
    this.moved = () => this.look();
    // Rows of another height, on a screen that was turned: the same one stays at the top.
    this.turned = () => (this.body && this.first && this.height() !== this.high ? this.go(this.first) : this.look());
    addEventListener("scroll", this.moved, { passive: true });
    addEventListener("resize", this.turned);
    this.settle();
  }

  componentDidUpdate() {
    this.settle();
  }

  componentWillUnmount() {
    removeEventListener("scroll", this.moved);
    removeEventListener("resize", this.turned);
  }

  /** Go to the row that the address names, once. */
  settle() {
    const { start } = this.props;
    if (this.body && this.started !== start) {
      this.started = start;
      if (start.row) this.go(start.row);
      else if (this.body.getBoundingClientRect().top < 0) scrollTo(0, 0);
    }
    this.look();
  }

  /** Scroll until that row is at the top. */
  go(row) {
    scrollTo(0, scrollY + this.body.getBoundingClientRect().top - this.edge() + row * this.height());
  }

  height() {
    return this.body.querySelector("tr[aria-rowindex]")?.getBoundingClientRect().height || ROW_PX;
  }

  /** Where the rows begin that can be seen: what sticks to the top of the window is above them. */
  edge() {
    const bar = document.querySelector("header").getBoundingClientRect();
    return bar.width === document.documentElement.clientWidth ? bar.height : this.body.previousElementSibling.offsetHeight;
  }

  look() {
    if (!this.body) return;
    const { count, onLook } = this.props;
    const height = (this.high = this.height());
    const { top } = this.body.getBoundingClientRect();
    const first = Math.min(count - 1, Math.max(0, Math.round((this.edge() - top) / height)));
    const from = Math.max(0, Math.floor((first - SPARE) / STEP) * STEP);
    const to = Math.min(count, Math.ceil(((innerHeight - top) / height + SPARE) / STEP) * STEP);
    if (from === this.state.from && to === this.state.to && first === this.first) return;
    this.first = first;
    this.setState({ from, to: Math.max(from, to) });
    onLook(first, from, Math.max(from, to));
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const index = step && rowOf(event.target) + step;
    if (!step || index < 0 || index >= this.props.count || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.setState({ focus: index }, () => {
      const row = this.body.querySelector(`[aria-rowindex="${index + 2}"]`);
      (row.querySelector("a, button") || row).focus();
    });
  }

  render({ columns, caption, kind, sort, onSort, empty, count, isWhole, row }, { from, to, focus }) {
    if (!count) return html`<p class="empty">${empty}</p>`;
    const shown = [];
    for (let index = Math.min(from, count - 1); index < Math.min(to, count); index++) shown.push(index);
    if (focus >= 0 && focus < from) shown.unshift(focus);
    if (focus >= to && focus < count) shown.push(focus);
    const height = this.body ? this.height() : ROW_PX;
    const lines = [];
    let next = 0;
    for (const index of [...shown, count]) {
      if (index > next) lines.push(html`<tr key=${`gap ${lines.length}`} class="gap" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(index - next) * height}px` }}></td></tr>`);
      if (index < count) lines.push(html`<${Row} key=${index} index=${index} of=${row(index)} columns=${columns} />`);
      next = index + 1;
    }
    return html`<table class=${`long ${kind ?? ""}`} role="table" aria-rowcount=${isWhole ? count + 1 : -1}>
      <caption class="unseen">${caption}</caption>
      <thead role="rowgroup"><tr role="row" aria-rowindex="1">${columns.map((column) => headOf(column, sort, onSort))}</tr></thead>
      <tbody role="rowgroup" ref=${(body) => { this.body = body; }} onKeyDown=${(event) => this.key(event)}
        onFocusIn=${(event) => this.setState({ focus: rowOf(event.target) })} onFocusOut=${() => this.setState({ focus: -1 })}>${lines}</tbody>
    </table>`;
  }
}

function rowOf(element) {
  return Number(element.closest("tr").getAttribute("aria-rowindex")) - 2;
}

function Row({ index, of, columns }) {
  const value = (cell, place) => (of ? cell(of) : place ? "" : "…");
  return html`<tr role="row" aria-rowindex=${index + 2} tabindex="-1">${columns.map(([title, cell, , kind], place) =>
    html`<td role="cell" class=${kind} data-title=${title}>${value(cell, place)}</td>`)}</tr>`;
}
