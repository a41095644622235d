// Packages: which version of a package each machine has, by a job that asks all of them.

import { get, now, post } from "./api.js";
import { counted, Field, html, link, Page, Problem, State, Table, textOf } from "./parts.js";

const NAMES_SHOWN = 12;

export class Packages extends Page {
  async load({ query: { jid } }) {
    if (!jid) return {};
    const found = await get(`/fleet/jobs/${encodeURIComponent(jid)}`);
    this.pollMs = found.job.outcomes.open ? (now() - found.job.created_at < 60 ? 1000 : 15000) : 0;
    return found;
  }

  async look(event) {
    event.preventDefault();
    const { name, tgt = "*" } = this.props.query;
    try {
      const { jid } = await post("/fleet/jobs", { tgt, fun: "pkg.version", arg: [name], consent: [] });
      this.narrow({ jid });
    } catch (error) {
      this.setState({ note: error.message });
    }
  }

  show({ job, groups = [] }) {
    const { name = "", tgt = "*" } = this.props.query;
    const open = job?.outcomes.open || 0;
    return html`
      <h1>Packages</h1>
      <p class="lead">Which version of a package each machine has. A job asks the machines, so those that are away answer later.</p>
      <form class="filters" role="search" onSubmit=${(event) => this.look(event)}>
        <${Field} id="search" label="Package" hint="openssl" value=${name} now=${true} onChange=${(text) => this.narrow({ name: text, jid: "" })} />
        <${Field} label="Machines" value=${tgt} now=${true} onChange=${(text) => this.narrow({ tgt: text, jid: "" })} />
        <button class="primary" disabled=${!name || !tgt}>Ask them</button>
      </form>
      ${this.state.note && html`<${Problem} text=${this.state.note} />`}
      ${!job && html`<p class="empty">${name ? "No machine was asked yet." : "Name a package, and see its versions over the fleet."}</p>`}
      ${job && html`
        <p role="status">${open > 0 ? `${counted(open, "machine")} ${open === 1 ? "has" : "have"} not answered yet` : "All answers are here"}${" · "}<a
          href=${link(`jobs/${job.jid}`)}>the job</a></p>
        <${Table} caption=${`Versions of ${name}`} rows=${groups} empty="No machine has answered." columns=${[
          ["Version", (group) => group.success ? html`<code>${textOf(group.value) || "not installed"}</code>` : html`<${State} of="failed" />`, "", "fit"],
          ["Machines", (group) => group.count, "", "number"],
          ["Which", (group) => html`${group.ids.slice(0, NAMES_SHOWN).map((id) => html`<a href=${link(`machines/${id}`)}>${id}</a> `)}
            ${group.count > NAMES_SHOWN && html`<span class="dim">and ${group.count - NAMES_SHOWN} more</span>`}`],
          // The answer names a part of a large group, and a longer list would not fit into an address.
          ["", (group) => group.ids.length === group.count && html`<a class="button" href=${link("run", { tgt: group.ids.join(","), type: "list" })}>Run on these</a>`, "", "fit"],
        ]} />`}`;
  }
}
