import { defineRoom, roomObject, roomOf } from "millrace/rooms";
import * as z from "zod";

/** A room per shop, where every token listens and operators send. */
export const desk = defineRoom<{ text: string }>({
  name: "desk",
  scopes: { join: "read", send: "operate" },
  message: z.strictObject({ text: z.string() }),
});

export class Rooms extends roomObject([desk]) {}

/** For a Worker, an object or a step. A message that is sent again under its key is delivered once. */
export async function announce(env: Cloudflare.Env, tenant: string, text: string, key: string): Promise<number> {
  const { sequence } = await roomOf(env, desk, "front", tenant).send({ text }, { idempotencyKey: key });
  return sequence;
}
