// Overview: who is up, what ran in the last day, and how the master is.

import { get } from "./api.js";
import { html, link, Page, size, State, Table, Time, visible } from "./parts.js";

export class Overview extends Page {
  watches = ["salt/presence/", "salt/auth", "salt/key", "salt/job/"];
  pollMs = 15000;

  load() {
    return get("/fleet");
  }

  show(fleet) {
    const { counts, master, store, queues, resources } = fleet;
    const versions = Object.entries(fleet.versions);
    return html`
      <h1>Overview</h1>
      <section aria-label="Machines" class="cards">
        ${["up", "away", "never"].map((state) => html`<a class="card" href=${link("machines", { state })}>
          <strong>${counts[state]}</strong> <${State} of=${state} /></a>`)}
        <a class="card" href="#/keys"><strong>${counts.pending}</strong> <${State} of="pending" /></a>
        <a class="card" href="#/resources"><strong>${resources.count}</strong> resources</a>
      </section>
      <section>
        <h2>Jobs of the last 24 hours</h2>
        <${Hours} rows=${fleet.hours} />
        ${fleet.jobs_cut && html`<p class="dim">These are the newest 1,000 jobs; there were more.</p>`}
      </section>
      <div class="columns">
        <section>
          <h2>Versions</h2>
          <${Table} caption="Versions of the minions" rows=${versions} columns=${[
            ["Version", ([version]) => html`${visible(version)}${version !== master.version && html` <span class="state mid">not the master's</span>`}`],
            ["Minions", ([, count]) => count],
          ]} />
        </section>
        <section>
          <h2>Master</h2>
          <dl>
            <dt>Name</dt><dd>${master.name}, version ${master.version}</dd>
            <dt>Started</dt><dd><${Time} at=${master.started_at} /></dd>
            <dt>Store</dt><dd>${size(store.size)} of ${size(store.limit)}
              <meter min="0" max=${store.limit} high=${store.limit * 0.8} value=${store.size} aria-label="Store in use"></meter></dd>
            <dt>On the disk</dt><dd>${size(store.file)}, and ${size(store.log)} of its log</dd>
            <dt>Link process</dt><dd>${fleet.link ? html`<${State} of="ok" />` : html`<${State} of="away" /> it does not answer`}</dd>
            <dt>Open targets</dt><dd>${Object.entries(queues.targets).map(([state, count]) => `${count} ${state}`).join(", ") || "none"}</dd>
            ${queues.minions_away_with_jobs > 0 && html`<dt>Waiting</dt><dd>${queues.minions_away_with_jobs} machines that are away have jobs</dd>`}
            ${Object.entries(fleet.readers).map(([name, lag]) => html`<dt>Reader ${name}</dt><dd>${lag.behind} events behind</dd>`)}
            ${resources.incomplete && html`<dt>Registry</dt><dd><${State} of="bad" /> rows were lost to damage, and not every minion has registered again</dd>`}
          </dl>
        </section>
      </div>`;
  }
}

/** A bar for each hour: jobs that are well below those that are not. */
function Hours({ rows }) {
  const most = Math.max(1, ...rows.map((row) => row.ok + row.bad + row.open));
  const total = rows.reduce((sum, row) => sum + row.ok + row.bad + row.open, 0);
  const bad = rows.reduce((sum, row) => sum + row.bad, 0);
  const bar = (row, hour) => {
    let top = 60;
    return [["ok", row.ok], ["open", row.open], ["bad", row.bad]].map(([kind, count]) => {
      const height = (count / most) * 58;
      top -= height;
      return html`<rect class=${kind} x=${hour * 10 + 1} width="8" y=${top} height=${height}>
        <title>${`${new Date(row.at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}: ${count} ${kind}`}</title></rect>`;
    });
  };
  return html`
    <svg class="hours" viewBox="0 0 240 60" preserveAspectRatio="none" role="img"
      aria-label=${`${total} jobs in 24 hours, ${bad} of them failed or without an answer`}>
      ${rows.map(bar)}<line x1="0" x2="240" y1="60" y2="60" /></svg>
    <p><a href=${link("jobs", { since: rows[0].at })}>${total} jobs</a>, ${" "}
      <a href=${link("jobs", { since: rows[0].at, state: "failed" })}>${bad} failed or without an answer</a></p>`;
}
