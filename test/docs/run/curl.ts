/** One curl command of a document, and the expected response in the comment under it. */
export interface Curl {
  /** Verbatim. */
  text: string;
  method: string;
  url: string;
  /** Whole lines, `name: value`. */
  headers: string[];
  body: string | undefined;
  status: number;
  /** A part of the response's body; undefined when the comment has none. */
  answer: unknown;
}

const CURL = /^(curl [\s\S]*?)^# (\d{3})(?: (.+))?$/gm;

/** The curl commands of a shell script, in order. Under each is a line such as `# 202`, optionally with JSON after the status. */
export function curlsOf(shell: string): Curl[] {
  const curls = [...shell.matchAll(CURL)].map(([, text = "", status, answer]) => ({
    text: text.trim(),
    ...parse(wordsOf(text)),
    status: Number(status),
    answer: answer === undefined ? undefined : JSON.parse(answer),
  }));
  const unanswered = shell.match(/^curl /gm)?.length !== curls.length || curls.some(({ text }) => /\ncurl /.test(text));
  if (unanswered) throw new Error(`A curl command has no status under it:\n${shell}`);
  return curls;
}

/** Replaces the variables that `wordsOf` marked with their values. */
export function filled(text: string, lookUp: (name: string) => string): string {
  return text.replaceAll(/\0(\w+)\0/g, (_, name) => filled(lookUp(name), lookUp));
}

/**
 * Shell words: quotes, line continuations, and `$NAME` marked for `filled` where the shell would insert a value. Other shell syntax is not
 * supported.
 */
function wordsOf(command: string): string[] {
  const words = command.replaceAll("\\\n", " ").matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g);
  return [...words].map(([word]) =>
    word.replaceAll(
      /'([^']*)'|"([^"]*)"/g,
      (_, single?: string, double?: string) => single ?? double?.replaceAll(/\$(\w+)/g, "\0$1\0") ?? "",
    ),
  );
}

function parse([, ...words]: string[]): Pick<Curl, "method" | "url" | "headers" | "body"> {
  const headers: string[] = [];
  const found: { method?: string; url?: string; body?: string } = {};
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    // curl shows the response as it arrives: irrelevant for a reader of the whole response.
    if (word === "-N") continue;
    if (word === "-X") found.method = words.shift();
    else if (word === "-d" || word === "--data-binary") found.body = words.shift();
    else if (word === "-H") headers.push(words.shift() ?? "");
    else if (word.startsWith("-")) throw new Error(`The parser does not know curl's ${word}.`);
    else found.url = word;
  }
  const { body, method = body === undefined ? "GET" : "POST", url = "" } = found;
  return { method, url, headers, body };
}
