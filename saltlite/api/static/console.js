// The console: finds the page of the address, shows the navigation, the login and what cannot be reached.
//
// Each page is a file that is loaded when it is first shown, so that a slow connection shows the navigation at once. The
// others follow after it.

import { Component, render } from "./vendor/preact-11.2.0.mjs";
import { get, listen, logIn, logOut, on } from "./api.js";
import { Choice, html, Problem } from "./parts.js";

/** The addresses, titles and letters of the pages, and where they are: a file, and what it exports. */
const GROUPS = [
  ["Fleet", [
    ["", "Overview", "o", ["overview", "Overview"]],
    ["machines", "Machines", "m", ["machines", "Machines"]],
    ["packages", "Packages", "p", ["packages", "Packages"]],
    ["resources", "Resources", "s", ["others", "Resources"]],
  ]],
  ["Work", [
    ["run", "Run", "r", ["run", "Run"]],
    ["jobs", "Jobs", "j", ["jobs", "Jobs"]],
    ["events", "Events", "e", ["others", "Events"]],
  ]],
  ["Master", [
    ["keys", "Keys", "k", ["keys", "Keys"]],
    ["tokens", "Join tokens", "t", ["keys", "Tokens"]],
    ["access", "Access", "a", ["access", "Access"]],
    ["clouds", "Clouds", "c", ["clouds", "Clouds"]],
    ["docs", "Documentation", "d", ["docs", "Docs"]],
  ]],
];
const PAGES = GROUPS.flatMap(([, pages]) => pages);
const BACKENDS = ["pam", "file", "ldap", "sharedsecret"];

let visits = 0;

/** The page of the address, with what it needs: `path`, `query`, the name behind the path, and the number of this visit. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [noun, name] = path.split("/").map(decoded);
  const props = { address: location.hash, visit: ++visits, path, query: Object.fromEntries(new URLSearchParams(query)) };
  if (noun === "machines" && name) return { page: ["machines", "Machine"], noun, props: { ...props, name } };
  if (noun === "jobs" && name) return { page: ["jobs", "Job"], noun, props: { ...props, jid: name } };
  if (noun === "runners" && name) return { page: ["runners", "RunnerCall"], noun: "run", props: { ...props, jid: name } };
  const row = PAGES.find(([one]) => one === noun);
  return { page: row ? row[3] : null, noun, props };
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

const files = {}; // those that were loaded, by their names

async function load(file) {
  files[file] ??= await import(`./${file}.js`);
}

const OTHERS_MS = 500;

/** A page once its file is there, and then the files of all others. */
class Loaded extends Component {
  state = { problem: "" };

  componentDidMount() {
    const [file] = this.props.page;
    if (!files[file]) load(file).then(() => this.setState({}), () => this.setState({ problem: "This page could not be loaded: reload it." }));
    setTimeout(() => PAGES.forEach(([, , , [other]]) => load(other).catch(() => {})), OTHERS_MS);
  }

  render({ page: [file, name], ...props }, { problem }) {
    if (files[file]) return html`<${files[file][name]} ...${props} />`;
    return problem ? html`<h1>${props.title}</h1><${Problem} text=${problem} />` : html`<p class="dim" role="status">Loading</p>`;
  }
}

class Shell extends Component {
  state = { at: route(), login: false, unreachable: "", who: null, menu: false, help: false };

  componentDidMount() {
    addEventListener("hashchange", () => {
      const at = route();
      const moved = String(at.page) !== String(this.state.at.page);
      this.setState({ at, menu: false });
      document.title = titleOf(at);
      if (moved) document.querySelector("main").focus();
    });
    addEventListener("keydown", (event) => this.key(event));
    document.title = titleOf(this.state.at);
    on("login", (login) => {
      this.setState({ login });
      if (!login) this.meet();
    });
    on("reach", (unreachable) => unreachable !== this.state.unreachable && this.setState({ unreachable }));
    this.meet();
  }

  meet() {
    get("/fleet/access").then((who) => { this.setState({ who }); listen(); }, () => {});
  }

  /** `/` goes to the first field of the page, `g` and a letter to a page, `?` lists the letters. */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (event.key === "?") {
      this.setState({ help: true });
    } else if (this.going) {
      const row = PAGES.find(([, , letter]) => letter === event.key);
      if (row) location.hash = `#/${row[0]}`;
    }
    this.going = event.key === "g" && !this.going;
  }

  render(_, { at, login, unreachable, who, menu, help }) {
    // Run writes its own address while it is filled in: a link to another one starts anew.
    const key = String(at.page) === "run,Run" ? at.props.address : at.noun + (at.props.name || at.props.jid || "");
    const props = { key, title: titleOf(at).split(" · ")[0], ...at.props };
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>To the content</a>
      <header class=${menu ? "open" : ""}><a class="name" href="#/"><img src="/console/icon.svg" alt="" />saltlite</a>
        <button class="menu small" aria-expanded=${String(menu)} onClick=${() => this.setState({ menu: !menu })}>Menu</button>
        <nav aria-label="Pages">${GROUPS.map(([group, pages]) => html`<p class="label">${group}</p>${pages.map(([path, title, letter]) => html`<a href=${`#/${path}`}
          aria-current=${at.noun === path ? "page" : undefined}>${title} <kbd aria-hidden="true">g ${letter}</kbd></a>`)}`)}</nav>
        ${who && html`<p class="who"><span title=${who.user}>${who.user}</span><button class="small" onClick=${() => logOut()}>Log out</button></p>`}</header>
      <div class="banners">
        ${!isSecureContext && html`<p class="banner" role="alert">The console needs HTTPS: browsers do not tell the API over plain HTTP which page asks.</p>`}
        ${unreachable && html`<p class="banner" role="alert">${unreachable} This page tries again by itself.</p>`}</div>
      <main id="main" tabindex="-1">${at.page ? html`<${Loaded} page=${at.page} ...${props} />` : html`<${Missing} />`}</main>
      ${help && html`<${Help} onLeave=${() => this.setState({ help: false })} />`}
      ${login && html`<${Login} />`}`;
  }
}

function titleOf({ noun, props }) {
  const [, title] = PAGES.find(([one]) => one === noun) || [];
  return [props.name || props.jid, title, "saltlite"].filter(Boolean).join(" · ");
}

/** The keys of the keyboard. */
function Help({ onLeave }) {
  return html`<dialog aria-label="Keys of the keyboard" ref=${(dialog) => dialog && !dialog.open && dialog.showModal()} onClose=${onLeave}>
    <h1>Keyboard</h1>
    <dl><dt><kbd>/</kbd></dt><dd>to the search of the page</dd>
      ${PAGES.map(([, title, letter]) => html`<dt><kbd>g</kbd> <kbd>${letter}</kbd></dt><dd>${title}</dd>`)}</dl>
    <p class="actions"><button class="primary" onClick=${onLeave}>Close</button></p></dialog>`;
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
    return html`<dialog class="login" aria-label="Log in" ref=${(dialog) => dialog && !dialog.open && dialog.showModal()} onCancel=${(event) => event.preventDefault()}>
      <form onSubmit=${(event) => this.enter(event)}>
        <h1>Log in</h1>
        <${Choice} label="By" value=${eauth} options=${BACKENDS.map((one) => [one, one])} onChange=${(text) => this.setState({ eauth: text })} />
        <label>Name<input name="username" autocomplete="username" required /></label>
        <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
        ${problem && html`<${Problem} text=${problem} />`}
        <p class="actions"><button class="primary">Log in</button></p>
      </form></dialog>`;
  }
}

const place = document.getElementById("console");
place.replaceChildren(); // the page's own text says that this program did not come
render(html`<${Shell} />`, place);
