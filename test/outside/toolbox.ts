import { inject } from "vitest";
import type { Json } from "../api/client.ts";

/** Runs a tool of test/outside/tools in Node, and returns its output for this input. */
export async function runTool(tool: "lint" | "client" | "svix" | "feed" | "look", input: unknown): Promise<Json> {
  const answer = await fetch(`${inject("toolboxUrl")}/${tool}`, { method: "POST", body: JSON.stringify(input) });
  const said = await answer.text();
  if (!answer.ok) throw new Error(`${tool} failed: ${said}`);
  return JSON.parse(said);
}
