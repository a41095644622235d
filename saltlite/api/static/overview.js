// Overview: who is up, what ran in the last day, and how the master is.

import { get } from "./api.js";
import { counted, html, link, Page, size, State, Table, Time, visible } from "./parts.js";

export class Overview extends Page {
  watches = ["salt/presence/", "salt/auth", "salt/key", "salt/job/"];
  pollMs = 15000;

  load() {
    return get("/fleet");
  }

  show(fleet) {
    const { counts, conflicts, master, store, queues, resources } = fleet;
    const versions = Object.entries(fleet.versions);
    return html`
      <h1>Overview</h1>
      <section aria-label="Machines" class="cards">
        ${[["up", "up", "good"], ["away", "away", "bad"], ["never", "never seen", "mid"]].map(([state, words, kind]) =>
          html`<${Card} page=${link("machines", { state })} count=${counts[state]} words=${words} kind=${kind} />`)}
        <${Card} page=${link("keys", { state: "pending" })} count=${counts.pending} words=${counts.pending === 1 ? "pending key" : "pending keys"} kind="mid" />
        ${conflicts > 0 && html`<${Card} page=${link("keys", { state: "conflict" })} count=${conflicts} words=${conflicts === 1 ? "key in conflict" : "keys in conflict"} kind="bad" />`}
        <a class="card" href="#/resources"><strong>${resources.count.toLocaleString("en")}</strong> ${resources.count === 1 ? "resource" : "resources"}</a>
      </section>
      ${counts.up + counts.away + counts.never === 0 && html`<p class="empty">No machine has joined yet: see <a href="#/docs/install">how to install a minion</a>.</p>`}
      ${fleet.masters && html`<${Masters} rows=${fleet.masters} differences=${fleet.differences} lease=${fleet.link?.lease ?? true} />`}
      <section>
        <h2>Jobs of the last 24 hours</h2>
        <div class="panel"><${Hours} rows=${fleet.hours} />
        ${fleet.jobs_cut && html`<p class="dim">These are the newest 1,000 jobs; there were more.</p>`}</div>
      </section>
      <div class="columns">
        <section>
          <h2>Versions</h2>
          <${Table} caption="Versions of the minions" rows=${versions} empty="No minion has reported its version yet." columns=${[
            ["Version", ([version]) => html`${visible(version)}${version !== master.version && html` <span class="state mid">not the master's</span>`}`],
            ["Minions", ([, count]) => count.toLocaleString("en"), "", "number"],
          ]} />
        </section>
        <section>
          <h2>Master</h2>
          <dl class="panel">
            <dt>Name</dt><dd>${master.name}, version ${master.version}</dd>
            <dt>Started</dt><dd><${Time} at=${master.started_at - (fleet.masters?.find((row) => row.name === master.name)?.clock_s || 0)} /></dd>
            <dt>Store</dt><dd>${size(store.size)} of ${size(store.limit)}
              <meter min="0" max=${store.limit} high=${store.limit * 0.8} value=${store.size} aria-label="Store in use"></meter></dd>
            <dt>On the disk</dt><dd>${size(store.file)}, and ${size(store.log)} of its log${store.left !== null && `; ${size(store.left)} of the disk are left`}</dd>
            <dt>Link process</dt><dd>${fleet.link ? html`<${State} of="ok" />` : html`<${State} of="away" /> it does not answer`}</dd>
            <dt>Open targets</dt><dd>${Object.entries(queues.targets).map(([state, count]) => `${count} ${state}`).join(", ") || "none"}</dd>
            ${queues.minions_away_with_jobs > 0 && html`<dt>Waiting</dt><dd>${counted(queues.minions_away_with_jobs, "machine")} away ${queues.minions_away_with_jobs === 1 ? "has" : "have"} jobs</dd>`}
            ${Object.entries(fleet.readers).map(([name, lag]) => html`<dt>Reader ${name}</dt><dd>${lag.behind} events behind</dd>`)}
            ${resources.incomplete && html`<dt>Registry</dt><dd><${State} of="bad" /> rows were lost to damage, and not every minion has registered again</dd>`}
          </dl>
        </section>
      </div>`;
  }
}

/** A figure that leads to what it counts; none is grey. */
function Card({ page, count, words, kind }) {
  return html`<a class="card" href=${page}><strong>${count.toLocaleString("en")}</strong> <${State} of=${words} kind=${count ? kind : "none"} /></a>`;
}

/** The masters that share the store, and what is wrong with them or not alike. */
function Masters({ rows, differences, lease }) {
  const problems = [
    ...(lease ? [] : ["This master cannot renew its lease in the database: it takes nothing from minions, and sends them nothing, until it can."]),
    ...rows.filter((row) => row.state === "fenced").map((row) =>
      `${row.name} is fenced: it has stopped, or is cut off from the database, and its minions are at the others.`),
    ...rows.map((row) => row.certificate_problem).filter(Boolean),
    ...differences,
  ];
  return html`<section>
    <h2>Masters</h2>
    ${problems.length > 0 && html`<div class="error" role="alert">${problems.map((text) => html`<p>${visible(text)}</p>`)}</div>`}
    <${Table} caption="Masters that share the store" rows=${rows} columns=${[
      ["Master", (row) => html`<strong>${visible(row.name)}</strong>`],
      ["State", (row) => html`<${State} of=${row.state} kind=${{ up: "good", fenced: "bad" }[row.state] ?? "mid"} />`],
      ["Address", (row) => visible(row.address)],
      ["Version", (row) => visible(row.version)],
      ["Minions", (row) => row.sessions.toLocaleString("en"), "", "number"],
      ["Behind", (row) => (row.behind === null ? "" : counted(row.behind, "event")), "", "number"],
      ["Certificate until", (row) => (row.certificate_until === null ? html`<${State} of="damaged" kind="bad" />` : new Date(row.certificate_until * 1000).toLocaleDateString())],
    ]} />
  </section>`;
}

/** A bar for each hour: jobs that are well below those that are not. */
function Hours({ rows }) {
  const most = Math.max(1, ...rows.map((row) => row.ok + row.bad + row.open));
  const total = rows.reduce((sum, row) => sum + row.ok + row.bad + row.open, 0);
  const bad = rows.reduce((sum, row) => sum + row.bad, 0);
  const open = rows.reduce((sum, row) => sum + row.open, 0);
  const bar = (row, hour) => {
    let top = 60;
    return [["ok", row.ok], ["open", row.open], ["bad", row.bad]].map(([kind, count]) => {
      const height = (count / most) * 58;
      top -= height;
      return html`<rect class=${kind} x=${hour * 10 + 1} width="8" y=${top} height=${height}>
        <title>${`${new Date(row.at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}: ${count} ${kind}`}</title></rect>`;
    });
  };
  const hour = (at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return html`
    <svg class="hours" viewBox="0 0 240 60" preserveAspectRatio="none" role="img"
      aria-label=${`${total} jobs in 24 hours, ${bad} of them failed or without an answer`}>
      <line x1="0" x2="240" y1="2" y2="2" /><line x1="0" x2="240" y1="31" y2="31" />
      ${rows.map(bar)}<line x1="0" x2="240" y1="60" y2="60" /></svg>
    <p class="axis" aria-hidden="true"><span>${hour(rows[0].at)}</span><span>${hour(rows[8].at)}</span><span>${hour(rows[16].at)}</span><span>now</span></p>
    <p class="legend"><a href=${link("jobs", { since: rows[0].at })}>${counted(total, "job")}</a>
      <span><i></i>${total - bad - open} without a failure</span>
      <span><i class="bad"></i><a href=${link("jobs", { since: rows[0].at, state: "failed" })}>${bad} failed or without an answer</a></span>
      <span><i class="open"></i>${open} open</span><span class="dim">at most ${most} an hour</span></p>`;
}
