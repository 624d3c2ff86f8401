import { ClientError, createClient } from "millrace/client";
import type { greet } from "../own-worker/worker.ts";

/** Greets from a page. `mint` asks your own server for a token of the signed-in user, with the scopes `enqueue` and `read`. */
export async function greetOnPage(name: string, mint: () => Promise<string>, url?: string): Promise<string> {
  const engine = createClient<typeof greet>({ url, token: mint });
  try {
    const ended = await engine.wait(await engine.enqueue("greet", { name }), { timeout_seconds: 60 });
    return ended.status === "complete" ? ended.result.said : `The greeting failed: ${ended.error?.message ?? ended.status}`;
  } catch (error) {
    if (error instanceof ClientError && error.code === "invalid_payload") return `Enter another name. ${error.message}`;
    throw error;
  }
}
