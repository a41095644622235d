// Resources and Events: the short pages.

import { get, on } from "./api.js";
import { Component } from "./vendor/preact-11.2.0.mjs";
import { ListPage } from "./list.js";
import { Field, html, link, Problem, State, Table, textOf, Time, visible } from "./parts.js";

export class Resources extends ListPage {
  pollMs = 30000;

  async rows({ query: { type, minion, after } }, _offset, last, limit) {
    const { resources, more } = await get("/fleet/resources", { type, minion, after: last?.srn || after, limit });
    return { rows: resources, more };
  }

  place(_first, above) {
    return { after: above?.srn || this.props.query.after };
  }

  show() {
    const { type = "", minion = "", after } = this.props.query;
    return html`
      <h1>Resources</h1>
      <p class="lead">What minions manage for others that have no minion of their own: devices, hosts by SSH.</p>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Type" hint="ssh" value=${type} onChange=${(text) => this.narrow({ type: text })} />
        <${Field} label="Managed by" value=${minion} onChange=${(text) => this.narrow({ minion: text })} />
        ${after && html`<button type="button" onClick=${() => this.narrow({})}>From the first</button>`}
      </form>
      ${this.table({ caption: "Resources",
        empty: type || minion ? "No resource is registered like this." : html`No resource is registered. <a href="#/docs/resources">What resources are</a>`,
        columns: [
          ["Resource", (row) => html`<code title=${row.srn}>${row.srn}</code>`],
          ["Managed by", (row) => html`<a href=${link(`machines/${row.minion}`)}>${row.minion}</a>`],
          ["State", (row) => html`<${State} of=${row.up ? "up" : "away"} />`, "", "w7"],
          ["Not found since", (row) => row.stale_since && html`<${Time} at=${row.stale_since} />`, "", "w9"],
          ["", (row) => html`<a class="button" aria-label=${`run a function on ${row.srn}`} href=${link("run", { tgt: row.srn, type: "list" })}>run</a>`, "", "w5"],
        ] })}`;
  }
}

const EVENTS_SHOWN = 500;

export class Events extends Component {
  state = { events: [], paused: false, missed: 0, before: null, problem: "" };

  componentDidMount() {
    this.unwatch = on("event", (event) => {
      const { paused, missed } = this.state;
      if (paused) this.setState({ missed: missed + 1 });
      else this.put([event], EVENTS_SHOWN);
    });
    this.replay({});
  }

  componentDidUpdate({ query }) {
    if (query.tag !== this.props.query.tag) this.replay({});
  }

  componentWillUnmount() {
    this.unwatch();
  }

  /** Add events; each is shown once, the newest first. */
  put(more, most) {
    this.setState(({ events }) => {
      const known = new Map([...events, ...more].map((event) => [event.id, event]));
      return { events: [...known.values()].sort((one, other) => other.id - one.id).slice(0, most) };
    });
  }

  /** Fetch the newest events with this part of the tag, or those before an event. */
  async replay(query) {
    const { tag } = this.props.query;
    try {
      const { events, before } = await get("/fleet/events", { ...query, tag });
      if (tag !== this.props.query.tag) return;
      this.put(events);
      this.setState({ before, problem: "" });
    } catch (error) {
      this.setState({ problem: error.message });
    }
  }

  goOn() {
    this.setState({ paused: false, missed: 0 });
    this.replay({});
  }

  render({ query, path }, { events, paused, missed, before, problem }) {
    const tag = query.tag || "";
    const rows = events.filter((event) => event.tag.includes(tag));
    return html`
      <div class="head"><h1>Events</h1><p role="status"><${State} of=${paused ? "paused" : "live"} kind=${paused ? "mid" : "good"} />${paused && missed > 0 && ` ${missed} since then`}</p></div>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Part of the tag" hint="salt/job/" value=${tag} onChange=${(text) => { location.hash = link(path, { tag: text }); }} />
        <button type="button" onClick=${() => (paused ? this.goOn() : this.setState({ paused: true, missed: 0 }))}>${paused ? "Go on" : "Pause"}</button>
        <button type="button" disabled=${!events.length} onClick=${() => this.setState({ events: [] })}>Clear</button>
      </form>
      ${problem && html`<${Problem} text=${problem} />`}
      <${Table} caption="Events, the newest first" kind="events" rows=${rows} empty="Events appear here as they happen." columns=${[
        ["When", (event) => html`<${Time} exact=${true} at=${Date.parse(`${event.data._stamp}Z`) / 1000} />`, "", "fit w7"],
        ["Tag", (event) => html`<code>${visible(event.tag)}</code>`, "", "w24"],
        ["Data", (event) => html`<details><summary><code>${visible(JSON.stringify(event.data).slice(0, 200))}</code></summary><pre tabindex="0">${textOf(event.data)}</pre></details>`],
      ]} />
      ${before && html`<nav class="pages" aria-label="Parts of the list"><button onClick=${() => this.replay({ before })}>Earlier</button></nav>`}`;
  }
}
