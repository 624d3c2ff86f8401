import { defineCommand, defineConsumer, defineStep, defineWorkflow, type EffectCall, millrace, notRetryable, retryAfter } from "millrace";
import { defineLaneQueue, engineLanes } from "millrace/lanes";
import { limitOf } from "millrace/limits";
import * as z from "zod";

const letter = z.object({ reader: z.string().min(1), number: z.int().min(1) });
type Letter = z.infer<typeof letter>;
/** The subject names the lane: a reader's next letter starts after the one before has ended. */
const letters = defineLaneQueue({ name: "letters" });
const key = ({ reader, number }: Letter) => `${reader}/${number}`;
const LetterSend = defineCommand({ type: "letter.send", payload: letter, key, subject: ({ reader }) => reader, queue: letters });

/** The mailer accepts 5 letters a second, from all readers together. */
const send = defineStep({
  effect: "keyed",
  async run({ input, key, env, fetch }: EffectCall<Letter>) {
    const { MAILER_URL } = env as unknown as { MAILER_URL: string };
    const limit = limitOf(env, "mailer", [{ limit: 5, periodMs: 1_000 }]);
    await limit.take();
    const sent = { method: "POST", headers: { "idempotency-key": key }, body: JSON.stringify(input) };
    const answer = await fetch(`${MAILER_URL}/letters`, sent);
    const waitMs = await limit.heed(answer);
    if (waitMs > 0) throw retryAfter(waitMs, `The mailer answered ${answer.status}.`, answer.status);
    if (answer.status < 500 && !answer.ok) throw notRetryable(`The mailer answered ${answer.status}.`, answer.status);
    if (!answer.ok) throw new Error(`The mailer answered ${answer.status}.`);
  },
});
const sendLetter = defineWorkflow({ name: "send-letter", on: LetterSend, run: ({ payload, step }) => step.effect("send", send, payload) });

const mailing = defineWorkflow({
  name: "mailing",
  input: z.object({ id: z.string().min(1), readers: z.array(z.string().min(1)).max(10), letters: z.int().min(1).max(10) }),
  key: ({ id }) => id,
  run: ({ input: { readers, letters }, step }) =>
    step.commit("ask for letters", () => ({
      emit: readers.flatMap((reader) => Array.from({ length: letters }, (_, at) => LetterSend.from({ reader, number: at + 1 }))),
    })),
});

/** A stand-in for the mailer that shows its mails. */
const arrived: string[] = [];
async function mailer(request: Request): Promise<Response> {
  if (request.method === "POST") arrived.push(key(await request.json<Letter>()));
  return Response.json({ letters: arrived.length, arrived });
}
const consumers = [defineConsumer({ queue: letters, starts: [sendLetter], onFailure: "block" })];
export const { handler, catalog, Runs, Recorder, Keeper, RateLimit } = millrace({ workflows: [mailing], consumers, fetch: mailer });
export class Lanes extends engineLanes(catalog) {}
export default handler;
