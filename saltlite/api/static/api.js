// Requests to the API, the login that they may need, and the stream of events.

/** An answer that is no success: `status`, and `body`, whose `error` is a sentence. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error || `the API answered with status ${status}`);
    this.status = status;
    this.body = body;
  }
}

const listeners = { login: new Set(), reach: new Set(), back: new Set(), event: new Set() };

/**
 * Call `listener` for each "login", "reach" (the sentence that says why the master cannot be reached, or ""), "back" (it
 * can be reached again) or "event"; returns how to stop.
 */
export function on(what, listener) {
  listeners[what].add(listener);
  return () => listeners[what].delete(listener);
}

function tell(what, value) {
  for (const listener of [...listeners[what]]) listener(value);
}

let entries = 0; // logins in this page
let waiting = null; // of the requests that a login has to come before

function loggedIn() {
  if (!waiting) {
    waiting = {};
    waiting.promise = new Promise((resolve) => { waiting.resolve = resolve; });
    tell("login", true);
  }
  return waiting.promise;
}

let ahead = 0; // seconds by which the clock of the fleet is ahead of the browser's

/** The time by the clock that all times in answers are from, in seconds since 1970. */
export function now() {
  return Date.now() / 1000 + ahead;
}

const AGAIN_MS = 3000;
let timer = null;

/** Say whether the master can be reached; while it cannot, look again until it can. */
function reached(problem) {
  tell("reach", problem);
  clearTimeout(timer);
  if (problem) timer = setTimeout(() => get("/fleet/access").then(() => tell("back", true), () => {}), AGAIN_MS);
}

async function ask(method, path, body) {
  for (;;) {
    const before = entries;
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "same-origin",
      });
    } catch {
      reached("The API does not answer.");
      throw new ApiError(0, { error: "The API does not answer." });
    }
    const value = await answer.json().catch(() => ({}));
    if (answer.status === 401 && path !== "/login") {
      // What was typed stays where it is: the request goes on after the login, which may have come meanwhile.
      if (before === entries) await loggedIn();
      continue;
    }
    reached(answer.status === 503 ? value.error || "The master does not answer." : "");
    if (!answer.ok) throw new ApiError(answer.status, value);
    if (path === "/fleet/access" && value.now) ahead = value.now - Date.now() / 1000;
    return value;
  }
}

/** GET a path with query parameters; those that are empty are omitted. */
export function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return ask("GET", given.length ? `${path}?${new URLSearchParams(given)}` : path);
}

/** POST a value as JSON. */
export function post(path, value) {
  return ask("POST", path, value);
}

/** Log in; raises ApiError. The browser keeps the token in a cookie that no script can read. */
export async function logIn(eauth, username, password) {
  await ask("POST", "/login", { eauth, username, password });
  entered();
  channel.postMessage({ login: true });
}

/** Go on after a login, in this tab or in another one: requests that waited are sent, and the events are the user's. */
function entered() {
  entries += 1;
  tell("login", false);
  waiting?.resolve();
  waiting = null;
  if (source) open();
}

/** Log out of every tab. */
export async function logOut() {
  await post("/logout", {});
  channel.postMessage({ logout: true });
  leave();
}

function leave() {
  source?.close();
  location.hash = "#/";
  location.reload();
}

const channel = new BroadcastChannel("events");
channel.onmessage = ({ data }) => {
  if (data.login) entered();
  else if (data.logout) leave();
  else tell("event", data);
};
let source = null;
let listening = false;

/**
 * Receive events. A browser opens six connections to a host at most, so one tab has the stream and passes each event on
 * to the others; when it is closed, the next one opens the stream.
 */
export function listen() {
  if (!listening) navigator.locks.request("events", () => new Promise(() => open()));
  listening = true;
}

function open() {
  source?.close();
  source = new EventSource("/events?returns=false");
  source.onmessage = (message) => {
    const event = { id: Number(message.lastEventId), ...JSON.parse(message.data) };
    tell("event", event);
    channel.postMessage(event);
  };
  source.onerror = ({ target }) => {
    // A browser tries again after a broken connection, and not after an answer such as 503 or 401.
    if (target.readyState === EventSource.CLOSED) later(target);
  };
}

function later(closed) {
  setTimeout(() => closed === source && get("/fleet/access").then(() => closed === source && open(), () => later(closed)), AGAIN_MS);
}
