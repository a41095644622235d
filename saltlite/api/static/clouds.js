// Clouds: providers, profiles and machines, by the runners `cloud.*` with the rights of the caller.

import { post } from "./api.js";
import { Choice, Dialog, html, link, Page, Problem, State, Table, textOf, visible } from "./parts.js";

/** The value of a runner. Raises Error with its message if it failed as a whole. */
async function run(fun, arg = [], kwarg = {}) {
  const { value, retcode } = await post("/fleet/runners", { fun, arg, kwarg });
  if (retcode && typeof value === "string") throw new Error(value);
  return value;
}

/** `{alias: {driver: {name: row}}}` as a list; what one provider could not answer is in `errors`. */
function flat(answer) {
  const [rows, errors] = [[], []];
  for (const [alias, drivers] of Object.entries(answer)) {
    if (drivers.Error) errors.push([alias, drivers.Error]);
    else for (const [driver, named] of Object.entries(drivers)) for (const [name, row] of Object.entries(named)) rows.push({ alias, driver, name, ...row });
  }
  return { rows, errors };
}

function stateOf(row) {
  return visible(String(row.state ?? "unknown")).toLowerCase();
}

const ACTIONS = [["show_instance", "Details"], ["start", "Start"], ["stop", "Stop"], ["reboot", "Reboot"], ["destroy", "Destroy"]];

export class Clouds extends Page {
  async load() {
    const providers = await run("cloud.list_providers");
    if (Object.keys(providers).length === 0) return { providers: [], profiles: [], machines: { rows: [], errors: [] } };
    const [profiles, machines] = await Promise.all([run("cloud.list_profiles"), run("cloud.query")]);
    return {
      providers: Object.entries(providers).flatMap(([alias, drivers]) => Object.entries(drivers).map(([driver, row]) => ({ alias, driver, ...row }))),
      profiles: flat(profiles).rows,
      machines: flat(machines),
    };
  }

  async act({ action, name, provider }) {
    this.setState({ asked: null, busy: `${action} ${name}`, answer: null, problem: "" });
    try {
      const answer = action === "destroy" ? await run("cloud.destroy", [name], { provider })
        : action === "create" ? await run("cloud.profile", [provider, name]) : await run("cloud.action", [action, name], { provider });
      this.setState({ answer });
    } catch (error) {
      this.setState({ problem: error.message });
    }
    this.setState({ busy: "" });
    if (action !== "show_instance") this.refresh();
  }

  ask(asked) {
    if (asked.action === "show_instance") this.act(asked);
    else this.setState({ asked, typed: "" });
  }

  show({ providers, profiles, machines }) {
    const { asked, busy, answer, problem } = this.state;
    if (!providers.length) {
      return html`<h1>Clouds</h1><p class="empty">No provider is configured. <a href="#/docs/cloud">How machines of clouds are made</a></p>`;
    }
    return html`
      <div class="head"><h1>Clouds</h1><p><button onClick=${() => this.refresh()}>Ask the providers again</button></p></div>
      ${busy && html`<p class="note" role="status">${busy}: this may take minutes. <a href="#/events?tag=salt/cloud/">Its events</a></p>`}
      ${problem && html`<${Problem} text=${problem} />`}
      ${answer && html`<div class="note"><pre tabindex="0">${textOf(answer)}</pre></div>`}
      ${machines.errors.map(([alias, text]) => html`<p class="error" role="alert">${alias}: ${visible(text)}</p>`)}
      <h2>Machines</h2>
      <${Table} caption="Machines of clouds" rows=${machines.rows} empty=${machines.errors.length ? "The providers that answered have no machine." : "The providers have no machine."} columns=${[
        ["Machine", (row) => html`<a href=${link(`machines/${row.name}`)}>${visible(row.name)}</a>`],
        ["Provider", (row) => `${row.alias} (${row.driver})`],
        ["State", (row) => html`<${State} of=${stateOf(row)} kind=${stateOf(row) === "running" ? "good" : "mid"} />`, "", "fit"],
        ["Size", (row) => visible(String(row.size ?? ""))],
        ["Image", (row) => visible(String(row.image ?? ""))],
        ["Addresses", (row) => [...(row.public_ips || []), ...(row.private_ips || [])].map(String).map(visible).join(", ")],
        ["", (row) => html`<span class="actions">${ACTIONS.map(([action, title]) => html`<button disabled=${Boolean(busy)} class=${action === "destroy" ? "danger" : ""}
          aria-label=${`${title} ${row.name}`} onClick=${() => this.ask({ action, title, name: row.name, provider: `${row.alias}:${row.driver}` })}>${title}</button>`)}</span>`, "", "fit"],
      ]} />
      <h2>Profiles</h2>
      ${profiles.length > 0 && html`<form class="filters" onSubmit=${(event) => { event.preventDefault(); this.create(event.target.elements, profiles); }}>
        <${Choice} label="Profile" value=${this.state.profile || profiles[0].name} options=${profiles.map((row) => [row.name, row.name])} onChange=${(text) => this.setState({ profile: text })} />
        <label>Names of the new machines<input name="names" placeholder="web1, web2" required autocomplete="off" spellcheck=${false} /></label>
        <button disabled=${Boolean(busy)}>Create</button></form>`}
      <${Table} caption="Profiles" rows=${profiles} empty="No profile is configured." columns=${[
        ["Profile", (row) => html`<strong>${visible(row.name)}</strong>`],
        ["Provider", (row) => row.provider],
        ["Settings", ({ alias, driver, name, provider, ...settings }) => html`<details><summary>${Object.keys(settings).join(", ") || "none"}</summary><pre tabindex="0">${textOf(settings)}</pre></details>`],
      ]} />
      <h2>Providers</h2>
      <${Table} caption="Providers" rows=${providers} columns=${[
        ["Provider", (row) => html`<strong>${row.alias}</strong>`],
        ["Driver", (row) => html`<a href=${link(`docs/reference/clouds/${row.driver}`)}>${row.driver}</a>`],
        ["Written in", (row) => html`<code>${visible(row.written)}</code>`],
      ]} />
      ${asked && html`<${Dialog} title=${`${asked.title} ${asked.name}?`} yes=${asked.title} danger=${asked.action === "destroy"}
        ready=${asked.action !== "destroy" || this.state.typed === asked.name} onYes=${() => this.act(asked)} onLeave=${() => this.setState({ asked: null })}>
        ${asked.action === "destroy" && html`<p>The machine and what is on it are lost, and the key of its minion is deleted.</p>
          <label>Type ${asked.name} to destroy it<input type="text" autocomplete="off" value=${this.state.typed} onInput=${(event) => this.setState({ typed: event.target.value })} /></label>`}
        ${asked.action === "create" && html`<p>They are made from the profile ${asked.provider}, and become minions of this master.</p>`}
      </${Dialog}>`}`;
  }

  create(fields, profiles) {
    this.ask({ action: "create", title: "Create", name: fields.names.value, provider: this.state.profile || profiles[0].name });
  }
}
