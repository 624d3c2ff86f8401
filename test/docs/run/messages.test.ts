import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import messages from "../../../docs/messages.md?raw";
import { envelopeSchema, parseEnvelope } from "../../../packages/millrace/src/contract/envelope.ts";
import { INTAKE_LIMITS } from "../../../packages/millrace/src/contract/limits.ts";
import { packPayload } from "../../../packages/millrace/src/contract/payload.ts";
import { packOutput } from "../../../packages/millrace/src/guard/output.ts";
import { fencesOf, rowsOf } from "../markdown.ts";

/** The entry of the table of limits. */
const limits = new Map(rowsOf(messages, "what").map(([what = "", limit]) => [what, limit]));
const limit = (what: string) => limits.get(what);

/** JSON text of exactly this number of KiB, and of one byte more. */
const kib = (size: string | undefined) => {
  const full = "x".repeat(Number.parseInt(size ?? "", 10) * 1024 - 2);
  return { full, over: `${full}x` };
};

it("docs/messages.md shows a valid envelope, which is refused with an additional field", () => {
  const shown = JSON.parse(fencesOf(messages).find(({ comment }) => comment === "envelope")?.text ?? "null");
  expect(parseEnvelope(shown)).toEqual(shown);
  expect(() => parseEnvelope({ ...shown, extra: 1 })).toThrow(expect.objectContaining({ code: "invalid_envelope" }));
});

it("docs/messages.md has a line for every field of the envelope, and for no other", () => {
  const fields = rowsOf(messages, "field").map(([field]) => field?.replaceAll("`", ""));
  expect(fields.sort()).toEqual(Object.keys(envelopeSchema.shape).sort());
});

it("docs/messages.md lists the limits that the code applies to messages and outputs", async () => {
  expect(limit("body of `POST /v1/commands`")).toBe(`${INTAKE_LIMITS.maxBytes / 1024 / 1024} MiB`);
  expect(limit("nesting, keys and items")).toBe(`${INTAKE_LIMITS.maxDepth} levels, ${INTAKE_LIMITS.maxKeys.toLocaleString("en")}`);

  const payload = kib(limit("payload that travels inline"));
  expect(await packPayload(env.PAYLOADS, "acme", "docs", payload.full)).toHaveProperty("payload_inline");
  expect(await packPayload(env.PAYLOADS, "acme", "docs", payload.over)).toMatchObject({
    payload_ref: expect.stringMatching(/^r2:\/\/payloads\/acme\/docs\/[0-9a-f]{64}$/),
  });
  const output = kib(limit("output of a step kept in D1"));
  expect(await packOutput(env.PAYLOADS, () => "docs", output.full)).toMatchObject({ outputRef: null });
  expect(await packOutput(env.PAYLOADS, () => "docs", output.over)).toMatchObject({ output: null });
});
