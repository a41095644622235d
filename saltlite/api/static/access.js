// Access: what the caller may do, who may do what, and who is logged in.

import { Component } from "./vendor/preact-11.2.0.mjs";
import { get, logOut, post } from "./api.js";
import { Choice, counted, html, Page, Problem, State, Table, TARGET_TYPES, Time, visible } from "./parts.js";

export class Access extends Page {
  pollMs = 15000;

  load() {
    return get("/fleet/access");
  }

  async revoke(id) {
    await post("/fleet/access", { revoke: [id] }).catch((error) => this.setState({ note: error.message }));
    this.refresh();
  }

  show({ user, eauth, groups, operator, perms, logins, expire }) {
    const names = [...new Set((logins || []).map((row) => `${row.eauth}:${row.user}`))].sort();
    return html`
      <h1>Access</h1>
      <div class="columns">
        <section><h2>You</h2>
          <dl class="panel">
            <dt>You are</dt><dd>${user}${eauth && ` by ${eauth}`}${groups.length > 0 && ` in ${groups.join(", ")}`}</dd>
            <dt>You may do</dt><dd>${operator ? "everything" : html`<span class="tags">${perms.map((rule) => html`<code class="tag">${rule}</code>`)}</span>`}</dd>
            ${expire && html`<dt>This login ends</dt><dd>${new Date(expire * 1000).toLocaleString()}</dd>`}
            <dt>Leave</dt><dd><button class="small" onClick=${() => logOut()}>Log out</button></dd>
          </dl></section>
        <section><h2>Who may do what</h2><${Question} own=${eauth ? `${eauth}:${user}` : user} names=${names} /></section>
      </div>
      ${this.state.note && html`<${Problem} text=${this.state.note} />`}
      ${logins && html`<h2>Logins</h2><${Table} caption="Logins" rows=${logins} empty="There is no login." columns=${[
        ["User", (row) => `${row.user} by ${row.eauth}`],
        ["Groups", (row) => row.groups.join(", ")],
        ["Since", (row) => html`<${Time} at=${row.start} />`, "", "fit"],
        ["Until", (row) => new Date(row.expire * 1000).toLocaleString(), "", "fit"],
        ["", (row) => html`<button class="danger" onClick=${() => this.revoke(row.id)} aria-label=${`revoke ${row.id}`}>Revoke</button>`, "", "fit"],
      ]} />`}`;
  }
}

const KINDS = [...TARGET_TYPES, ["@runner", "runner"], ["@wheel", "wheel function"], ["@hook", "hook"]];

/** Asks the master whether a user may run a function, by the same code that decides it when the function is run. */
class Question extends Component {
  state = { kind: "glob" };

  async ask(event) {
    event.preventDefault();
    const { user, groups, tgt, fun } = event.target.elements;
    const { kind } = this.state;
    const place = kind.startsWith("@") ? { tgt: kind } : { tgt: tgt.value, tgt_type: kind };
    const names = groups.value.split(",").map((name) => name.trim()).filter(Boolean);
    try {
      this.setState({ answer: await post("/fleet/access/explain", { user: user.value.trim(), groups: names, fun: fun.value.trim(), ...place }), problem: "" });
    } catch (error) {
      this.setState({ answer: null, problem: error.message });
    }
  }

  render({ own, names }, { kind, answer, problem }) {
    return html`<form class="panel" onSubmit=${(event) => this.ask(event)}>
      <div class="fields">
        <label>User<input id="search" name="user" list="users" placeholder="pam:fred" defaultValue=${own} required autocomplete="off" spellcheck=${false} /></label>
        <datalist id="users">${names.map((name) => html`<option value=${name} />`)}</datalist>
        <label>Also in the groups<input name="groups" placeholder="ops, web" autocomplete="off" /></label>
        <${Choice} label="May run a" value=${kind} options=${KINDS.map(([one, text]) => [one, one.startsWith("@") ? text : `function on a target: ${text}`])}
          onChange=${(text) => this.setState({ kind: text, answer: null })} />
        ${!kind.startsWith("@") && html`<label>Target<input name="tgt" placeholder="web*" required autocomplete="off" spellcheck=${false} /></label>`}
        <label>${kind === "@hook" ? "Path" : "Function"}<input name="fun" placeholder=${kind === "@hook" ? "deploy" : kind === "@wheel" ? "key.accept" : kind === "@runner" ? "manage.up" : "pkg.install"}
          required autocomplete="off" spellcheck=${false} /></label>
      </div>
      <p class="actions"><button class="primary">Ask the master</button></p>
      ${problem && html`<${Problem} text=${problem} />`}
      ${answer && html`<${Answer} of=${answer} />`}</form>`;
  }
}

function Answer({ of }) {
  return html`<div role="status"><p><${State} of=${of.allowed ? "allowed" : "refused"} /> <strong>${visible(of.user)}</strong>
      ${of.operator ? " is an operator and may do everything" : of.allowed ? " may do it" : ""}${of.reason && ` ${visible(of.reason)}`}</p>
    <dl>${of.targets > 0 && html`<dt>Targets</dt><dd>${counted(of.targets, "target")} ${of.targets === 1 ? "is" : "are"} selected</dd>`}
      ${of.refused_count > 0 && html`<dt>Not on</dt><dd>${of.refused.join(", ")}${of.refused_count > of.refused.length && ` and ${of.refused_count - of.refused.length} more`}</dd>`}
      ${of.rules.length > 0 && html`<dt>By the rule</dt><dd><ul>${of.rules.map((rule) => html`<li><code>${visible(rule)}</code></li>`)}</ul></dd>`}
      ${of.groups.length > 0 && html`<dt>Groups</dt><dd>${of.groups.map(visible).join(", ")}</dd>`}</dl></div>`;
}
