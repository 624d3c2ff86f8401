import { join } from "node:path";
import { paint, say, seconds } from "../terminal.ts";
import { operateApi } from "./operate/api.ts";
import { readAudit } from "./operate/audit.ts";
import { showBook } from "./operate/book.ts";
import { cancelOne } from "./operate/cancel.ts";
import { resolveDoubt } from "./operate/doubt.ts";
import { failing, findCause, retryOne } from "./operate/failure.ts";
import { giveUpStrays, mendLetter } from "./operate/letter.ts";
import { FAILED, LARGE, LOST, SHORT } from "./operate/orders.ts";
import { type Outside, startOutside } from "./operate/outside.ts";
import { retryRest } from "./operate/rest.ts";
import { chapter, type Stage, type Story } from "./story.ts";
import { untilWith } from "./until.ts";

/** Each look asks the engine. */
const LOOK_MS = 200;

export const operate: Story = {
  title: "twenty failures, their cause, one retry, then the rest; a cancel, a doubt, dead letters of two causes; the audit",
  config: join(import.meta.dirname, "operate/wrangler.jsonc"),
  async open() {
    const outside = await startOutside();
    return { vars: outside.vars, tell: (stage) => tell(stage, outside), stop: outside.stop };
  },
};

async function tell({ engine, stop }: Stage, outside: Outside): Promise<void> {
  const beganAt = Date.now();
  const api = operateApi(engine);
  const until = untilWith(stop, LOOK_MS);
  const about = [
    "A shop's orders: stock is reserved, a courier is booked, a mail is sent. Warehouse, courier and mails are outside of the engine,",
    "and the book of what they did decides whether what is said here is true. The operator has the HTTP API, and nothing else.",
  ];
  for (const line of about) say(paint("dim", `  ${line}`));

  chapter(1, `${FAILED.length} orders come in, and the courier refuses every booking.`);
  await failing(api, outside, until);

  chapter(2, "What do they have in common?");
  const { cause, sample } = await findCause(api);

  chapter(3, "The courier's key is renewed. One order is retried, to see whether that was it.");
  outside.letBook(true);
  const retried = await retryOne(api, sample);

  chapter(4, "It was. The rest is retried by one bulk action: 1, then 10, then all others.");
  await retryRest(api, { cause, retried }, until);

  chapter(5, `${LARGE.order} waits for somebody's yes, and its customer has called it off.`);
  await cancelOne(api, outside);

  chapter(6, `The mail for ${LOST.order} goes out, and the answer gets lost.`);
  await resolveDoubt(api, outside);

  chapter(7, `Some messages never began; the customer of ${SHORT.order} asks where it is.`);
  await giveUpStrays(api, until);
  await mendLetter(api);

  chapter(8, "The audit, read out");
  await readAudit(api);

  chapter(9, "The book of those outside");
  await showBook(api, outside);
  const proof = `${FAILED.length} failures were one cause, and every order was dealt with once`;
  say(`\n${paint("green", "✓")} ${paint("bold", `${proof}, in ${seconds(Date.now() - beganAt)}.`)}`);
}
