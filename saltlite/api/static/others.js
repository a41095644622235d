// Resources, Events and Access: the short pages.

import { get, logOut, on, post } from "./api.js";
import { Component } from "./vendor/preact-11.2.0.mjs";
import { Field, html, link, Page, State, Table, textOf, Time } from "./parts.js";

export class Resources extends Page {
  pollMs = 30000;

  load({ query: { type, minion, after } }) {
    return get("/fleet/resources", { type, minion, after });
  }

  show({ resources, more }) {
    const { type = "", minion = "", after } = this.props.query;
    return html`
      <h1>Resources</h1>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Type" hint="ssh" value=${type} onChange=${(text) => this.narrow({ type: text })} />
        <${Field} label="Managed by" value=${minion} onChange=${(text) => this.narrow({ minion: text })} />
      </form>
      <${Table} caption="Resources" rows=${resources} empty="No resource is registered like this." columns=${[
        ["Resource", (row) => html`<code>${row.srn}</code>`],
        ["Managed by", (row) => html`<a href=${link(`machines/${row.minion}`)}>${row.minion}</a>`],
        ["State", (row) => html`<${State} of=${row.up ? "up" : "away"} />`],
        ["Not found since", (row) => row.stale_since && html`<${Time} at=${row.stale_since} />`],
        ["", (row) => html`<a href=${link("run", { tgt: row.srn, type: "list" })}>run</a>`],
      ]} />
      <nav class="pages" aria-label="Pages">
        ${after && html`<button onClick=${() => this.narrow({})}>First</button>`} ${" "}
        ${more && html`<button onClick=${() => this.narrow({ after: resources[resources.length - 1].srn })}>Next</button>`}
      </nav>`;
  }
}

const EVENTS_SHOWN = 200;

export class Events extends Component {
  state = { events: [], paused: false, missed: 0 };

  componentDidMount() {
    this.unwatch = on("event", (event) => {
      const { events, paused, missed } = this.state;
      if (paused) this.setState({ missed: missed + 1 });
      else this.setState({ events: [{ ...event, at: Date.now() / 1000 }, ...events].slice(0, EVENTS_SHOWN) });
    });
  }

  componentWillUnmount() {
    this.unwatch();
  }

  render({ query, path }, { events, paused, missed }) {
    const tag = query.tag || "";
    const rows = events.filter((event) => event.tag.includes(tag));
    return html`
      <h1>Events</h1>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Part of the tag" hint="salt/job/" value=${tag} onChange=${(text) => { location.hash = link(path, { tag: text }); }} />
        <button type="button" onClick=${() => this.setState({ paused: !paused, missed: 0 })}>${paused ? "Go on" : "Pause"}</button>
        ${paused && missed > 0 && html`<span class="dim" role="status">${missed} since then</span>`}
      </form>
      <${Table} caption="Events, the newest first" rows=${rows} empty="Events appear here as they happen." columns=${[
        ["When", (event) => html`<${Time} at=${event.at} />`],
        ["Tag", (event) => html`<code>${event.tag}</code>`],
        ["Data", (event) => html`<details><summary>${textOf(JSON.stringify(event.data)).slice(0, 100)}</summary><pre>${textOf(event.data)}</pre></details>`],
      ]} />`;
  }
}

export class Access extends Page {
  load() {
    return get("/fleet/access");
  }

  async revoke(id) {
    await post("/fleet/access", { revoke: [id] }).catch((error) => this.setState({ note: error.message }));
    this.refresh();
  }

  show({ user, eauth, groups, operator, perms, logins, expire }) {
    return html`
      <h1>Access</h1>
      <dl>
        <dt>You are</dt><dd>${user}${eauth && ` by ${eauth}`}${groups.length > 0 && ` in ${groups.join(", ")}`}</dd>
        <dt>You may do</dt><dd>${operator ? "everything" : html`<ul>${perms.map((rule) => html`<li><code>${rule}</code></li>`)}</ul>`}</dd>
        ${expire && html`<dt>This login ends</dt><dd>${new Date(expire * 1000).toLocaleString()}</dd>`}
      </dl>
      <p><button onClick=${() => logOut()}>Log out</button></p>
      ${this.state.note && html`<p class="error" role="alert">${this.state.note}</p>`}
      ${logins && html`<h2>Logins</h2><${Table} caption="Logins" rows=${logins} columns=${[
        ["User", (row) => `${row.user} by ${row.eauth}`],
        ["Since", (row) => html`<${Time} at=${row.start} />`],
        ["Until", (row) => new Date(row.expire * 1000).toLocaleString()],
        ["", (row) => html`<button onClick=${() => this.revoke(row.id)} aria-label=${`revoke ${row.id}`}>revoke</button>`],
      ]} />`}`;
  }
}
