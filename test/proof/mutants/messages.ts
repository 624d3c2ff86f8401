import { mutantsOf } from "./mutant.ts";

const RECORDER = "packages/millrace/src/recorder/recorder.ts";

/** Messages that are lost in transit, or delivered twice. */
export const MESSAGES = mutantsOf("messages", {
  "messages are not written in the same batch as the outcome": {
    file: RECORDER,
    find: "...outcome.messages.flatMap(storeOutgoing),",
    put: "",
    killedBy: "random",
  },
  "a message leaves the outbox when it is sent, instead of when it is confirmed": {
    file: RECORDER,
    find: "this.ctx.waitUntil(relay(this.env, outcome.messages));",
    put: `this.ctx.waitUntil(relay(this.env, outcome.messages).then(() =>
      this.env.DB.batch(outcome.messages.map(({ id }) => this.env.DB.prepare("DELETE FROM millrace_outbox WHERE id = ?").bind(id)))));`,
    killedBy: "random",
  },
  "an accepted message is not confirmed": {
    file: "packages/millrace/src/store/outbox.ts",
    find: "return ids.length === 0 ? [] :",
    put: "return ids.length >= 0 ? [] :",
    killedBy: "random",
  },
  "the event of a repeated effect has the key of the first event": {
    file: "packages/millrace/src/contract/ids.ts",
    find: "entry.item, String(entry.generation), String(index)).slice(0, 16)",
    put: "entry.item, String(index)).slice(0, 16)",
    killedBy: "random",
  },
  "a message that a queue lost is not sent again": {
    file: "packages/millrace/src/keeper/resend-outbox.ts",
    find: "const lost = rows.filter(",
    put: "const lost = rows.slice(0, 0).filter(",
    killedBy: "random",
  },
});
