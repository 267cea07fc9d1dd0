// The stream of the broker: a snapshot, then what changes, over fetch, which (unlike EventSource) can carry a token.
// When the broker goes, this says so, tries again for ever with growing pauses, and begins anew with a snapshot.

const PAUSE_MIN_MS = 400;
const PAUSE_MAX_MS = 5000;
const SILENCE_MS = 20000; // the broker says something every 15 s at least

const TOKEN = "plait-token";

export async function ask(path) {
  const answer = await fetch(path, { headers: headers(), cache: "no-store" });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error || `the broker answered ${answer.status}`);
  return said;
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

export class Feed {
  /** `changed(sections)` after every message, `turned(state, detail)` when the connection comes or goes. */
  constructor(path, changed, turned, wantToken) {
    Object.assign(this, { path, changed, turned, wantToken, state: {}, heardAt: 0, pause: PAUSE_MIN_MS });
  }

  async run() {
    for (;;) {
      let detail = "";
      try {
        detail = await this.listen();
      } catch (error) {
        detail = error.name === "AbortError" ? "it has said nothing for long" : "it does not answer";
      }
      this.turned("lost", detail);
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
        sessionStorage.setItem(TOKEN, await this.wantToken());
        return "a token is wanted";
      }
      if (!answer.ok) return (await answer.json().catch(() => ({}))).error || `it answered ${answer.status}`;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "it has ended the connection";
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
    const said = JSON.parse(data);
    this.heardAt = Date.now();
    if (kind === "snapshot") {
      this.state = said;
      this.pause = PAUSE_MIN_MS;
      this.turned("live", "");
    } else {
      for (const [section, values] of Object.entries(said)) merge((this.state[section] ??= {}), values);
    }
    this.changed(new Set(Object.keys(said)));
  }
}

function merge(into, values) {
  for (const [key, value] of Object.entries(values)) {
    // null takes a key away; of the totals it is a value, and reads the same
    if (value === null) delete into[key];
    else into[key] = value;
  }
}
