// Machines: the list, and one of them with its key, its grains and its jobs.

import { Component } from "./vendor/preact-11.2.0.mjs";
import { get } from "./api.js";
import { Choice, counted, Field, html, link, Page, State, Table, TARGET_TYPES, textOf, Time, visible } from "./parts.js";
import { ListPage } from "./list.js";

const RETURN_SHOWN = 64 * 1024; // characters
const LINE = 120; // characters of a grain that is shown in one line

export class Machines extends ListPage {
  watches = ["salt/presence/", "salt/key"];
  pollMs = 30000;

  async rows({ query }, offset, _last, limit) {
    const { search, type, state, sort } = query;
    const words = /[*?[\]]/.test(search || "") || (type && type !== "glob") ? search : search && `*${search}*`;
    const { minions, total } = await get("/fleet/minions", { tgt: words, tgt_type: words && (type || "glob"), state, sort: sort || "id", offset, limit });
    return { rows: minions, total };
  }

  show({ answer: { total, rows } }) {
    const { search = "", type = "glob", state = "", sort = "id" } = this.props.query;
    const several = rows.some((row) => row.master !== undefined);
    return html`
      <div class="head"><h1>Machines</h1>
        <p role="status">${counted(total, "machine")}${search && html` · <a href=${link("run", { tgt: search, type })}>run a function on them</a>`}</p></div>
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Target" hint="part of an id, or an expression" value=${search} onChange=${(text) => this.narrow({ search: text })} />
        <${Choice} label="Read as" value=${type} options=${TARGET_TYPES} onChange=${(text) => this.narrow({ type: text })} />
        <${Choice} label="State" value=${state} options=${[["", "any"], ["up", "up"], ["away", "away"], ["never", "never seen"]]} onChange=${(text) => this.narrow({ state: text })} />
      </form>
      ${this.table({ caption: "Machines", sort, onSort: (next) => this.narrow({ sort: next }),
        empty: search || state ? "No machine is selected by this." : html`No machine has joined yet: see <a href="#/docs/install">how to install a minion</a>, and the <a href="#/keys">keys</a> that wait.`,
        columns: [
          ["Machine", (row) => html`<a href=${link(`machines/${row.id}`)} title=${row.id}>${row.id}</a>`, "id"],
          ["State", (row) => html`<${State} of=${row.state === "never" ? "never seen" : row.state} />`, "state", "w6"],
          ["Last seen", (row) => row.state === "up" ? "connected" : html`<${Time} at=${row.last_seen} />`, "last_seen", "w7"],
          ["Why away", (row) => row.reason && html`<span title=${row.reason}>${row.reason}</span>`, "", "why w13"],
          ["Version", (row) => visible(row.version), "version", "w5"],
          ["Address", (row) => row.address && html`<span title=${row.address}>${row.address}</span>`, "address", "w8"],
          ["Resources", (row) => row.resources || "", "resources", "number w6"],
          ...(several ? [["Master", (row) => html`<span title=${row.master}>${row.master}</span>`, "", "w7"]] : []),
        ] })}`;
  }
}

export class Machine extends Page {
  watches = ["salt/presence/", "salt/key", "salt/job/"];
  pollMs = 30000;

  async load({ name }) {
    const [one, jobs, resources] = await Promise.all([
      get(`/fleet/minions/${encodeURIComponent(name)}`),
      get("/fleet/jobs", { minion: name, limit: 20 }),
      get("/fleet/resources", { minion: name, limit: 20 }).catch(() => ({ resources: [] })),
    ]);
    return { ...one, jobs, resources };
  }

  show({ minion, keys, grains, jobs, resources }) {
    const { name } = this.props;
    const words = (this.state.filter || "").toLowerCase();
    const rows = Object.entries(grains || {}).sort().filter(([grain, value]) => `${grain} ${JSON.stringify(value)}`.toLowerCase().includes(words));
    return html`
      <div class="head"><h1>${name} ${minion && html`<${State} of=${minion.state} />`}</h1>
        <p><a class="button primary" href=${link("run", { tgt: name, type: "list" })}>Run a function here</a></p></div>
      ${minion ? html`<dl class="panel">
        <dt>Last seen</dt><dd>${minion.state === "up" ? html`connected since <${Time} at=${minion.last_seen} />` : html`<${Time} at=${minion.last_seen} />`}</dd>
        ${minion.state !== "up" && html`<dt>Why</dt><dd>${absence(minion, keys)}</dd>`}
        ${minion.master && html`<dt>Master</dt><dd>${minion.state === "up" ? "" : "last "}${visible(minion.master)}</dd>`}
        <dt>Address</dt><dd>${minion.address || "not known"}</dd>
        <dt>Version</dt><dd>${visible(minion.version) || "not known"}</dd>
      </dl>` : html`<p class="note">Its key is not accepted: see <a href="#/keys">keys</a>.</p>`}
      ${keys && html`<h2>Keys</h2><${Table} caption="Keys of this id" rows=${keys} columns=${[
        ["State", (key) => html`<${State} of=${key.state} />`],
        ["Fingerprint", (key) => html`<code>${key.fingerprint}</code>`],
        ["First seen", (key) => html`<${Time} at=${key.first_seen} />`],
        ["How", (key) => visible(key.how || "")],
      ]} />`}
      <h2>Jobs</h2>
      <${Table} caption="Jobs of this machine" rows=${jobs.jobs} empty="It had no job that is still kept." columns=${[
        ["Function", (job) => html`<a href=${link(`jobs/${job.jid}`)}><strong>${visible(job.fun)}</strong></a>`],
        ["Its result", (job) => job.own ? html`<${State} of=${job.own.outcome} />${job.own.retcode ? ` return code ${job.own.retcode}` : ""}` : html`<span class="dim">of its resources</span>`],
        ["Return", (job) => job.own?.retcode !== null && job.own && html`<${Return} jid=${job.jid} name=${name} />`, "", "wide"],
        ["Took", (job) => duration(job.own?.duration_ms), "", "fit"],
        ["User", (job) => job.user, "", "fit"],
        ["Published", (job) => html`<${Time} at=${job.created_at} />`, "", "fit"],
      ]} />
      ${jobs.more && html`<p><a href=${link("jobs", { minion: name })}>Older jobs</a></p>`}
      ${resources.resources.length > 0 && html`<h2>Resources</h2>
        <p class="panel tags">${resources.resources.map((row) => html`<code class="tag">${row.srn}</code>`)}
          ${resources.more && html`<a href=${link("resources", { minion: name })}>all of them</a>`}</p>`}
      <h2>Grains</h2>
      ${grains === null ? html`<p class="empty">You have no right to see them (cache.grains).</p>` : html`
        <div class="filters"><label>Filter<input type="text" id="search" value=${this.state.filter || ""} onInput=${(event) => this.setState({ filter: event.target.value })} /></label></div>
        <${Table} caption="Grains" rows=${rows} empty="No grain matches." columns=${[
          ["Grain", ([grain]) => html`<code>${grain}</code>`, "", "fit"],
          ["Value", ([, value]) => html`<${Value} of=${value} />`],
        ]} />`}`;
  }
}

/** Why a machine is not connected, and where to compare the key that may be the reason. */
function absence({ reason }, keys) {
  const other = keys?.find((key) => key.state === "conflict" || key.state === "pending");
  return other ? html`${reason}: perhaps the machine was installed anew. Compare it under <a href=${link("keys", { search: other.fingerprint })}>Keys</a>.` : reason;
}

/** What the machine returned to a job, which is fetched when it is unfolded. */
class Return extends Component {
  async open(event) {
    if (!event.target.open || this.state.text !== undefined) return;
    const { jid, name } = this.props;
    try {
      const { ret } = await get(`/fleet/jobs/${jid}/returns/${encodeURIComponent(name)}`);
      this.setState({ text: textOf(ret).slice(0, RETURN_SHOWN) });
    } catch (error) {
      this.setState({ text: error.message });
    }
  }

  render(_, { text }) {
    return html`<details onToggle=${(event) => this.open(event)}><summary>show</summary><pre tabindex="0">${text ?? "…"}</pre></details>`;
  }
}

function duration(ms) {
  return ms === null || ms === undefined ? "" : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A grain in a line if it is short enough. */
function Value({ of }) {
  const line = typeof of === "string" ? of : JSON.stringify(of);
  return html`<pre tabindex=${line.length <= LINE ? undefined : 0}>${line.length <= LINE ? visible(line) : textOf(of)}</pre>`;
}
