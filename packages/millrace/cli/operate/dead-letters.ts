import { oneLine, paint, say } from "../terminal.ts";
import { REASON, reasonOf } from "./act.ts";
import type { Letter, LetterPage } from "./answers.ts";
import { PAGED, queryOf, sayPage } from "./list.ts";
import { issueLines } from "./refusal.ts";
import { replay } from "./replay.ts";
import { callOf } from "./usage.ts";
import { type Noun, type Verb, verb } from "./verb.ts";
import { pathOf } from "./which.ts";
import { ago, moment, sayJson, shownJson, tell } from "./words.ts";

const COLUMNS = ["id", "queue", "type", "reason", "captured", "error"].map((title) => ({ title }));

/** Printed with an empty list: other tokens do not see such dead letters. */
const OF_NO_TENANT = "Dead letters without a tenant need the scope unattributed.";

const list = verb({
  does: "Lists messages that no consumer could process, newest first",
  options: {
    state: { value: "STATE", says: "open, replayed or skipped; default open" },
    queue: { value: "NAME", says: "of this queue" },
    type: { value: "TYPE", says: "of this message type" },
    reason: { value: "CODE", says: "captured for this reason, such as invalid_payload or exhausted" },
    cause: { value: "ID", says: "of this cause" },
    ...PAGED,
  },
  async run(asked) {
    const { text } = asked;
    const filter = { state: text("state"), queue: text("queue"), type: text("type"), reason: text("reason"), cause: text("cause") };
    const query = queryOf({ ...filter, limit: text("limit"), cursor: text("cursor") });
    sayPage(asked, await asked.api.get<LetterPage>(`/v1/dead-letters${query}`), {
      columns: COLUMNS,
      row: (one) => [one.id, one.queue, one.message_type ?? "", one.reason, ago(one.captured_at), one.error ?? ""],
      none: `No such dead letter is shown to your token. ${OF_NO_TENANT}`,
      isLastProse: true,
    });
    return 0;
  },
});

const show = verb({
  takes: "ID",
  does: "Shows a dead letter with its message and the result of a replay",
  async run(asked) {
    const letter = await asked.api.get<Letter>(pathOf("dead-letters", asked.about));
    if (asked.isJson) sayJson(letter);
    else {
      for (const line of letterLines(letter)) say(line);
      if (letter.state === "open") for (const line of nextLines(letter)) tell(line);
    }
    return 0;
  },
});

/** Reasons that only a corrected message can fix: its envelope is unreadable or its type unknown. */
const OF_THE_WHOLE: readonly string[] = ["invalid_envelope", "unknown_message_type"];

function nextLines({ id, replay: { refused }, body }: Letter): string[] {
  const skip = callOf("dead-letters skip", id, "--reason …");
  const send = (option = "") => `Replay it: ${callOf("dead-letters replay", id, `--reason …${option}`)}, or skip it: ${skip}`;
  if (!refused) return [send()];
  if (refused.code === "idempotency_key_reused")
    return [`Other work has its key. Send its command again with a new key, and skip the dead letter: ${skip}`];
  const isWhole = OF_THE_WHOLE.includes(refused.code) || typeof body !== "object" || body === null || Array.isArray(body);
  return [
    send(isWhole ? " --body JSON, with the whole corrected message (docs/messages.md)" : " --payload JSON"),
    "A corrected message needs the scope of its type, such as enqueue, in addition to operate.",
  ];
}

function letterLines(letter: Letter): string[] {
  const { id, queue, message_type, idempotency_key, reason, error, issues, attempts, captured_at, state, escalation, body, replay } =
    letter;
  const facts: [string, string | undefined][] = [
    ["id", id],
    ["queue", queue],
    ["key", idempotency_key ?? undefined],
    ["captured", `${moment(captured_at)}, ${ago(captured_at)}, after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`],
    ["error", error ?? undefined],
    ...issueLines(issues ?? [], error ?? "").map((line): [string, string] => ["", line]),
    ["escalated", escalation === null ? undefined : `by ${escalation.by}: ${escalation.note}`],
    ["replay", `${replay.outcome}: ${replay.why}`],
  ];
  return [
    paint("bold", oneLine(`${message_type ?? "A message without a type"} is ${state}: ${reason}`)),
    ...facts.flatMap(([name, fact]) => (fact === undefined ? [] : [`  ${name.padEnd(9)} ${oneLine(fact)}`])),
    "  message",
    ...shownJson(body, 2)
      .split("\n")
      .map((line) => `    ${line}`),
  ];
}

function settle(name: string, does: string, done: readonly [did: string, was: string], flag: "skipped" | "escalated"): Verb {
  return verb({
    takes: "ID",
    does,
    options: REASON,
    async run(asked) {
      const settled = await asked.api.act<Partial<Record<typeof flag, boolean>>>(pathOf("dead-letters", asked.about, `/${name}`), {
        reason: reasonOf(asked),
      });
      tell(settled[flag] === true ? done[0] : done[1]);
      if (asked.isJson) sayJson(settled);
      return 0;
    },
  });
}

export const deadLetters: Noun = {
  does: "Messages that no consumer could process. ID is the id of a dead letter from the list",
  verbs: {
    list,
    show,
    replay,
    skip: settle("skip", "Skips a dead letter permanently", ["Skipped.", "No change: it was already settled."], "skipped"),
    escalate: settle(
      "escalate",
      "Escalates a dead letter: sends the reason to the alert channels",
      ["Escalated. It remains open.", "No change: it was already escalated or settled."],
      "escalated",
    ),
  },
};
