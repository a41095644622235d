// Requests to the API, the login that they may need, and the stream of events.

/** An answer that is no success: `status`, and `body`, whose `error` is a sentence. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error || `the API answered with status ${status}`);
    this.status = status;
    this.body = body;
  }
}

const listeners = { login: new Set(), reach: new Set(), event: new Set() };

/** Call `listener` for each "login", "reach" (whether the master can be reached) or "event"; returns how to stop. */
export function on(what, listener) {
  listeners[what].add(listener);
  return () => listeners[what].delete(listener);
}

function tell(what, value) {
  for (const listener of [...listeners[what]]) listener(value);
}

let waiting = null; // of the requests that a login has to come before

function loggedIn() {
  if (!waiting) {
    waiting = {};
    waiting.promise = new Promise((resolve) => { waiting.resolve = resolve; });
    tell("login", true);
  }
  return waiting.promise;
}

async function ask(method, path, body) {
  for (;;) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "same-origin",
      });
    } catch {
      tell("reach", "The API does not answer.");
      throw new ApiError(0, { error: "The API does not answer." });
    }
    const value = await answer.json().catch(() => ({}));
    if (answer.status === 401 && path !== "/login") {
      // What was typed stays where it is: the request goes on after the login.
      await loggedIn();
      continue;
    }
    tell("reach", answer.status === 503 ? value.error : "");
    if (!answer.ok) throw new ApiError(answer.status, value);
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
  tell("login", false);
  waiting?.resolve();
  waiting = null;
  listen();
  channel.postMessage({ login: true });
}

/** Log out of every tab. */
export async function logOut() {
  await post("/logout", {});
  source?.close();
  location.hash = "#/";
  location.reload();
}

let source = null;
let channel = null;

/**
 * Receive events. A browser opens six connections to a host at most, so one tab has the stream and passes each event on
 * to the others; when it is closed, the next one opens the stream.
 */
export function listen() {
  if (channel) {
    if (source) open();
    return;
  }
  channel = new BroadcastChannel("events");
  channel.onmessage = ({ data }) => {
    // The tab with the stream follows a login in another tab: the events are those of the user who is logged in now.
    if (!data.login) tell("event", data);
    else if (source) open();
  };
  navigator.locks.request("events", () => new Promise(() => open()));
}

function open() {
  source?.close();
  source = new EventSource("/events");
  source.onmessage = (message) => {
    const event = { id: Number(message.lastEventId), ...JSON.parse(message.data) };
    tell("event", event);
    channel.postMessage(event);
  };
}
