import { createClient } from "millrace/client";
import type { greet } from "../own-worker/worker.ts";

interface Env {
  ENGINE: Fetcher;
  ENGINE_TOKEN: string;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const engine = createClient<typeof greet>({ url: "https://engine", token: env.ENGINE_TOKEN, fetch: env.ENGINE });
    const name = new URL(request.url).searchParams.get("name") ?? "";
    const { status, result } = await engine.wait(await engine.enqueue("greet", { name }));
    return Response.json({ status, said: result?.said });
  },
};
