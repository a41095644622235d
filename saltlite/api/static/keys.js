// Keys: those that wait first, each with the fingerprint to compare. Join tokens: the tokens with which minions join.

import { get, post } from "./api.js";
import { ListPage } from "./list.js";
import { Choice, Copyable, counted, Dialog, Field, html, Page, Problem, State, Table, Time, visible } from "./parts.js";

const ACTIONS = { pending: ["accept", "reject"], accepted: ["revoke", "delete"], rejected: ["accept", "delete"], revoked: ["delete"],
  conflict: ["delete"] };
const STATES = ["pending", "conflict", "accepted", "rejected", "revoked"];

export class Keys extends ListPage {
  watches = ["salt/auth", "salt/key"];
  pollMs = 15000;

  async rows({ query: { state, search, sort } }, offset, _last, limit) {
    const { keys, ...more } = await get("/fleet/keys", { state, search, sort, offset, limit });
    return { rows: keys, ...more };
  }

  async change({ action, key }) {
    this.setState({ asked: null });
    try {
      const { refused } = await post("/fleet/keys", { action, fingerprints: [key.fingerprint] });
      this.setState({ note: refused.length ? `${key.id}: ${refused[0].reason}` : `${key.id}: done (${action})` });
    } catch (error) {
      this.setState({ note: error.message });
    }
    this.refresh();
  }

  show({ answer: { total, counts, fleet } }) {
    const { state = "", search = "", sort = "state" } = this.props.query;
    const { asked, note } = this.state;
    return html`
      <div class="head"><h1>Keys</h1><p role="status">${counted(total, "key")}</p></div>
      <p class="lead">Compare a fingerprint with what <code>saltlite-call --local key.finger</code> prints on that machine before you accept it.</p>
      ${fleet && html`<p>Minions pin the fleet key <code>${fleet}</code></p>`}
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <${Field} id="search" label="Id or fingerprint" hint="part of an id" value=${search} onChange=${(text) => this.narrow({ search: text })} />
        <${Choice} label="State" value=${state} options=${[["", "any"], ...STATES.map((one) => [one, `${one} (${counts[one] || 0})`])]} onChange=${(text) => this.narrow({ state: text })} />
      </form>
      ${note && html`<p class="note" role="status">${note}</p>`}
      ${this.table({ caption: "Keys", kind: "keys", sort, onSort: (next) => this.narrow({ sort: next }),
        empty: search || state ? "No key is like this." : "No minion has presented a key yet.",
        columns: [
          ["Id", (key) => html`<a href=${`#/machines/${key.id}`} title=${key.id}>${key.id}</a>`, "id"],
          ["State", (key) => html`<${State} of=${key.state} />`, "state", "w7"],
          ["Fingerprint", (key) => html`<code>${key.fingerprint}</code>`, "fingerprint", "w14"],
          ["First seen", (key) => html`<div><${Time} at=${key.first_seen} /> <span class="dim">from ${key.address}</span></div>
            <div class="dim" title=${visible(key.how || "")}>${visible(key.how || "")}</div>`, "first_seen", "w14"],
          ["", (key) => html`<span class="actions">${(ACTIONS[key.state] ?? []).map((action) => html`<button onClick=${() => this.setState({ asked: { action, key } })}
            aria-label=${`${action} ${key.id}`} class=${action === "accept" ? "primary" : ""}>${capital(action)}</button>`)}</span>`, "", "w12"],
        ] })}
      ${asked && html`<${Dialog} title=${`${capital(asked.action)} the key of ${asked.key.id}?`} yes=${capital(asked.action)}
        danger=${asked.action !== "accept"} onYes=${() => this.change(asked)} onLeave=${() => this.setState({ asked: null })}>
        <p>Its fingerprint is</p><${Copyable} text=${asked.key.fingerprint} label="the fingerprint" /></${Dialog}>`}`;
  }
}

/** The tokens that can be used, and a form that makes one. */
export class Tokens extends Page {
  watches = ["salt/key", "salt/auth"];
  pollMs = 30000;

  load() {
    return get("/fleet/tokens");
  }

  async make(event) {
    event.preventDefault();
    const { ids, uses, hours } = event.target.elements;
    try {
      const { token } = await post("/fleet/tokens", { id_glob: ids.value, uses: Number(uses.value), expires_s: Math.round(Number(hours.value) * 3600) });
      this.setState({ token, problem: "" });
    } catch (error) {
      this.setState({ token: "", problem: error.message });
    }
    this.refresh();
  }

  async end(id) {
    try {
      const { revoked } = await post(`/fleet/tokens/${id}/revoke`, {});
      this.setState({ token: "", problem: revoked ? "" : `The token ${id} was used up or has ended.` });
    } catch (error) {
      this.setState({ problem: error.message });
    }
    this.refresh();
  }

  show({ tokens }) {
    const { token, problem } = this.state;
    return html`
      <h1>Join tokens</h1>
      <p class="lead">A minion with a token is accepted at its first contact, without a comparison.</p>
      <form class="filters" onSubmit=${(event) => this.make(event)}>
        <label>For ids like<input name="ids" placeholder="web*" required autocomplete="off" /></label>
        <label>Uses<input name="uses" type="number" min="1" value="1" required /></label>
        <label>Ends in hours<input name="hours" type="number" min="0.1" step="any" value="1" required /></label>
        <button>Make a token</button>
      </form>
      ${problem && html`<${Problem} text=${problem} />`}
      ${token && html`<div class="note" role="status"><p>Copy it now: it is not shown again. It belongs into <code>join_token</code> of the minion's configuration.</p>
        <${Copyable} text=${token} label="the token" /></div>`}
      <${Table} caption="Join tokens" rows=${tokens} empty="No token is valid now." columns=${[
        ["Token", (row) => html`<code>${row.id}</code>`, "", "fit"],
        ["For ids like", (row) => html`<code>${visible(row.id_glob)}</code>`],
        ["Uses left", (row) => row.uses_left, "", "number"],
        ["Made by", (row) => visible(row.created_by)],
        ["Ends", (row) => new Date(row.expires_at * 1000).toLocaleString()],
        ["", (row) => html`<button class="danger" aria-label=${`revoke the token ${row.id}`} onClick=${() => this.end(row.id)}>Revoke</button>`, "", "fit"],
      ]} />`;
  }
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}
