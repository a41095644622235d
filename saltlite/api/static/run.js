// Run: a target with its preview, or the master; a function with a field for each parameter; what has to be confirmed.

import { Component } from "./vendor/preact-11.2.0.mjs";
import { get, on, post } from "./api.js";
import { callColumns } from "./runners.js";
import { Choice, Consent, Copyable, counted, Dialog, Field, html, link, Problem, State, Table, TARGET_TYPES, visible } from "./parts.js";

const OPTION = { glob: "", list: "-L ", grain: "-G ", pcre: "-E ", compound: "-C ", nodegroup: "-N ", pillar: "-I ", ipcidr: "-S " };

const WHERE = [["", "On machines"], ["runner", "On the master (runners)"]];

export class Run extends Component {
  constructor(props) {
    super(props);
    const { tgt = "", type = "glob", fun = "", kind = "" } = props.query;
    this.state = { kind, tgt, type, fun, words: [], values: {}, rest: "", batch: "", preview: null, doc: "", explain: "", isFresh: false, runners: null, calls: [], problem: "", question: null };
  }

  componentDidMount() {
    this.unreach = on("back", () => this.begin());
    this.begin();
  }

  componentWillUnmount() {
    this.unreach();
  }

  begin() {
    this.look();
    if (!this.state.kind) return;
    get("/fleet/runners/functions").then(({ functions }) => this.setState({ runners: functions, problem: "" }), (error) => this.setState({ problem: error.message }));
    get("/fleet/runners").then(({ calls }) => this.setState({ calls }), () => {});
  }

  set(values) {
    // Nothing runs before the master has said what the new target and function are.
    this.setState({ ...values, ...("fun" in values && { doc: "" }), isFresh: false, question: null, problem: "" }, () => this.look());
  }

  async look() {
    const { kind, tgt, type, fun, explain } = this.state;
    // The address is what a colleague would be sent; arguments may be secret and are not in it.
    history.replaceState(null, "", link("run", { kind, tgt, type: type === "glob" ? "" : type, fun }));
    if (!tgt || kind) return;
    const turn = (this.turn = {});
    let found = { preview: null, isFresh: true, problem: "" };
    try {
      found.preview = await get("/fleet/target", { tgt, tgt_type: type, fun, explain });
    } catch (error) {
      found.problem = error.message;
    }
    if (this.turn === turn) this.setState(found);
    if (found.preview?.functions[fun]) this.describe(turn);
  }

  /** What the function does: it comes after the preview, which nothing waits for. */
  async describe(turn) {
    const { tgt, type, fun } = this.state;
    const { functions } = await get("/fleet/functions", { prefix: fun, tgt, tgt_type: type, limit: 1 }).catch(() => ({ functions: {} }));
    if (this.turn === turn) this.setState({ doc: functions[fun]?.doc ?? "" });
  }

  /** What is known of the function: its signatures and risks, and how many targets lack it. */
  known() {
    const { kind, fun, preview, runners } = this.state;
    if (!kind) return preview?.functions[fun];
    const runner = runners?.[fun];
    return runner && { ...runner, risks: runner.risk ? [{ risk: runner.risk }] : [], missing: 0 };
  }

  parameters() {
    return this.known()?.signatures[0] ?? null;
  }

  /** [args, kwargs] of the fields. Raises Error for a value that its parameter does not take. */
  arguments() {
    const [args, kwargs] = [[], {}];
    for (const parameter of this.parameters() || []) {
      const text = this.state.values[parameter.name];
      if (text === undefined || text === "") continue;
      if (parameter.kind === "positional only") args.push(valueOf(text, parameter));
      else kwargs[parameter.name] = valueOf(text, parameter);
    }
    for (const line of this.state.rest.split("\n").filter((one) => one !== "")) {
      const [, name, text] = /^([A-Za-z_]\w*)=([\s\S]*)$/.exec(line) || [];
      if (name) kwargs[name] = plain(text);
      else args.push(plain(line));
    }
    return [args, kwargs];
  }

  async publish(consent, dry = false) {
    const { kind, tgt, type, fun, batch } = this.state;
    try {
      const [args, kwargs] = this.arguments();
      if (kind) {
        const { jid } = await post("/fleet/runners", { fun, arg: args, kwarg: kwargs, wait: false });
        location.hash = link(`runners/${jid}`);
        return;
      }
      const { jid } = await post("/fleet/jobs", { tgt, tgt_type: type, fun, arg: args, kwarg: kwargs, consent, dry, ...(batch ? { batch } : {}) });
      location.hash = link(`jobs/${jid}`);
    } catch (error) {
      if (error.status === 409) this.setState({ question: error.body.question, problem: "", typed: "" });
      else this.setState({ problem: error.message });
    }
  }

  /** The words that the function may be completed to. */
  complete(text) {
    if (this.state.kind) return;
    get("/fleet/words", { kind: "function", prefix: text }).then((found) => this.setState({ words: found.words }), () => {});
  }

  render(_, { kind, tgt, type, fun, preview, isFresh, runners, calls, problem, question, words, values, rest, batch, doc, explain }) {
    const known = this.known();
    const parameters = this.parameters();
    const takesRest = !known || !parameters || parameters.some((one) => one.kind === "rest" || one.kind === "keywords");
    const fields = (some) => html`<div class="fields">${some.map((one) => html`<${Parameter} key=${one.name}
      of=${one} value=${values[one.name] ?? ""} onChange=${(text) => this.setState({ values: { ...this.state.values, [one.name]: text } })} />`)}</div>`;
    const named = parameters?.filter((one) => one.kind !== "rest" && one.kind !== "keywords") ?? [];
    // Parameters whose default differs from platform to platform, or that only some have, are rarely needed.
    const [common, rare] = [named.filter((one) => one.default !== "..."), named.filter((one) => one.default === "...")];
    const isReady = kind ? Boolean(fun) : Boolean(tgt && fun && preview && isFresh);
    const submit = (event) => {
      event.preventDefault();
      if (kind && known?.risks.length) this.setState({ question: known.risks[0].risk });
      else this.publish([]);
    };
    return html`
      <h1>Run</h1>
      <nav class="tabs" aria-label="Where">${WHERE.map(([one, title]) => html`<a href=${link("run", { kind: one })} aria-current=${one === kind ? "true" : undefined}>${title}</a>`)}</nav>
      <form onSubmit=${submit}>
        ${!kind && html`<section class="panel">
          <div class="filters">
            <${Field} id="search" label="Target" hint="web*" value=${tgt} onChange=${(text) => this.set({ tgt: text })} />
            <${Choice} label="Read as" value=${type} options=${TARGET_TYPES} onChange=${(text) => this.set({ type: text })} />
            <${Field} label="At once" hint="all, or 10, or 25%" value=${batch} now=${true} onChange=${(text) => this.setState({ batch: text })} />
          </div>
          <p role="status">${preview ? html`<strong>${counted(preview.count, "target")}</strong>${preview.away > 0 && `, ${preview.away} of them away`}
            ${preview.ids?.length > 0 && html`: <span class="dim">${preview.ids.slice(0, 12).join(", ")}${preview.count > 12 && ` and ${(preview.count - 12).toLocaleString("en")} more`}</span>`}`
            : html`<span class="dim">What the target selects is shown here before anything runs.</span>`}</p>
          <details><summary>Why one machine or resource is selected or not</summary>
            <${Field} label="Its name" hint="web1" value=${explain} onChange=${(text) => this.set({ explain: text })} />
            ${explain && preview?.explanation && html`<${Explanation} of=${preview.explanation} />`}</details>
        </section>`}
        <section class="panel">
          <${Field} id=${kind ? "search" : undefined} label=${kind ? "Runner" : "Function"} hint=${kind ? "manage.up" : "test.ping"} value=${fun} list="functions" onChange=${(text) => {
            this.set({ fun: text, values: {} });
            this.complete(text);
          }} />
          <datalist id="functions">${(runners ? Object.keys(runners) : words).map((word) => html`<option value=${word} />`)}</datalist>
          ${(known?.doc || doc) && html`<p class="dim">${visible((known?.doc || doc).split("\n\n")[0].replaceAll("``", ""))}</p>`}
          ${known && html`<p class="actions">
            ${known.missing > 0 && html`<span class="state mid">${counted(known.missing, "target")} ${known.missing === 1 ? "does" : "do"} not have it.</span>`}
            ${known.risks.map((row) => html`<span class="state bad">It carries the risk ${row.risk}.</span>`)}
            ${/^\w+\.\w+$/.test(fun) && html`<a href=${kind ? link(`docs/reference/runners/${fun.split(".")[0]}`, { at: fun }) : link("docs", { words: fun })}>What it does</a>`}</p>`}
          ${kind && runners && fun && !known && html`<p class="note">You may run no runner of this name.</p>`}
          ${common.length > 0 && fields(common)}
          ${rare.length > 0 && html`<details><summary>${rare.length} parameters of some platforms</summary>${fields(rare)}</details>`}
          ${takesRest && html`<label>Further arguments, one a line<textarea rows="2" value=${rest}
            onInput=${(event) => this.setState({ rest: event.target.value })} /></label>`}
        </section>
        ${problem && html`<${Problem} text=${problem} />`}
        <p class="actions"><button class="primary" disabled=${!isReady}>${kind ? "Run on the master" : `Run on ${counted(preview?.count ?? 0, "target")}`}</button>
          ${!kind && html`<button type="button" disabled=${!isReady} onClick=${() => this.publish((known?.risks || []).map((row) => row.risk), true)}>Dry run</button>
          <span class="dim">A dry run shows what would be called, and calls nothing.</span>`}</p>
      </form>
      ${question && (kind ? html`<${Dialog} title=${`Run ${fun}?`} yes="Run it" danger=${true} onYes=${() => this.publish([])} onLeave=${() => this.setState({ question: null })}>
        <p>It carries the risk <strong>${question}</strong>.</p></${Dialog}>`
        : html`<${Consent} question=${question} onAgree=${(risks) => this.publish(risks)} onLeave=${() => this.setState({ question: null })} />`)}
      <h2>The same on the command line</h2><${Copyable} text=${this.line()} label="the command line" />
      ${kind && html`<h2>Runners that you started here</h2><${Table} caption="Runners that you started here" rows=${calls} columns=${callColumns}
        empty="There are none that the API still knows." />`}`;
  }

  line() {
    const { kind, tgt, type, fun, batch } = this.state;
    let words = [];
    try {
      const [args, kwargs] = this.arguments();
      words = [...args.map(written), ...Object.entries(kwargs).map(([name, value]) => `${name}=${written(value)}`)];
    } catch {
      words = ["…"];
    }
    const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    if (kind) return `saltlite-run ${fun || "manage.up"} ${words.map(quoted).join(" ")}`.trim();
    return `saltlite ${batch ? `-b ${quoted(batch)} ` : ""}${OPTION[type] ?? ""}${quoted(tgt || "*")} ${fun || "test.ping"} ${words.map(quoted).join(" ")}`.trim();
  }
}

/** Whether a target selects a machine or a resource, and each of its terms. */
function Explanation({ of }) {
  return html`<p><strong>${visible(of.id)}</strong>${of.owner && `, managed by ${of.owner}`}: ${visible(of.verdict)}</p>
    <${Table} caption="Terms of the target" rows=${of.terms} columns=${[
      ["Term", (term) => html`<code>${visible(term.word)}</code>`],
      ["Matches", (term) => html`<${State} of=${term.true ? "yes" : "no"} kind=${term.true ? "good" : "none"} />`],
      ["Whether", (term) => visible(term.why)],
    ]} />`;
}

function Parameter({ of, value, onChange }) {
  const types = of.types.filter((type) => type !== "None").join(" or ");
  const note = [types, ![null, "...", "None"].includes(of.default) && `default ${of.default}`].filter(Boolean).join(", ");
  const label = html`${of.name}<small title=${note}>${note || " "}</small>`;
  if (of.types.length && of.types.every((type) => type === "bool" || type === "None") && of.types.includes("bool")) {
    return html`<${Choice} label=${label} value=${value} options=${[["", "not given"], ["true", "true"], ["false", "false"]]} onChange=${onChange} />`;
  }
  return html`<${Field} label=${label} value=${value} now=${true} onChange=${onChange} />`;
}

function parsed(text, instead) {
  try {
    return JSON.parse(text);
  } catch {
    return instead;
  }
}

/** A value as it is typed into a field. */
function written(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A text as the value that it plainly is: a number, true, false, null, a list or a map in JSON; else text. */
function plain(text) {
  if (/^(-?\d{1,15}(\.\d+)?|true|false|null|\[.*\]|\{.*\})$/s.test(text)) return parsed(text, text);
  return text;
}

function valueOf(text, { name, types }) {
  if (types.length === 0) return plain(text);
  const value = plain(text);
  const kind = value === null ? "None" : Array.isArray(value) ? "list"
    : { string: "str", boolean: "bool", object: "dict", number: Number.isInteger(value) ? "int" : "float" }[typeof value];
  if (types.includes(kind)) return value;
  if (kind === "int" && types.includes("float")) return value;
  if (types.includes("list") && kind === "str") return text.split(",");
  if (types.includes("str")) return text;
  throw new Error(`${name} takes ${types.join(" or ")}, not ${text}.`);
}
