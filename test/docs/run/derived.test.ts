import { expect, it, vi } from "vitest";
import derived from "../../../docs/derived.md?raw";
import { callerWith } from "../../api/client.ts";
import { fencesOf } from "../markdown.ts";
import { curlsOf } from "./curl.ts";
import { follow, readAssignments } from "./follow.ts";

it("every command of docs/derived.md answers what is written under it", { timeout: 60_000 }, async () => {
  const { token } = await callerWith();
  const shells = fencesOf(derived).filter(({ language }) => language === "sh");
  const variables = new Map([
    ["URL", ""],
    ["TOKEN", token],
  ]);
  readAssignments(shells[0]?.text ?? "", variables);
  const lookUp = (name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`Nothing above says what $${name} is.`);
    return value;
  };
  const curls = shells.flatMap(({ text }) => (text.includes("curl ") ? curlsOf(text) : []));
  expect(curls.length).toBeGreaterThan(15);
  for (const curl of curls) {
    // Facts travel by queue: a reader who is too early asks again.
    const ask = () => follow(curl, lookUp);
    const body = await (curl.method === "GET" ? vi.waitFor(ask, { timeout: 15_000, interval: 100 }) : ask());
    if (body?.hold) variables.set("HOLD", body.hold);
  }
});
