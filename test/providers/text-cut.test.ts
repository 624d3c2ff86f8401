import { describe, expect, it } from "vitest";
import { text } from "../../src/providers/index.ts";
import { openAiText } from "../../src/providers/openai-text.ts";
import { fresh } from "../api/client.ts";
import { hookUrl, received, tell } from "../systems/webhooks/hook.ts";
import { scripted } from "./embedded.ts";

const P = { prompt: "P", maxTokens: 9 };
const WHOLE = JSON.stringify({ choices: [{ message: { content: "Hello." }, finish_reason: "stop" }] });

describe("A 200 with a truncated body is requested once more under its key, because it may be paid for", () => {
  it.each([
    ["half of the response body", WHOLE.slice(0, 60)],
    ["all of the body but its last character", WHOLE.slice(0, -1)],
    ["a page", "<h1>It works</h1>"],
    ["nothing at all", ""],
  ])("a 200 response is requested once more under its key if it has %s", async (_, body) => {
    const server = scripted(new Response(body), new Response(WHOLE));
    await expect(openAiText(server, "gpt").generate(P, { key: "k" })).resolves.toMatchObject({ text: "Hello.", ending: "whole" });
    expect(server.requests.map(({ headers }) => headers.get("idempotency-key"))).toEqual(["k", "k"]);

    // A cache would return the same body for the key for days: the second truncated body is a final result.
    const twice = scripted(new Response(body), new Response(body));
    await expect(openAiText(twice, "gpt").generate(P, { key: "k" })).resolves.toMatchObject({ ending: "unreadable", text: "" });
    expect(twice.requests).toHaveLength(2);
  });
});

it.each([
  ["a response body that is shorter than its Content-Length", { mode: "half", headers: { "content-length": String(WHOLE.length) } }],
  ["a response body without its last chunk", { mode: "half" }],
  ["a response body whose connection ends early", { mode: "short" }],
  ["a truncated response body with a matching Content-Length", { text: WHOLE.slice(0, 60) }],
] as const)("%s is requested again under its key", async (_, treatment) => {
  const hook = fresh("hook");
  await tell(hook, {
    treatments: [
      { status: 200, text: WHOLE, times: 1, ...treatment },
      { status: 200, text: WHOLE, times: 1 },
    ],
  });
  const vars = { TEXT_URL: hookUrl(hook), TEXT_TOKEN: "t", TEXT_MODEL: "gpt" };
  // A broken connection is repeated by the step's next attempt, under the same key.
  const generate = () => text(vars).generate(P, { key: hook });
  const answer = await generate().catch((error: unknown) => {
    expect(error).toMatchObject({ code: "unavailable" });
    return generate();
  });
  expect(answer).toMatchObject({ text: "Hello.", ending: "whole" });
  expect((await received(hook)).map(({ headers }) => headers["idempotency-key"])).toEqual([hook, hook]);
});
