import { randomBytes } from "node:crypto";
import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { ObserveApi } from "./api.ts";
import { CHAIN, completeOf } from "./healthy.ts";
import { type Outside, type Page, REFUSALS } from "./outside.ts";

const JOB = "outage";
const KEYWORDS = Array.from({ length: 20 }, (_, at) => `roast ${at + 1}`);
/** Its key was revoked: what is refused so is not tried again. */
const REVOKED = { upstream: "search", match: "", status: 403, remaining: null };
/** What another program sends: commands that nobody knows, and ones whose keyword is missing. */
const UNKNOWN = 6;
const BROKEN = 4;
const POISON = UNKNOWN + BROKEN;

/** What is told of all this: one alert for each kind of trouble and place. */
const ALERTS = [
  "instances_errored research-keyword not_retryable",
  "dead_letter_arrived unknown_message_type gatherfeed-commands",
  "dead_letter_arrived invalid_payload gatherfeed-commands",
];

/** What went wrong, and how much of it was told. */
interface Storm {
  /** Ids of instances. */
  failed: readonly string[];
  troubles: number;
  alerts: number;
}

/** Breaks the search engine and sends poison, and waits for what the pager hears of it. */
export async function outage(api: ObserveApi, outside: Outside, until: Until): Promise<Storm> {
  await api.setFaults([REVOKED]);
  await Promise.all([api.askFor(JOB, KEYWORDS), api.outsider(poison())]);
  let failed: string[] = [];
  await until(async () => {
    failed = (await api.instances(JOB)).filter(({ status }) => status === "errored").map(({ id }) => id);
    return failed.length === KEYWORDS.length;
  }, `${KEYWORDS.length} instances fail`);
  await until(async () => (await api.letters()).length === POISON, `${POISON} messages are dead letters`);
  say(`  ${failed.length} instances have failed, and ${POISON} messages are dead letters. What the pager hears:\n`);
  await heard(outside, "firing", until);
  const storm = { failed, troubles: failed.length + POISON, alerts: ALERTS.length };
  say(`\n  ${paint("green", "✓")} ${storm.troubles} troubles, ${storm.alerts} alerts.`);
  return storm;
}

/** Mends the search engine, has a person look after everything, and waits until the pager hears that it is over. */
export async function recovery(api: ObserveApi, outside: Outside, { failed }: Storm, until: Until): Promise<void> {
  await api.clearFaults();
  await Promise.all(failed.map((id) => api.retry(id, "The search engine has a new key.")));
  const letters = await api.letters();
  const [mended] = letters.filter(({ reason }) => reason === "invalid_payload");
  if (!mended) throw new Refusal("No dead letter can be corrected.");
  const { body } = await api.letter(mended.id);
  const corrected = { ...(body as object), payload_inline: { brand: "acme", keyword: "long black" } };
  await api.replay(mended.id, corrected, "Its keyword was forgotten.");
  const others = letters.filter(({ id }) => id !== mended.id);
  await Promise.all(others.map(({ id }) => api.skip(id, "Sent by mistake.")));
  say(
    `  ${failed.length} instances are retried; of ${letters.length} letters one is corrected and replayed, ${others.length} are skipped.\n`,
  );
  await heard(outside, "resolved", until);
  const all = (KEYWORDS.length + 1) * CHAIN.length;
  await until(async () => completeOf(await api.instances(JOB)) === all, `${all} instances are complete`);
  const wrong = notAsPromised(outside.pages, await api.firing());
  if (wrong.length > 0) throw new Refusal(wrong.join(" "));
  say(`\n  ${paint("green", "✓")} All ${all} instances are complete, and nothing fires any more.`);
}

/** Messages of a program that knows nothing of what they must be. */
function poison(): object[] {
  const envelope = (type: string, key: string, payload: object) => ({
    ...{ schema_version: 1, message_type: type, kind: "command", source: "the old shop", tenant_id: "acme" },
    ...{ correlation_id: JOB, causation_id: key, idempotency_key: key, subject: key, created_at: new Date().toISOString() },
    traceparent: `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`,
    payload_inline: payload,
  });
  return [
    ...Array.from({ length: UNKNOWN }, (_, at) => envelope("research.wanted", `wanted-${at}`, { word: "crema" })),
    ...Array.from({ length: BROKEN }, (_, at) => envelope("research.requested", `broken-${at}`, { brand: "acme" })),
  ];
}

/** Waits until the pager has taken a change of every alert, and shows how that went. */
async function heard({ pages }: Outside, change: string, until: Until): Promise<void> {
  const requests = () => pages.filter(({ notice }) => notice.change === change);
  const taken = () => requests().filter(({ status }) => status < 300);
  await until(() => taken().length >= ALERTS.length, `the pager has heard of all alerts that they are ${change}`);
  for (const { id, notice } of taken()) {
    const tries = requests().filter((page) => page.id === id);
    const answers = tries.map(({ status }) => paint(status < 300 ? "green" : "red", String(status))).join(" ");
    const sign = change === "resolved" ? paint("green", column("over", 9)) : paint("yellow", column(notice.severity, 9));
    const times = change === "firing" && notice.count !== null ? `  ${notice.count} by then` : "";
    say(`  ${sign}${column(nameOf({ notice }), 62)}${answers}${paint("dim", times)}`);
  }
}

function nameOf({ notice: { rule, labels } }: Pick<Page, "notice">): string {
  const group = Object.entries(labels).toSorted().reverse();
  return [rule, ...group.map(([, said]) => said)].join(" ");
}

/** What is not as alerts promise, by the pager's own record: each change told once, however often it was refused. */
export function notAsPromised(pages: readonly Page[], firing: readonly object[]): string[] {
  const ids = [...new Set(pages.map(({ id }) => id))];
  const taken = pages.filter(({ status }) => status < 300);
  const told = taken.map((page) => `${page.notice.change} ${nameOf(page)}`).toSorted();
  const expected = ["firing", "resolved"].flatMap((change) => ALERTS.map((alert) => `${change} ${alert}`)).toSorted();
  const expectations: [boolean, string][] = [
    [pages.every(({ isSigned }) => isSigned), "A notice was not signed."],
    [told.join() === expected.join(), `The pager heard ${told.join(", ")} instead of ${expected.join(", ")}.`],
    [taken.length === ids.length, "A notice was not taken exactly once."],
    [pages.length === ids.length * (REFUSALS + 1), `The pager had ${pages.length} requests for ${ids.length} notices.`],
    [firing.length === 0, `${firing.length} alerts fire still.`],
  ];
  return expectations.filter(([holds]) => !holds).map(([, sentence]) => sentence);
}
