// A runner that was started here: its events while it runs, and its return.

import { get, on } from "./api.js";
import { html, link, Page, State, Table, textOf, Time, visible } from "./parts.js";

const ASK_MS = 2000;
const EVENTS = 500;

export const callColumns = [
  ["Runner", (call) => html`<a href=${link(`runners/${call.jid}`)}>${visible(call.fun)}</a>`],
  ["State", (call) => html`<${State} of=${stateOf(call)} />`, "", "fit"],
  ["Started", (call) => html`<${Time} at=${call.began} />`, "", "fit"],
  ["Took", (call) => took(call), "", "fit"],
];

function stateOf({ ended, retcode }) {
  return ended === null ? "running" : retcode === 0 ? "done" : "failed";
}

function took({ began, ended }) {
  return ended === null ? "" : `${Math.max(0, ended - began).toFixed(1)} s`;
}

/** What the runner itself says in an event. */
function own(data) {
  return Object.fromEntries(Object.entries(data).filter(([name]) => !name.startsWith("_")));
}

export class RunnerCall extends Page {
  constructor(props) {
    super(props);
    this.watches = [`salt/run/${props.jid}/ret`];
    this.state.events = [];
  }

  componentDidMount() {
    super.componentDidMount();
    // The master's events of it begin with salt/run/, and its own ones, such as its progress, with run/.
    const part = `run/${this.props.jid}/`;
    this.unfollow = on("event", (event) => this.put([event], part));
    // Those that came before this page.
    get("/fleet/events", { limit: EVENTS }).then(({ events }) => this.put(events, part), () => {});
  }

  put(more, part) {
    this.setState(({ events }) => {
      const known = new Map([...events, ...more.filter((event) => event.tag.includes(part))].map((event) => [event.id, event]));
      return { events: [...known.values()].sort((one, other) => one.id - other.id).slice(-EVENTS) };
    });
  }

  componentWillUnmount() {
    super.componentWillUnmount();
    this.unfollow();
  }

  async load({ jid }) {
    const call = await get(`/fleet/runners/${encodeURIComponent(jid)}`);
    this.pollMs = call.ended === null ? ASK_MS : 0;
    return call;
  }

  show(call) {
    const { jid, fun, began, ended, retcode, value, cut } = call;
    const part = `run/${jid}/`;
    return html`
      <div class="head"><h1>${visible(fun)} <${State} of=${stateOf(call)} /></h1>
        <p><a class="button" href=${link("run", { kind: "runner", fun })}>Run it again</a></p></div>
      <p class="lead"><code>${jid}</code> started <${Time} at=${began} />${ended !== null && `, took ${took(call)}`}${ended !== null && retcode !== 0 && `, return code ${retcode}`}</p>
      ${ended === null ? html`<p class="note" role="status">It runs on, also when this page is closed.</p>`
        : html`<h2>Return</h2><pre tabindex="0">${textOf(value)}</pre>
          ${cut && html`<p class="dim">This is only the beginning. <a href=${`/fleet/runners/${jid}/return`} download=${`${jid}.json`}>The whole return</a></p>`}`}
      ${this.state.events.length > 0 && html`<h2>Events</h2><${Table} caption="Events of the runner" rows=${this.state.events} columns=${[
        ["When", (event) => html`<${Time} exact=${true} at=${Date.parse(`${event.data._stamp}Z`) / 1000} />`, "", "fit"],
        ["What", (event) => html`<code>${visible(event.tag.split(part)[1])}</code>`, "", "fit"],
        ["Data", (event) => html`<code>${visible(JSON.stringify(own(event.data)))}</code>`],
      ]} />`}`;
  }
}
