import { expect, it, vi } from "vitest";
import { isExported } from "../../../packages/millrace/src/observe/traces/exporter.ts";
import { wordsOf } from "../../../packages/millrace/src/observe/words.ts";

it("a deployed engine does not log the text of an upstream's answer, because it may repeat personal data of the request", () => {
  const message = "pages answered 422 (<p>The customer's own text</p>).";
  expect(wordsOf({}, message, 422)).toBe("An upstream responded 422: the instance has its text.");
  expect(wordsOf({ MILLRACE_DEVELOPMENT: "true" }, message, 422)).toBe(message);
  expect(wordsOf({}, "The order has no lines.", undefined)).toBe("The order has no lines.");
});

it("an invalid OTLP_RATIO exports no spans and is logged once", () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  const env = { OTLP_ENDPOINT: "http://127.0.0.1:4318/v1/traces" };
  expect(isExported(env, traceparent)).toBe(true);
  const wrong = { ...env, OTLP_RATIO: "10%" };
  for (let time = 0; time < 3; time++) expect(isExported(wrong, traceparent)).toBe(false);
  expect(said.mock.calls.filter(([line]) => String(line).includes("OTLP_RATIO"))).toHaveLength(1);
  said.mockRestore();
});
