import { createClient } from "millrace/client";
import type { greet } from "../own-worker/worker.ts";

const { ENGINE_URL, ENGINE_TOKEN } = process.env;
const engine = createClient<typeof greet>({ url: ENGINE_URL, token: ENGINE_TOKEN });

/** POST /api/greet: accepts the command. The same name again is the same instance. */
export async function POST(request: Request): Promise<Response> {
  const { name } = (await request.json()) as { name: string };
  const { instance_id, replayed } = await engine.enqueue("greet", { name }, { signal: request.signal });
  return Response.json({ instance_id, replayed }, { status: 202 });
}

/** GET /api/greet?id=…: the status, and the result once there is one. */
export async function GET(request: Request): Promise<Response> {
  const { status, result } = await engine.get<"greet">(new URL(request.url).searchParams.get("id") ?? "");
  return Response.json({ status, said: result?.said });
}
