import { expect, it, vi } from "vitest";
import document from "../../../docs/batches.md?raw";
import { callerWith } from "../../api/client.ts";
import { fencesOf } from "../markdown.ts";
import { curlsOf } from "./curl.ts";
import { readerVariables, run } from "./run-curl.ts";

it("every command of docs/batches.md answers what is written under it", async () => {
  const { token } = await callerWith(["enqueue", "read", "operate"], "acme");
  const shells = fencesOf(document).filter(({ language }) => language === "sh");
  const variables = readerVariables(shells[0]?.text ?? "", token);
  const curls = shells.flatMap(({ text }) => (text.includes("curl ") ? curlsOf(text) : []));
  expect(curls.length).toBeGreaterThan(10);
  for (const curl of curls) {
    const ask = () => run(curl, (name) => variables.get(name) ?? "");
    // A reader who is too early asks again; what changes something is sent once.
    await (curl.method === "GET" ? vi.waitFor(ask, { timeout: 15_000, interval: 100 }) : ask());
  }
});
