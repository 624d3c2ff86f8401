import { Misuse, Refusal } from "../command.ts";
import { oneLine, say } from "../terminal.ts";
import { DRY_RUN, REASON, reasonOf } from "./act.ts";
import type { Letter, ReplayAnswer } from "./answers.ts";
import { problemLines } from "./refusal.ts";
import { callOf } from "./usage.ts";
import { type Asked, verb } from "./verb.ts";
import { pathOf } from "./which.ts";
import { sayJson, tell, typedJson } from "./words.ts";

type Options = "reason" | "payload" | "body" | "dry-run";
type Plan = Extract<ReplayAnswer, { outcome: unknown }>;
type Replayed = Extract<ReplayAnswer, { sent: unknown }>;

export const replay = verb<Options>({
  takes: "ID",
  does: "Replays a dead letter, unchanged or corrected; a message that would be refused again remains",
  options: {
    ...REASON,
    payload: { value: "JSON", says: "replaces the payload of the message; @FILE, -" },
    body: { value: "JSON", says: "replaces the whole message; @FILE, -" },
    ...DRY_RUN,
  },
  async run(asked) {
    const { api, about, isJson } = asked;
    const isDryRun = asked.isSet("dry-run");
    const reason = reasonOf(asked, isDryRun);
    const corrected = await correction(asked);
    const path = pathOf("dead-letters", about, "/replay");
    const request = { reason, ...(corrected !== undefined && { body: corrected }) };
    if (isDryRun) return sayReplayPlan(await api.send<Plan>(path, { ...request, dry_run: true }), isJson);
    const replayed = await api.act<Replayed>(path, request);
    const { sent, why, instance_id: id } = replayed;
    tell(oneLine(sent ? why : `No change: ${why}`));
    if (isJson) sayJson(replayed);
    else if (sent && id !== null) tell(`Result: ${callOf("instances show", id)}`);
    return 0;
  },
});

/** The corrected message. Undefined without a correction. The engine fills in redacted values. */
async function correction({ api, about, text }: Asked<Options>): Promise<unknown> {
  const [payload, body] = [text("payload"), text("body")];
  if (payload !== undefined && body !== undefined) throw new Misuse("Use --payload or --body, not both.");
  if (body !== undefined) return typedJson("body", body);
  if (payload === undefined) return undefined;
  const payload_inline = await typedJson("payload", payload);
  const { body: message } = await api.get<Letter>(pathOf("dead-letters", about));
  if (typeof message !== "object" || message === null || Array.isArray(message)) {
    throw new Refusal("The message has no payload field: send the whole message with --body.");
  }
  const { payload_ref: _, ...envelope } = message as Record<string, unknown>;
  return { ...envelope, payload_inline };
}

/** Prints the dry run of a replay. Returns the exit code: 1 if it would be refused. */
function sayReplayPlan(plan: Plan, isJson: boolean): number {
  const { outcome, why, refused, instance } = plan;
  if (isJson) sayJson(plan);
  else if (refused) throw new Refusal(["Dry run: it would be refused.", ...problemLines(refused)].join("\n"));
  else say(oneLine(`Dry run: ${outcome}: ${why}${instance ? ` (${instance.id}, ${instance.status})` : ""}`));
  return refused ? 1 : 0;
}
