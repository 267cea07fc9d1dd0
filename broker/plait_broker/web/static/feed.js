// The event stream of the broker: a snapshot, then changes, over fetch, which (unlike EventSource) can send a token.
// When the connection is lost, the feed reports it, retries with growing pauses, and starts again with a snapshot.

const PAUSE_MIN_MS = 400;
const PAUSE_MAX_MS = 5000;
const SILENCE_MS = 20000; // the broker sends something every 15 s at least

const TOKEN = "plait-token";

export async function getJson(path) {
  const answer = await fetch(path, { headers: headers(), cache: "no-store" });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body.error || `the broker answered ${answer.status}`), { status: answer.status, facts: body });
  return body;
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

export class Feed {
  /** Calls `changed(sections)` after every message, `connectionChanged(state, detail)` when the connection opens or ends. */
  constructor(path, changed, connectionChanged, requestToken) {
    Object.assign(this, { path, changed, connectionChanged, requestToken, state: {}, receivedAt: 0, pause: PAUSE_MIN_MS });
  }

  async run() {
    for (;;) {
      let detail = "";
      try {
        detail = await this.listen();
      } catch (error) {
        detail = error.name === "AbortError" ? "it has sent nothing for long" : "it does not answer";
      }
      this.connectionChanged("lost", detail);
      await new Promise((resolve) => setTimeout(resolve, this.pause * (0.7 + 0.6 * Math.random())));
      this.pause = Math.min(PAUSE_MAX_MS, this.pause * 1.6);
    }
  }

  async listen() {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const answer = await fetch(this.path, { headers: headers(), cache: "no-store", signal: silence.signal });
      if (answer.status === 401) {
        sessionStorage.setItem(TOKEN, await this.requestToken());
        return "a token is required";
      }
      if (!answer.ok) return (await answer.json().catch(() => ({}))).error || `it answered ${answer.status}`;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "it closed the connection";
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        for (const message of messages) this.take(message);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  take(message) {
    let kind = "";
    let data = "";
    for (const line of message.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (!data) return;
    const update = JSON.parse(data);
    this.receivedAt = Date.now();
    if (kind === "snapshot") {
      this.state = update;
      this.pause = PAUSE_MIN_MS;
      this.connectionChanged("live", "");
    } else {
      for (const [section, values] of Object.entries(update)) merge((this.state[section] ??= {}), values);
    }
    this.changed(new Set(Object.keys(update)));
  }
}

function merge(into, values) {
  for (const [key, value] of Object.entries(values)) {
    // null deletes a key; among the totals it is a value, and a missing key reads the same
    if (value === null) delete into[key];
    else into[key] = value;
  }
}
