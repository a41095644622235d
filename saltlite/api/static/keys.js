// Keys: those that wait first, each with the fingerprint to compare.

import { get, post } from "./api.js";
import { Choice, html, Page, State, Table, Time, visible } from "./parts.js";

const ACTIONS = { pending: ["accept", "reject"], accepted: ["revoke", "delete"], rejected: ["accept", "delete"], revoked: ["delete"],
  conflict: ["delete"] };

export class Keys extends Page {
  watches = ["salt/auth", "salt/key"];
  pollMs = 15000;

  load() {
    return get("/fleet/keys");
  }

  async change(action, key) {
    const sentence = `${action} the key of ${key.id} with the fingerprint\n${key.fingerprint}`;
    if (!confirm(`${sentence[0].toUpperCase()}${sentence.slice(1)}?`)) return;
    try {
      const { refused } = await post("/fleet/keys", { action, fingerprints: [key.fingerprint] });
      this.setState({ note: refused.length ? `${key.id}: ${refused[0].reason}` : `${key.id}: done (${action})` });
    } catch (error) {
      this.setState({ note: error.message });
    }
    this.refresh();
  }

  show({ keys, fleet }) {
    const { state = "" } = this.props.query;
    const order = ["pending", "conflict", "accepted", "rejected", "revoked"];
    const rows = keys.filter((key) => !state || key.state === state)
      .sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state) || one.id.localeCompare(other.id, undefined, { numeric: true }));
    return html`
      <h1>Keys</h1>
      ${fleet && html`<p>Minions pin the fleet key <code>${fleet}</code></p>`}
      <form class="filters" onSubmit=${(event) => event.preventDefault()}>
        <${Choice} label="State" value=${state} options=${[["", "any"], ...order.map((one) => [one, one])]} onChange=${(text) => this.narrow({ state: text })} />
      </form>
      ${this.state.note && html`<p role="status">${this.state.note}</p>`}
      <p class="dim">Compare a fingerprint with what saltlite-call --local key.finger prints on that machine before you accept it.</p>
      <${Table} caption="Keys" rows=${rows.slice(0, 1000)} columns=${[
        ["Id", (key) => html`<a href=${`#/machines/${key.id}`}>${key.id}</a>`],
        ["State", (key) => html`<${State} of=${key.state} />`],
        ["Fingerprint", (key) => html`<code>${key.fingerprint}</code>`],
        ["Address", (key) => key.address],
        ["First seen", (key) => html`<${Time} at=${key.first_seen} />`],
        ["How", (key) => visible(key.how || "")],
        ["Change", (key) => (ACTIONS[key.state] ?? []).map((action) => html`<button onClick=${() => this.change(action, key)}
          aria-label=${`${action} ${key.id}`} class=${action === "accept" ? "primary" : ""}>${action}</button> `)],
      ]} />
      ${rows.length > 1000 && html`<p class="dim">and ${rows.length - 1000} more: choose a state</p>`}`;
  }
}
