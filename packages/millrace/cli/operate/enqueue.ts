import { Misuse, Refusal } from "../command.ts";
import { oneLine, say } from "../terminal.ts";
import type { Accepted, Checked } from "./api.ts";
import { type Asked, callOf, NO_VERB, type Noun } from "./arguments.ts";
import { NOT_COME_TO_IT, WAIT, waitFor } from "./follow.ts";
import { quoted } from "./generic.ts";
import { problemLines } from "./refusal.ts";
import { moment, sayJson, tell, typedJson } from "./words.ts";

const KEY = /^[\x20-\x7e]{1,500}$/;

const OUTCOMES: Readonly<Record<Checked["outcome"], string>> = {
  new: "the key is free: it would start",
  repeat: "it was sent before: a repeat would start nothing",
  reused: "other work has the key: it would be refused",
  refused: "it is not valid",
};

export const enqueue: Noun = {
  [NO_VERB]: {
    takes: "TYPE",
    does: "Send a command and print the id of its instance; a repeat starts nothing",
    options: {
      payload: { value: "JSON", says: "the payload by the command's schema; @FILE reads a file, - standard input" },
      key: { value: "KEY", says: "the idempotency key; default: derived from the payload" },
      tag: { value: "TAG,…", says: "tags to find the instance by, separated by commas" },
      correlation: { value: "ID", says: "the correlation id of the job; default: a new one" },
      ...WAIT,
      "dry-run": { says: "print the result, without sending" },
    },
    run,
  },
};

async function run(asked: Asked): Promise<number> {
  const { api, isJson } = asked;
  const [type = ""] = asked.words;
  const typed = asked.text("payload");
  if (typed === undefined) throw new Misuse(`--payload is missing: ${callOf("enqueue", type, "--payload '{…}'")}`);
  const key = asked.text("key");
  if (key !== undefined && !KEY.test(key)) throw new Misuse("--key is 1 to 500 printable ASCII characters.");
  const payload = await typedJson("payload", typed);
  if (asked.isSet("dry-run")) return check(asked, { type, payload, ...(key !== undefined && { idempotency_key: key }) });
  const correlation = asked.text("correlation");
  const tags = asked.text("tag")?.split(",");
  const command = { type, payload, ...(correlation !== undefined && { correlation_id: correlation }), ...(tags && { tags }) };
  const headers = { ...(key !== undefined && { "idempotency-key": quoted(key) }) };
  const accepted = await api.send<Accepted>({ method: "POST", path: "/v1/commands", body: command, headers, isSafe: true });
  const { instance_id: id, replayed, instance_status: status, due_at } = accepted;
  const due = !due_at ? "" : ` It is due ${moment(due_at)}.`;
  tell(replayed ? `The command was sent before, so nothing started. Its instance is ${status}.${due}` : `Accepted.${due}`);
  if (!isJson) say(id);
  if (asked.isSet("wait")) return waitFor(asked, id, "complete");
  if (isJson) sayJson(accepted);
  if (!HELD_UP.has(status)) {
    if (!isJson) tell(`Result: ${callOf("instances tail", id)}`);
    return 0;
  }
  if (!isJson) tell(`It does not continue automatically. For the reason and the next command: ${callOf("instances show", id)}`);
  return NOT_COME_TO_IT;
}

/** The statuses of an instance that has ended without success or waits for an operator. */
const HELD_UP: ReadonlySet<Accepted["instance_status"]> = new Set(["errored", "terminated", "dead", "skipped", "in_doubt", "paused"]);

async function check({ api, isJson }: Asked, message: object): Promise<number> {
  const checked = await api.send<Checked>({ method: "POST", path: "/v1/catalog/check", body: message, isSafe: true });
  const { outcome, key, holder, refused } = checked;
  const isGood = outcome === "new" || outcome === "repeat";
  if (isJson) sayJson(checked);
  else if (refused) throw new Refusal(["Dry run: it would be refused.", ...problemLines(refused)].join("\n"));
  else
    say(oneLine(`Dry run: ${outcome}: ${OUTCOMES[outcome]}. Its key: ${key}${holder ? `, held by ${holder.id}, ${holder.status}` : ""}.`));
  return isGood ? 0 : 1;
}
