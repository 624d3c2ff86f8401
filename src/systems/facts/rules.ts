import { texts } from "millrace";
import * as z from "zod";

/** Limits of one version of the rules. */
const RULE_LIMITS = { rules: 100, conditions: 20, choices: 100, cents: 1_000_000_000_000 } as const;

/** The fields of an outcome that contain a string. `value_cents` contains a number, and a field of the payload may have any type. */
const TEXT_FIELDS = ["subtype", "account", "partner"];
const FIELD = /^(?:subtype|value_cents|account|partner|payload(?:\.[^.]{1,100}){1,8})$/;
const OPS = ["is", "in", "at_least", "at_most", "exists"] as const;
/** Maximum number of decimal digits of a percentage, because amounts are computed in ten-thousandths of a percent. */
const PERCENT_DIGITS = 4;

const field = z
  .string()
  .regex(FIELD, "must be subtype, value_cents, account, partner, or a path of up to 8 names such as payload.plan")
  .meta({
    description: "`subtype`, `value_cents`, `account`, `partner`, or a path into the payload such as `payload.plan.name`.",
    examples: ["payload.plan.name"],
  });
const scalar = z.union([z.string().max(500), z.number(), z.boolean(), z.null()], {
  error: "must be a text, a number, true, false or null",
});

const condition = z
  .discriminatedUnion(
    "op",
    [
      z.strictObject({ field, op: z.literal("is"), value: scalar }),
      z.strictObject({ field, op: z.literal("in"), value: z.array(scalar).min(1).max(RULE_LIMITS.choices) }),
      z.strictObject({ field, op: z.literal("at_least"), value: z.number() }),
      z.strictObject({ field, op: z.literal("at_most"), value: z.number() }),
      z.strictObject({ field, op: z.literal("exists"), value: z.boolean() }),
    ],
    { error: `must be one of ${OPS.join(", ")}` },
  )
  .superRefine(({ field, op, value }, context) => {
    const wrong = neverHolds(field, op, value);
    if (wrong) context.addIssue({ code: "custom", path: wrong.path, message: wrong.message });
  });

const cents = z.int().min(0).max(RULE_LIMITS.cents);
const amount = z
  .strictObject({
    cents: cents.optional().meta({ description: "A fixed amount." }),
    percent: z
      .number()
      .min(0)
      .max(100)
      .optional()
      .meta({ description: "The percentage of `value_cents`, rounded half up to the cent; up to 4 digits." }),
    min: cents.optional().meta({ description: "The minimum result of a percentage, in cents." }),
    max: cents.optional().meta({ description: "The maximum result of a percentage, in cents." }),
  })
  .superRefine(({ cents, percent, min, max }, context) => {
    const refuse = (path: string[], message: string) => context.addIssue({ code: "custom", path, message });
    if ((cents === undefined) === (percent === undefined)) refuse([], "must have exactly one of cents and percent");
    if (cents !== undefined && (min !== undefined || max !== undefined))
      refuse([min === undefined ? "max" : "min"], "is allowed only with percent");
    if (percent !== undefined && Number(percent.toFixed(PERCENT_DIGITS)) !== percent)
      refuse(["percent"], "has more than 4 digits after the decimal point");
    if (min !== undefined && max !== undefined && min > max) refuse(["min"], "is more than max");
  });

const rule = z.strictObject({
  name: texts.chosenName(100),
  when: z.array(condition).max(RULE_LIMITS.conditions).meta({ description: "All conditions must be true. An empty list is always true." }),
  charge: amount.optional().meta({ description: "The charge: the amount that the outcome's account owes." }),
  payout: amount.optional().meta({ description: "The amount that the outcome's partner has earned; without a partner, nothing." }),
});

/** One version of a tenant's rules, in their order. The first rule that matches an outcome decides that outcome. */
export const rulesSchema = z
  .array(rule)
  .max(RULE_LIMITS.rules)
  .superRefine((rules, context) => {
    for (const [index, { name }] of rules.entries()) {
      const first = rules.findIndex((other) => other.name === name);
      if (first !== index) context.addIssue({ code: "custom", path: [index, "name"], message: `is the name of rule ${first} already` });
    }
  });

export type Rule = z.infer<typeof rule>;
export type Condition = Rule["when"][number];
export type Amount = NonNullable<Rule["charge"]>;

/** Returns the issue for a condition that no outcome can meet. Such a condition is a mistake, so the version is refused. */
function neverHolds(field: string, op: Condition["op"], value: Condition["value"]): { path: string[]; message: string } | undefined {
  if (op === "exists" || field.startsWith("payload.")) return undefined;
  const expected = TEXT_FIELDS.includes(field) ? "string" : "number";
  if (expected === "string" && (op === "at_least" || op === "at_most"))
    return { path: ["op"], message: `compares numbers, and ${field} is a text` };
  const fits = (one: unknown) => typeof one === expected;
  if (Array.isArray(value) ? value.every(fits) : fits(value)) return undefined;
  return { path: ["value"], message: `must be ${expected === "string" ? "text" : "a number"}, as ${field} is` };
}
