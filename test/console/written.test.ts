import { expect, it } from "vitest";
import * as z from "zod";
import { jsonText, readJson, writtenJson, writtenNumber, wrongIn } from "../../packages/millrace/console/data/written.ts";
import { controlFor, controlOf, exampleOf, type Schema } from "../../packages/millrace/console/screens/send/schema.ts";

const schemaOf = (schema: z.ZodType) => z.toJSONSchema(schema, { io: "input" }) as Schema;

it("a number field keeps its text as typed; a number that JSON cannot write, or that would be stored as another number, is reported and not sent", () => {
  for (const text of ["-0", "-0.5", "0.10", "1e6", "1E-7", "5.000", "9007199254740991", "0.30000000000000004", "1e22"])
    expect([jsonText({ n: writtenNumber(text) }), writtenNumber(text).wrong]).toEqual([`{"n":${text}}`, undefined]);
  for (const text of ["-", "-05", "05", ".5", "5.", "1e", "NaN", "0x10", "1,5"]) expect(writtenNumber(text).wrong).toMatch("not a number");
  for (const text of ["9007199254740993", "12345678901234567890", "0.1e-400", "0.1234567890123456789"])
    expect(writtenNumber(text).wrong).toMatch(`would be stored as ${Number(text)}`);
  expect(writtenNumber("1e400").wrong).toMatch("too large");
});

it("the request body contains JSON exactly as typed; form fields keep every number, key and escape of a JSON text", () => {
  const text = '{"b": 1.0, "a":[1e400,"\\u00e9 \\"]",true,null,{}], "__proto__":{"x":-0}}';
  expect(jsonText({ type: "t", left: undefined, payload: writtenJson(text) })).toBe(`{"type":"t","payload":${text}}`);
  const read = readJson(text);
  expect("value" in read && jsonText(read.value)).toBe('{"b":1.0,"a":[1e400,"é \\"]",true,null,{}],"__proto__":{"x":-0}}');
  expect("value" in read && JSON.parse(jsonText(read.value, "  ").replace("1e400", "1"))).toEqual(JSON.parse(text.replace("1e400", "1")));
  for (const [odd, why] of [
    ['{"a":{"b":1,"b":2}}', "“b” occurs twice"],
    [`${"[".repeat(5000)}${"]".repeat(5000)}`, "nested more deeply"],
    ["{", "not valid JSON"],
  ] as const)
    expect(readJson(odd)).toEqual({ why: expect.stringContaining(why) });
  expect(wrongIn({ a: [writtenJson("{")], b: writtenJson('"\ud800"') }, "payload").map(({ path }) => path)).toEqual([
    "payload.a.0",
    "payload.b",
  ]);
});

it("an example matches its schema, and each field has a control that shows its value unchanged", () => {
  const schema = z.strictObject({
    ...{ text: z.string(), short: z.string().min(3).max(4), name: z.string().regex(/^[a-z]+-\d$/), note: z.string().nullable() },
    ...{ whole: z.int().min(3).max(9), small: z.number().positive().lt(1), step: z.number().multipleOf(5).min(7), below: z.int().max(-2) },
    ...{
      kind: z.enum(["x", "y"]).nullable(),
      only: z.literal("x"),
      either: z.union([z.string(), z.number()]),
      any: z.record(z.string(), z.int()),
    },
    ...{ items: z.array(z.string().min(2)).min(2), pair: z.tuple([z.string(), z.int()]), at: z.iso.datetime(), day: z.iso.date() },
    ...{ one: z.discriminatedUnion("t", [z.object({ t: z.literal("a"), n: z.int().min(2) }), z.object({ t: z.literal("b") })]) },
    ...{ part: z.object({ x: z.string().min(1) }), perhaps: z.object({ x: z.string() }).nullable(), page: z.url(), mail: z.email() },
  });
  expect(schema.safeParse(exampleOf(schemaOf(schema))).error?.issues ?? []).toEqual([]);
  const note = schemaOf(z.string().nullable());
  expect([controlOf(note), controlFor(note, null), controlFor(note, "a\nb"), exampleOf(note)]).toEqual(["text", "text", "text", null]);
  const list = schemaOf(z.array(z.string()));
  expect([
    controlFor(list, ["a\nb"]),
    controlFor(list, "a"),
    controlFor(schemaOf(z.string()), "a\rb"),
    controlFor(schemaOf(z.int()), "5"),
  ]).toEqual(["list", ...["json", "json", "json"]]);
});
