// Jobs: the history, and one job with the states of its targets and its outputs.

import { Component } from "./vendor/preact-11.2.0.mjs";
import { get, now, on, post } from "./api.js";
import { ListPage } from "./list.js";
import { Choice, Consent, Copyable, counted, difference, Field, html, link, Page, State, Table, textOf, Time, visible } from "./parts.js";

const OUTCOMES = ["ok", "failed", "missing", "open"];
const NEW_S = 60;
const SOONEST_MS = 150;
const PAUSES = 4; // times as long as an answer takes, before the next one is asked for
const SOON_MS = 1000;
const LATER_MS = 15000;

const jobColumns = [
  ["Job", (job) => html`<a href=${link(`jobs/${job.jid}`)}><code>${job.jid}</code></a>`, "", "fit w12"],
  ["Function", (job) => html`<strong title=${visible(job.fun)}>${visible(job.fun)}</strong>`, "", "w9"],
  ["Target", (job) => html`<code title=${visible(job.tgt)}>${visible(job.tgt)}</code> <span class="dim">${job.tgt_type === "glob" ? "" : job.tgt_type}</span>`],
  ["User", (job) => html`<span title=${job.user}>${job.user}</span>`, "", "w7"],
  ["Published", (job) => html`<${Time} at=${job.created_at} />`, "", "fit w7"],
  ["Targets", (job) => html`<${Outcomes} of=${job.outcomes} />`, "", "w14"],
];

function Outcomes({ of }) {
  return html`<span class="states">${OUTCOMES.filter((one) => of[one]).map((one) => html`<${State} of=${one} count=${of[one]} />`)}</span>`;
}

const PERIODS = [["", "any time"], ["3600", "the last hour"], ["86400", "the last 24 hours"], ["604800", "the last 7 days"]];

export class Jobs extends ListPage {
  watches = ["salt/job/"];
  pollMs = 15000;

  async rows({ query }, _offset, last, limit) {
    const { fun, user, minion, state, since, within, before } = query;
    const from = within ? Math.floor(now() - within) : since;
    const { jobs, more } = await get("/fleet/jobs", { fun, user, minion, state, since: from, before: last?.jid || before, limit });
    return { rows: jobs, more };
  }

  /** The job at the top is the newest one there. */
  place(_first, above) {
    return { before: above?.jid || this.props.query.before };
  }

  show() {
    const { fun = "", user = "", minion = "", state = "", within = "", since, before } = this.props.query;
    return html`
      <h1>Jobs</h1>
      <form class="filters many" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Function" hint="pkg.*" value=${fun} onChange=${(text) => this.narrow({ fun: text })} />
        <${Field} label="Machine or resource" value=${minion} onChange=${(text) => this.narrow({ minion: text })} />
        <${Field} label="User" value=${user} onChange=${(text) => this.narrow({ user: text })} />
        <${Choice} label="Result" value=${state} options=${[["", "any"], ...OUTCOMES.map((one) => [one, one])]} onChange=${(text) => this.narrow({ state: text })} />
        <${Choice} label="Published" value=${within} options=${PERIODS} onChange=${(text) => this.narrow({ within: text, since: "" })} />
        ${since && html`<button onClick=${() => this.narrow({ since: "" })}>Not only since ${new Date(since * 1000).toLocaleString()}</button>`}
        ${before && html`<button onClick=${() => this.narrow({})}>Newest</button>`}
      </form>
      ${this.table({ caption: "Jobs, the newest first", kind: "jobs", columns: jobColumns, empty: fun || user || minion || state || within || since || before ? "No job is like this."
        : html`No job was published yet, or none is still kept. <a href="#/run">Run a function</a>` })}`;
  }
}

export class Job extends Page {
  componentDidMount() {
    super.componentDidMount();
    const unwatch = this.unwatch;
    const unfollow = on("event", (event) => event.tag.startsWith(`salt/job/${this.props.jid}/`) && this.follow());
    this.unwatch = () => { unwatch(); unfollow(); };
  }

  /** Load again now, but no sooner than the master needs for others: a job of thousands has many events. */
  follow() {
    const pause = Math.max(SOONEST_MS, PAUSES * (this.took ?? 0));
    this.coming ??= setTimeout(() => { this.coming = null; this.refresh(); }, pause);
  }

  async load({ jid }) {
    const began = performance.now();
    const found = await get(`/fleet/jobs/${encodeURIComponent(jid)}`);
    this.took = performance.now() - began;
    // A job may stay open for days, until a machine that is away comes back.
    const isNew = now() - found.job.created_at < NEW_S;
    this.pollMs = found.job.outcomes.open ? (isNew ? SOON_MS : LATER_MS) : 0;
    return found;
  }

  async kill() {
    const { ids, away, cancelled } = await post(`/fleet/jobs/${this.props.jid}/kill`, {});
    this.setState({ note: `${ids.length} end it now, ${away.length} when they come back, ${cancelled.length} will never get it.` });
    this.refresh();
  }

  async again(failed, consent) {
    try {
      const { jid } = await post(`/fleet/jobs/${this.props.jid}/rerun`, { failed, consent });
      location.hash = link(`jobs/${jid}`);
    } catch (error) {
      this.setState(error.status === 409 ? { question: error.body.question, failed } : { note: error.message });
    }
  }

  show({ job, without, without_count, groups, more }) {
    const open = job.outcomes.open || 0;
    const bad = (job.outcomes.failed || 0) + (job.outcomes.missing || 0);
    const hidden = job.hides || job.withheld || job.unreadable;
    return html`
      <h1>${job.fun} <span class="dim">on</span> <code>${visible(job.tgt)}</code></h1>
      <p class="lead"><code>${job.jid}</code> by ${job.user}, <${Time} at=${job.created_at} />
        ${job.cancelled_at && html`, ended by ${job.cancelled_by}`}${job.module_executors.length > 0 && `, with ${job.module_executors.join(", ")}`}</p>
      ${job.calls.map(([fun, args, kwargs]) => (args.length > 0 || Object.keys(kwargs).length > 0) &&
        html`<pre>${fun} ${[...args.map(shown), ...Object.entries(kwargs).map(([name, value]) => `${name}=${shown(value)}`)].join(" ")}</pre>`)}
      <${Progress} outcomes=${job.outcomes} />
      <p class="actions">
        ${open > 0 && html`<button class="danger" onClick=${() => this.kill().catch((error) => this.setState({ note: error.message }))}>End it on ${counted(open, "target")}</button>`}
        ${hidden ? html`<span class="dim">Its arguments are secret or were not kept: type the call anew to run it again.</span>` : html`
          <button onClick=${() => this.again(false, [])}>Run again</button>
          ${bad > 0 && html`<button onClick=${() => this.again(true, [])}>Run again on the ${bad} that failed</button>`}`}
      </p>
      ${this.state.question && html`<${Consent} question=${this.state.question} onAgree=${(risks) => this.again(this.state.failed, risks)}
        onLeave=${() => this.setState({ question: null })} />`}
      ${this.state.note && html`<p class="note" role="status">${this.state.note}</p>`}
      ${without.length > 0 && html`<h2>Without a return</h2><${Table} caption="Targets without a return" rows=${without} columns=${[
        ["Target", (row) => row.id.includes(":") ? row.id : html`<a href=${link(`machines/${row.id}`)}>${row.id}</a>`, "", "wide"],
        ["State", (row) => html`<${State} of=${row.state} />`, "", "fit"],
        ["Why", (row) => visible(row.reason || (row.absence && `not connected: ${row.absence}`) || "")],
        ["Since", (row) => html`<${Time} at=${row.at} />`, "", "fit"],
      ]} />${without_count > without.length && html`<p class="dim">and ${without_count - without.length} more</p>`}`}
      ${groups.length > 0 && html`<h2>Outputs</h2>`}
      ${groups.map((group, index) => html`<${Group} key=${group.ids[0]} jid=${job.jid} group=${group} largest=${groups[0]} first=${index === 0} />`)}
      ${more > 0 && html`<p class="dim">and ${more} more different outputs</p>`}`;
  }
}

/** An argument in one line. */
function shown(value) {
  return visible(typeof value === "string" ? value : JSON.stringify(value));
}

function Progress({ outcomes }) {
  const total = OUTCOMES.reduce((sum, one) => sum + (outcomes[one] || 0), 0) || 1;
  let left = 0;
  return html`<svg class="progress" viewBox="0 0 100 4" preserveAspectRatio="none" role="img"
      aria-label=${OUTCOMES.map((one) => `${outcomes[one] || 0} ${one}`).join(", ")}>
      ${OUTCOMES.map((one) => {
        const width = ((outcomes[one] || 0) / total) * 100;
        left += width;
        return html`<rect class=${one} x=${left - width} y="0" width=${width} height="4" />`;
      })}</svg>
    <p role="status"><${Outcomes} of=${outcomes} /></p>`;
}

class Group extends Component {
  render({ jid, group, largest, first }, { compared }) {
    const names = group.ids.slice(0, 20);
    return html`<section class=${`group ${group.success ? "" : "failed"}`}>
      <h3>${counted(group.count, "target")}
        ${group.retcode !== 0 && html` <span class="state bad">return code ${group.retcode}</span>`}</h3>
      <p class="tags">${names.map((id) => html`<a class="tag" href=${link(id.includes(":") ? "resources" : `machines/${id}`)}>${id}</a>`)}
        ${group.count > names.length && html`<span class="dim">and ${group.count - names.length} more</span>`}</p>
      ${!first && html`<p><button class="small" onClick=${() => this.setState({ compared: !compared })}>
        ${compared ? "Show the output" : "Compare with the largest group"}</button></p>`}
      ${compared
        ? html`<pre tabindex="0">${difference(textOf(group.value), textOf(largest.value)).map(([sign, line]) =>
          html`<span class=${{ "+": "added", "-": "removed" }[sign] || ""}>${sign} ${line}\n</span>`)}</pre>`
        : html`<${Copyable} text=${textOf(group.value)} label="the output" />`}
      ${group.cut && html`<p class="dim">This is only the beginning. <a href=${`/fleet/jobs/${encodeURIComponent(jid)}/returns/${encodeURIComponent(group.ids[0])}`}
        download=${`${jid}-${group.ids[0]}.json`}>The whole return of ${group.ids[0]}</a></p>`}
    </section>`;
  }
}
