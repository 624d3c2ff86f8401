import { env } from "cloudflare:workers";
import { traces } from "millrace";
import { afterEach, describe, expect, it } from "vitest";
import type { AnswerFault } from "../../../src/embedded/ledger.ts";
import { writeArticle } from "../../../src/steps/write-article.ts";
import { firstAsk } from "../../../src/systems/content/next-ask.ts";
import { fresh } from "../../api/client.ts";
import { inject, ledger } from "../../providers/embedded.ts";
import { about, asked } from "./writing.ts";

afterEach(() => inject());

/** The writer's next answers about this keyword, in order. */
function spoil(keyword: string, ...answers: AnswerFault["answer"][]): Promise<void> {
  return inject(...answers.map((answer) => ({ upstream: "text" as const, match: about(keyword), answer, remaining: 1 })));
}

describe("An ordinary article", () => {
  it("an ordinary article needs one answer of the model and two steps, and its cost is recorded", async () => {
    const writing = await asked();
    const { id } = await writing.reaches("complete");
    expect(await writing.charged()).toEqual({ charged: 1, repeated: 0 });

    const [call, ...others] = await writing.calls(id);
    expect(others).toEqual([]);
    expect(call).toMatchObject({
      attempt: 1,
      outcome: "written",
      prompt: "article.v3",
      model: "embedded-writer-1",
      answer_id: expect.stringMatching(/^chatcmpl-/),
      max_tokens: 4096,
      finish: "stop",
      cached_tokens: 0,
    });
    const article = await writing.article(id);
    expect(article).toMatchObject({
      prompt: "article.v3",
      title: expect.stringMatching(/^Keyword-.*: what to know before you start$/),
      description: expect.stringMatching(/^Interest in keyword-/),
      input_tokens: call.input_tokens,
      output_tokens: call.output_tokens,
    });
    expect(article.body).toContain("## Sources");
    expect(article.body).not.toMatch(/^# /m);

    const { body } = await writing.caller.get(`/v1/instances/${id}/steps`);
    expect(body.items.map(({ name }: { name: string }) => name.replace(/-\d+$/, ""))).toEqual(["load research", "write article"]);
  });

  it("an ordinary article needs one paid answer even if the model adds its reasoning, text and a fence", async () => {
    const keyword = fresh("keyword");
    await spoil(keyword, "chatty");
    const writing = await asked(keyword);
    const { id } = await writing.reaches("complete");
    expect(await writing.charged()).toEqual({ charged: 1, repeated: 0 });
    expect(await writing.calls(id)).toMatchObject([{ attempt: 1, outcome: "written" }]);
    expect(await writing.article(id)).toMatchObject({ title: expect.stringMatching(/^Keyword-/) });
  });

  it("an article whose body is cut in transit is paid for once: the same key is requested again", async () => {
    const keyword = fresh("keyword");
    await spoil(keyword, "cut");
    const writing = await asked(keyword);
    const { id } = await writing.reaches("complete");
    const { calls } = await ledger({ upstream: "text", match: about(keyword) });
    expect(calls.map(({ outcome }) => outcome)).toEqual(["charged", "repeated"]);
    expect(new Set(calls.map(({ key }) => key)).size).toBe(1);
    expect(await writing.calls(id)).toMatchObject([{ attempt: 1, outcome: "written" }]);
  });
});

describe("An invalid answer of the model", () => {
  /** A gateway before a service that is unavailable at first: it stores every 200 under its key, as AI Gateway does. */
  function gateway() {
    const kept = new Map<string, string>();
    let isAway = true;
    const fetch = async (request: Request) => {
      const key = request.headers.get("cf-aig-cache-key") ?? "";
      const answer = kept.get(key) ?? (isAway ? "<h1>Back soon</h1>" : await (await env.UPSTREAMS.fetch(request)).text());
      kept.set(key, answer);
      return new Response(answer);
    };
    const comesBack = () => {
      isAway = false;
    };
    return { UPSTREAMS: { fetch } as unknown as Fetcher, comesBack };
  }

  it("an invalid answer of the model is a final result, because a gateway caches it under its key for days; a repeat uses another key", async () => {
    const { UPSTREAMS, comesBack } = gateway();
    const ask = firstAsk({ brand: "acme", keyword: fresh("keyword"), sources: [] }, "article.v3");
    const input = { ask, tenantId: fresh("tenant"), brand: "acme", isLast: false };
    const trace = { traceparent: traces.begin() };
    const write = (key: string) =>
      writeArticle.run({
        input,
        key,
        trace,
        fetch,
        signal: AbortSignal.timeout(5000),
        progress: () => undefined,
        env: { ...env, UPSTREAMS } as Cloudflare.Env,
      });
    const [first, second] = [fresh("key"), fresh("key")];
    expect(await write(first)).toMatchObject({ bad: "empty", problem: expect.stringContaining("TEXT_URL") });
    comesBack();
    expect(await write(first)).toMatchObject({ bad: "empty" });
    expect(await write(second)).toMatchObject({ good: { title: expect.any(String) } });
  });
});

describe("A bad answer", () => {
  it.each([
    ["cut off", "truncated", 8192],
    ["empty", "empty", 4096],
    ["another shape", "malformed", 4096],
  ] as const)("a model's answer that is %s is requested once more, and both answers are paid for and recorded", async (_, bad, allowed) => {
    const keyword = fresh("keyword");
    await spoil(keyword, bad);
    const writing = await asked(keyword);
    const { id } = await writing.reaches("complete");

    const calls = await writing.calls(id);
    expect(calls).toMatchObject([
      { attempt: 1, outcome: bad, max_tokens: 4096 },
      { attempt: 2, outcome: "written", max_tokens: allowed },
    ]);
    expect(await writing.charged()).toEqual({ charged: 2, repeated: 0 });
    expect(await writing.article(id)).toMatchObject({
      input_tokens: calls[0].input_tokens + calls[1].input_tokens,
      output_tokens: calls[0].output_tokens + calls[1].output_tokens,
    });
  });

  it("a repeated request sends the model the error of the invalid answer", async () => {
    const keyword = fresh("keyword");
    await inject(
      { upstream: "text", match: about(keyword), answer: "malformed", remaining: 1 },
      // Refuses only a request with this text.
      { upstream: "text", match: "could not be used: It was not JSON.", answer: "refused", remaining: 1 },
    );
    const writing = await asked(keyword);
    const { id } = await writing.reaches("errored");
    expect(await writing.calls(id)).toMatchObject([{ outcome: "malformed" }, { outcome: "refused" }]);
  });

  it("a model's answer that is a refusal stops the instance at once, with the model's text", async () => {
    const keyword = fresh("keyword");
    await spoil(keyword, "refused");
    const writing = await asked(keyword);
    const { id, error } = await writing.reaches("errored");
    expect(error).toMatchObject({
      code: "answer_refused",
      step: "ask again [1]",
      message: expect.stringContaining("I'm sorry, but I can't help with that."),
    });
    expect(await writing.calls(id)).toMatchObject([{ outcome: "refused", output_tokens: expect.any(Number) }]);
    expect(await writing.charged()).toEqual({ charged: 1, repeated: 0 });
    expect(await writing.article(id)).toBeNull();
  });

  it.each(["truncated", "empty", "malformed"] as const)(
    "a model's answer that is %s twice stops the instance with that code",
    async (bad) => {
      const keyword = fresh("keyword");
      await spoil(keyword, bad, bad);
      const writing = await asked(keyword);
      const { id, error } = await writing.reaches("errored");
      expect(error).toMatchObject({ code: `answer_${bad}`, step: "ask again [2]" });
      expect(await writing.calls(id)).toMatchObject([{ outcome: bad }, { outcome: bad }]);
      expect(await writing.charged()).toEqual({ charged: 2, repeated: 0 });
    },
  );
});

describe("A retry", () => {
  it("a retry pays for one more answer, valid or not, and the article's tokens are the sum of all answers", async () => {
    const keyword = fresh("keyword");
    await spoil(keyword, "truncated", "truncated", "truncated");
    const writing = await asked(keyword);
    const { id } = await writing.reaches("errored");

    await writing.retry(id);
    const again = await writing.reaches("errored");
    expect(again.error).toMatchObject({ code: "answer_truncated", step: "ask again [3]" });
    expect(await writing.charged()).toEqual({ charged: 3, repeated: 0 });

    await writing.retry(id);
    await writing.reaches("complete");
    expect(await writing.charged()).toEqual({ charged: 4, repeated: 0 });
    const calls = await writing.calls(id);
    expect(calls.map(({ max_tokens, outcome }) => [max_tokens, outcome])).toEqual([
      [4096, "truncated"],
      [8192, "truncated"],
      [16_384, "truncated"],
      [32_768, "written"],
    ]);
    const sum = calls.reduce((tokens, { output_tokens }) => tokens + output_tokens, 0);
    expect(await writing.article(id)).toMatchObject({ output_tokens: sum });
  });

  it.each(["write article", "load research"])(
    "a retry from %s keeps the answers that were paid for, and pays for one more",
    async (from) => {
      const keyword = fresh("keyword");
      await spoil(keyword, "refused");
      const writing = await asked(keyword);
      const { id } = await writing.reaches("errored");

      await writing.retry(id, from);
      await writing.reaches("complete");
      expect(await writing.calls(id)).toMatchObject([{ outcome: "refused" }, { outcome: "written" }]);
      // An instance that restarts within two seconds may request an existing answer again; its key makes that free.
      expect((await writing.charged()).charged).toBe(2);
    },
  );

  it("a retry after an unrelated failure permits no additional paid answer", async () => {
    const keyword = fresh("keyword");
    await inject(
      { upstream: "text", match: about(keyword), status: 401, remaining: 1 },
      { upstream: "text", match: about(keyword), answer: "refused", remaining: 1 },
    );
    const writing = await asked(keyword);
    const { id, error } = await writing.reaches("errored");
    expect(error).toMatchObject({ code: "not_retryable", step: "write article" });

    await writing.retry(id);
    const { error: second } = await writing.reaches("errored");
    expect(second).toMatchObject({ code: "answer_refused" });
    expect(await writing.charged()).toEqual({ charged: 1, repeated: 0 });
  });
});
