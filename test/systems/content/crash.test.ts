import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { fresh } from "../../api/client.ts";
import { inject } from "../../providers/embedded.ts";
import { about, asked, hurried } from "./writing.ts";

afterEach(() => inject());

it.each(["refused", "truncated"] as const)("a model's answer that is lost in transit is paid for once, also a %s one", async (answer) => {
  await using _ = await hurried();
  const keyword = fresh("keyword");
  await inject(
    { upstream: "text", match: about(keyword), status: 502, remaining: 1, afterEffect: true },
    { upstream: "text", match: about(keyword), answer, remaining: null },
  );
  const writing = await asked(keyword);
  const { id, error } = await writing.reaches("errored");
  expect(error).toMatchObject({ code: `answer_${answer}` });
  const paid = answer === "refused" ? 1 : 2;
  expect(await writing.charged()).toEqual({ charged: paid, repeated: 1 });
  expect(await writing.calls(id)).toHaveLength(paid);
});

it.each([
  ["good", undefined],
  ["bad", "refused"],
] as const)("a %s answer of the model with a lost record is paid for once, and recorded once", async (_, answer) => {
  await using _instances = await hurried();
  const keyword = fresh("keyword");
  if (answer) await inject({ upstream: "text", match: about(keyword), answer, remaining: 1 });
  // The record cannot be written: the answer has arrived and is paid for, and its step fails afterwards.
  await env.DB.prepare(
    `CREATE TRIGGER no_record BEFORE INSERT ON text_calls WHEN NEW.prompt LIKE 'article.%' BEGIN SELECT RAISE(ABORT, 'disk full'); END`,
  ).run();
  const writing = await asked(keyword);
  const { id, error } = await writing.reaches("errored");
  expect(error).toMatchObject({ step: "write article", code: "step_failed", message: expect.stringContaining("disk full") });
  expect(await writing.charged()).toEqual({ charged: 1, repeated: 5 });
  expect(await writing.calls(id)).toEqual([]);

  await env.DB.prepare("DROP TRIGGER no_record").run();
  await writing.retry(id);
  await writing.reaches(answer ? "errored" : "complete");
  expect(await writing.charged()).toEqual({ charged: 1, repeated: 6 });
  expect(await writing.calls(id)).toMatchObject([{ attempt: 1, outcome: answer ?? "written" }]);
});
