import { bodies, times } from "millrace/http";
import { instances } from "millrace/operate";
import * as z from "zod";
import { brandName } from "../messages/brand.ts";
import { BAD_ANSWERS } from "../systems/content/bad-answer.ts";
import { type TextCallRow, textCallsOf, textUsage } from "../systems/content/text-calls.ts";
import { operation } from "./operation.ts";

const DAY_MS = 86_400_000;
const USUAL_DAYS = 30;
const MOST_DAYS = 92;

const tokens = z.int().nullable().meta({ description: "The value is null if the provider did not report it." });

const TextCallSchema = z
  .object({
    attempt: z.int().meta({ description: "The number of the model's answer in the instance, from 1. Each of these answers was paid." }),
    outcome: z.enum(["written", ...BAD_ANSWERS]),
    prompt: z.string().meta({ description: "The name and the version of the prompt.", example: "article.v2" }),
    model: z.string().meta({ description: "The provider's name of the model." }),
    answer_id: z.string().nullable().meta({ description: "The provider's id of this answer." }),
    max_tokens: z.int().meta({ description: "The token limit of the answer." }),
    input_tokens: tokens,
    output_tokens: tokens,
    cached_tokens: tokens,
    reasoning_tokens: tokens,
    finish: z.string().nullable().meta({ description: "The finish reason that the provider reported." }),
    paid_at: times.timestamp,
  })
  .meta({ id: "TextCall" });

const TextUsageSchema = z
  .object({
    day: z.iso.date().meta({ description: "In UTC." }),
    brand: z.string(),
    model: z.string(),
    answers: z.int().meta({ description: "Paid answers." }),
    bad: z.int().meta({ description: "The number of answers that could not be used." }),
    unknown: z.int().meta({ description: "The number of answers without usage data, which are missing in the sums." }),
    input_tokens: z.int(),
    output_tokens: z.int(),
    cached_tokens: z.int().meta({ description: "Input tokens from the provider's cache, a part of `input_tokens`." }),
    reasoning_tokens: z.int().meta({ description: "Output tokens of the model's reasoning, a part of `output_tokens`." }),
  })
  .meta({ id: "TextUsage" });

export const textUsages = [
  operation("get", "/v1/instances/{id}/text-calls", "listTextCalls", "instances text-calls", {
    summary: "List the model calls of an instance",
    description:
      "Returns the paid model answers. An article has the id of the instance that wrote it. Rows are kept for 400 days, longer than the instance.",
    answer: ["The instance's answers, oldest first", z.object({ items: z.array(TextCallSchema) })],
    problems: ["instance_not_found"],
    async run({ env, by, param: { id } }) {
      const found = await textCallsOf(env.DB, by.tenantId, id);
      if (found.length === 0) await instances.get(env, by, id);
      return { items: found.map(callView) };
    },
  }),
  operation("get", "/v1/usage/text", "getTextUsage", "usage text", {
    summary: "Get the usage of text generation by day, brand and model",
    description: `Default: the last ${USUAL_DAYS} days. At most ${MOST_DAYS} days per request.`,
    query: {
      brand: brandName.optional(),
      from: z.iso.date().optional().meta({ description: "The first day of the period, in UTC.", example: "2026-10-01" }),
      to: z.iso.date().optional().meta({ description: "The last day of the period, in UTC. Default: today." }),
    },
    answer: ["The sums, newest day first", z.object({ items: z.array(TextUsageSchema) })],
    async run({ env, by, query: { brand, from, to } }) {
      const end = (to ? Date.parse(to) : Date.now() - (Date.now() % DAY_MS)) + DAY_MS;
      const begin = from ? Date.parse(from) : end - USUAL_DAYS * DAY_MS;
      if (begin >= end) throw bodies.invalid([{ path: "from", message: "is later than `to`" }]);
      if (end - begin > MOST_DAYS * DAY_MS)
        throw bodies.invalid([{ path: "from", message: `is more than ${MOST_DAYS} days before \`to\`: request a shorter period` }]);
      return { items: await textUsage(env.DB, by.tenantId, { brand, from: begin, to: end }) };
    },
  }),
];

function callView({ content_id, brand, paid_at, ...call }: TextCallRow): z.infer<typeof TextCallSchema> {
  return { ...call, paid_at: times.iso(paid_at) };
}
