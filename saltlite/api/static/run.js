// Run: a target with its preview, a function with a field for each parameter, and what has to be confirmed.

import { Component } from "./vendor/preact-11.2.0.mjs";
import { get, on, post } from "./api.js";
import { Choice, Consent, Field, html, link, Problem, TARGET_TYPES, visible } from "./parts.js";

const OPTION = { glob: "", list: "-L ", grain: "-G ", pcre: "-E ", compound: "-C ", nodegroup: "-N ", pillar: "-I ", ipcidr: "-S " };

export class Run extends Component {
  constructor(props) {
    super(props);
    const { tgt = "", type = "glob", fun = "" } = props.query;
    this.state = { tgt, type, fun, words: [], values: {}, rest: "", batch: "", preview: null, problem: "", question: null };
  }

  componentDidMount() {
    this.unreach = on("back", () => this.look());
    this.look();
  }

  componentWillUnmount() {
    this.unreach();
  }

  set(values) {
    this.setState({ ...values, question: null, problem: "" }, () => this.look());
  }

  async look() {
    const { tgt, type, fun } = this.state;
    // The address is what a colleague would be sent; arguments may be secret and are not in it.
    history.replaceState(null, "", link("run", { tgt, type: type === "glob" ? "" : type, fun }));
    if (!tgt) return;
    const turn = (this.turn = {});
    let found = { preview: null, problem: "" };
    try {
      const preview = await get("/fleet/target", { tgt, tgt_type: type, fun });
      found = { preview, problem: "" };
    } catch (error) {
      found.problem = error.message;
    }
    if (this.turn === turn) this.setState(found);
  }

  known() {
    return this.state.preview?.functions[this.state.fun];
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
    const { tgt, type, fun, batch } = this.state;
    try {
      const [args, kwargs] = this.arguments();
      const { jid } = await post("/fleet/jobs", { tgt, tgt_type: type, fun, arg: args, kwarg: kwargs, consent, dry, ...(batch ? { batch } : {}) });
      location.hash = link(`jobs/${jid}`);
    } catch (error) {
      if (error.status === 409) this.setState({ question: error.body.question, problem: "", typed: "" });
      else this.setState({ problem: error.message });
    }
  }

  render(_, { tgt, type, fun, preview, problem, question, words, values, rest, batch }) {
    const known = this.known();
    const parameters = this.parameters();
    const takesRest = !known || !parameters || parameters.some((one) => one.kind === "rest" || one.kind === "keywords");
    const fields = (some) => html`<div class="fields">${some.map((one) => html`<${Parameter} key=${one.name}
      of=${one} value=${values[one.name] ?? ""} onChange=${(text) => this.setState({ values: { ...this.state.values, [one.name]: text } })} />`)}</div>`;
    const named = parameters?.filter((one) => one.kind !== "rest" && one.kind !== "keywords") ?? [];
    // Parameters whose default differs from platform to platform, or that only some have, are rarely needed.
    const [common, rare] = [named.filter((one) => one.default !== "..."), named.filter((one) => one.default === "...")];
    return html`
      <h1>Run</h1>
      <form onSubmit=${(event) => { event.preventDefault(); this.publish([]); }}>
        <section class="panel">
          <div class="filters">
            <${Field} id="search" label="Target" hint="web*" value=${tgt} onChange=${(text) => this.set({ tgt: text })} />
            <${Choice} label="Read as" value=${type} options=${TARGET_TYPES} onChange=${(text) => this.set({ type: text })} />
            <${Field} label="At once" hint="all, or 10, or 25%" value=${batch} now=${true} onChange=${(text) => this.setState({ batch: text })} />
          </div>
          <p role="status">${preview ? html`<strong>${preview.count}</strong> targets${preview.away > 0 && `, ${preview.away} of them away`}
            ${preview.ids?.length > 0 && html`: <span class="dim">${preview.ids.slice(0, 12).join(", ")}${preview.count > 12 && ` and ${preview.count - 12} more`}</span>`}`
            : html`<span class="dim">What the target selects is shown here before anything runs.</span>`}</p>
        </section>
        <section class="panel">
          <${Field} label="Function" hint="test.ping" value=${fun} list="functions" onChange=${(text) => {
            this.set({ fun: text, values: {} });
            get("/fleet/words", { kind: "function", prefix: text }).then((found) => this.setState({ words: found.words }), () => {});
          }} />
          <datalist id="functions">${words.map((word) => html`<option value=${word} />`)}</datalist>
          ${known && html`<p class="actions">
            ${known.missing > 0 && html`<span class="state mid">${known.missing} targets do not have it.</span>`}
            ${known.risks.map((row) => html`<span class="state bad">It carries the risk ${row.risk}.</span>`)}
            ${/^\w+\.\w+$/.test(fun) && html`<a href=${link("docs", { words: fun })}>What it does</a>`}</p>`}
          ${common.length > 0 && fields(common)}
          ${rare.length > 0 && html`<details><summary>${rare.length} parameters of some platforms</summary>${fields(rare)}</details>`}
          ${takesRest && html`<label>Further arguments, one a line<textarea rows="2" value=${rest}
            onInput=${(event) => this.setState({ rest: event.target.value })} /></label>`}
        </section>
        ${problem && html`<${Problem} text=${problem} />`}
        <p class="actions"><button class="primary" disabled=${!tgt || !fun || !preview}>Run on ${preview?.count ?? 0} targets</button>
          <button type="button" disabled=${!tgt || !fun || !preview} onClick=${() => this.publish((known?.risks || []).map((row) => row.risk), true)}>Dry run</button>
          <span class="dim">A dry run shows what would be called, and calls nothing.</span></p>
      </form>
      ${question && html`<${Consent} question=${question} onAgree=${(risks) => this.publish(risks)} onLeave=${() => this.setState({ question: null })} />`}
      <h2>The same on the command line</h2><pre tabindex="0">${visible(this.line())}</pre>`;
  }

  line() {
    const { tgt, type, fun, batch } = this.state;
    let words = [];
    try {
      const [args, kwargs] = this.arguments();
      words = [...args.map(written), ...Object.entries(kwargs).map(([name, value]) => `${name}=${written(value)}`)];
    } catch {
      words = ["…"];
    }
    const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    return `saltlite ${batch ? `-b ${quoted(batch)} ` : ""}${OPTION[type] ?? ""}${quoted(tgt || "*")} ${fun || "test.ping"} ${words.map(quoted).join(" ")}`.trim();
  }
}

function Parameter({ of, value, onChange }) {
  const note = [of.types.join(" or "), of.default !== null && of.default !== "..." && `default ${of.default}`].filter(Boolean).join(", ");
  if (of.types.length && of.types.every((type) => type === "bool" || type === "None") && of.types.includes("bool")) {
    return html`<${Choice} label=${`${of.name} (${note})`} value=${value} options=${[["", "not given"], ["true", "true"], ["false", "false"]]} onChange=${onChange} />`;
  }
  return html`<${Field} label=${`${of.name}${note && ` (${note})`}`} value=${value} now=${true} onChange=${onChange} />`;
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
