// The console: finds the page of the address, shows the navigation, the login and what cannot be reached.

import { Component, render } from "./vendor/preact-11.2.0.mjs";
import { get, listen, logIn, on } from "./api.js";
import { Choice, html } from "./parts.js";
import { Overview } from "./overview.js";
import { Machine, Machines } from "./machines.js";
import { Job, Jobs } from "./jobs.js";
import { Run } from "./run.js";
import { Keys } from "./keys.js";
import { Packages } from "./packages.js";
import { Access, Events, Resources } from "./others.js";

const PAGES = [
  ["", "Overview", Overview, "o"],
  ["machines", "Machines", Machines, "m"],
  ["run", "Run", Run, "r"],
  ["jobs", "Jobs", Jobs, "j"],
  ["keys", "Keys", Keys, "k"],
  ["packages", "Packages", Packages, "p"],
  ["resources", "Resources", Resources, "s"],
  ["events", "Events", Events, "e"],
  ["access", "Access", Access, "a"],
];
const BACKENDS = ["pam", "file", "ldap", "sharedsecret"];

/** The page of the address, with what it needs: `path`, `query`, and the name behind the path. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [noun, name] = path.split("/").map(decoded);
  const props = { address: location.hash, path, query: Object.fromEntries(new URLSearchParams(query)) };
  if (noun === "machines" && name) return { page: Machine, noun, props: { ...props, name } };
  if (noun === "jobs" && name) return { page: Job, noun, props: { ...props, jid: name } };
  const row = PAGES.find(([one]) => one === noun);
  return { page: row ? row[2] : Missing, noun, props };
}

/** A part of the address as text; one that cannot be decoded names no page. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Missing() {
  return html`<h1>There is no such page</h1><p><a href="#/">Overview</a></p>`;
}

class Shell extends Component {
  state = { at: route(), login: false, unreachable: "" };

  componentDidMount() {
    addEventListener("hashchange", () => {
      const at = route();
      const moved = at.page !== this.state.at.page;
      this.setState({ at });
      document.title = `${at.noun || "saltlite"}${at.props.name || at.props.jid ? ` ${at.props.name || at.props.jid}` : ""}`;
      if (moved) document.querySelector("main").focus();
    });
    addEventListener("keydown", (event) => this.key(event));
    on("login", (login) => this.setState({ login }));
    on("reach", (unreachable) => unreachable !== this.state.unreachable && this.setState({ unreachable }));
    get("/fleet/access").then(() => listen(), () => {});
  }

  /** `/` goes to the first field of the page, `g` and a letter to a page. */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (this.going) {
      const row = PAGES.find(([, , , letter]) => letter === event.key);
      if (row) location.hash = `#/${row[0]}`;
    }
    this.going = event.key === "g" && !this.going;
  }

  render(_, { at, login, unreachable }) {
    // Run writes its own address while it is filled in: a link to another one starts anew.
    const key = at.page === Run ? at.props.address : at.noun + (at.props.name || at.props.jid || "");
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>To the content</a>
      <header><a class="name" href="#/">saltlite</a>
        <nav aria-label="Pages">${PAGES.map(([path, title, , letter]) => html`<a href=${`#/${path}`} title=${`g ${letter}`}
          aria-current=${at.noun === path ? "page" : undefined}>${title}</a>`)}</nav></header>
      ${!isSecureContext && html`<p class="banner" role="alert">The console needs HTTPS: browsers do not tell the API over plain HTTP which page asks.</p>`}
      ${unreachable && html`<p class="banner" role="alert">${unreachable} This page tries again by itself.</p>`}
      <main id="main" tabindex="-1"><${at.page} key=${key} ...${at.props} /></main>
      ${login && html`<${Login} />`}`;
  }
}

class Login extends Component {
  state = { eauth: localStorage.getItem("eauth") || "pam", problem: "" };

  async enter(event) {
    event.preventDefault();
    const { username, password } = event.target.elements;
    try {
      localStorage.setItem("eauth", this.state.eauth);
      await logIn(this.state.eauth, username.value, password.value);
    } catch (error) {
      this.setState({ problem: error.message });
    }
  }

  render(_, { eauth, problem }) {
    return html`<dialog class="login" ref=${(dialog) => dialog && !dialog.open && dialog.showModal()} onCancel=${(event) => event.preventDefault()}>
      <form onSubmit=${(event) => this.enter(event)}>
        <h1>Log in</h1>
        <${Choice} label="By" value=${eauth} options=${BACKENDS.map((one) => [one, one])} onChange=${(text) => this.setState({ eauth: text })} />
        <label>Name<input name="username" autocomplete="username" required /></label>
        <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
        ${problem && html`<p class="error" role="alert">${problem}</p>`}
        <p class="actions"><button class="primary">Log in</button></p>
      </form></dialog>`;
  }
}

render(html`<${Shell} />`, document.getElementById("console"));
