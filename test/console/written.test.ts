import { expect, it } from "vitest";
import * as z from "zod";
import { controlFor, controlOf, exampleOf, type Schema } from "../../packages/millrace/console/data/schema.ts";
import { jsonText, readJson, writtenJson, writtenNumber, wrongIn } from "../../packages/millrace/console/data/written.ts";

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
    ...{
      text: z.string(),
      word: z.string().meta({ examples: ["mint"] }),
      whole: z.int(),
      note: z.string().nullable(),
      only: z.literal("x"),
    },
    ...{ kind: z.enum(["x", "y"]), usual: z.int().default(3), perhaps: z.string().optional(), items: z.array(z.string()) },
    ...{
      one: z.discriminatedUnion("t", [z.object({ t: z.literal("a") }), z.object({ t: z.literal("b") })]),
      part: z.object({ x: z.string() }),
    },
  });
  const [blank, given] = [
    { text: "", whole: undefined, note: null, items: [], part: { x: "" } },
    { word: "mint", only: "x", kind: "x" },
  ];
  expect(exampleOf(schemaOf(schema))).toEqual({ ...blank, ...given, one: { t: "a" } });
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
